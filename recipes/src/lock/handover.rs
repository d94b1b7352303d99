use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;
use zk_curator::op::Transaction;
use zk_curator::{FencingToken, Ownership};

use super::guard::{after_work, while_held};
use super::{Error, InterProcessMutex, MutexGuard};
use crate::measure;

/// An [`InterProcessMutex`] that many tasks of one process contend for: they pass it on among themselves, without a
/// request, up to so many times in a row; then it is released, and others get their turn.
///
/// All clones share the lock; only one of them at a time is in ZooKeeper's queue.
///
/// # Fairness
/// Within the process in the order of arrival. Between processes not: while a process passes the lock on, those that
/// came earlier wait, for at most as many turns as it was made for. Then it enters the queue at its end.
///
/// # Guarantees
/// Those of [`InterProcessMutex`], but turns that are passed on have the same node, and so **the same fencing token**: a
/// resource that compares tokens has to accept an equal one. A guard that has passed the lock on is over at once: its
/// [`Ownership`] is lost, and its fenced transactions fail, although the node is there.
///
/// # Cancel safety
/// As [`InterProcessMutex`]: whoever gives up while the lock is passed to it, passes it on.
///
/// # Example
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = zk_curator_testing::TestServer::start().await;
/// # let zk = zk_curator::CuratorFramework::builder().connect_string(server.connect_string()).build()?;
/// # zk.start().await?;
/// use zk_curator_recipes::lock::{HandoverMutex, InterProcessMutex};
///
/// let lock = HandoverMutex::new(InterProcessMutex::new(&zk, "/locks/orders"), 16);
/// let guard = lock.acquire().await?;
/// let next = tokio::spawn({ let lock = lock.clone(); async move { lock.acquire().await } });
/// # while lock.waiting() == 0 { tokio::task::yield_now().await }
/// let path = guard.path().to_owned();
/// guard.release().await?;
/// assert_eq!(next.await??.path(), path);
/// # zk.close().await?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct HandoverMutex {
    lock: InterProcessMutex,
    turns: u32,
    local: Arc<Mutex<Local>>,
}

/// The queue within the process.
#[derive(Debug, Default)]
struct Local {
    /// Whether there is a [`Pass`]: then the others wait for it.
    taken: bool,
    waiting: VecDeque<oneshot::Sender<Pass>>,
}

/// The right to hold the lock in this process, or to go to ZooKeeper for it. Dropped, it goes to the next.
#[derive(Debug)]
struct Pass {
    local: Arc<Mutex<Local>>,
    guard: Option<MutexGuard>,
    /// The number of times that it may still be passed on with the guard.
    turns: u32,
}

impl HandoverMutex {
    /// The lock, passed on within the process up to `turns` times in a row; zero is never.
    pub fn new(lock: InterProcessMutex, turns: u32) -> Self {
        Self { lock, turns, local: Arc::default() }
    }

    /// The path of the lock.
    #[must_use]
    pub fn path(&self) -> &str {
        self.lock.path()
    }

    /// The number of waiters in this process.
    #[must_use]
    pub fn waiting(&self) -> usize {
        let mut local = self.local.lock().unwrap_or_else(PoisonError::into_inner);
        local.waiting.retain(|waiting| !waiting.is_closed());
        local.waiting.len()
    }

    /// Acquires the lock, however long it takes.
    ///
    /// # Errors
    /// As [`InterProcessMutex::acquire`](super::QueueLock::acquire).
    ///
    /// # Cancel safety
    /// Dropping the future leaves the queue.
    pub async fn acquire(&self) -> Result<HandoverGuard, Error> {
        let passed = {
            let mut local = self.local.lock().unwrap_or_else(PoisonError::into_inner);
            if local.taken {
                let (sender, receiver) = oneshot::channel();
                local.waiting.push_back(sender);
                Some(receiver)
            } else {
                local.taken = true;
                None
            }
        };
        let mut pass = match passed {
            // A pass ends in nothing only when nobody waits.
            Some(receiver) => receiver.await.unwrap_or_else(|_| self.pass()),
            None => self.pass(),
        };
        let guard = match pass.guard.take() {
            Some(guard) => guard,
            None => {
                pass.turns = self.turns;
                self.lock.acquire().await?
            }
        };
        Ok(HandoverGuard::new(pass, guard))
    }

