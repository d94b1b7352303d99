use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::hash::Hash;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use bytes::Bytes;
use zk_curator::{CuratorFramework, Ownership};

use super::guard::{after_work, while_held};
use super::{Error, InterProcessMutex, MutexGuard, Participant};

/// An [`InterProcessMutex`] that its owner can acquire again: for ports from Java, where a thread is the owner. Tasks
/// have no identity, so the owner is a value that you choose: an id of a request, of a job, of an actor.
///
/// All clones share their owners; another `ReentrantMutex` of the same path knows nothing of them and contends as
/// another process does. The lock is released when the last guard of its owner is.
///
/// Layout, protocol, guarantees, connection loss and cancel safety are those of [`InterProcessMutex`]. All guards of one
/// owner have the same node and fencing token.
///
/// # Example
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = zk_curator_testing::TestServer::start().await;
/// # let zk = zk_curator::CuratorFramework::builder().connect_string(server.connect_string()).build()?;
/// # zk.start().await?;
/// use zk_curator_recipes::lock::ReentrantMutex;
///
/// let lock = ReentrantMutex::new(&zk, "/locks/orders");
/// let outer = lock.acquire("job-7").await?;
/// let inner = lock.acquire("job-7").await?;
/// assert!(lock.try_acquire("job-8").await?.is_none());
/// inner.release().await?;
/// outer.release().await?;
/// assert!(lock.try_acquire("job-8").await?.is_some());
/// # zk.close().await?;
/// # Ok(()) }
/// ```
pub struct ReentrantMutex<O> {
    lock: InterProcessMutex,
    owners: Owners<O>,
}

/// The locks of every owner, with the number of its guards and acquiring futures.
type Owners<O> = Arc<Mutex<HashMap<O, (Slot, usize)>>>;

/// Empty while the owner acquires: one at a time acquires for it.
type Slot = Arc<tokio::sync::Mutex<Weak<MutexGuard>>>;

impl<O: Clone + Eq + Hash> ReentrantMutex<O> {
    /// The lock at a path. Nothing is sent; a path that is not valid is refused when the lock is used.
    pub fn new(zk: &CuratorFramework, path: impl Into<String>) -> Self {
        Self { lock: InterProcessMutex::new(zk, path), owners: Arc::default() }
    }

    /// The data of our nodes, for people who look who holds and who waits. Default: none.
    #[must_use]
    pub fn label(mut self, label: impl Into<Bytes>) -> Self {
        self.lock = self.lock.label(label);
        self
    }

    /// The path of the lock.
    #[must_use]
    pub fn path(&self) -> &str {
        self.lock.path()
    }

    /// Acquires the lock for an owner, however long it takes; at once, and without a request, if it holds it.
    ///
    /// # Errors
    /// As [`InterProcessMutex::acquire`](super::QueueLock::acquire).
    ///
    /// # Cancel safety
    /// Dropping the future leaves the queue.
    pub async fn acquire(&self, owner: O) -> Result<ReentrantGuard<O>, Error> {
        let (entry, slot) = self.entry(owner);
        let mut held = slot.lock().await;
        let guard = match still_held(&held) {
            Some(guard) => guard,
            None => Arc::new(self.lock.acquire().await?),
        };
        *held = Arc::downgrade(&guard);
        drop(held);
        Ok(ReentrantGuard { guard, entry })
    }

    /// Acquires the lock for an owner if it is free, or held by that owner; `None` if it is not.
    ///
    /// # Errors
    /// As [`InterProcessMutex::try_acquire`](super::QueueLock::try_acquire).
    ///
    /// # Cancel safety
    /// Nothing stays behind.
    pub async fn try_acquire(&self, owner: O) -> Result<Option<ReentrantGuard<O>>, Error> {
        let (entry, slot) = self.entry(owner);
        // Another task acquires for the same owner, and may have to wait.
        let Ok(mut held) = slot.try_lock() else { return Ok(None) };
        let guard = match still_held(&held) {
            Some(guard) => guard,
            None => match self.lock.try_acquire().await? {
                Some(guard) => Arc::new(guard),
                None => return Ok(None),
            },
        };
        *held = Arc::downgrade(&guard);
        drop(held);
        Ok(Some(ReentrantGuard { guard, entry }))
    }

