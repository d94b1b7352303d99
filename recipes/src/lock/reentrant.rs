use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::hash::Hash;
use std::ops::Deref;
use std::sync::{Arc, Weak};

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::Mutex as AsyncMutex;
use zk_curator::internal::{Locked, OnDrop, Signal};
use zk_curator::{CuratorFramework, Ownership};

use super::any_guard::Release;
use super::evidence::Evidence;
use super::guard::{after_work, loss_of, while_held};
use super::{AnyGuard, Error, InterProcessLock, InterProcessMutex, MutexGuard, Participant};

/// An [`InterProcessMutex`] that its owner can acquire again: for ports from Java, where a thread
/// is the owner. Tasks have no identity, so the owner is a value that you choose: an id of a
/// request, of a job, of an actor.
///
/// For Curator's multi lock and other users of [`InterProcessLock`] see
/// [`for_owner`](Self::for_owner).
///
/// All clones share their owners; another `ReentrantMutex` of the same path knows nothing of them
/// and contends as another process does. The lock is released when the last guard of its owner is.
///
/// Layout, protocol, guarantees, connection loss and cancel safety are those of
/// [`InterProcessMutex`]. All guards of one owner have the same node and fencing token.
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
    owners: LockOwners<O>,
}

/// The locks of every owner, with the number of its guards and acquiring futures.
type LockOwners<O> = Arc<Locked<HashMap<O, (Arc<OwnerState>, usize)>>>;

/// The state that the tasks of one owner share.
#[derive(Debug, Default)]
struct OwnerState {
    held: Locked<Weak<ReentrantHold>>,
    /// One task at a time acquires for the owner.
    turn: AsyncMutex<()>,
    /// `true` if that task waits for other contenders.
    waits: Signal<bool>,
}

/// The lock of an owner, which all its guards share.
#[derive(Debug)]
struct ReentrantHold {
    guard: MutexGuard,
    /// That the node still exists. Taken out by the task that asks.
    evidence: Locked<Evidence>,
}

impl OwnerState {
    /// The lock of the owner, unless it is lost: then the owner has to acquire it again.
    async fn held(&self) -> Result<Option<Arc<ReentrantHold>>, Error> {
        let held = self.held.lock().upgrade();
        let Some(held) = held else { return Ok(None) };
        let mut evidence = std::mem::take(&mut *held.evidence.lock());
        let is_there = evidence.is_there(held.guard.ownership()).await?;
        *held.evidence.lock() = evidence;
        Ok(is_there.then_some(held))
    }

    fn hold(&self, mut guard: MutexGuard) -> Arc<ReentrantHold> {
        let evidence = Locked::new(Evidence { kept: guard.kept.take() });
        let held = Arc::new(ReentrantHold { guard, evidence });
        *self.held.lock() = Arc::downgrade(&held);
        held
    }
}

