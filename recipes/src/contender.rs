//! The engine under locks and elections: a protected ephemeral sequential node that waits for its turn.

use bytes::Bytes;
use tracing::debug;
use zk_curator::path::ZPath;
use zk_curator::{CreateMode, CuratorFramework, Error, ErrorKind, EventType, OwnedNode};

use crate::order::{self, Order, Placed};

/// A node in a queue of nodes. Dropped, it leaves the queue, whatever its future was doing.
pub(crate) struct Contender<'a> {
    zk: &'a CuratorFramework,
    parent: &'a ZPath,
    tag: &'static str,
    data: &'a Bytes,
    node: OwnedNode,
    siblings: Vec<String>,
}

/// Why a wait for another node has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gone {
    /// The node does not exist any more.
    Deleted,
    /// Something else has happened to it: look again.
    Changed,
    /// Our session is over, and our node with it.
    SessionLost,
}

impl<'a> Contender<'a> {
    /// Creates the node and lists the queue, in one flight.
    pub(crate) async fn enter(
        zk: &'a CuratorFramework,
        parent: &'a ZPath,
        tag: &'static str,
        data: &'a Bytes,
    ) -> Result<Self, Error> {
        let (node, siblings) = create(zk, parent, tag, data).await?;
        Ok(Self { zk, parent, tag, data, node, siblings })
    }

    /// Enters the queue anew, at its end: the node is gone, or its session is.
    pub(crate) async fn reenter(&mut self) -> Result<(), Error> {
        debug!(path = self.node.path(), "entering the queue anew");
        (self.node, self.siblings) = create(self.zk, self.parent, self.tag, self.data).await?;
        Ok(())
    }

    /// Lists the queue again.
    pub(crate) async fn refresh(&mut self) -> Result<(), Error> {
        match self.zk.children(self.parent.as_str()).await {
            Ok(names) => self.siblings = names,
            // The parent is gone, and so are we.
            Err(error) if error.kind() == ErrorKind::NoNode => self.siblings.clear(),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// The queue as last listed, with everybody's place.
    pub(crate) async fn queue(&self) -> Result<Vec<Placed<'_>>, Error> {
        let names = match order::contenders(&self.siblings, self.tag) {
            Order::BySequence(queue) => return Ok(queue),
            Order::ByCreation(names) => names,
        };
        let mut queue = Vec::with_capacity(names.len());
        for name in names {
            // Whoever is gone since the listing does not count.
            if let Some(stat) = self.zk.exists(child(self.parent, name)).await? {
                queue.push((stat.czxid, name));
            }
        }
        Ok(queue)
    }

    /// The name of our node.
    pub(crate) fn name(&self) -> &str {
        self.node.name()
    }

    /// Whether our node belongs to our session, and that is alive (CURATOR-604).
    pub(crate) fn is_ours(&self) -> bool {
        self.node.is_ours()
    }

    /// Waits until a sibling is gone, or anything else happens to it: the only way to wait here.
    ///
    /// It watches through `getData`, not `exists`, because the latter leaves a watch even on a node that is
    /// gone already.
    pub(crate) async fn gone(&self, sibling: &str) -> Result<Gone, Error> {
        let session_lost = self.node.ownership().session_lost();
        tokio::select! {
            biased;
            () = session_lost.cancelled() => Ok(Gone::SessionLost),
            gone = self.watch(sibling) => gone,
        }
    }

    async fn watch(&self, sibling: &str) -> Result<Gone, Error> {
        let watched = match self.zk.get_data(child(self.parent, sibling)).watched().await {
            Ok(watched) => watched,
            Err(error) if error.kind() == ErrorKind::NoNode => return Ok(Gone::Deleted),
            Err(error) => return Err(error),
        };
        Ok(match watched.watch.await {
            Ok(event) if event.event_type == EventType::NodeDeleted => Gone::Deleted,
            Ok(_) => Gone::Changed,
            Err(_) => Gone::SessionLost,
        })
    }

    /// Its turn has come.
    pub(crate) fn into_node(self) -> OwnedNode {
        self.node
    }
}

async fn create(
    zk: &CuratorFramework,
    parent: &ZPath,
    tag: &str,
    data: &Bytes,
) -> Result<(OwnedNode, Vec<String>), Error> {
    zk.create(child(parent, tag))
        .mode(CreateMode::EphemeralSequential)
        .creating_parents_as_containers()
        .protected()
        .data(data.clone())
        .owned_with_siblings()
        .await
}

/// The path of a child.
pub(crate) fn child(parent: &ZPath, name: &str) -> String {
    format!("{}/{name}", parent.as_str().trim_end_matches('/'))
}
