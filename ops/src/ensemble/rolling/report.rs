//! The progress of a rolling restart, and its result.

use std::fmt;
use std::time::Duration;

use super::doubt::RollingDoubt;
use crate::ensemble::probe::ProbedServer;
use crate::ensemble::words::ServerMode;
use crate::text;

/// The reason why the restart of a server is not known to have succeeded. The means of the caller
/// return it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub enum RollingRestartError {
    /// The restart has failed.
    #[error("the restart of {server} failed: {why}")]
    Failed {
        /// The server.
        server: ProbedServer,
        /// The reason, such as an exit code.
        why: String,
    },
    /// The restart has not begun.
    #[error("the restart of {server} has not begun: {why}")]
    NotStarted {
        /// The server.
        server: ProbedServer,
        /// The reason.
        why: String,
    },
    /// The restart was given up at the end of its time.
    #[error("the restart of {server} did not end within {within:?}")]
    TimedOut {
        /// The server.
        server: ProbedServer,
        /// The time limit.
        within: Duration,
    },
    /// The second request to stop has ended the restart.
    #[error("the restart of {0} was stopped before its end")]
    Stopped(ProbedServer),
}

impl RollingRestartError {
    /// Returns the error of a restart that has failed.
    #[must_use]
    pub fn failed(server: &ProbedServer, why: impl fmt::Display) -> Self {
        Self::Failed { server: server.clone(), why: why.to_string() }
    }

    /// Returns the error of a restart that has not begun.
    #[must_use]
    pub fn not_started(server: &ProbedServer, why: impl fmt::Display) -> Self {
        Self::NotStarted { server: server.clone(), why: why.to_string() }
    }

    /// Returns the error of a restart that was given up after this time.
    #[must_use]
    pub fn timed_out(server: &ProbedServer, within: Duration) -> Self {
        Self::TimedOut { server: server.clone(), within }
    }
}

/// The progress of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RollingProgress {
    /// The restart of a server begins.
    Restarting {
        /// The server.
        server: ProbedServer,
        /// Its role before the restart.
        role: ServerMode,
        /// The place of this restart in the run, from 1.
        number: usize,
        /// The number of restarts in the run.
        total: usize,
    },
    /// The next restart waits for the end of these doubts.
    Waiting(Vec<RollingDoubt>),
    /// The server serves again.
    Back {
        /// The server.
        server: ProbedServer,
        /// The time since its restart began.
        took: Duration,
    },
    /// The run ends after the restart of this server. A second request to stop ends the restart.
    Finishing(ProbedServer),
}

impl fmt::Display for RollingProgress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Restarting { server, role, number, total } => {
                write!(f, "{number}/{total} {server} ({role}): restart")
            }
            Self::Waiting(doubts) => {
                let doubts: Vec<_> = doubts.iter().map(RollingDoubt::to_string).collect();
                write!(f, "waiting: {}", doubts.join("; "))
            }
            Self::Back { server, took } => {
                write!(f, "{server} serves again after {}", text::duration(*took))
            }
            Self::Finishing(server) => write!(f, "stopping after the restart of {server}"),
        }
    }
}

/// The end of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub enum RollingEnd {
    /// Every server was restarted.
    Done,
    /// A plan without doubts. Nothing was restarted.
    Planned,
    /// Doubts have stopped the run.
    Doubtful(Vec<RollingDoubt>),
    /// The restart of a server has failed.
    RestartFailed(RollingRestartError),
    /// The caller has asked for the end.
    Stopped,
}

impl RollingEnd {
    /// Returns the reasons why the run ended before the last restart. None for
    /// [`Done`](Self::Done) and [`Planned`](Self::Planned).
    #[must_use]
    pub fn reasons(&self) -> Vec<String> {
        match self {
            Self::Done | Self::Planned => Vec::new(),
            Self::Doubtful(doubts) => doubts.iter().map(RollingDoubt::to_string).collect(),
            Self::RestartFailed(error) => vec![error.to_string()],
            Self::Stopped => vec!["interrupted".to_owned()],
        }
    }
}

/// The result of a run for one server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum RollingOutcome {
    /// It has restarted, and the ensemble was in order again.
    Restarted,
    /// It has restarted, or its restart has returned, and the run ended before all was in order
    /// again.
    Unchecked,
    /// It is not known to have restarted.
    Failed,
    /// It was not restarted yet.
    Left,
    /// It is not one of the servers to restart.
    LeftOut,
}

impl RollingOutcome {
    /// Returns the outcome in one word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Restarted => "restarted",
            Self::Unchecked => "unchecked",
            Self::Failed => "failed",
            Self::Left => "left",
            Self::LeftOut => "left-out",
        }
    }
}

/// A server in the report of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct RollingRow {
    /// The server.
    pub server: ProbedServer,
    /// The place in the order of restarts, from 1. `None` if it is left out.
    pub number: Option<usize>,
    /// The role before the restart, or the present one.
    pub role: Option<ServerMode>,
    /// The time for which it had this role. Servers before 3.6 do not report it.
    pub uptime: Option<Duration>,
    /// The result.
    pub outcome: RollingOutcome,
    /// The time from the begin of its restart until it served again.
    pub took: Option<Duration>,
}

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct RollingReport {
    /// The end of the run.
    pub end: RollingEnd,
    /// All servers: first the restarted ones, then the rest in its order, then the servers that are
    /// left out.
    pub rows: Vec<RollingRow>,
}

impl RollingReport {
    /// Returns `true` if the restart of a server has begun.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        let begun = |row: &RollingRow| {
            !matches!(row.outcome, RollingOutcome::Left | RollingOutcome::LeftOut)
        };
        self.rows.iter().any(begun)
    }

    /// Returns the servers that another run has to restart: the [left](RollingOutcome::Left) ones,
    /// and the [failed](RollingOutcome::Failed) one. An [unchecked](RollingOutcome::Unchecked)
    /// server is not one of them.
    pub fn to_do(&self) -> impl Iterator<Item = &RollingRow> {
        let is_to_do = |row: &&RollingRow| {
            matches!(row.outcome, RollingOutcome::Left | RollingOutcome::Failed)
        };
        self.rows.iter().filter(is_to_do)
    }
}