impl<O: Clone + Eq + Hash> ReentrantMutex<O> {
    /// The lock at a path. Nothing is sent; a path that is not valid is refused when the lock is
    /// used.
    pub fn new(zk: &CuratorFramework, path: impl Into<String>) -> Self {
        let lock = InterProcessMutex::within(zk, path, "reentrant_mutex").shared_in_session();
        Self { lock, owners: Arc::default() }
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

    /// Acquires the lock for an owner, without a time limit. If the owner already holds it, the
    /// first call sets a watch on the node, which takes one request; further calls return
    /// immediately. If another client has deleted the node, the owner acquires the lock again, and
    /// its guards [are over](Ownership::is_over).
    ///
    /// # Errors
    /// As [`InterProcessMutex::acquire`], also if the owner holds the lock and no server responds.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the queue.
    pub async fn acquire(&self, owner: O) -> Result<ReentrantGuard<O>, Error> {
        let (entry, slot) = self.entry(owner);
        if let Some(held) = slot.held().await? {
            return Ok(ReentrantGuard { held, entry });
        }
        let _turn = slot.turn.lock().await;
        // Another task of the owner may have acquired it.
        let held = match slot.held().await? {
            Some(held) => held,
            None => {
                // The wait ends also when this future is dropped.
                let _waiting = OnDrop::new(|| slot.waits.set(false));
                slot.hold(self.lock.queue.acquire_telling(|| slot.waits.set(true)).await?)
            }
        };
        Ok(ReentrantGuard { held, entry })
    }

    /// Acquires the lock for an owner if it is free, or held by that owner; `None` if it is not.
    /// Never waits for other owners, only for another task of the same owner that is about to learn
    /// whether the lock is free.
    ///
    /// # Errors
    /// As [`InterProcessMutex::try_acquire`].
    ///
    /// # Cancel safety
    /// Nothing stays behind.
    pub async fn try_acquire(&self, owner: O) -> Result<Option<ReentrantGuard<O>>, Error> {
        let (entry, slot) = self.entry(owner);
        if let Some(held) = slot.held().await? {
            return Ok(Some(ReentrantGuard { held, entry }));
        }
        // Another task of the owner may be about to have it.
        let _turn = tokio::select! {
            biased;
            turn = slot.turn.lock() => turn,
            () = slot.waits.until(|waits| *waits) => return Ok(None),
        };
        let held = match slot.held().await? {
            Some(held) => held,
            None => match self.lock.try_acquire().await? {
                Some(guard) => slot.hold(guard),
                None => return Ok(None),
            },
        };
        Ok(Some(ReentrantGuard { held, entry }))
    }

    /// Acquires the lock for an owner, runs `body`, and releases the lock on every way out, if the
    /// owner does not hold it besides: as [`InterProcessMutex::with`].
    ///
    /// # Errors
    /// * [`Error::Lost`] when the lock was lost before `body` was done, or before it was released.
    /// * As [`acquire`](Self::acquire); then `body` did not run.
    ///
    /// # Panics
    /// Panics if `body` panics; the lock is released.
    ///
    /// # Cancel safety
    /// Dropping the future drops `body` and releases the lock in the background.
    pub async fn with<F, Fut>(&self, owner: O, body: F) -> Result<Fut::Output, Error>
    where
        F: FnOnce(Ownership) -> Fut,
        Fut: Future,
    {
        let guard = self.acquire(owner).await?;
        let output =
            while_held(loss_of(guard.ownership()), body(guard.ownership().clone())).await?;
        after_work(guard.release().await, output)
    }

    /// Returns the holder, then the waiters: as [`InterProcessMutex::participants`].
    ///
    /// # Errors
    /// As every read of the framework.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn participants(&self) -> Result<Vec<Participant>, Error> {
        self.lock.participants().await
    }

    /// The lock as one owner sees it, for what works with locks of any kind: see
    /// [`InterProcessLock`].
    #[must_use]
    pub fn for_owner(&self, owner: O) -> ReentrantOwner<O> {
        ReentrantOwner { lock: self.clone(), owner }
    }

