use bytes::Bytes;
use zk_curator::internal::{ResolvedOutcome, resolve};
use zk_curator::path::ZPath;
use zk_curator::{CuratorFramework, ErrorKind, EventType};

use super::Error;

/// Blocks all waiters until a client removes it.
///
/// # Layout
/// ```text
/// /barriers/release                        persistent: the barrier is set; data: the label of the client that set it
/// ```
/// The layout of Apache Curator's `DistributedBarrier`: Java and Rust can use one barrier.
///
/// # Protocol
/// The barrier of
/// [ZooKeeper's
/// recipes](https://zookeeper.apache.org/doc/current/recipes.html#sc_recipes_eventHandles):
/// 1. Read the node, with a watch, after a `sync` in the same round trip. If there is none,
///    continue.
/// 2. When the watch fires because the node was deleted, continue.
/// 3. Otherwise go to 1. Continue if the node is not the same as before, because the barrier was
///    removed in between.
///
/// # Guarantees
/// * No waiter passes while the barrier exists, if it existed before the call. This holds even if
///   the waiter's server lags; Curator's waiters then pass.
/// * Every waiter passes once the barrier was removed, even if it is set again immediately.
///   Curator's waiters see only the current state.
///
/// # Assumptions
/// It has no owner: it stays when the process that has set it ends.
///
/// # Connection loss
/// Waiters keep waiting, also in the next session, and notice a removal in between.
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
    /// The barrier at a path. Nothing is sent; a path that is not valid is refused when the barrier
    /// is used.
    pub fn new(zk: &CuratorFramework, path: impl Into<String>) -> Self {
        Self { zk: zk.uncompressed(), path: path.into(), label: Bytes::new() }
    }

    /// The data of the node, so that operators can see who set the barrier. Default: none.
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
    /// [`Error::Framework`], as for a create.
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

    /// Removes the barrier if it is set, so that all waiters pass. After a lost response it is
    /// removed again if it is the same as before, not if it was set again in between.
    ///
    /// # Errors
    /// [`Error::Framework`], as for a delete and a read.
    ///
    /// # Cancel safety
    /// The barrier may be removed or not.
    #[doc(alias = "removeBarrier")]
    pub async fn remove(&self) -> Result<(), Error> {
        let path = ZPath::for_operation("remove", self.path.as_str())?;
        // Read before the delete is sent. In one round trip with it, both responses could be lost,
        // and the next barrier would be read. Read behind a quorum: an older state would look like
        // a removal.
        let before = self.zk.exists(path.as_str()).linearizable().await?.map(|stat| stat.czxid);
        let look = async || {
            Ok(match self.zk.exists(path.as_str()).linearizable().await? {
                Some(stat) if Some(stat.czxid) == before => ResolvedOutcome::NotApplied,
                // Another barrier than before, or none.
                _ => ResolvedOutcome::Applied,
            })
        };
        match resolve(|| self.zk.delete(path.as_str()), look).await {
            Err(error) if error.kind() != ErrorKind::NoNode => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// Returns `true` if the barrier is set, according to the connected server, which may lag.
    ///
    /// # Errors
    /// [`Error::Framework`], as for every read.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn is_set(&self) -> Result<bool, Error> {
        Ok(self.zk.exists(&self.path).await?.is_some())
    }

    /// Returns the [label](Self::label) of the client that has set the barrier, or `None` if it is
    /// not set, according to the connected server, which may lag. Java's Curator writes its
    /// address.
    ///
    /// # Errors
    /// [`Error::Framework`], as for every read.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn set_by(&self) -> Result<Option<Bytes>, Error> {
        let path = ZPath::for_operation("set_by", self.path.as_str())?;
        match self.zk.get_data(path.as_str()).await {
            Ok(label) => Ok(Some(label)),
            Err(error) if error.kind() == ErrorKind::NoNode => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits until the barrier is not set, or was removed since it was found.
    ///
    /// # Errors
    /// [`Error::Framework`], as for a read and `sync`.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    #[doc(alias = "waitOnBarrier")]
    pub async fn wait(&self) -> Result<(), Error> {
        let path = ZPath::for_operation("wait", self.path.as_str())?;
        let mut found = None;
        loop {
            // The server may lag behind the client that set the barrier.
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
            // The end of the session is no response: look in the next one.
            if barrier.watch.await.is_ok_and(|event| event.event_type == EventType::NodeDeleted) {
                return Ok(()); // 2
            }
        }
    }
}
