//! The inputs and the effects of the planner.

use std::collections::BTreeSet;
use std::time::Duration;

use super::observation::Observation;
use super::report::{RollingProgress, RollingRestartError};
use crate::ensemble::probe::ProbedServer;

/// The choices of the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RollingRules {
    /// The servers to restart, by id.
    pub(super) targets: BTreeSet<u64>,
    /// Leaves out servers that have had their role for less than this at the start of the run.
    pub(super) least_age: Option<Duration>,
    /// The time after a restart in which the ensemble has to be in order again.
    pub(super) wait: Duration,
    /// The least time between the first observation in order and the next restart.
    pub(super) pause: Duration,
    /// Ends before the first restart.
    pub(super) is_dry_run: bool,
}

/// An input of the planner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RollingInput {
    Observed(Observation),
    /// The restart has returned, this long after the start of the run.
    RestartEnded {
        at: Duration,
        result: Result<(), RollingRestartError>,
    },
    /// The caller asks for the end.
    StopRequested,
}

/// A task for the driver. The last one of a step is not a report, unless a restart runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RollingEffect {
    Report(RollingProgress),
    Observe {
        is_thorough: bool,
    },
    /// Restarts the server, and observes until that returns.
    Restart(ProbedServer),
    /// Drops the restart.
    Drop,
    End,
}