    fn entry(&self, owner: O) -> (OwnerEntry<O>, Arc<OwnerState>) {
        let mut owners = self.owners.lock();
        let (slot, users) = owners.entry(owner.clone()).or_default();
        *users += 1;
        let slot = Arc::clone(slot);
        drop(owners);
        (OwnerEntry { owners: Arc::clone(&self.owners), owner }, slot)
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

/// A guard, or a future that acquires: the last one of an owner forgets it.
struct OwnerEntry<O: Eq + Hash> {
    owners: LockOwners<O>,
    owner: O,
}

impl<O: Eq + Hash> Drop for OwnerEntry<O> {
    fn drop(&mut self) {
        let mut owners = self.owners.lock();
        if let Some((_, users)) = owners.get_mut(&self.owner) {
            *users -= 1;
            if *users == 0 {
                owners.remove(&self.owner);
            }
        }
    }
}

/// Holds a [`ReentrantMutex`], perhaps together with other guards of the same owner. It has the
/// methods of a [`MutexGuard`].
///
/// # Cancel safety
/// Dropping the last one of an owner releases the lock in the background.
#[must_use = "dropping the last one releases the lock in the background"]
pub struct ReentrantGuard<O: Eq + Hash> {
    held: Arc<ReentrantHold>,
    entry: OwnerEntry<O>,
}

impl<O: Eq + Hash> ReentrantGuard<O> {
    /// The owner.
    pub const fn owner(&self) -> &O {
        &self.entry.owner
    }

    /// The guard without what only its kind of lock can do.
    pub fn into_any(self) -> AnyGuard
    where
        O: Send + Sync + 'static,
    {
        AnyGuard::new(&self.zk.clone(), self)
    }

    /// Releases the lock and waits for the response, if this is the last guard of its owner.
    ///
    /// # Errors
    /// As [`Guard::release`](super::Guard::release).
    ///
    /// # Cancel safety
    /// The lock is released in any case.
    pub async fn release(self) -> Result<(), Error> {
        match Arc::into_inner(self.held) {
            Some(held) => held.guard.release().await,
            None => Ok(()),
        }
    }
}

impl<O: Eq + Hash> Deref for ReentrantGuard<O> {
    type Target = MutexGuard;

    fn deref(&self) -> &MutexGuard {
        &self.held.guard
    }
}

impl<O: Eq + Hash + fmt::Debug> fmt::Debug for ReentrantGuard<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReentrantGuard")
            .field("owner", self.owner())
            .field("guard", &self.held.guard)
            .finish()
    }
}

/// A [`ReentrantMutex`] as one of its owners sees it: see [`ReentrantMutex::for_owner`]. Cheap to
/// clone.
///
/// # Example
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = zk_curator_testing::TestServer::start().await;
/// # let zk = zk_curator::CuratorFramework::builder().connect_string(server.connect_string()).build()?;
/// # zk.start().await?;
/// use std::sync::Arc;
///
/// use zk_curator_recipes::lock::{InterProcessLock, InterProcessMultiLock, InterProcessMutex, ReentrantMutex};
///
/// let account = ReentrantMutex::new(&zk, "/accounts/a/lock");
/// let journal: Arc<dyn InterProcessLock> = Arc::new(InterProcessMutex::new(&zk, "/journal/lock"));
/// let both = InterProcessMultiLock::new([Arc::new(account.for_owner("job-7")), journal]);
/// let held = both.acquire().await?;
/// let again = account.acquire("job-7").await?;
/// # drop((held, again));
/// # zk.close().await?;
/// # Ok(()) }
/// ```
pub struct ReentrantOwner<O> {
    lock: ReentrantMutex<O>,
    owner: O,
}

impl<O> ReentrantOwner<O> {
    /// The owner.
    pub const fn owner(&self) -> &O {
        &self.owner
    }
}

impl<O: Clone> Clone for ReentrantOwner<O> {
    fn clone(&self) -> Self {
        Self { lock: self.lock.clone(), owner: self.owner.clone() }
    }
}

impl<O> fmt::Debug for ReentrantOwner<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReentrantOwner").field("lock", &self.lock).finish_non_exhaustive()
    }
}

#[async_trait]
impl<O: Clone + Eq + Hash + Send + Sync + 'static> InterProcessLock for ReentrantOwner<O> {
    fn path(&self) -> &str {
        self.lock.path()
    }

    fn server_path(&self) -> String {
        InterProcessLock::server_path(&self.lock.lock)
    }

    async fn acquire(&self) -> Result<AnyGuard, Error> {
        Ok(self.lock.acquire(self.owner.clone()).await?.into_any())
    }

    async fn try_acquire(&self) -> Result<Option<AnyGuard>, Error> {
        Ok(self.lock.try_acquire(self.owner.clone()).await?.map(ReentrantGuard::into_any))
    }
}

#[async_trait]
impl<O: Eq + Hash + Send + Sync + 'static> Release for ReentrantGuard<O> {
    fn ownership(&self) -> &Ownership {
        self.held.guard.ownership()
    }

    async fn release(self: Box<Self>) -> Result<(), Error> {
        Self::release(*self).await
    }
}
