//! Distributed locks.
//!
//! [`InterProcessMutex`] is the lock of ZooKeeper's recipes and of Apache Curator: one holder at a time, in
//! the order of arrival, without a herd.
//!
//! No lock that is granted over a network excludes on its own: a holder may be paused for longer than its
//! session and wake up believing that it holds the lock. Write through
//! [`fenced`](MutexGuard::fenced) transactions, or give the [`fencing token`](MutexGuard::fencing_token) to the
//! resource that you protect.

mod mutex;

pub use mutex::{InterProcessMutex, MutexGuard, Participant};

/// The tags in the names of nodes, as Curator writes them.
mod tag {
    /// `StandardLockInternalsDriver`, `InterProcessMutex.LOCK_NAME`.
    pub(super) const LOCK: &str = "lock-";
}

/// Why a lock could not be acquired or kept.
#[non_exhaustive]
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The lock was lost while it was held: its session is over, or somebody has deleted its node.
    #[error("the lock was lost")]
    Lost,
    /// An operation failed.
    #[error(transparent)]
    Framework(#[from] zk_curator::Error),
}
