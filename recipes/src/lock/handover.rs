use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::oneshot;
use tokio::time::Instant;
use zk_curator::internal::{Locked, bounded};
use zk_curator::op::Transaction;
use zk_curator::{CuratorFramework, FencingToken, Ownership};

use super::any_guard::Release;
use super::evidence::Evidence;
use super::guard::{after_work, loss_of, while_held};
use super::{AnyGuard, Error, InterProcessLock, InterProcessMutex, MutexGuard, revocation};
use crate::observe::LOCK_HANDOVERS;

/// An [`InterProcessMutex`] for many contending tasks of one process: see
/// [`InterProcessMutex::local_batch`]. They pass it on among themselves, while one node stays in
/// ZooKeeper's queue.
///
/// A batch is a series of holders with one node. It ends after `turns` handovers, and no handover
/// begins later than `within` after its first holder. Then the lock is released, so that other
/// processes get their turn.
///
/// All clones share the lock; only one of them at a time is in ZooKeeper's queue.
///
/// # Fairness
/// Within the process in the order of arrival. Between processes not: while a process passes the
/// lock on, those that came earlier wait, for at most `turns` further holders, and at most for
/// `within` and the time that one holder takes. Then the process enters the queue at its end. So a
/// contender waits for at most one batch of each process before it.
///
/// # Guarantees
/// * Those of [`InterProcessMutex`]. The holders of a batch have the same node and **the same
///   [fencing token](HandoverGuard::fencing_token)**; their [local
///   tokens](HandoverGuard::local_token) grow.
/// * A guard that has passed the lock on ends immediately: its [`Ownership`] is lost, and its
///   fenced transactions fail, although the node exists. A fenced transaction that it sent before
///   is applied before all that the next holder sends, or not at all, because both use one session.
///   That needs a raw client that sends in the order of the calls, as the one of this project does.
/// * When the session is lost, or another client deletes the node, the batch is over: no task gets
///   it. To learn of it, the first handover of a batch sets a watch on the node, which takes one
///   request. So does a handover after the data of the node have changed or the connection was
///   lost.
///
/// # Cancel safety
/// As [`InterProcessMutex`]: a future that is dropped while the lock is passed to it passes it on.
/// It keeps no memory.
///
/// # Example
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = zk_curator_testing::TestServer::start().await;
/// # let zk = zk_curator::CuratorFramework::builder().connect_string(server.connect_string()).build()?;
/// # zk.start().await?;
/// use std::time::Duration;
///
/// use zk_curator_recipes::lock::InterProcessMutex;
///
/// let lock = InterProcessMutex::new(&zk, "/locks/orders").local_batch(16, Duration::from_secs(1));
/// let guard = lock.acquire().await?;
/// let next = tokio::spawn({ let lock = lock.clone(); async move { lock.acquire().await } });
/// # while lock.waiting() == 0 { tokio::task::yield_now().await }
/// let (path, token) = (guard.path().to_owned(), guard.local_token());
/// guard.release().await?;
/// let next = next.await??;
/// assert_eq!(next.path(), path);
/// assert!(next.local_token() > token);
/// # zk.close().await?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct HandoverMutex {
    lock: InterProcessMutex,
    limits: Limits,
    local: Arc<Locked<LocalWaiters>>,
}

/// The length of a batch.
#[derive(Debug, Clone, Copy)]
struct Limits {
    turns: u32,
    within: Duration,
}

/// The queue within the process.
#[derive(Debug, Default)]
struct LocalWaiters {
    /// `true` if there is a [`Pass`], for which the other tasks wait.
    taken: bool,
    /// By number, in the order of arrival.
    waiting: BTreeMap<u64, oneshot::Sender<Pass>>,
    next: u64,
}

/// A place in the queue within the process. Dropped, it is given up.
struct LocalPlace<'a> {
    local: &'a Locked<LocalWaiters>,
    number: u64,
    passed: oneshot::Receiver<Pass>,
}

impl Drop for LocalPlace<'_> {
    fn drop(&mut self) {
        // The receiver is dropped later, without the lock: a pass in it goes to the next.
        drop(self.local.lock().waiting.remove(&self.number));
    }
}

/// The right to hold the lock in this process, or to go to ZooKeeper for it. Dropped, it goes to
/// the next.
#[derive(Debug)]
struct Pass {
    local: Arc<Locked<LocalWaiters>>,
    limits: Limits,
    batch: Option<LockBatch>,
}

/// A lock that is held, and may be passed on.
#[derive(Debug)]
struct LockBatch {
    guard: MutexGuard,
    /// How often it was passed on.
    turn: u32,
    /// It is not passed on later.
    until: Instant,
    /// That the node still exists.
    evidence: Evidence,
}

impl LockBatch {
    async fn is_there(&mut self) -> Result<bool, Error> {
        self.evidence.is_there(self.guard.ownership()).await
    }
}