    /// Acquires the lock for an owner, runs `body`, and releases the lock on every way out, if the owner does not hold it
    /// besides: as [`QueueLock::with`](super::QueueLock::with).
    ///
    /// # Errors
    /// * [`Error::Lost`] when the lock was lost before `body` was done, or before it was released.
    /// * As [`acquire`](Self::acquire); then `body` did not run.
    ///
    /// # Panics
    /// When `body` does; the lock is released.
    ///
    /// # Cancel safety
    /// Dropping the future drops `body` and releases the lock in the background.
    pub async fn with<F, Fut>(&self, owner: O, body: F) -> Result<Fut::Output, Error>
    where
        F: FnOnce(Ownership) -> Fut,
        Fut: Future,
    {
        let guard = self.acquire(owner).await?;
        let output = while_held(guard.lost(), body(guard.ownership().clone())).await?;
        after_work(guard.release().await, output)
    }

    /// Returns the holder, then the waiters: as [`QueueLock::participants`](super::QueueLock::participants).
    ///
    /// # Errors
    /// As every read of the framework.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn participants(&self) -> Result<Vec<Participant>, Error> {
        self.lock.participants().await
    }

    fn entry(&self, owner: O) -> (Entry<O>, Slot) {
        let mut owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        let (slot, users) = owners.entry(owner.clone()).or_default();
        *users += 1;
        let slot = Arc::clone(slot);
        drop(owners);
        (Entry { owners: Arc::clone(&self.owners), owner }, slot)
    }
}

impl<O> Clone for ReentrantMutex<O> {
    fn clone(&self) -> Self {
        Self { lock: self.lock.clone(), owners: Arc::clone(&self.owners) }
    }
}

impl<O> fmt::Debug for ReentrantMutex<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReentrantMutex").field("path", &self.lock.path()).finish_non_exhaustive()
    }
}

/// The guard of an owner, unless it is known to be lost: then the owner has to acquire anew.
fn still_held(held: &Weak<MutexGuard>) -> Option<Arc<MutexGuard>> {
    held.upgrade().filter(|guard| !guard.ownership().is_over())
}

/// A guard, or a future that acquires: the last one of an owner forgets it.
struct Entry<O: Eq + Hash> {
    owners: Owners<O>,
    owner: O,
}

impl<O: Eq + Hash> Drop for Entry<O> {
    fn drop(&mut self) {
        let mut owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, users)) = owners.get_mut(&self.owner) {
            *users -= 1;
            if *users == 0 {
                owners.remove(&self.owner);
            }
        }
    }
}

/// Holds a [`ReentrantMutex`], perhaps together with other guards of the same owner; what it can do is what a
/// [`MutexGuard`] can.
///
/// # Cancel safety
/// Dropping the last one of an owner releases the lock in the background.
#[must_use = "dropping the last one releases the lock in the background"]
pub struct ReentrantGuard<O: Eq + Hash> {
    guard: Arc<MutexGuard>,
    entry: Entry<O>,
}

impl<O: Eq + Hash> ReentrantGuard<O> {
    /// The owner.
    pub const fn owner(&self) -> &O {
        &self.entry.owner
    }

    /// Releases the lock and waits for the answer, if this is the last guard of its owner.
    ///
    /// # Errors
    /// As [`Guard::release`](super::Guard::release).
    ///
    /// # Cancel safety
    /// The lock is released all the same.
    pub async fn release(self) -> Result<(), Error> {
        match Arc::into_inner(self.guard) {
            Some(guard) => guard.release().await,
            None => Ok(()),
        }
    }
}

impl<O: Eq + Hash> Deref for ReentrantGuard<O> {
    type Target = MutexGuard;

    fn deref(&self) -> &MutexGuard {
        &self.guard
    }
}

impl<O: Eq + Hash + fmt::Debug> fmt::Debug for ReentrantGuard<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReentrantGuard").field("owner", self.owner()).field("guard", &self.guard).finish()
    }
}
