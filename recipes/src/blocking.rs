//! Locks for programs without async code, such as build tools and command lines.
//!
//! [`CuratorFramework`] is the [front](zk_curator::blocking) of the framework for such programs. A
//! [`Lock`] is a [lock](crate::lock) whose methods wait in the calling thread.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let runtime = tokio::runtime::Runtime::new()?;
//! # let server = runtime.block_on(zk_curator_testing::TestServer::start());
//! # let connect_string = server.connect_string();
//! use std::time::Duration;
//!
//! use zk_curator_recipes::blocking::{self, Lock};
//! use zk_curator_recipes::lock::InterProcessMutex;
//! use zk_curator_recipes::zk_curator::CuratorFramework;
//!
//! let builder = CuratorFramework::builder().connect_string(connect_string);
//! let zk = blocking::CuratorFramework::connect(builder)?;
//! zk.create("/released", "1.0")?;
//!
//! let lock = Lock::new(&zk, |zk| InterProcessMutex::new(zk, "/locks/release").label("ci-7"));
//! let Some(held) = lock.acquire_within(Duration::from_secs(60))? else {
//!     return Err("another release takes too long".into());
//! };
//! // Refused by the servers if the lock is no longer held.
//! zk.run(|_| held.fenced().set_data("/released", "1.1").commit())?;
//! held.release()?;
//! zk.close()?;
//! # Ok(()) }
//! ```
//!
//! Other recipes are used through [`run`](CuratorFramework::run), and so is what only one kind of
//! lock can do, such as several permits at a time:
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let runtime = tokio::runtime::Runtime::new()?;
//! # let server = runtime.block_on(zk_curator_testing::TestServer::start());
//! # let builder = zk_curator::CuratorFramework::builder().connect_string(server.connect_string());
//! # let zk = zk_curator_recipes::blocking::CuratorFramework::connect(builder)?;
//! use zk_curator_recipes::counter::DistributedAtomicLong;
//! use zk_curator_recipes::lock::InterProcessSemaphore;
//!
//! let builds = DistributedAtomicLong::new(zk.framework(), "/builds");
//! assert_eq!(zk.run(|_| builds.increment())?, 1);
//! let agents = InterProcessSemaphore::new(zk.framework(), "/agents", 4);
//! let two = zk.run(|_| agents.acquire_many(2))?;
//! # drop(two);
//! # zk.close()?;
//! # Ok(()) }
//! ```
//!
//! # Failures
//! * A thread that panics drops its guards, and so releases its locks.
//! * A wait that times out leaves the queue: the node is deleted in the background, also if
//!   the response to its creation was lost.
//! * A guard keeps the framework open: the session ends after the last handle, lock and guard, or
//!   with [`close`](CuratorFramework::close).
//! * A process that [ends otherwise](zk_curator::blocking#the-end) keeps its locks until its
//!   session expires.
//! * The loss of a lock does not stop the thread that holds it. The thread asks
//!   [`is_over`](AnyGuard::is_over) before each step, or writes through
//!   [`fenced`](AnyGuard::fenced).
//!
//! Methods that wait panic in [async code](zk_curator::blocking#in-async-code). The drop of a guard
//! never waits, unless the guard is the last that keeps the framework open.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

pub use zk_curator::blocking::CuratorFramework;

use crate::lock::{AnyGuard, Error, Guard as AsyncGuard, InterProcessLock, InterProcessSemaphore};

/// Any [`InterProcessLock`], or the permits of a semaphore, for threads that wait. Cheap to clone.
///
/// An [`InterProcessMultiLock`](crate::lock::InterProcessMultiLock) has a guard of its own: it is
/// acquired through [`run`](CuratorFramework::run).
///
/// It is **not re-entrant**, unless it is made of a
/// [`ReentrantMutex`](crate::lock::ReentrantMutex): a thread that holds it and acquires it again
/// waits for itself. Threads of one process exclude each other as processes do.
#[derive(Debug, Clone)]
pub struct Lock {
    zk: CuratorFramework,
    kind: BlockingKind,
}

#[derive(Debug, Clone)]
enum BlockingKind {
    Lock(Arc<dyn InterProcessLock>),
    Semaphore(InterProcessSemaphore),
}

impl BlockingKind {
    async fn acquire(&self) -> Result<AnyGuard, Error> {
        match self {
            Self::Lock(lock) => lock.acquire().await,
            Self::Semaphore(semaphore) => semaphore.acquire().await.map(AsyncGuard::into_any),
        }
    }

    async fn try_acquire(&self) -> Result<Option<AnyGuard>, Error> {
        match self {
            Self::Lock(lock) => lock.try_acquire().await,
            Self::Semaphore(semaphore) => {
                Ok(semaphore.try_acquire().await?.map(AsyncGuard::into_any))
            }
        }
    }
}

