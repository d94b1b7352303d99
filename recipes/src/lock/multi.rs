use std::future::Future;
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::future::{join_all, select_all};
use futures_util::stream::FuturesUnordered;
use tracing::debug;
use zk_curator::op::Transaction;
use zk_curator::{CuratorFramework, Ownership};

use super::guard::{after_work, while_held};
use super::{AnyGuard, Error, InterProcessLock, InterProcessMutex};

/// Several locks as one: all are held, or none.
///
/// They are acquired one after the other in the order of their
/// [absolute paths](InterProcessLock::server_path) on the servers, whatever order, namespaces and
/// chroots they are given with, so that two clients that want some of the same locks cannot wait
/// for each other. All locks should be in one ensemble, because paths do not order the locks of two
/// ensembles. A timeout around [`acquire`](Self::acquire) is one deadline over all of them. Apache
/// Curator's `InterProcessMultiLock` takes them in the order given: where Java shares the locks,
/// let it give them in the order of their paths.
///
/// # Layout, guarantees, connection loss
/// Those of each lock. When one is lost, [`lost()`](MultiGuard::lost) resolves; the others stay
/// held until the guard is dropped. While the next lock is waited for, those before it are watched,
/// with one request for each. If one of them is lost, all are acquired again.
///
/// # Locks of all kinds
/// A [`HandoverMutex`](super::HandoverMutex) is passed on when the guard of all is released, and
/// may wait within the process. A [`ReentrantMutex`](super::ReentrantMutex) takes part
/// [for an owner](super::ReentrantMutex::for_owner); an owner that already holds one of the locks
/// acquires that one out of order, which may cause a deadlock.
///
/// # Cancel safety
/// Every future may be dropped at any point: all locks are released.
///
/// # Example
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = zk_curator_testing::TestServer::start().await;
/// # let zk = zk_curator::CuratorFramework::builder().connect_string(server.connect_string()).build()?;
/// # zk.start().await?;
/// use zk_curator_recipes::lock::InterProcessMultiLock;
///
/// let both = InterProcessMultiLock::of_mutexes(&zk, ["/accounts/a/lock", "/accounts/b/lock"]);
/// zk.create("/accounts/a/balance").creating_parents().await?;
/// zk.create("/accounts/b/balance").creating_parents().await?;
///
/// let guard = both.acquire().await?;
/// let transfer = guard.fenced().set_data("/accounts/a/balance", "90").set_data("/accounts/b/balance", "110");
/// transfer.commit().await?;
/// guard.release().await?;
/// # zk.close().await?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct InterProcessMultiLock {
    /// Or the error that every operation returns.
    locks: Result<Locks, Error>,
}

#[derive(Debug, Clone)]
struct Locks {
    /// The one with the lowest path on the server.
    first: Arc<dyn InterProcessLock>,
    /// In the order of their paths on the server.
    others: Vec<Arc<dyn InterProcessLock>>,
}

impl InterProcessMultiLock {
    /// All of these locks. Nothing is sent. An empty list, or two locks with the same
    /// [absolute path](InterProcessLock::server_path), are refused by the first
    /// [`acquire`](Self::acquire).
    pub fn new(locks: impl IntoIterator<Item = Arc<dyn InterProcessLock>>) -> Self {
        Self { locks: Locks::in_order(locks) }
    }

    /// A mutex at each of these paths: see [`new`](Self::new).
    pub fn of_mutexes<P: Into<String>>(
        zk: &CuratorFramework,
        paths: impl IntoIterator<Item = P>,
    ) -> Self {
        let mutex = |path| {
            let mutex = InterProcessMutex::within(zk, path, "multi_lock");
            Arc::new(mutex) as Arc<dyn InterProcessLock>
        };
        Self::new(paths.into_iter().map(mutex))
    }

    /// Acquires all locks, however long it takes. Compose with `tokio::time::timeout`: one deadline
    /// over all.
    ///
    /// # Errors
    /// * [`Error::Duplicate`], [`Error::NoLocks`]: nothing was sent.
    /// * The first error of a lock; the locks before it are released, those after it are not
    ///   touched.
    ///
    /// # Cancel safety
    /// Dropping the future releases all locks and leaves the queue.
    pub async fn acquire(&self) -> Result<MultiGuard, Error> {
        let locks = self.locks()?;
        loop {
            // If the session ends on the way, or an operator deletes a node, the last lock is held,
            // but the first are not.
            match locks.acquire_in_order().await? {
                Some(guard) if !guard.is_over() => return Ok(guard),
                _ => debug!(path = locks.first.path(), "acquiring all locks again"),
            }
        }
    }

