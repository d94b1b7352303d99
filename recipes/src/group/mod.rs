//! Group membership: who is there, and who comes and goes.
//!
//! # Layout
//! ```text
//! /groups/workers                       the group: a container made by the first member, or made by an administrator
//!   ├─ worker-1                         ephemeral: a member; data: what it says of itself
//!   └─ worker-2
//! ```
//! That of Apache Curator's `GroupMember`.
//!
//! # Protocol
//! 1. A [`GroupMember`] keeps its node in existence, as [`PersistentNode`](crate::node::PersistentNode) does.
//! 2. Who [follows](Group::follow) a group lists it with a watch, and reads every member once, with a watch. When one
//!    of these fires, what it is on is read again.
//!
//! # Guarantees
//! * A process never takes itself for a member while it is not connected, or its node is not there
//!   ([`GroupMember::is_member`]); that of Curator always does.
//! * Who follows a group is told of every member that stays, and of every one that was told of and leaves, in the order
//!   in which it sees them. One that leaves and joins again, however quickly, is told of as having left and joined.
//! * A member whose process dies is shown until its session has expired on the servers.
//!
//! # Assumptions
//! The ids of members are different. Where two processes have the same one, the second waits until the first is gone.
//!
//! # Connection loss
//! * SUSPENDED: a member is none for itself, but is for others. Who follows is told nothing, and of everything that has
//!   happened afterwards.
//! * LOST: others see it leave, when its session has expired; it joins again in the next session.
//!
//! # Cancel safety
//! Every future may be dropped at any point. Dropping a member leaves the group in the background.
//!
//! # Errors
//! Those of the framework.
//!
//! # Example
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = zk_curator_testing::TestServer::start().await;
//! # let zk = zk_curator::CuratorFramework::builder().connect_string(server.connect_string()).build()?;
//! # zk.start().await?;
//! use zk_curator_recipes::group::{Group, GroupEvent, GroupMember};
//!
//! let group = Group::new(&zk, "/groups/workers");
//! let member = GroupMember::builder(&zk, "/groups/workers", "worker-1").data("10.0.0.7").start();
//! assert_eq!(group.wait_for(1).await?["worker-1"], "10.0.0.7");
//!
//! let mut changes = group.follow();
//! assert_eq!(changes.next().await?, GroupEvent::Joined { id: "worker-1".into(), data: "10.0.0.7".into() });
//! member.leave().await?;
//! assert_eq!(changes.next().await?, GroupEvent::Left { id: "worker-1".into() });
//! # zk.close().await?;
//! # Ok(()) }
//! ```

mod follow;
mod member;

use std::collections::BTreeMap;

use bytes::Bytes;
use zk_curator::path::ZPath;
use zk_curator::{CuratorFramework, Error, ErrorKind};

pub use follow::{GroupEvent, GroupWatch};
pub use member::{GroupMember, GroupMemberBuilder};

use crate::removal::{Which, remove};

/// A group, for those who look at it and for its administrators.
#[derive(Debug, Clone)]
pub struct Group {
    zk: CuratorFramework,
    path: String,
}

impl Group {
    /// The group at a path. Nothing is sent; a path that is not valid is refused when it is used.
    pub fn new(zk: &CuratorFramework, path: impl Into<String>) -> Self {
        Self { zk: zk.clone(), path: path.into() }
    }

    /// The path of the group.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Creates the group, which then stays also without members; missing parents are created as containers. One that is
    /// there already is left as it is.
    ///
    /// # Errors
    /// As a create.
    ///
    /// # Cancel safety
    /// Once polled, the group may be created.
    pub async fn create(&self) -> Result<(), Error> {
        let create = self.zk.create(&self.path).creating_parents_as_containers().data(Bytes::new());
        match create.idempotent().await {
            Err(error) if error.kind() != ErrorKind::NodeExists => Err(error),
            _ => Ok(()),
        }
    }

    /// The members now and their data, as far as the server knows that we are connected to. A group that does not exist
    /// has none.
    ///
    /// # Errors
    /// As a read: not while there is no connection.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn members(&self) -> Result<BTreeMap<String, Bytes>, Error> {
        let path = ZPath::for_operation("members", &self.path)?;
        match self.zk.children_with_data(path.as_str()).await {
            Ok(nodes) => Ok(nodes.into_iter().map(|node| (node.name, node.data)).collect()),
            Err(error) if error.kind() == ErrorKind::NoNode => Ok(BTreeMap::new()),
            Err(error) => Err(error),
        }
    }

    /// Follows the group for ever, beginning with those who are in it. It need not exist.
    pub fn follow(&self) -> GroupWatch {
        GroupWatch::new(self.zk.clone(), self.path.clone())
    }

    /// Waits until the group has so many members at least, however long it takes: them and their data.
    ///
    /// # Errors
    /// As [`GroupWatch::next`].
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn wait_for(&self, members: usize) -> Result<BTreeMap<String, Bytes>, Error> {
        let mut watch = self.follow();
        while watch.members().len() < members {
            watch.next().await?;
        }
        Ok(watch.members().clone())
    }

    /// Deletes the group with all nodes of its members, at once. Members that have [joined](Self::join) it are told, and stay
    /// out until it is created again; those that make the group themselves come back.
    ///
    /// # Errors
    /// As a transaction: `TransactionFailed` with `NotEmpty` when members come and go all the time, or have children.
    ///
    /// # Cancel safety
    /// Everything is deleted, or nothing.
    pub async fn delete(&self) -> Result<(), Error> {
        remove(&self.zk, &ZPath::for_operation("delete", &self.path)?, Which::Present).await
    }
}