impl Lock {
    /// The lock that `lock` makes. Nothing is sent.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let runtime = tokio::runtime::Runtime::new()?;
    /// # let server = runtime.block_on(zk_curator_testing::TestServer::start());
    /// # let builder = zk_curator::CuratorFramework::builder().connect_string(server.connect_string());
    /// # let zk = zk_curator_recipes::blocking::CuratorFramework::connect(builder)?;
    /// use zk_curator_recipes::blocking::Lock;
    /// use zk_curator_recipes::lock::InterProcessReadWriteLock;
    ///
    /// let cache = InterProcessReadWriteLock::new(zk.framework(), "/locks/cache");
    /// let readers = Lock::new(&zk, |_| cache.read_lock());
    /// let writer = Lock::new(&zk, |_| cache.write_lock());
    /// let (one, other) = (readers.acquire()?, readers.acquire()?);
    /// assert!(writer.try_acquire()?.is_none());
    /// # Ok(()) }
    /// ```
    pub fn new<L: InterProcessLock + 'static>(
        zk: &CuratorFramework,
        lock: impl FnOnce(&zk_curator::CuratorFramework) -> L,
    ) -> Self {
        Self { kind: BlockingKind::Lock(Arc::new(lock(zk.framework()))), zk: zk.clone() }
    }

    /// The permits of the semaphore that `semaphore` makes, one at a time. Nothing is sent.
    pub fn permit_of(
        zk: &CuratorFramework,
        semaphore: impl FnOnce(&zk_curator::CuratorFramework) -> InterProcessSemaphore,
    ) -> Self {
        Self { kind: BlockingKind::Semaphore(semaphore(zk.framework())), zk: zk.clone() }
    }

    /// Acquires the lock, however long it takes.
    ///
    /// # Errors
    /// As the method of the lock that this was made of. `Closed` if another thread closes the
    /// framework. Nothing stays behind.
    ///
    /// # Panics
    /// Panics in [async code](zk_curator::blocking#in-async-code).
    pub fn acquire(&self) -> Result<Guard, Error> {
        self.zk.run(|_| self.kind.acquire()).map(|guard| self.held(guard))
    }

    /// Acquires the lock within a time; `None` if that is too short, for whatever reason: another
    /// client holds the lock, or no server responds. The thread then leaves the queue. The node is
    /// deleted in the background, and [`close`](CuratorFramework::close) waits for that.
    ///
    /// Zero does the same as [`try_acquire`](Self::try_acquire), whose round trip has no limit but
    /// that of the retry policy. More than 30 years are no limit.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    ///
    /// # Panics
    /// Panics in [async code](zk_curator::blocking#in-async-code).
    #[doc(alias = "acquire(time, unit)")]
    pub fn acquire_within(&self, time: Duration) -> Result<Option<Guard>, Error> {
        if time.is_zero() {
            return self.try_acquire();
        }
        let acquired = self.zk.run_within(time, |_| self.kind.acquire()).transpose()?;
        Ok(acquired.map(|guard| self.held(guard)))
    }

    /// Acquires the lock if it is free; `None` if it is not. Never waits for other clients.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    ///
    /// # Panics
    /// Panics in [async code](zk_curator::blocking#in-async-code).
    pub fn try_acquire(&self) -> Result<Option<Guard>, Error> {
        let acquired = self.zk.run(|_| self.kind.try_acquire())?;
        Ok(acquired.map(|guard| self.held(guard)))
    }

    fn held(&self, guard: AnyGuard) -> Guard {
        Guard { guard, zk: self.zk.clone() }
    }
}

/// Holds a [`Lock`]. It has the methods of an [`AnyGuard`], and those that wait.
///
/// Dropping it releases the lock in the background: the delete is queued immediately, ahead of all
/// later requests of the session.
#[must_use = "dropping it releases the lock in the background"]
#[derive(Debug)]
pub struct Guard {
    /// Dropped before the handle, whose drop may end the session.
    guard: AnyGuard,
    zk: CuratorFramework,
}

impl Guard {
    /// Waits until the lock can no longer be assumed to be held: see
    /// [`Ownership::lost`](zk_curator::Ownership::lost). It is for another thread than the one that
    /// works under the lock. [`run_within`](CuratorFramework::run_within) limits the wait:
    /// `zk.run_within(time, |_| guard.ownership().lost())`.
    ///
    /// # Panics
    /// Panics in [async code](zk_curator::blocking#in-async-code).
    pub fn lost(&self) {
        self.zk.run(|_| self.guard.lost());
    }

    /// Releases the lock and waits for the response.
    ///
    /// # Errors
    /// As [`release`](crate::lock::Guard::release) of the lock that this was made of. The lock is
    /// released in any case.
    ///
    /// # Panics
    /// Panics in [async code](zk_curator::blocking#in-async-code). The lock is released.
    pub fn release(self) -> Result<(), Error> {
        let Self { guard, zk } = self;
        zk.run(|_| guard.release())
    }
}

impl Deref for Guard {
    type Target = AnyGuard;

    fn deref(&self) -> &AnyGuard {
        &self.guard
    }
}
