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

mod error;
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

pub use error::Error;
pub use guard::{Any, ConversionError, Guard};
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
