use std::sync::Arc;

use zk_curator_client::{ChangesSince, WatchedEvent};

use super::{OpTarget, awaits, call_options};
use crate::error::Result;
use crate::framework::CuratorFramework;
use crate::schema::Intent;
use crate::watch::visible;

impl CuratorFramework {
    /// Asks a server which of many nodes have changed after the transaction `zxid`, without reading
    /// them.
    ///
    /// **Awaiting returns** `Vec<WatchedEvent>`, without their transactions. See
    /// [`ChangesSinceBuilder`].
    pub fn changes_since(&self, zxid: i64) -> ChangesSinceBuilder {
        let target = OpTarget::new(self.clone(), "changes_since", String::new());
        ChangesSinceBuilder { target, question: ChangesSince::new(zxid) }
    }
}

/// Finds the nodes that have changed after a transaction, among many nodes whose state at that
/// transaction is known. The server compares, and returns only the changes.
///
/// | event | for |
/// |---|---|
/// | [`NodeDataChanged`](crate::EventType::NodeDataChanged) | a node of [`data`](Self::data) that was written, or deleted and created again |
/// | [`NodeChildrenChanged`](crate::EventType::NodeChildrenChanged) | a node of [`children`](Self::children) of which a child was created or deleted |
/// | [`NodeDeleted`](crate::EventType::NodeDeleted) | a node of either that does not exist, whenever it was deleted |
///
/// Changes made during the call may be returned too. The server compares with a state that is no
/// older than all that this session has seen. With a [persistent
/// watch](CuratorFramework::add_watch) that was added or re-armed before the call, no change is
/// missed: either this call or the watch reports it. ACLs are not checked, so changes of unreadable
/// nodes are returned too.
///
/// A call costs the path and 4 bytes for each node. For every 50,000 nodes it opens one more
/// session, one after another. Each costs two transactions, and memory of the server (about 324
/// bytes a node) until it is closed. For few nodes, or small data,
/// [`multi_read`](CuratorFramework::multi_read) is cheaper.
///
/// Fails with `InvalidPath`, with `ConnectionLoss` if one of these sessions is lost, and with
/// `Unsupported` on raw clients without such an operation. It is retried like a read.
///
/// # Cancel safety
/// Nothing changes on the server. The additional session is closed in the background.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = zk_curator_testing::TestServer::start().await;
/// # let zk = zk_curator::CuratorFramework::builder().connect_string(server.connect_string()).build()?;
/// # zk.start().await?;
/// use zk_curator::EventType;
///
/// zk.create("/a").data("1").await?;
/// let known = zk.create("/b").await?.stat.czxid;
/// zk.set_data("/a", "2").await?;
/// let changes = zk.changes_since(known).data(["/a", "/b"]).children(["/b"]).await?;
/// assert_eq!((changes.len(), changes[0].event_type, &*changes[0].path), (1, EventType::NodeDataChanged, "/a"));
/// # zk.close().await?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[must_use = "nothing is sent until it is awaited"]
pub struct ChangesSinceBuilder {
    target: OpTarget,
    /// The nodes, by their paths within the namespace.
    question: ChangesSince,
}

impl ChangesSinceBuilder {
    /// Compares the data of these nodes.
    pub fn data(mut self, paths: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.question.data.extend(paths.into_iter().map(Into::into));
        self
    }

    /// Compares the lists of children of these nodes.
    pub fn children(mut self, paths: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.question.children.extend(paths.into_iter().map(Into::into));
        self
    }

    async fn run(self) -> Result<Vec<WatchedEvent>> {
        let Self { target, mut question } = self;
        for path in question.data.iter_mut().chain(&mut question.children) {
            target.admit_at(path, Intent::Read { watched: false })?;
            *path = target.server_path_of(path)?;
        }
        let question = Arc::new(question);
        let changes = target
            .read_within(&mut target.budget(), "", |raw, _| raw.changes_since(&question))
            .await?;
        let namespace = target.zk.ns();
        Ok(changes.into_iter().map(|event| visible(event, namespace)).collect())
    }
}

call_options!(ChangesSinceBuilder);
awaits!(ChangesSinceBuilder => Vec<WatchedEvent>, |this| this.run().await);
