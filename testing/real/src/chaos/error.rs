use std::io;

use crate::RealError;

/// An error of making a run. A run that finds a violation returns a [`super::Report`] instead.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChaosError {
    /// A server did not start, or does not end.
    #[error(transparent)]
    Servers(#[from] RealError),
    /// A process of a client, or a proxy, failed.
    #[error("cannot {what}")]
    Io {
        /// The failed action.
        what: &'static str,
        /// The reason.
        source: io::Error,
    },
    /// An operation of the run itself failed, before or after the faults.
    #[error("cannot {what}")]
    ZooKeeper {
        /// The failed action.
        what: &'static str,
        /// The reason.
        source: zk_curator::Error,
    },
    /// A task of the run has panicked.
    #[error("a task of the run has failed")]
    Task(#[from] tokio::task::JoinError),
}

impl ChaosError {
    pub(super) fn io(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { what, source }
    }

    pub(super) fn zookeeper(what: &'static str) -> impl FnOnce(zk_curator::Error) -> Self {
        move |source| Self::ZooKeeper { what, source }
    }
}
