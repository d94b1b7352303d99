//! Distributed locks.
//!
//! * [`InterProcessMutex`] is the lock of ZooKeeper's recipes and of Apache Curator: one holder at
//!   a time, in the order of arrival, without a herd.
//! * [`InterProcessReadWriteLock`]: many readers, or one writer.
//! * [`RevocableReadWriteLock`]: the same, with holders that can be asked to let go, and be made
//!   to.
//! * [`InterProcessSemaphore`]: at most `permits` holders; [`InterProcessSemaphoreMutex`]: one.
//! * [`InterProcessMultiLock`]: several locks as one.
//! * [`ReentrantMutex`]: a mutex that its owner can acquire again. No other lock here is
//!   re-entrant.
//! * [`HandoverMutex`]: a mutex that tasks of one process pass on among themselves.
//!
//! A future of an acquire is in the queue from its first poll on. If it is then neither polled nor
//! dropped, for example in a `select!` loop whose other branch takes long, it may get the lock
//! without noticing, while all other contenders wait. So spawn it, or drop it. Debug builds log an
//! event at WARN when a future that waits, for a lock, a semaphore's turn or a leadership, was
//! woken and left alone for ten seconds.
//!
//! No lock that is granted over a network excludes on its own: a holder may be paused for longer
//! than its session and wake up believing that it holds the lock. Write through
//! [`fenced`](Guard::fenced) transactions, or give the [`fencing token`](Guard::fencing_token) to
//! the resource that you protect.

mod any_guard;
mod error;
mod evidence;
mod guard;
mod handover;
mod interface;
mod kazoo_semaphore;
mod multi;
mod mutex;
mod queue_lock;
mod read_write;
mod reentrant;
mod revocable;
mod revocation;
mod semaphore;

pub use any_guard::AnyGuard;
pub use error::Error;
pub use guard::{ConversionError, Guard};
pub use handover::{HandoverGuard, HandoverMutex, LocalToken};
pub use interface::InterProcessLock;
pub use multi::{InterProcessMultiLock, MultiGuard};
pub use mutex::{Exclusive, InterProcessMutex, MutexGuard};
pub(crate) use read_write::Tags;
pub use read_write::{
    InterProcessReadWriteLock, Read, ReadGuard, ReadLock, Write, WriteGuard, WriteLock,
};
pub use reentrant::{ReentrantGuard, ReentrantMutex, ReentrantOwner};
pub use revocable::{RevocableReadWriteLock, Revoked};
pub use revocation::attempt_revoke;
pub(crate) use revocation::is_request as is_revocation;
pub use semaphore::{InterProcessSemaphore, InterProcessSemaphoreMutex, Permit, PermitKind};

pub use crate::participant::Participant;

/// The names of nodes, and the tags in them.
pub(crate) mod tag {
    /// `StandardLockInternalsDriver`, `InterProcessMutex.LOCK_NAME`.
    pub(crate) const LOCK: &str = "lock-";
    /// kazoo's `Lock._NODE_NAME`.
    pub(crate) const KAZOO: &str = "__lock__";
    /// kazoo's `ReadLock._NODE_NAME`.
    pub(crate) const KAZOO_READ: &str = "__rlock__";
    /// `InterProcessSemaphoreV2.LOCK_PARENT`: the name of the parent of the clients that wait.
    pub(crate) const LOCK_PARENT: &str = "locks";
    /// `InterProcessSemaphoreV2.LEASE_PARENT`: the name of the parent of the leases.
    pub(crate) const LEASE_PARENT: &str = "leases";
    /// `InterProcessSemaphoreV2.LEASE_BASE_NAME`.
    pub(crate) const LEASE: &str = "lease-";
    /// `InterProcessReadWriteLock.READ_LOCK_NAME`.
    pub(crate) const READ: &str = "__READ__";
    /// `InterProcessReadWriteLock.WRITE_LOCK_NAME`.
    pub(crate) const WRITE: &str = "__WRIT__";
    /// ZooKeeper's recipes.
    pub(crate) const REVOCABLE_READ: &str = "read-";
    /// ZooKeeper's recipes.
    pub(crate) const REVOCABLE_WRITE: &str = "write-";
}