    /// Acquires all locks if all are free; `None` if one is not, and then those before it are
    /// released.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire); [`Error::Lost`] when a session has ended on the way.
    ///
    /// # Cancel safety
    /// Nothing stays behind.
    pub async fn try_acquire(&self) -> Result<Option<MultiGuard>, Error> {
        let locks = self.locks()?;
        let Some(first) = locks.first.try_acquire().await? else { return Ok(None) };
        let mut others = Vec::with_capacity(locks.others.len());
        for lock in &locks.others {
            let Some(guard) = lock.try_acquire().await? else { return Ok(None) };
            others.push(guard);
        }
        let guard = MultiGuard { first, others };
        let lost = guard.guards().find(|guard| guard.is_over());
        match lost.map(|lost| lost.path().to_owned()) {
            Some(path) => Err(Error::Lost { path }),
            None => Ok(Some(guard)),
        }
    }

    /// Acquires all locks, runs `body`, and releases them on every way out. `body` gets the guards
    /// that are held, in the order of the paths, and is dropped when one of the locks is lost.
    ///
    /// # Errors
    /// * [`Error::Lost`] when a lock was lost before `body` was done, or before it was released.
    /// * As [`acquire`](Self::acquire); then `body` did not run.
    ///
    /// # Panics
    /// Panics if `body` panics; the locks are released.
    ///
    /// # Cancel safety
    /// Dropping the future drops `body` and releases the locks in the background.
    pub async fn with<F, Fut>(&self, body: F) -> Result<Fut::Output, Error>
    where
        F: FnOnce(Vec<Ownership>) -> Fut,
        Fut: Future,
    {
        let guard = self.acquire().await?;
        let held = guard.guards().map(|guard| guard.ownership().clone()).collect();
        let lost = async { guard.first_lost().await.path().to_owned() };
        let output = while_held(lost, body(held)).await?;
        after_work(guard.release().await, output)
    }

    fn locks(&self) -> Result<&Locks, Error> {
        self.locks.as_ref().map_err(Clone::clone)
    }
}

impl Locks {
    /// Sorts the locks by their paths on the server, so that all clients acquire them in the same
    /// order.
    fn in_order(locks: impl IntoIterator<Item = Arc<dyn InterProcessLock>>) -> Result<Self, Error> {
        let mut locks: Vec<_> = locks.into_iter().map(|lock| (lock.server_path(), lock)).collect();
        locks.sort_by(|(a, _), (b, _)| a.cmp(b));
        if let Some(pair) = locks.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(Error::Duplicate { path: pair[0].0.clone() });
        }
        let mut locks = locks.into_iter().map(|(_, lock)| lock);
        let first = locks.next().ok_or(Error::NoLocks)?;
        Ok(Self { first, others: locks.collect() })
    }

    /// Acquires the locks one after the other; `None` if one of them is lost before the last one is
    /// held, for which it watches them.
    async fn acquire_in_order(&self) -> Result<Option<MultiGuard>, Error> {
        let mut guard = MultiGuard { first: self.first.acquire().await?, others: Vec::new() };
        let mut lost = FuturesUnordered::new();
        for lock in &self.others {
            let held = guard.others.last().unwrap_or(&guard.first).ownership().clone();
            lost.push(async move { held.lost().await });
            tokio::select! {
                biased;
                Some(()) = lost.next() => return Ok(None),
                acquired = lock.acquire() => guard.others.push(acquired?),
            }
        }
        Ok(Some(guard))
    }
}

/// Holds all locks of an [`InterProcessMultiLock`].
///
/// # Cancel safety
/// Dropping it releases the locks in the background.
#[derive(Debug)]
#[must_use = "dropping it releases the locks in the background"]
pub struct MultiGuard {
    first: AnyGuard,
    others: Vec<AnyGuard>,
}

impl MultiGuard {
    /// The guard of each lock, in the order of their paths. Compare fencing tokens lock by lock:
    /// tokens of different locks have no common order.
    pub fn guards(&self) -> impl Iterator<Item = &AnyGuard> {
        std::iter::once(&self.first).chain(&self.others)
    }

    /// Returns `true` if this client knows that it no longer holds one of the locks: see
    /// [`Ownership::is_over`].
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.guards().any(AnyGuard::is_over)
    }

    /// Resolves when one of the locks can no longer be assumed to be held: see [`Ownership::lost`].
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn lost(&self) {
        self.first_lost().await;
    }

    /// Waits for the first loss, and returns the guard of that lock.
    async fn first_lost(&self) -> &AnyGuard {
        let losses = self.guards().map(|guard| Box::pin(guard.lost()));
        let ((), index, _) = select_all(losses).await;
        self.guards().nth(index).unwrap_or(&self.first)
    }

    /// Begins a transaction that is only applied while all locks are held; they must be of one
    /// framework, or it fails. See [`Ownership::fenced`].
    pub fn fenced(&self) -> Transaction {
        self.others.iter().fold(self.first.fenced(), |transaction, guard| {
            transaction.fenced_by(guard.ownership())
        })
    }

    /// Releases all locks, in one round trip, and waits for the responses.
    ///
    /// # Errors
    /// The first error; the other locks are released in any case.
    ///
    /// # Cancel safety
    /// The locks are released in any case.
    pub async fn release(self) -> Result<(), Error> {
        let guards = std::iter::once(self.first).chain(self.others);
        join_all(guards.map(AnyGuard::release)).await.into_iter().collect()
    }
}
