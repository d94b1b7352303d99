//! The clock of the servers, as the stat of a written node tells it.

use bytes::Bytes;
use zk_curator::{CreateMode, CuratorFramework, ErrorKind, OwnedNode};

use crate::path::child;

/// The end of the name of the node that is written.
const NODE: &str = "clock";

/// Reads the time of the leader, which stamps every write.
///
/// It writes a node of its own, which is ephemeral, and deleted when this is dropped.
pub(crate) struct ServerClock {
    zk: CuratorFramework,
    parent: String,
    data: Bytes,
    /// `true` if missing parents are created as persistent nodes, and not as containers.
    parent_stays: bool,
    node: Option<OwnedNode>,
}

impl ServerClock {
    /// A clock with a node below `parent`; its data are for people.
    pub(crate) fn new(zk: &CuratorFramework, parent: &str, data: Bytes) -> Self {
        let (zk, parent) = (zk.clone(), parent.to_owned());
        Self { zk, parent, data, parent_stays: false, node: None }
    }

    /// Creates missing parents as persistent nodes.
    pub(crate) fn with_persistent_parent(mut self) -> Self {
        self.parent_stays = true;
        self
    }

    /// The time of the leader, between the call and its return, in milliseconds since the Unix
    /// epoch. One request.
    pub(crate) async fn now(&mut self) -> zk_curator::Result<i64> {
        if let Some(node) = self.node.as_ref().filter(|node| node.is_ours()) {
            match self.zk.set_data(node.path(), self.data.clone()).idempotent().await {
                Ok(stat) => return Ok(stat.mtime),
                // Another client has deleted it.
                Err(error) if error.kind() == ErrorKind::NoNode => {}
                Err(error) => return Err(error),
            }
        }
        self.node = None;
        let create = self.zk.create(child(&self.parent, NODE)).mode(CreateMode::Ephemeral);
        let create = if self.parent_stays {
            create.creating_parents()
        } else {
            create.creating_parents_as_containers()
        };
        let node = create.data(self.data.clone()).protected().owned().await?;
        let written = node.stat().ctime;
        self.node = Some(node);
        Ok(written)
    }
}
