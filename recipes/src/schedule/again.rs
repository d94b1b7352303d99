//! The rules for running an unfinished slot again.

use std::sync::Arc;
use std::time::Duration;

use zk_curator::retry::RetryPolicy;
use zk_curator::{CuratorFramework, Error, Stat};

use super::clock::ScheduleClock;
use super::record::{RunState, SlotRecord};

/// The rule by which slots that are not done run again.
#[derive(Debug, Clone)]
pub(super) struct Again {
    pub(super) policy: Arc<dyn RetryPolicy>,
    /// The most runs of a slot, where the policy allows more.
    pub(super) max_attempts: Option<u32>,
    pub(super) clock: ScheduleClock,
}

impl Again {
    /// Returns the pause after a run that was not successful; `None` if the slot has failed
    /// permanently.
    ///
    /// `slot` is its path, `attempt` the number of that run, from 1, and `elapsed` the time since
    /// the first claim.
    pub(super) fn pause(
        &self,
        zk: &CuratorFramework,
        slot: &str,
        attempt: u32,
        elapsed: Duration,
        why: &str,
    ) -> Option<Duration> {
        if self.max_attempts.is_some_and(|most| attempt >= most) {
            return None;
        }
        let failed = &Error::body_failed("run", slot, why);
        match self.policy.begin_seeded(zk.random_u64()) {
            // The attempts are counted in the record of the slot: a policy with a memory is asked
            // about all of them.
            Some(fresh) => (0..attempt.max(1))
                .try_fold(Duration::ZERO, |_, retries| fresh.next_delay(retries, elapsed, failed)),
            None => self.policy.next_delay(attempt.saturating_sub(1), elapsed, failed),
        }
    }

    /// Returns the pause before a slot without a runner runs again; `None` if it has failed
    /// permanently.
    ///
    /// The pause after a failure begins with the failure. The time at which a process died is
    /// unknown: that pause begins now.
    pub(super) fn pause_of(
        &self,
        zk: &CuratorFramework,
        slot: &str,
        record: &SlotRecord,
        stat: &Stat,
    ) -> Option<Duration> {
        let pause =
            self.pause(zk, slot, record.attempt, between(stat.ctime, stat.mtime), &why(record))?;
        let has_failed = matches!(record.state, RunState::Failed(_));
        let failed_at = between(0, stat.mtime);
        let passed =
            if has_failed { self.clock.now().saturating_sub(failed_at) } else { Duration::ZERO };
        Some(pause.saturating_sub(passed))
    }
}

/// The time between two times of the servers, in milliseconds since 1970.
pub(super) fn between(earlier: i64, later: i64) -> Duration {
    Duration::from_millis(u64::try_from(later.saturating_sub(earlier)).unwrap_or(0))
}

/// The reason why the latest run of a slot failed, if no member runs it.
pub(super) fn why(record: &SlotRecord) -> String {
    match &record.state {
        RunState::Failed(why) | RunState::GaveUp(why) => why.clone(),
        RunState::Running | RunState::Done if record.by.is_empty() => {
            "the member that ran it is gone".to_owned()
        }
        RunState::Running | RunState::Done => {
            format!("the member {} that ran it is gone", record.by)
        }
    }
}
