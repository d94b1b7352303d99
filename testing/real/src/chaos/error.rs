use std::io;

use crate::RealError;

/// Why a run could not be made. A run that finds something wrong is a [`super::Report`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChaosError {
    /// A server was not started, or does not end.
    #[error(transparent)]
    Servers(#[from] RealError),
    /// A process of a client, or a proxy.
    #[error("cannot {what}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// The reason.
        source: io::Error,
    },
    /// An operation of the run itself, before or after the faults.
    #[error("cannot {what}")]
    ZooKeeper {
        /// What was tried.
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
