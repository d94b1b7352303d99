//! Distributed locks.
//!
//! * [`InterProcessMutex`] is the lock of ZooKeeper's recipes and of Apache Curator: one holder at a time, in
//!   the order of arrival, without a herd.
//! * [`InterProcessReadWriteLock`]: many readers, or one writer.
//! * [`RevocableReadWriteLock`]: the same, with holders that can be asked to let go, and be made to.
//! * [`InterProcessSemaphore`]: at most so many holders; [`InterProcessSemaphoreMutex`]: one.
//! * [`InterProcessMultiLock`]: several locks as one.
//! * [`ReentrantMutex`]: a mutex that its owner can acquire again.
//!
//! A future of an acquire is in the queue from its first poll on. If it is then neither polled nor dropped, for example in a
//! `select!` loop whose other branch takes long, it may be granted the lock without noticing, and everybody else in the
//! cluster waits: spawn it, or drop it. Debug builds log an event at WARN when a future that waits, for a lock, a
//! semaphore's turn or a leadership, was woken and left alone for ten seconds.
//!
//! No lock that is granted over a network excludes on its own: a holder may be paused for longer than its
//! session and wake up believing that it holds the lock. Write through [`fenced`](Guard::fenced) transactions, or
//! give the [`fencing token`](Guard::fencing_token) to the resource that you protect.

mod guard;
mod handover;
mod interface;
mod multi;
mod mutex;
mod queue_lock;
mod read_write;
mod reentrant;
mod revocable;
mod revocation;
mod semaphore;

pub use guard::{Any, ConversionError, Guard};
use guard::{after_work, while_held, with_guard};
pub use handover::{HandoverGuard, HandoverMutex};
pub use interface::InterProcessLock;
pub use multi::{InterProcessMultiLock, MultiGuard};
pub use mutex::{Exclusive, InterProcessMutex, MutexGuard};
pub use queue_lock::QueueLock;
pub use read_write::{InterProcessReadWriteLock, Read, ReadGuard, ReadLock, Write, WriteGuard, WriteLock};
pub use reentrant::{ReentrantGuard, ReentrantMutex};
pub use revocable::{RevocableReadWriteLock, Revoked};
pub use revocation::attempt_revoke;
pub use semaphore::{InterProcessSemaphore, InterProcessSemaphoreMutex, Lease, Permit};

pub use crate::participant::Participant;

/// The tags in the names of nodes.
mod tag {
    /// `StandardLockInternalsDriver`, `InterProcessMutex.LOCK_NAME`.
    pub(super) const LOCK: &str = "lock-";
    /// `InterProcessSemaphoreV2.LEASE_BASE_NAME`.
    pub(super) const LEASE: &str = "lease-";
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
    /// More leases are asked for than there can be.
    #[error("{asked} leases cannot be had of {limit}")]
    OverLimit {
        /// How many.
        asked: u32,
        /// The limit of the semaphore.
        limit: u32,
    },
    /// The data of a shared count are not the four bytes of a number.
    #[error("the node {path} is not a shared count")]
    NotACount {
        /// Its path.
        path: String,
    },
    /// The name of the nodes of a lock has a slash in it.
    #[error("{name:?} is no name for the nodes of a lock")]
    InvalidName {
        /// The name.
        name: String,
    },
    /// Not the path of a node that holds this lock or waits for it.
    #[error("{node} is no node of the lock {lock}")]
    NotOfThisLock {
        /// The path that was given.
        node: String,
        /// The path of the lock.
        lock: String,
    },
    /// A lock is given twice: it would wait for itself.
    #[error("the lock {path} is given twice")]
    Duplicate {
        /// Its path.
        path: String,
    },
    /// No lock is given.
    #[error("no lock is given")]
    NoLocks,
    /// An operation failed.
    #[error(transparent)]
    Framework(#[from] zk_curator::Error),
}
