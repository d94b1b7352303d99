//! Distributed locks.
//!
//! * [`InterProcessMutex`] is the lock of ZooKeeper's recipes and of Apache Curator: one holder at a time, in
//!   the order of arrival, without a herd.
//! * [`InterProcessReadWriteLock`]: many readers, or one writer.
//! * [`RevocableReadWriteLock`]: the same, with holders that can be asked to let go, and be made to.
//!
//! No lock that is granted over a network excludes on its own: a holder may be paused for longer than its
//! session and wake up believing that it holds the lock. Write through [`fenced`](Guard::fenced) transactions, or
//! give the [`fencing token`](Guard::fencing_token) to the resource that you protect.

mod guard;
mod mutex;
mod queue_lock;
mod read_write;
mod revocable;
mod revocation;

pub use guard::{Guard, Unchanged};
pub use mutex::{Exclusive, InterProcessMutex, MutexGuard};
pub use queue_lock::{Participant, QueueLock};
pub use read_write::{InterProcessReadWriteLock, Read, ReadGuard, ReadLock, Write, WriteGuard, WriteLock};
pub use revocable::{RevocableReadWriteLock, Revoked};
pub use revocation::attempt_revoke;

/// The tags in the names of nodes.
mod tag {
    /// `StandardLockInternalsDriver`, `InterProcessMutex.LOCK_NAME`.
    pub(super) const LOCK: &str = "lock-";
    /// `InterProcessReadWriteLock.READ_LOCK_NAME`.
    pub(super) const READ: &str = "__READ__";
    /// `InterProcessReadWriteLock.WRITE_LOCK_NAME`.
    pub(super) const WRITE: &str = "__WRIT__";
    /// ZooKeeper's recipes.
    pub(super) const REVOCABLE_READ: &str = "read-";
    /// ZooKeeper's recipes.
    pub(super) const REVOCABLE_WRITE: &str = "write-";
}

/// Why a lock could not be acquired or kept.
#[non_exhaustive]
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The lock was lost while it was held: its session is over, or somebody has deleted its node.
    #[error("the lock was lost")]
    Lost,
    /// Others hold the lock, or wait for it.
    #[error("others hold the lock or wait for it")]
    Busy,
    /// The parent has given nearly all of its 2^31 sequence numbers: it has to be deleted when nobody uses it.
    #[error("the sequence numbers of the lock are used up")]
    SequenceExhausted,
    /// An operation failed.
    #[error(transparent)]
    Framework(#[from] zk_curator::Error),
}
