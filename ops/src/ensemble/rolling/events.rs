//! The inputs and the effects of a rolling restart, its news, and its report.

use std::collections::BTreeSet;
use std::time::Duration;

use super::super::flw::ServerMode;
use super::super::probe::Server;
use super::doubt::{Doubt, RestartError};
use super::observation::Observation;

/// The choices of the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RollingRules {
    /// The servers to restart, by id.
    pub(crate) targets: BTreeSet<u64>,
    /// Leaves out servers that have had their role for less than this at the start of the run.
    pub(crate) least_age: Option<Duration>,
    /// The time after a restart in which the ensemble has to be in order again.
    pub(crate) wait: Duration,
    /// The least time between the first observation in order and the next restart.
    pub(crate) pause: Duration,
    /// Ends before the first restart.
    pub(crate) is_dry_run: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RollingInput {
    Observed(Observation),
    /// The command has ended, this long after the start of the run.
    CommandEnded {
        at: Duration,
        result: Result<(), RestartError>,
    },
    /// The user asks for the end.
    StopRequested,
}

/// A task for the driver. The last one of a step is not a report, unless a command runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RollingEffect {
    Report(RollingProgress),
    Observe {
        is_thorough: bool,
    },
    /// Runs the command, and observes until it ends.
    Restart(Server),
    /// Kills the command.
    Kill,
    End,
}

/// News for the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RollingProgress {
    /// The command of a server begins: the restart `number` of `total`.
    Restarting { server: Server, role: ServerMode, number: usize, total: usize },
    /// The next restart waits for the end of these doubts.
    Waiting(Vec<Doubt>),
    /// The server serves again, this long after the begin of its restart.
    Back { server: Server, took: Duration },
    /// The run ends after the command.
    Finishing(Server),
}

/// The end of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RollingEnd {
    /// Every server was restarted.
    Done,
    /// A dry run without doubts.
    Planned,
    Doubtful(Vec<Doubt>),
    CommandFailed(RestartError),
    /// The user has asked for the end.
    Stopped,
}

/// The result of a run for a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RestartResult {
    /// It serves again.
    Restarted,
    /// Its command has ended, and the run ended before all was in order again.
    Unchecked,
    /// It is not known to have restarted.
    Failed,
    /// It was not restarted yet.
    Left,
    /// It is not one of the servers to restart.
    LeftOut,
}

/// A server in the report of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RestartRow {
    pub(crate) server: Server,
    /// The place in the order of restarts, from 1.
    pub(crate) number: Option<usize>,
    /// The role before the restart, or the present one.
    pub(crate) role: Option<ServerMode>,
    /// The time for which it had this role.
    pub(crate) uptime: Option<Duration>,
    pub(crate) result: RestartResult,
    pub(crate) took: Option<Duration>,
}
