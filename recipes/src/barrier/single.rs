use bytes::Bytes;
use zk_curator::path::ZPath;
use zk_curator::{CuratorFramework, ErrorKind, EventType};

use super::Error;

/// Holds everybody up who waits at it, until somebody removes it.
///
/// # Layout
/// ```text
/// /barriers/release                        persistent: the barrier is set; data: the label of who has set it
/// ```
/// That of Apache Curator's `DistributedBarrier`: Java and Rust can use one barrier.
///
/// # Protocol
/// The barrier of [ZooKeeper's recipes](https://zookeeper.apache.org/doc/current/recipes.html#sc_recipes_eventHandles):
/// 1. Read the node, with a watch, after a `sync` in the same flight. If there is none, go on.
/// 2. When the watch fires because the node was deleted, go on.
/// 3. Otherwise go to 1; but go on when another node is there than before, for then it was deleted meanwhile.
///
/// # Guarantees
/// * Nobody goes on while the barrier is there, and was before it came; also when the server that it asks lags behind,
///   which Curator's waiters believe.
/// * Everybody goes on once it was removed, and be it set again at once: Curator's waiters look only at what is there when
///   they look.
///
/// # Assumptions
/// It belongs to nobody: it stays when the process that has set it ends.
///
/// # Connection loss
/// Waiters go on waiting, in the next session too, and learn what has happened meanwhile.
///
/// # Example
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = zk_curator_testing::TestServer::start().await;
/// # let zk = zk_curator::CuratorFramework::builder().connect_string(server.connect_string()).build()?;
/// # zk.start().await?;
/// use zk_curator_recipes::barrier::DistributedBarrier;
///
/// let barrier = DistributedBarrier::new(&zk, "/barriers/release");
/// barrier.set().await?;
/// let (waited, removed) = tokio::join!(barrier.wait(), barrier.remove());
/// waited?;
/// removed?;
/// # zk.close().await?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct DistributedBarrier {
    zk: CuratorFramework,
    path: String,
    label: Bytes,
}

impl DistributedBarrier {
    /// The barrier at a path. Nothing is sent; a path that is not valid is refused when the barrier is used.
    pub fn new(zk: &CuratorFramework, path: impl Into<String>) -> Self {
        Self { zk: zk.uncompressed(), path: path.into(), label: Bytes::new() }
    }

    /// The data of the node, for people who look who has set the barrier. Default: none.
    #[must_use]
    pub fn label(mut self, label: impl Into<Bytes>) -> Self {
        self.label = label.into();
        self
    }

    /// The path of the barrier.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Sets the barrier, if it is not set already.
    ///
    /// # Errors
    /// [`Error::Framework`] as of a create.
    ///
    /// # Cancel safety
    /// The barrier may be set or not.
    #[doc(alias = "setBarrier")]
    pub async fn set(&self) -> Result<(), Error> {
        let create = self.zk.create(&self.path).creating_parents_as_containers();
        match create.data(self.label.clone()).idempotent().await {
            Err(error) if error.kind() != ErrorKind::NodeExists => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Removes the barrier, if it is set: everybody who waits goes on. After a lost answer it is removed again if it is the
    /// same as before, not if somebody has set it meanwhile.
    ///
    /// # Errors
    /// [`Error::Framework`] as of a delete and of a read.
    ///
    /// # Cancel safety
    /// The barrier may be removed or not.
    #[doc(alias = "removeBarrier")]
    pub async fn remove(&self) -> Result<(), Error> {
        let path = ZPath::for_operation("remove", self.path.as_str())?;
        // Read before the delete is sent: of one flight with it, both answers may be lost, and the next one be read. And
        // read what is newest: an older one, or none, would be taken for a sign that it was removed.
        let before = self.zk.exists(path.as_str()).linearizable().await?.map(|stat| stat.czxid);
        loop {
            let unknown = match self.zk.delete(path.as_str()).await {
                Err(error) if error.kind() == ErrorKind::NoNode => return Ok(()),
                Err(error) if error.may_have_applied() => error,
                deleted => return Ok(deleted?),
            };
            // The delete may have been applied: another barrier than that before, or none, tells that it was. A read that fails
            // tells nothing, and its own error would say that nothing was applied.
            let now = self.zk.exists(path.as_str()).linearizable().await.map_err(|_| unknown)?;
            if now.is_none_or(|stat| Some(stat.czxid) != before) {
                return Ok(());
            }
        }
    }

    /// Whether the barrier is set, by what the server knows that is asked, which may lag.
    ///
    /// # Errors
    /// [`Error::Framework`] as of every read.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn is_set(&self) -> Result<bool, Error> {
        Ok(self.zk.exists(&self.path).await?.is_some())
    }

    /// Waits until the barrier is not set, or was removed since it was found.
    ///
    /// # Errors
    /// [`Error::Framework`] as of a read and of `sync`.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    #[doc(alias = "waitOnBarrier")]
    pub async fn wait(&self) -> Result<(), Error> {
        let path = ZPath::for_operation("wait", self.path.as_str())?;
        let mut found = None;
        loop {
            // The server may lag behind whoever has set the barrier.
            let read = self.zk.get_data(path.as_str()).synced().watched().await;
            let barrier = match read {
                Ok(barrier) => barrier, // 1
                Err(error) if error.kind() == ErrorKind::NoNode => return Ok(()),
                Err(error) => return Err(error.into()),
            };
            let czxid = barrier.value.1.czxid;
            if *found.get_or_insert(czxid) != czxid {
                return Ok(()); // 3
            }
            // The end of the session is no answer: look in the next one.
            if barrier.watch.await.is_ok_and(|event| event.event_type == EventType::NodeDeleted) {
                return Ok(()); // 2
            }
        }
    }
}
