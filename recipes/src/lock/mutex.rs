use std::future::Future;

use bytes::Bytes;
use tracing::debug;
use zk_curator::op::Transaction;
use zk_curator::path::{SequenceSuffix, ZPath};
use zk_curator::{CuratorFramework, ErrorKind, FencingToken, OwnedNode, Ownership};

use super::{Error, tag};
use crate::contender::{Contender, Gone, child};
use crate::order::{self, Verdict};

/// A lock with one holder at a time, granted in the order of arrival.
///
/// # Layout
/// ```text
/// /locks/orders                            container, made on first use
///   ├─ _c_<uuid>-lock-0000000007           ephemeral, sequential: the holder; data: its label
///   └─ _c_<uuid>-lock-0000000009           waits for …0007, with a getData watch
/// ```
/// The same as of Apache Curator's `InterProcessMutex`: Java and Rust can share one lock. Children with other
/// names are ignored.
///
/// # Protocol
/// The lock of [ZooKeeper's recipes](https://zookeeper.apache.org/doc/current/recipes.html#sc_recipes_Locks):
/// 1. Create the node.
/// 2. List the children, in the same flight.
/// 3. The lowest number holds.
/// 4. Everybody else watches the one before it.
/// 5. When that is gone, go to 2; but hold at once if it was the first, for then nothing lower is left.
///
/// An acquire without contention takes one flight, a hand-over takes one from the delete to the notification.
///
/// # Guarantees
/// * At most one guard exists whose node exists: as long as a [`fenced`](MutexGuard::fenced) transaction
///   succeeds, nobody else holds the lock.
/// * [Fencing tokens](MutexGuard::fencing_token) grow from holder to holder.
/// * A grant needs a node that belongs to the present session (CURATOR-604).
/// * The order is that of the creates, also after 2^31 of them, when the numbers repeat or turn negative.
///   Curator's order breaks there.
///
/// # Assumptions
/// Only locks write here. The holder stops when [`lost`](MutexGuard::lost) resolves, or fences its writes.
///
/// # Connection loss
/// * SUSPENDED: waiters go on waiting; a holder holds on, until its session is lost.
/// * LOST: `lost()` of the holder resolves; waiters enter the queue anew, at its end, in the next session.
/// * RECONNECTED in the same session: nothing has happened; watches fire for what did meanwhile.
///
/// # Cancel safety
/// Every future may be dropped at any point: no node stays behind.
///
/// # Re-entrance
/// There is none, for tasks have no identity: a second acquire waits for the first guard.
///
/// # Example
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = zk_curator_testing::TestServer::start().await;
/// # let zk = zk_curator::CuratorFramework::builder().connect_string(server.connect_string()).build()?;
/// # zk.start().await?;
/// use zk_curator_recipes::lock::InterProcessMutex;
///
/// let lock = InterProcessMutex::new(&zk, "/locks/orders").label("worker-1");
/// zk.create("/orders").await?;
///
/// let guard = lock.acquire().await?;
/// guard.fenced().set_data("/orders", "mine").commit().await?;
/// guard.release().await?;
///
/// let answer = lock.with(|held| async move { held.fencing_token() }).await?;
/// # assert!(answer.get() > 0);
/// # zk.close().await?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct InterProcessMutex {
    zk: CuratorFramework,
    path: String,
    label: Bytes,
}

impl InterProcessMutex {
    /// The lock at a path. Nothing is sent; a path that is not valid is refused when the lock is used.
    pub fn new(zk: &CuratorFramework, path: impl Into<String>) -> Self {
        Self { zk: zk.clone(), path: path.into(), label: Bytes::new() }
    }

    /// The data of our nodes, for people who look who holds and who waits. Default: none.
    #[must_use]
    pub fn label(mut self, label: impl Into<Bytes>) -> Self {
        self.label = label.into();
        self
    }

    /// The path of the lock.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Acquires the lock, however long it takes. Compose with `tokio::time::timeout`.
    ///
    /// # Errors
    /// [`Error::Framework`] when the path is not valid, or an operation fails for longer than the retry policy
    /// allows. Nothing stays behind.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the queue.
    pub async fn acquire(&self) -> Result<MutexGuard, Error> {
        let path = ZPath::for_operation("acquire", self.path.as_str())?;
        let mut me = Contender::enter(&self.zk, &path, tag::LOCK, &self.label).await?; // steps 1 and 2
        loop {
            let queue = me.queue().await?;
            match order::verdict(&queue, me.name(), 1) {
                Verdict::Granted if me.is_ours() => return Ok(MutexGuard::new(me.into_node())), // 3
                Verdict::Granted | Verdict::Vanished => me.reenter().await?,
                Verdict::Wait { on, next } => match me.gone(on).await? {
                    // 4; and 5 without 2, for nothing lower is left.
                    Gone::Deleted if next && me.is_ours() => return Ok(MutexGuard::new(me.into_node())),
                    Gone::Deleted | Gone::Changed => me.refresh().await?, // 5
                    Gone::SessionLost => me.reenter().await?,
                },
            }
        }
    }

