use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;
use tracing::{debug, info};
use zk_curator::internal::{bounded, sleep_until};
use zk_curator::{CuratorFramework, ErrorKind, EventType};

use super::{Error, InterProcessReadWriteLock, ReadLock, WriteLock, revocation};

/// A read/write lock whose holders can be asked to let go, and be made to: the revocable shared
/// locks of
/// [ZooKeeper's
/// recipes](https://zookeeper.apache.org/doc/current/recipes.html#sc_recoverableSharedLocks).
///
/// # Layout
/// ```text
/// /locks/orders                            container, made on first use
///   ├─ _c_<uuid>-read-0000000007           ephemeral, sequential; data: its label, or a message about it:
///   │                                      `unlock` (asked to let go), `unlocking` (was heard)
///   └─ _c_<uuid>-write-0000000008
/// ```
/// Its names differ from Curator's read/write lock: do not use both at one path.
///
/// # Protocol
/// The layout of [`InterProcessReadWriteLock`]. In addition, a client that may write to a node
/// [asks](Self::revoke) its owner to let go: `setData` to `unlock`. The holder hears of it in
/// [`Guard::revoked`](super::Guard::revoked), and releases the lock, or
/// [acknowledges](super::Guard::acknowledge) to get more time. When the grace time is over, the
/// node is deleted at its version, unless the holder has acknowledged in between. The holder sees
/// [`lost()`](super::Guard::lost), its fenced writes fail, and other contenders get the lock. One
/// that waits and whose node is deleted enters the queue again.
///
/// # Guarantees
/// Those of [`InterProcessReadWriteLock`]. In addition, a waiter watches its own node (one more
/// request in the same round trip), and lists the queue again when its turn comes, so that it does
/// not get the lock with a deleted node.
///
/// # Assumptions
/// Only locks and revokers write here. A holder that does not await [`lost()`](super::Guard::lost)
/// continues after its node was removed by force: fence its writes.
///
/// # Connection loss, cancel safety
/// As of [`InterProcessMutex`](super::InterProcessMutex).
///
/// # Example
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = zk_curator_testing::TestServer::start().await;
/// # let zk = zk_curator::CuratorFramework::builder().connect_string(server.connect_string()).build()?;
/// # zk.start().await?;
/// use std::time::Duration;
///
/// use zk_curator_recipes::lock::{RevocableReadWriteLock, Revoked};
///
/// let lock = RevocableReadWriteLock::new(&zk, "/locks/report").label("nightly");
/// let guard = lock.write_lock().acquire().await?;
/// let nightly = tokio::spawn(async move {
///     guard.revoked().await;
///     guard.release().await
/// });
///
/// for holder in lock.write_lock().participants().await? {
///     let revoked = lock.revoke(&holder.path, Duration::from_secs(10)).await?;
///     assert_eq!(revoked, Revoked::Released);
/// }
/// nightly.await??;
/// # zk.close().await?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct RevocableReadWriteLock {
    zk: CuratorFramework,
    lock: InterProcessReadWriteLock,
}

/// How a node went whose owner was asked to let go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Revoked {
    /// Its owner released it, its session ended, or another client has removed it.
    Released,
    /// It was removed by force when the grace time was over.
    Removed,
}