impl InterProcessMutex {
    /// Lets the tasks of this process pass the lock on among themselves, up to `turns` times in a
    /// row, and for at most `within`, while one node stays in ZooKeeper's queue. Zero of either is
    /// never. Java and Rust can still share the lock.
    ///
    /// Use it where many tasks of few processes contend: the handovers of a batch together take one
    /// request. See [`HandoverMutex`] for the price, which is fairness between processes.
    #[must_use]
    pub fn local_batch(self, turns: u32, within: Duration) -> HandoverMutex {
        LOCK_HANDOVERS.of(&self.queue.zk, []).begin();
        HandoverMutex {
            lock: self.shared_in_session(),
            limits: Limits { turns, within },
            local: Arc::default(),
        }
    }
}

impl HandoverMutex {
    /// The path of the lock.
    #[must_use]
    pub fn path(&self) -> &str {
        self.lock.path()
    }

    /// The number of waiters in this process.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.local.lock().waiting.len()
    }

    /// Acquires the lock, however long it takes.
    ///
    /// # Errors
    /// As [`InterProcessMutex::acquire`].
    ///
    /// # Cancel safety
    /// Dropping the future leaves the queue.
    pub async fn acquire(&self) -> Result<HandoverGuard, Error> {
        let mut pass = match self.place() {
            None => self.pass(),
            Some(mut place) => (&mut place.passed).await.unwrap_or_else(|_| self.pass()),
        };
        // The lock may have been lost since it was acquired. If this future ends here, the pass has
        // its batch for the next task.
        let is_there = match &mut pass.batch {
            Some(batch) => batch.is_there().await?,
            None => false,
        };
        let batch = match pass.batch.take().filter(|_| is_there) {
            Some(batch) => batch,
            None => self.limits.begin(self.lock.acquire().await?),
        };
        Ok(HandoverGuard::new(pass, batch))
    }

    /// Acquires the lock if it is free; `None` if it is not.
    ///
    /// # Errors
    /// As [`InterProcessMutex::try_acquire`].
    ///
    /// # Cancel safety
    /// Nothing stays behind.
    pub async fn try_acquire(&self) -> Result<Option<HandoverGuard>, Error> {
        if std::mem::replace(&mut self.local.lock().taken, true) {
            return Ok(None);
        }
        let pass = self.pass();
        let guard = self.lock.try_acquire().await?;
        Ok(guard.map(|guard| HandoverGuard::new(pass, self.limits.begin(guard))))
    }

    /// Acquires the lock, runs `body`, and releases or passes on the lock on every way out: as
    /// [`InterProcessMutex::with`].
    ///
    /// # Errors
    /// * [`Error::Lost`] when the lock was lost before `body` was done, or before it was released.
    /// * As [`acquire`](Self::acquire); then `body` did not run.
    ///
    /// # Panics
    /// Panics if `body` panics; the lock is released or passed on.
    ///
    /// # Cancel safety
    /// Dropping the future drops `body` and releases or passes on the lock.
    pub async fn with<F, Fut>(&self, body: F) -> Result<Fut::Output, Error>
    where
        F: FnOnce(Ownership) -> Fut,
        Fut: Future,
    {
        let guard = self.acquire().await?;
        let output =
            while_held(loss_of(guard.ownership()), body(guard.ownership().clone())).await?;
        after_work(guard.release().await, output)
    }

    /// Returns a place in the queue within the process; or the pass, if no other task is there.
    fn place(&self) -> Option<LocalPlace<'_>> {
        let mut local = self.local.lock();
        if !std::mem::replace(&mut local.taken, true) {
            return None;
        }
        let (sender, passed) = oneshot::channel();
        let number = local.next;
        local.next += 1;
        local.waiting.insert(number, sender);
        Some(LocalPlace { local: &self.local, number, passed })
    }

    fn pass(&self) -> Pass {
        Pass { local: Arc::clone(&self.local), limits: self.limits, batch: None }
    }
}

impl Limits {
    fn begin(self, mut guard: MutexGuard) -> LockBatch {
        let until = Instant::now() + bounded(self.within);
        let evidence = Evidence { kept: guard.kept.take() };
        LockBatch { guard, turn: 0, until, evidence }
    }

    fn allow_to_pass(self, batch: &LockBatch) -> bool {
        batch.turn < self.turns && Instant::now() < batch.until
    }
}

impl Pass {
    /// Gives itself to the next that waits, with the guard if that may be.
    fn on(&mut self) {
        let next = {
            let mut local = self.local.lock();
            let next = local.waiting.pop_first().map(|(_, next)| next);
            local.taken = next.is_some();
            next
        };
        // Otherwise it is released before the next task goes to ZooKeeper.
        let mut batch = self.batch.take().filter(|batch| {
            next.is_some() && self.limits.allow_to_pass(batch) && !batch.guard.is_over()
        });
        if let Some(LockBatch { guard, turn, .. }) = &mut batch {
            guard.node.renew_ownership();
            guard.held.renew(guard.node.ownership());
            *turn += 1;
            LOCK_HANDOVERS.of(guard.ownership().framework(), []).add(1);
        }
        if let Some(next) = next {
            // If its future is dropped now, the pass is dropped, and goes to the next task.
            drop(next.send(Self { local: Arc::clone(&self.local), limits: self.limits, batch }));
        }
    }

