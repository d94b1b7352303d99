//! Group membership: the members of a group, their joins and departures.
//!
//! # Layout
//! ```text
//! /groups/workers                       the group: a container made by the first member, or made by an administrator
//!   ├─ worker-1                         ephemeral: a member; data: set by the member
//!   └─ worker-2
//! ```
//! The layout of Apache Curator's `GroupMember`. kazoo's `Party` and `ShallowParty` are
//! [modes](Group::with_kazoo_party): the members' nodes are then `<32hex>__party__` and
//! `<32hex>-<id>`, with the id as data, below a persistent node.
//!
//! # Protocol
//! 1. A [`GroupMember`] keeps its node in existence, as
//!    [`PersistentNode`](crate::node::PersistentNode) does.
//! 2. A client that [follows](Group::follow) a group lists it with a watch, and reads every member
//!    once, with a watch. When one of these fires, its node is read again.
//!
//! # Guarantees
//! * A process does not count itself as a member without a connection, or without its node
//!   ([`GroupMember::is_member`]); Curator's always does.
//! * A follower of a group gets every member that stays, and the departure of every reported member
//!   that leaves, in the order in which it sees them. A member that leaves and quickly joins again
//!   is reported as having left and joined.
//! * A member whose process dies is shown until its session has expired on the servers.
//!
//! # Assumptions
//! The ids of members are different. Where two processes have the same one, the second waits until
//! the first is gone.
//!
//! # Connection loss
//! * SUSPENDED: a member no longer counts itself as one, but other clients still see it. Followers
//!   get no event during the outage, and then all differences.
//! * LOST: other clients see it leave when its session has expired; it joins again in the next
//!   session.
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
mod naming;

use std::collections::BTreeMap;

use bytes::Bytes;
use zk_curator::path::ZPath;
use zk_curator::{CuratorFramework, Error, ErrorKind};

pub use follow::{GroupEvent, GroupWatch};
pub use member::{GroupMember, GroupMemberBuilder};

use self::naming::Naming;
use crate::removal::remove;

/// A group, for its observers and administrators.
#[derive(Debug, Clone)]
pub struct Group {
    zk: CuratorFramework,
    path: String,
    naming: Naming,
}

impl Group {
    /// The group at a path. Nothing is sent; a path that is not valid is refused when it is used.
    pub fn new(zk: &CuratorFramework, path: impl Into<String>) -> Self {
        Self { zk: zk.clone(), path: path.into(), naming: Naming::default() }
    }

    /// Reads the members of kazoo's `Party` at this path: nodes with `__party__` in their names.
    ///
    /// Ids need not differ there, so the keys of [`members`](Self::members), and the ids of
    /// [events](GroupEvent), are the names of the nodes; the data are the ids, as UTF-8. Members
    /// join with [`GroupMemberBuilder::with_kazoo_party`]. The data are never compressed.
    #[must_use]
    pub fn with_kazoo_party(mut self) -> Self {
        self.zk = self.zk.uncompressed();
        self.naming = Naming::Party;
        self
    }

    /// Reads the members of kazoo's `ShallowParty` at this path: all its children, named
    /// `<32hex>-<id>`.
    ///
    /// Keys and data are as for [`with_kazoo_party`](Self::with_kazoo_party).
    /// [`members`](Self::members) takes one request, and no read of a member. Members join with
    /// [`GroupMemberBuilder::with_kazoo_shallow_party`].
    #[must_use]
    pub fn with_kazoo_shallow_party(mut self) -> Self {
        self.zk = self.zk.uncompressed();
        self.naming = Naming::ShallowParty;
        self
    }

    /// The path of the group.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Creates the group, which then stays also without members; missing parents are created as
    /// containers. An existing node is left unchanged.
    ///
    /// # Errors
    /// As a create.
    ///
    /// # Cancel safety
    /// Once polled, the group may be created.
    pub async fn create(&self) -> Result<(), Error> {
        let create = self.zk.create(&self.path).creating_parents_as_containers();
        match create.data(Bytes::new()).uncompressed().idempotent().await {
            Err(error) if error.kind() != ErrorKind::NodeExists => Err(error),
            _ => Ok(()),
        }
    }

    /// The members now and their data, as far as the server knows that we are connected to. A group
    /// that does not exist has none. [Receipts](zk_curator::certain::is_receipt) of other clients
    /// are not members.
    ///
    /// # Errors
    /// As a read: not while there is no connection. With the path of a member whose data cannot be
    /// read, for example with `NoAuth`; [`follow`](Self::follow) goes on beside it.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn members(&self) -> Result<BTreeMap<String, Bytes>, Error> {
        let path = ZPath::for_operation("members", &self.path)?;
        let naming = self.naming;
        let members = if naming == Naming::ShallowParty {
            self.zk.children(path.as_str()).await.map(|names| {
                let names = names.into_iter().filter(|name| naming.is_member(name));
                let member = |name: String| {
                    let id = Bytes::copy_from_slice(naming.id_in(&name)?.as_bytes());
                    Some((name, id))
                };
                names.filter_map(member).collect()
            })
        } else {
            let read = self.zk.children_with_data(path.as_str());
            read.named(move |name| naming.is_member(name))
                .await
                .map(|nodes| nodes.into_iter().map(|node| (node.name, node.data)).collect())
        };
        match members {
            Err(error) if error.kind() == ErrorKind::NoNode => Ok(BTreeMap::new()),
            members => members,
        }
    }

    /// Follows the group forever, beginning with its present members. It need not exist.
    pub fn follow(&self) -> GroupWatch {
        GroupWatch::new(self.zk.clone(), self.path.clone(), self.naming)
    }

    /// Waits until the group has at least this number of members. Returns those whose data can be
    /// read, and their data.
    ///
    /// # Errors
    /// As [`GroupWatch::next`].
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn wait_for(&self, members: usize) -> Result<BTreeMap<String, Bytes>, Error> {
        let mut watch = self.follow();
        while watch.members().len() + watch.unreadable().len() < members {
            watch.next().await?;
        }
        Ok(watch.members().clone())
    }

    /// Deletes the group with all nodes of its members, in one transaction. Members that have
    /// [joined](Self::join) it notice this, and stay out until it is created again; members that
    /// create the group themselves come back.
    ///
    /// # Errors
    /// As a transaction: `TransactionFailed` with `NotEmpty` when members come and go all the time,
    /// or have children.
    ///
    /// # Cancel safety
    /// Everything is deleted, or nothing.
    pub async fn delete(&self) -> Result<(), Error> {
        remove(&self.zk, &ZPath::for_operation("delete", &self.path)?, None).await
    }
}
