use bytes::Bytes;
use zk_curator::certain::is_receipt;
use zk_curator::path::ZPath;
use zk_curator::{CreateMode, CuratorFramework, Error};

use super::Group;
use super::naming::Naming;
use crate::health::HealthWatch;
use crate::node::PersistentNode;
use crate::path::child;

/// A member of a group: wire-compatible with Apache Curator's class of that name. See the
/// [module](super).
///
/// # Cancel safety
/// Dropping it leaves the group in the background.
#[derive(Debug)]
#[must_use = "dropping it leaves the group in the background"]
pub struct GroupMember {
    group: Group,
    id: String,
    /// Or the error that every operation returns.
    node: Result<PersistentNode, Error>,
}

/// Builds a [`GroupMember`].
#[derive(Debug, Clone)]
#[must_use = "nothing is done until it is started"]
pub struct GroupMemberBuilder {
    group: Group,
    id: String,
    data: Bytes,
    has_parents: bool,
}

impl Group {
    /// Joins the group, which must be there: where an administrator deletes groups, they stay
    /// deleted, also while members are alive. See [`GroupMember::builder`] for groups that members
    /// make themselves. An id that is no name for a node is refused by [`GroupMember::joined`].
    ///
    /// # Panics
    /// Outside a tokio runtime, if the framework has no spawner.
    pub fn join(&self, id: impl Into<String>, data: impl Into<Bytes>) -> GroupMember {
        let (group, id) = (self.clone(), id.into());
        GroupMemberBuilder { group, id, data: data.into(), has_parents: false }.start()
    }
}

impl GroupMember {
    /// A member with this id, of a group that is made if it is not there. Nothing is sent until it
    /// is [started](GroupMemberBuilder::start).
    pub fn builder(
        zk: &CuratorFramework,
        group: impl Into<String>,
        id: impl Into<String>,
    ) -> GroupMemberBuilder {
        let (group, id) = (Group::new(zk, group), id.into());
        GroupMemberBuilder { group, id, data: Bytes::new(), has_parents: true }
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Its group: to list and to follow.
    #[must_use]
    pub const fn group(&self) -> &Group {
        &self.group
    }

    /// Waits until it is a member.
    ///
    /// # Errors
    /// Why it is none, if that is something else than the connection or another member with its id:
    /// for example `NoNode` when the group [is not there](Group::join). It is tried again all the
    /// same. `Closed` when the framework is closed. `InvalidPath` when the path of the group is not
    /// valid, or the id is no name for a node, and `InvalidArgument` if it is the name of a
    /// [receipt](zk_curator::certain::is_receipt): it never joins. `NodeExists` if a persistent
    /// node has the name.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn joined(&self) -> Result<(), Error> {
        self.node()?.created().await.map(|_| ())
    }

    /// Returns `true` if it is a member now, as far as it knows: its node exists, and there is a
    /// connection to a server.
    #[must_use]
    pub fn is_member(&self) -> bool {
        self.node.as_ref().is_ok_and(PersistentNode::is_present)
            && self.group.zk.state().is_connected()
    }

    /// Follows the health of the background task: [`Working`](crate::health::Health::Working) while
    /// it is a member.
    pub fn health(&self) -> HealthWatch {
        match &self.node {
            Ok(node) => node.health(),
            Err(error) => HealthWatch::refused(error.clone()),
        }
    }

    /// Says something else of itself, now and whenever it joins again, and waits until the server
    /// has it.
    ///
    /// # Errors
    /// As [`joined`](Self::joined). `InvalidArgument` for a member of a party of kazoo, whose data
    /// are its id; nothing was sent.
    ///
    /// # Cancel safety
    /// Once polled, the data are written in the background in any case.
    #[doc(alias = "setThisData")]
    pub async fn set_data(&self, data: impl Into<Bytes>) -> Result<(), Error> {
        if self.group.naming != Naming::Curator {
            let why = "the data of a member of kazoo's party are its id";
            return Err(Error::invalid_argument("set_data", self.group.path(), why));
        }
        self.node()?.set_data(data).await
    }

    /// Leaves the group, and waits for the response.
    ///
    /// # Errors
    /// `ConnectionLoss` if it is unknown whether it has left; the janitor continues.
    ///
    /// # Cancel safety
    /// It leaves in any case.
    pub async fn leave(self) -> Result<(), Error> {
        match self.node {
            Ok(node) => node.close().await,
            // It has never joined.
            Err(_) => Ok(()),
        }
    }

    fn node(&self) -> Result<&PersistentNode, Error> {
        self.node.as_ref().map_err(Clone::clone)
    }
}

impl GroupMemberBuilder {
    /// Its data. Default: none. Curator's default is the address of the machine.
    pub fn data(mut self, data: impl Into<Bytes>) -> Self {
        self.data = data.into();
        self
    }

    /// Joins kazoo's `Party`: its node is `<32hex>__party__` below a persistent node, and its data
    /// are the id, whatever [`data`](Self::data) says. The [group](GroupMember::group) of the
    /// member [reads](Group::with_kazoo_party) such names.
    ///
    /// Unlike kazoo's member, it does not count a node of its former session as its own.
    pub fn with_kazoo_party(mut self) -> Self {
        self.group = self.group.with_kazoo_party();
        self
    }

    /// Joins kazoo's `ShallowParty`: its node is `<32hex>-<id>` below a persistent node, and its
    /// data are the id, whatever [`data`](Self::data) says. The [group](GroupMember::group) of the
    /// member [reads](Group::with_kazoo_shallow_party) such names.
    pub fn with_kazoo_shallow_party(mut self) -> Self {
        self.group = self.group.with_kazoo_shallow_party();
        self
    }

    /// Joins only an existing group: see [`Group::join`].
    pub const fn without_parents(mut self) -> Self {
        self.has_parents = false;
        self
    }

    /// Begins to join, in a background task. See [`GroupMember::joined`] for errors.
    ///
    /// # Panics
    /// Outside a tokio runtime, if the framework has no spawner.
    pub fn start(self) -> GroupMember {
        let Self { group, id, data, has_parents } = self;
        let name = group.naming.node(&id, || group.zk.new_guid());
        let node = check_name(group.path(), &name).map(|()| {
            let path = child(group.path(), &name);
            let node = PersistentNode::builder(&group.zk, path, CreateMode::Ephemeral);
            let node = if has_parents { node } else { node.without_parents() };
            match group.naming {
                Naming::Curator => node.data(data),
                Naming::Party | Naming::ShallowParty => {
                    node.data(id.clone()).with_persistent_parents()
                }
            }
            .start()
        });
        GroupMember { group, id, node }
    }
}

/// Refuses a name that is not that of a node, but for example a path below the group, and one that
/// no reader takes for a member.
fn check_name(group: &str, name: &str) -> Result<(), Error> {
    let parent = ZPath::for_operation("join", group)?;
    let path = ZPath::for_operation("join", child(&parent, &name.replace('/', "\0")))?;
    if is_receipt(name) {
        let why = "the id is the name of a receipt, which no reader takes for a member";
        return Err(Error::invalid_argument("join", path.as_str(), why));
    }
    Ok(())
}