    fn can_be_passed(&self) -> bool {
        self.batch.as_ref().is_some_and(|batch| self.limits.allow_to_pass(batch))
            && !self.local.lock().waiting.is_empty()
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.on();
    }
}

/// Holds a [`HandoverMutex`].
///
/// # Cancel safety
/// Dropping it passes the lock on, or releases it in the background.
#[must_use = "dropping it passes the lock on, or releases it in the background"]
pub struct HandoverGuard {
    zk: CuratorFramework,
    pass: Pass,
    ownership: Ownership,
    turn: u32,
}

/// The token of one holder of a [`HandoverMutex`]. Tokens compare as the holders follow each other,
/// in one process and in several: first by the fencing token, then by the turn in its batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub struct LocalToken {
    /// The token that all holders of a batch have.
    pub fencing_token: FencingToken,
    /// How often the lock was passed on before, since it was acquired from ZooKeeper.
    pub turn: u32,
}

impl HandoverGuard {
    fn new(mut pass: Pass, batch: LockBatch) -> Self {
        let guard = &batch.guard;
        let (zk, ownership) = (guard.zk.clone(), guard.ownership().clone());
        let turn = batch.turn;
        pass.batch = Some(batch);
        Self { zk, pass, ownership, turn }
    }

    /// The path of the node, which several guards may have one after the other.
    #[must_use]
    pub fn path(&self) -> &str {
        self.ownership.path()
    }

    /// Returns the fencing token, which is not lower than the tokens of all earlier holders, and
    /// higher than those of earlier holders in other processes.
    #[must_use]
    pub const fn fencing_token(&self) -> FencingToken {
        self.ownership.fencing_token()
    }

    /// Returns the token of this holder, which is higher than the tokens of all earlier holders,
    /// those of this process included. For a resource that must refuse a holder which has passed
    /// the lock on.
    #[must_use]
    pub const fn local_token(&self) -> LocalToken {
        LocalToken { fencing_token: self.fencing_token(), turn: self.turn }
    }

    /// The guard, until it is released or passed on.
    #[must_use]
    pub const fn ownership(&self) -> &Ownership {
        &self.ownership
    }

    /// Returns `true` if this client knows that it no longer holds the lock: see
    /// [`Ownership::is_over`]. Sends nothing.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.ownership.is_over()
    }

    /// Resolves when the lock can no longer be assumed to be held: see [`Ownership::lost`].
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn lost(&self) {
        self.ownership.lost().await;
    }

    /// Resolves when another client has asked us to release the lock: see
    /// [`Guard::revoked`](super::Guard::revoked). The request is to all guards of one node: the
    /// next holder in this process sees it, too.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn revoked(&self) {
        revocation::revoked(&self.ownership).await;
    }

    /// Responds to a request to release the lock: see
    /// [`Guard::acknowledge`](super::Guard::acknowledge).
    ///
    /// # Errors
    /// As [`Guard::acknowledge`](super::Guard::acknowledge).
    ///
    /// # Cancel safety
    /// The response may be given or not.
    pub async fn acknowledge(&self) -> Result<(), Error> {
        revocation::acknowledge(&self.zk, self.path()).await
    }

    /// The guard without what only its kind of lock can do.
    pub fn into_any(self) -> AnyGuard {
        AnyGuard::new(&self.zk.clone(), self)
    }

    /// Begins a transaction that is only applied while the lock is held: see [`Ownership::fenced`].
    pub fn fenced(&self) -> Transaction {
        self.ownership.fenced()
    }

    /// Passes the lock on to the next task. If no task waits, or the batch is over, releases it and
    /// waits for the response.
    ///
    /// # Errors
    /// As [`Guard::release`](super::Guard::release); when it is passed on, [`Error::Lost`] if it is
    /// known to be lost.
    ///
    /// # Cancel safety
    /// The lock is passed on or released in any case.
    pub async fn release(mut self) -> Result<(), Error> {
        if self.ownership.is_over() {
            return Err(Error::Lost { path: self.path().to_owned() });
        }
        if self.pass.can_be_passed() {
            return Ok(());
        }
        match self.pass.batch.take() {
            Some(batch) => batch.guard.release().await,
            None => Ok(()),
        }
    }
}

impl fmt::Debug for HandoverGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandoverGuard").field("ownership", &self.ownership).finish_non_exhaustive()
    }
}

#[async_trait]
impl Release for HandoverGuard {
    fn ownership(&self) -> &Ownership {
        self.ownership()
    }

    async fn release(self: Box<Self>) -> Result<(), Error> {
        Self::release(*self).await
    }
}

#[async_trait]
impl InterProcessLock for HandoverMutex {
    fn path(&self) -> &str {
        self.path()
    }

    fn server_path(&self) -> String {
        InterProcessLock::server_path(&self.lock)
    }

    async fn acquire(&self) -> Result<AnyGuard, Error> {
        Ok(self.acquire().await?.into_any())
    }

    async fn try_acquire(&self) -> Result<Option<AnyGuard>, Error> {
        Ok(self.try_acquire().await?.map(HandoverGuard::into_any))
    }
}