    /// Acquires the lock if it is free; `None` if it is not.
    ///
    /// # Errors
    /// As [`InterProcessMutex::try_acquire`](super::QueueLock::try_acquire).
    ///
    /// # Cancel safety
    /// Nothing stays behind.
    pub async fn try_acquire(&self) -> Result<Option<HandoverGuard>, Error> {
        {
            let mut local = self.local.lock().unwrap_or_else(PoisonError::into_inner);
            if local.taken {
                return Ok(None);
            }
            local.taken = true;
        }
        let pass = self.pass();
        Ok(self.lock.try_acquire().await?.map(|guard| HandoverGuard::new(pass, guard)))
    }

    /// Acquires the lock, runs `body`, and releases or passes on the lock on every way out: as
    /// [`QueueLock::with`](super::QueueLock::with).
    ///
    /// # Errors
    /// * [`Error::Lost`] when the lock was lost before `body` was done, or before it was released.
    /// * As [`acquire`](Self::acquire); then `body` did not run.
    ///
    /// # Panics
    /// When `body` does; the lock is released or passed on.
    ///
    /// # Cancel safety
    /// Dropping the future drops `body` and releases or passes on the lock.
    pub async fn with<F, Fut>(&self, body: F) -> Result<Fut::Output, Error>
    where
        F: FnOnce(Ownership) -> Fut,
        Fut: Future,
    {
        let guard = self.acquire().await?;
        let output = while_held(guard.lost(), body(guard.ownership().clone())).await?;
        after_work(guard.release().await, output)
    }

    fn pass(&self) -> Pass {
        Pass { local: Arc::clone(&self.local), guard: None, turns: self.turns }
    }
}

impl Pass {
    /// Gives itself to the next that waits, with the guard if that may be.
    fn on(&mut self) {
        let next = {
            let mut local = self.local.lock().unwrap_or_else(PoisonError::into_inner);
            local.waiting.retain(|waiting| !waiting.is_closed());
            let next = local.waiting.pop_front();
            local.taken = next.is_some();
            next
        };
        let passable = self.turns > 0 && next.is_some();
        let mut guard = self.guard.take().filter(|guard| passable && !guard.ownership().is_over());
        if let Some(guard) = &mut guard {
            guard.node.renew_ownership();
            guard.held.renew(guard.node.ownership());
            measure::handed_over();
        }
        if let Some(next) = next {
            let pass = Self { local: Arc::clone(&self.local), guard, turns: self.turns.saturating_sub(1) };
            // If nobody takes it, it is dropped, and goes on to the one after.
            drop(next.send(pass));
        }
    }

    fn can_be_passed(&self) -> bool {
        let mut local = self.local.lock().unwrap_or_else(PoisonError::into_inner);
        local.waiting.retain(|waiting| !waiting.is_closed());
        self.turns > 0 && !local.waiting.is_empty()
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
    pass: Pass,
    ownership: Ownership,
    path: String,
}

impl HandoverGuard {
    fn new(mut pass: Pass, guard: MutexGuard) -> Self {
        let (ownership, path) = (guard.ownership().clone(), guard.path().to_owned());
        pass.guard = Some(guard);
        Self { pass, ownership, path }
    }

    /// The path of the node, which several guards may have one after the other.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The fencing token: not lower than that of every holder before, and higher than that of every one of another
    /// process.
    #[must_use]
    pub const fn fencing_token(&self) -> FencingToken {
        self.ownership.fencing_token()
    }

    /// The guard, until it is released or passed on.
    #[must_use]
    pub const fn ownership(&self) -> &Ownership {
        &self.ownership
    }

    /// Resolves when the lock can no longer be assumed to be held: see [`Ownership::lost`].
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn lost(&self) {
        self.ownership.lost().await;
    }

    /// Begins a transaction that is only applied while the lock is held: see [`Ownership::fenced`].
    pub fn fenced(&self) -> Transaction {
        self.ownership.fenced()
    }

    /// Passes the lock on; or releases it and waits for the answer, when nobody waits here, or it was passed on often
    /// enough.
    ///
    /// # Errors
    /// As [`Guard::release`](super::Guard::release); when it is passed on, [`Error::Lost`] if it is known to be lost.
    ///
    /// # Cancel safety
    /// The lock is passed on or released all the same.
    pub async fn release(mut self) -> Result<(), Error> {
        if self.ownership.is_over() {
            return Err(Error::Lost);
        }
        if self.pass.can_be_passed() {
            return Ok(());
        }
        match self.pass.guard.take() {
            Some(guard) => guard.release().await,
            None => Ok(()),
        }
    }
}

impl fmt::Debug for HandoverGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandoverGuard").field("ownership", &self.ownership).finish_non_exhaustive()
    }
}
