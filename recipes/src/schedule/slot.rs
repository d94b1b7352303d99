use std::time::SystemTime;

use zk_curator::op::Transaction;
use zk_curator::{FencingToken, Ownership};

use super::plan;
use super::record::{ClaimMode, RunState, SlotRecord};

/// A slot that is ours to run.
#[derive(Debug, Clone)]
pub struct Slot {
    start: i64,
    name: String,
    attempt: u32,
    runner: Option<Ownership>,
}

impl Slot {
    pub(super) fn new(start: i64, attempt: u32, runner: Option<Ownership>) -> Self {
        Self { start, name: plan::name(start), attempt, runner }
    }

    /// The time at which the slot began.
    #[must_use]
    pub fn start(&self) -> SystemTime {
        plan::time_of(self.start)
    }

    /// The name of the slot: its start in UTC as in RFC 3339, for example `2026-11-22T13:00:00Z`.
    /// Suited as a key for work that must not be done twice.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The number of the run, from 1. Always 1 without
    /// [`at_least_once`](super::OncePer::at_least_once).
    #[must_use]
    pub const fn attempt(&self) -> u32 {
        self.attempt
    }

    /// The runner node, with [`at_least_once`](super::OncePer::at_least_once); otherwise `None`.
    /// The body is dropped when it is lost.
    #[must_use]
    pub const fn runner(&self) -> Option<&Ownership> {
        self.runner.as_ref()
    }

    /// Returns the fencing token of this run, which is higher than the tokens of all earlier runs
    /// of the slot. `None` without [`at_least_once`](super::OncePer::at_least_once): a slot has one
    /// run then.
    #[must_use]
    pub fn fencing_token(&self) -> Option<FencingToken> {
        self.runner.as_ref().map(Ownership::fencing_token)
    }

    /// Begins a transaction that is applied only while the runner node exists, and not after
    /// another member has taken the slot over. `None` without
    /// [`at_least_once`](super::OncePer::at_least_once).
    #[must_use]
    pub fn fenced(&self) -> Option<Transaction> {
        self.runner.as_ref().map(Ownership::fenced)
    }
}

/// A recorded slot.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SlotInfo {
    /// The name: the start in UTC, as in RFC 3339.
    pub name: String,
    /// The start.
    pub start: SystemTime,
    /// The [id](super::OncePer::id) of the member that claimed it last.
    pub claimed_by: String,
    /// The time of the first claim, by the clock of the servers.
    pub claimed_at: SystemTime,
    /// The time of the last change of the state, by the clock of the servers.
    pub changed_at: SystemTime,
    /// The number of runs, from 1.
    pub attempt: u32,
    /// The state of the latest run.
    pub state: SlotState,
}

/// The state of a recorded slot.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SlotState {
    /// A member runs it. If a slot runs at most once, it is unknown whether the member is still
    /// alive.
    Running,
    /// The member that ran it is gone. Another one takes the slot over, since it is run at least
    /// once.
    Abandoned,
    /// Its body has succeeded.
    Done,
    /// Its body has failed. A slot that is run at least once runs again.
    #[non_exhaustive]
    Failed {
        /// The reason: up to 1,024 bytes of the error.
        why: String,
    },
    /// It has failed permanently: it is run at least once, and neither the
    /// [policy](super::OncePer::at_least_once) nor the [limit](super::OncePer::max_attempts) allows
    /// another run.
    #[non_exhaustive]
    GaveUp {
        /// The reason why the last run was not successful: up to 1,024 bytes of the error, or that
        /// its member is gone.
        why: String,
    },
}

impl SlotState {
    pub(super) fn of(record: SlotRecord, has_runner: bool) -> Self {
        match record.state {
            RunState::Running if record.mode == ClaimMode::AtLeastOnce && !has_runner => {
                Self::Abandoned
            }
            RunState::Running => Self::Running,
            RunState::Done => Self::Done,
            RunState::Failed(why) => Self::Failed { why },
            RunState::GaveUp(why) => Self::GaveUp { why },
        }
    }
}
