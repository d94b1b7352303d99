use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::mpsc;
use tracing::warn;
use zk_curator::CuratorFramework;
use zk_curator::internal::sleep;
use zk_curator::path::ZPath;
use zk_curator::retry::RetryPolicy;

use super::again::Again;
use super::clock::{ComparedClock, ScheduleClock};
use super::error::Error;
use super::member::ScheduleMember;
use super::plan::{self, OnMissed, Schedule, SlotPlan};
use super::record::ClaimMode;
use super::site::ScheduleSite;
use super::slot::{Slot, SlotInfo, SlotState};
use super::timing::Timing;
use crate::random::fraction;
use crate::run::Run;

/// The default number of slots that are kept.
const KEPT: u32 = 24;
/// The default tolerance.
const TOLERANCE: Duration = Duration::from_secs(30);

/// Runs a body once per period, in one of the processes that follow the same schedule. Cheap to
/// clone. See the [module](super).
#[derive(Debug, Clone)]
pub struct OncePer {
    zk: CuratorFramework,
    path: String,
    schedule: Schedule,
    id: String,
    missed: OnMissed,
    keep: u32,
    tolerance: Duration,
    again: Option<Arc<dyn RetryPolicy>>,
    max_attempts: Option<u32>,
    clock: ScheduleClock,
}

impl OncePer {
    /// The schedule at a path. Nothing is sent. Invalid paths and settings are refused when it
    /// runs.
    pub fn new(zk: &CuratorFramework, path: impl Into<String>, schedule: Schedule) -> Self {
        Self {
            zk: zk.clone(),
            path: path.into(),
            schedule,
            id: String::new(),
            missed: OnMissed::default(),
            keep: KEPT,
            tolerance: TOLERANCE,
            again: None,
            max_attempts: None,
            clock: ScheduleClock::default(),
        }
    }