    /// Acquires the lock if it is free, in one round trip; `None` if it is not. Never waits for others.
    ///
    /// # Errors
    /// As [`InterProcessMutex::acquire`].
    ///
    /// # Cancel safety
    /// Nothing stays behind.
    pub async fn try_acquire(&self) -> Result<Option<MutexGuard>, Error> {
        let path = ZPath::for_operation("try_acquire", self.path.as_str())?;
        let me = Contender::enter(&self.zk, &path, tag::LOCK, &self.label).await?;
        let granted = order::verdict(&me.queue().await?, me.name(), 1) == Verdict::Granted && me.is_ours();
        // Otherwise dropping it takes the node away.
        Ok(granted.then(|| MutexGuard::new(me.into_node())))
    }

    /// Acquires the lock, runs `body`, and releases the lock on every way out.
    ///
    /// `body` gets an [`Ownership`], for its fencing token and fenced transactions. It is dropped when the lock
    /// is lost: to notice a node that somebody deletes costs one request.
    ///
    /// # Errors
    /// * [`Error::Lost`] when the lock was lost before `body` was done, or before it was released.
    /// * [`Error::Framework`] as [`InterProcessMutex::acquire`]; then `body` did not run.
    ///
    /// # Panics
    /// When `body` does; the lock is released.
    ///
    /// # Cancel safety
    /// Dropping the future drops `body` and releases the lock in the background.
    pub async fn with<F, Fut>(&self, body: F) -> Result<Fut::Output, Error>
    where
        F: FnOnce(Ownership) -> Fut,
        Fut: Future,
    {
        let guard = self.acquire().await?;
        let output = tokio::select! {
            biased;
            () = guard.lost() => return Err(Error::Lost),
            output = body(guard.ownership().clone()) => output,
        };
        match guard.release().await {
            Err(Error::Lost) => Err(Error::Lost),
            Ok(()) => Ok(output),
            Err(error) => {
                // The work is done; the janitor goes on.
                debug!(%error, "the lock will be released in the background");
                Ok(output)
            }
        }
    }

    /// Who holds the lock, first, and who waits, in their order; those of Java's Curator too.
    ///
    /// # Errors
    /// As every read of the framework. A lock that nobody has used yet has no participants.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn participants(&self) -> Result<Vec<Participant>, Error> {
        let path = ZPath::for_operation("participants", self.path.as_str())?;
        let children = match self.zk.children(path.as_str()).await {
            Ok(children) => children,
            Err(error) if error.kind() == ErrorKind::NoNode => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        };
        let mut participants = Vec::new();
        for name in children.iter().filter(|name| SequenceSuffix::after(name, tag::LOCK).is_some()) {
            let node = child(&path, name);
            match self.zk.get_data(node.as_str()).with_stat().await {
                Ok((label, stat)) => {
                    participants.push(Participant {
                        path: node,
                        label,
                        fencing_token: FencingToken::new(stat.czxid),
                    });
                }
                // Gone since it was listed.
                Err(error) if error.kind() == ErrorKind::NoNode => {}
                Err(error) => return Err(error.into()),
            }
        }
        // The order of the creates, which is that of the numbers as long as those are in order.
        participants.sort_unstable_by_key(|participant| participant.fencing_token);
        Ok(participants)
    }
}

/// Holds or waits for a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Participant {
    /// The path of its node.
    pub path: String,
    /// What it says of itself: the data of its node. Java's Curator writes its address by default.
    pub label: Bytes,
    /// The fencing token it has, or will have when it holds the lock.
    pub fencing_token: FencingToken,
}

/// Holds an [`InterProcessMutex`].
///
/// # Cancel safety
/// Dropping it releases the lock in the background: the delete is queued at once, ahead of everything that the
/// session sends later.
#[derive(Debug)]
#[must_use = "dropping it releases the lock in the background"]
pub struct MutexGuard {
    node: OwnedNode,
}

impl MutexGuard {
    const fn new(node: OwnedNode) -> Self {
        Self { node }
    }

    /// The path of our node.
    #[must_use]
    pub fn path(&self) -> &str {
        self.node.path()
    }

    /// The fencing token: higher than that of every holder before.
    #[must_use]
    pub const fn fencing_token(&self) -> FencingToken {
        self.node.ownership().fencing_token()
    }

    /// What we hold, without the duty to release it; cheap to clone and to give to tasks.
    #[must_use]
    pub const fn ownership(&self) -> &Ownership {
        self.node.ownership()
    }

    /// Resolves when the lock can no longer be assumed to be held: see [`Ownership::lost`].
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn lost(&self) {
        self.node.ownership().lost().await;
    }

    /// Begins a transaction that is only applied while the lock is held: see [`Ownership::fenced`].
    pub fn fenced(&self) -> Transaction {
        self.node.ownership().fenced()
    }

    /// Releases the lock and waits for the answer.
    ///
    /// # Errors
    /// * [`Error::Lost`] when it was not held any more.
    /// * [`Error::Framework`] when that cannot be known, for example after a connection loss for longer than
    ///   the retry policy allows. The release goes on in the background.
    ///
    /// # Cancel safety
    /// The lock is released all the same.
    pub async fn release(self) -> Result<(), Error> {
        match self.node.delete().await {
            Ok(()) => Ok(()),
            Err(error) if matches!(error.kind(), ErrorKind::NoNode | ErrorKind::SessionExpired) => {
                Err(Error::Lost)
            }
            Err(error) => Err(error.into()),
        }
    }
}