impl RevocableReadWriteLock {
    /// The lock at a path. Nothing is sent; a path that is not valid is refused when the lock is
    /// used.
    pub fn new(zk: &CuratorFramework, path: impl Into<String>) -> Self {
        Self { zk: zk.uncompressed(), lock: InterProcessReadWriteLock::revocable(zk, path.into()) }
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

    /// The lock for reading, together with other readers.
    #[must_use]
    pub fn read_lock(&self) -> ReadLock {
        self.lock.read_lock()
    }

    /// The lock for writing, alone.
    #[must_use]
    pub fn write_lock(&self) -> WriteLock {
        self.lock.write_lock()
    }

    /// Asks the owner of a node, which holds the lock or waits for it, to let go, and waits until
    /// the node is gone; when `grace` has passed, counted again from every acknowledgement, removes
    /// it by force. `node` is the path of its node, see [`Participant`](super::Participant). A
    /// grace time of zero removes it immediately.
    ///
    /// # Errors
    /// * [`Error::NotOfThisLock`] when `node` cannot be a node of this lock; nothing is sent.
    /// * As a read, a write and a delete of the framework, among them `NoAuth`. The owner may have
    ///   been asked.
    ///
    /// # Cancel safety
    /// The owner may have been asked; nothing is removed after the future is dropped, unless the
    /// delete was sent.
    #[expect(clippy::too_many_lines, reason = "the steps of a revocation in their order")]
    pub async fn revoke(&self, node: impl Into<String>, grace: Duration) -> Result<Revoked, Error> {
        let node = &*node.into();
        if !self.lock.is_node(node) {
            return Err(Error::NotOfThisLock {
                node: node.to_owned(),
                lock: self.path().to_owned(),
            });
        }
        let (mut deadline, mut seen) = (None, None);
        let (mut asked, mut removing) = (false, false);
        let mut sent = Writes::default();
        loop {
            let (data, stat, watch) = match self.zk.get_data(node).watched().await {
                Ok(watched) => {
                    let (data, stat) = watched.value;
                    (data, stat, watched.watch)
                }
                Err(error) if error.kind() == ErrorKind::NoNode => {
                    return Ok(Revoked::ended(removing));
                }
                // The owner may let go yet, if it was asked.
                Err(error) => return Err(sent.failure(error).into()),
            };
            // A response to another client, before us, is not a response to us.
            let heard = asked && data == revocation::UNLOCKING;
            asked |= revocation::is_request(&data);
            if !heard && !revocation::is_request(&data) {
                match self.zk.set_data(node, revocation::UNLOCK).version(stat.version).await {
                    Ok(_) => {
                        debug!(node, "asked the owner of the node to release it");
                        (asked, sent.asked) = (true, true);
                    }
                    Err(error) if error.may_have_applied() => {
                        asked = true;
                        sent.unknown = Some(error);
                    }
                    // It was changed, or is gone: look.
                    Err(error)
                        if matches!(error.kind(), ErrorKind::BadVersion | ErrorKind::NoNode) => {}
                    Err(error) => return Err(sent.failure(error).into()),
                }
                continue;
            }
            if deadline.is_none() || heard && seen != Some(stat.version) {
                deadline = Some(Instant::now() + bounded(grace));
            }
            seen = Some(stat.version);
            let over = sleep_until(deadline.unwrap_or_else(Instant::now));
            tokio::select! {
                biased;
                event = watch => match event {
                    Ok(event) if event.event_type == EventType::NodeDeleted => {
                        return Ok(Revoked::ended(removing));
                    }
                    // It was acknowledged, or our session is over: read again.
                    Ok(_) | Err(_) => {}
                },
                () = over => match self.zk.delete(node).version(stat.version).await {
                    Ok(()) => {
                        info!(node, "removed by force");
                        return Ok(Revoked::Removed);
                    }
                    Err(error) if matches!(error.kind(), ErrorKind::BadVersion | ErrorKind::NoNode) => {}
                    Err(error) if error.may_have_applied() => {
                        removing = true;
                        sent.unknown = Some(error);
                    }
                    Err(error) => return Err(sent.failure(error).into()),
                }
            }
        }
    }
}

/// The writes of a call so far.
#[derive(Default)]
struct Writes {
    asked: bool,
    /// A write whose outcome is not known: a read that fails afterwards would say that nothing was
    /// applied.
    unknown: Option<zk_curator::Error>,
}

impl Writes {
    /// Returns the error of a call that ends with this one.
    fn failure(self, error: zk_curator::Error) -> zk_curator::Error {
        match self.unknown {
            Some(unknown) => unknown,
            None if self.asked => error.of_unknown_outcome(),
            None => error,
        }
    }
}

impl Revoked {
    const fn ended(removing: bool) -> Self {
        if removing { Self::Removed } else { Self::Released }
    }
}