    /// Sets the name of this process for people: it is written into the slots that this process
    /// claims. Default: empty.
    #[must_use]
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = id.into();
        self
    }

    /// Sets what becomes of slots that no member has claimed in time. Default: [`OnMissed::Skip`].
    #[must_use]
    pub const fn on_missed(mut self, missed: OnMissed) -> Self {
        self.missed = missed;
        self
    }

    /// Sets the number of recorded slots that are kept, from 1; the same in all members. Every
    /// winner deletes the older ones. Default: 24.
    ///
    /// Unfinished slots that run [at least once](Self::at_least_once) are kept beyond that number,
    /// the newest of them up to the same number.
    #[must_use]
    pub const fn keep(mut self, slots: u32) -> Self {
        self.keep = slots;
        self
    }

    /// Sets the largest allowed difference between the clock of this process and the servers'
    /// clock. With a larger one, this process claims no slot, compares the clocks every minute, and
    /// says so once by [`background_errors`](CuratorFramework::background_errors). Default: 30 s.
    #[must_use]
    pub const fn tolerance(mut self, difference: Duration) -> Self {
        self.tolerance = difference;
        self
    }

    /// Runs a slot again that is not done, when its body has failed or the process that ran it is
    /// gone. The same in all members. Default: slots run at most once.
    ///
    /// The policy returns the pause before the next run, or `None`: then the slot has failed
    /// permanently, which it [says](SlotState::GaveUp). Its parameters:
    /// * `retries`: the number of earlier runs less one. They are counted in the slot, so the count
    ///   survives every process. A run counts when it is claimed: so do runs whose process dies, or
    ///   is stopped.
    /// * `elapsed`: the time from the first claim to the end of the last run, by the clock of the
    ///   servers. The time at which a process died is unknown: then the pause counts from the claim
    ///   of the last run.
    /// * the error: `BodyFailed`, with the reason.
    ///
    /// After a failure the pause begins with the failure, also for members that start later. When a
    /// process is gone, it begins for each member when it sees that. Members wait up to a quarter
    /// longer by chance, at least 10 to 100 ms. A pause of [`Duration::MAX`] never ends; a policy
    /// without a limit, such as [`RetryForever`](zk_curator::retry::RetryForever), runs the slot
    /// until its body succeeds.
    ///
    /// ```
    /// use std::time::Duration;
    /// use zk_curator::retry::{BoundedExponentialBackoffRetry, RetryNTimes};
    /// # use zk_curator_recipes::schedule::OncePer;
    /// # fn build(nightly: OncePer) -> [OncePer; 2] {
    /// // Five runs at most, a minute apart.
    /// let fixed = nightly.clone().at_least_once(RetryNTimes::new(4, Duration::from_secs(60)));
    /// // Ten runs at most, ever longer apart.
    /// let (first, longest) = (Duration::from_secs(1), Duration::from_secs(600));
    /// let backoff = BoundedExponentialBackoffRetry::new(first, longest, 29);
    /// let growing = nightly.at_least_once(backoff).max_attempts(10);
    /// # [fixed, growing]
    /// # }
    /// ```
    #[must_use]
    pub fn at_least_once(mut self, policy: impl RetryPolicy) -> Self {
        self.again = Some(Arc::new(policy));
        self
    }

    /// Sets the most runs of a slot that runs [at least once](Self::at_least_once), from 1, where
    /// the policy allows more. The same in all members. Zero is refused when it runs; [`u32::MAX`]
    /// is no limit in practice. Ignored if slots run at most once. Default: the number that the
    /// policy allows.
    #[must_use]
    pub const fn max_attempts(mut self, runs: u32) -> Self {
        self.max_attempts = Some(runs);
        self
    }

    /// Sets the source of the time. Default: the clock of the system.
    #[must_use]
    pub fn clock(mut self, clock: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        self.clock = ScheduleClock::new(clock);
        self
    }

    /// The path of the schedule.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Runs `body` for every slot that this process claims, one at a time, forever and through
    /// every outage that passes.
    ///
    /// While a body runs, this process claims no other slot; other members do. An error of the body
    /// is recorded, and ends nothing.
    ///
    /// [Until a stop](Run::until): no slot is claimed after that. A running body may continue for
    /// the time to drain; then it is dropped, and its slot has failed. A claim that is under way at
    /// the stop and succeeds still runs within that time. The run returns when the ephemeral nodes
    /// of this member are deleted, or the session is over; if the servers do not respond, after
    /// four times the session timeout at most, and the nodes are deleted in the background.
    ///
    /// # Errors
    /// * [`Error::InvalidSetting`].
    /// * [`Error::Framework`] with `InvalidPath`, `Closed`, and errors that do not pass, such as
    ///   `NoAuth`. The end of a run may not be recorded then.
    ///
    /// # Panics
    /// Panics if `body` panics. Outside a tokio runtime, if slots run at least once and the framework has
    /// no spawner.
    ///
    /// # Cancel safety
    /// Dropping the future drops `body`. A slot that is already claimed stays recorded as running,
    /// also if its body has not begun; a slot that runs [at least once](Self::at_least_once) is
    /// taken over by another member.
    pub fn run<F, Fut, E>(&self, body: F) -> Run<impl Future<Output = Result<(), Error>>>
    where
        F: Fn(Slot) -> Fut,
        Fut: Future<Output = Result<(), E>>,
        E: fmt::Display,
    {
        Run::new(|stop| async move {
            let (alive, mut over) = mpsc::channel(1);
            let (member, ending) = (self.member(alive)?, stop.ending());
            Box::pin(member.work(&ending, &body)).await?;
            // A claim that was under way deletes its runner when it has its response.
            let longest = self.zk.session().map_or(TOLERANCE, |session| session.timeout) * 2;
            let has_ended = tokio::select! {
                biased;
                _ = over.recv() => true,
                () = ending.lost(&self.zk) => true,
                () = sleep(longest) => false,
            };
            if !has_ended || !self.zk.wait_until_released().await {
                warn!(path = self.path, "the nodes of a member are deleted in the background");
            }
            Ok(())
        })
    }

    /// Returns the recorded slots, from the oldest to the newest.
    ///
    /// # Errors
    /// [`Error::Framework`] as every read of the framework. A schedule that never ran has no slots.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn slots(&self) -> Result<Vec<SlotInfo>, Error> {
        ZPath::for_operation("slots", self.path.as_str())?;
        let site = self.site(mpsc::channel(1).0);
        let mut starts = site.starts().await?;
        starts.sort_unstable();
        let at = |millis: i64| {
            SystemTime::UNIX_EPOCH + Duration::from_millis(u64::try_from(millis).unwrap_or(0))
        };
        let slots = site.read(&starts).await?.into_iter().map(|entry| SlotInfo {
            name: plan::name(entry.start),
            start: plan::time_of(entry.start),
            claimed_by: entry.record.by.clone(),
            claimed_at: at(entry.stat.ctime),
            changed_at: at(entry.stat.mtime),
            attempt: entry.record.attempt,
            state: SlotState::of(entry.record, entry.stat.num_children > 0),
        });
        Ok(slots.collect())
    }

    fn site(&self, alive: mpsc::Sender<()>) -> ScheduleSite {
        let mode =
            if self.again.is_some() { ClaimMode::AtLeastOnce } else { ClaimMode::AtMostOnce };
        ScheduleSite::new(&self.zk, &self.path, &self.id, mode, alive)
    }

    /// Checks the settings.
    fn member(&self, alive: mpsc::Sender<()>) -> Result<ScheduleMember, Error> {
        ZPath::for_operation("run", self.path.as_str())?;
        let invalid = |(setting, expected)| Error::InvalidSetting {
            path: self.path.clone(),
            setting,
            expected,
        };
        let plan = SlotPlan::new(self.schedule).map_err(invalid)?;
        if self.keep == 0 {
            return Err(invalid(("number of kept slots", "at least one")));
        }
        if self.max_attempts == Some(0) {
            return Err(invalid(("most attempts", "at least one")));
        }
        let site = self.site(alive);
        let clock =
            ComparedClock::new(&site.zk, &self.path, &self.id, self.clock.clone(), self.tolerance);
        let timing = Timing::new(clock, plan, self.missed, self.keep, fraction(&self.zk));
        let again = self.again.as_ref().map(|policy| Again {
            policy: Arc::clone(policy),
            max_attempts: self.max_attempts,
            clock: self.clock.clone(),
        });
        Ok(ScheduleMember::new(site, timing, self.missed, self.keep, again))
    }
}
