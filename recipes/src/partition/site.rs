//! The nodes of a set: paths, our member, the other members, the list of parts.

use std::future::pending;
use std::sync::Arc;

use zk_curator::certain::is_receipt;
use zk_curator::internal::Signal;
use zk_curator::op::ReadResult;
use zk_curator::watch::{ChildrenWatch, DataWatch};
use zk_curator::{CreateMode, CuratorFramework, ErrorKind};

use super::Error;
use super::assign::MembersByNode;
use super::kazoo;
use super::machine::Method;
use super::record::{MemberRecord, Parts, encode_parts, parse_parts};
use crate::group::{Group, GroupWatch};
use crate::lock::InterProcessMutex;
use crate::node::PersistentNode;
use crate::path::child;

/// The parent of the members.
pub(crate) const MEMBERS: &str = "members";
/// The parent of the locks.
pub(crate) const PARTS: &str = "parts";
/// The parent of the members in kazoo.
const PARTY: &str = "party";
/// The parent of the locks in kazoo.
pub(crate) const LOCKS: &str = "locks";
/// The list of parts, if it is shared.
pub(crate) const LIST: &str = "list";

/// The parts that were set in this process, and how often that was.
#[derive(Debug, Default)]
pub(super) struct LocalParts {
    pub(super) parts: Parts,
    pub(super) changes: u64,
}

/// The nodes of a set, for one member.
#[derive(Debug, Clone)]
pub(super) struct PartitionSite {
    pub(super) zk: CuratorFramework,
    pub(super) path: String,
    pub(super) id: String,
    /// The name of the node of our member.
    pub(super) node: String,
    pub(super) method: Method,
}

impl PartitionSite {
    pub(super) fn new(zk: &CuratorFramework, path: &str, id: &str, method: Method) -> Self {
        let node = match method {
            Method::BoundedRendezvous => id.to_owned(),
            Method::EveryNth => format!("{}-{id}", zk.new_guid().replace('-', "")),
        };
        Self { zk: zk.uncompressed(), path: path.to_owned(), id: id.to_owned(), node, method }
    }

    /// The parent of the members.
    pub(super) fn members(&self) -> String {
        let name = if self.method == Method::EveryNth { PARTY } else { MEMBERS };
        child(&self.path, name)
    }

    pub(super) fn list(&self) -> String {
        child(&self.path, LIST)
    }

    /// The lock of a part.
    pub(super) fn lock(&self, part: &str) -> InterProcessMutex {
        let parent = if self.method == Method::EveryNth { LOCKS } else { PARTS };
        let path = child(child(&self.path, parent), part);
        let lock = InterProcessMutex::within(&self.zk, path, "partition");
        let lock = lock.label(self.id.clone()).shared_in_session();
        if self.method == Method::EveryNth { lock.with_kazoo() } else { lock }
    }

    /// Creates what kazoo's members do not create again when it is gone.
    pub(super) async fn prepare(&self) -> Result<(), Error> {
        if self.method == Method::EveryNth {
            for parent in [self.members(), child(&self.path, LOCKS)] {
                let create = self.zk.create(parent).creating_parents().idempotent();
                match create.data("").await {
                    Err(error) if error.kind() != ErrorKind::NodeExists => return Err(error.into()),
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// Joins the members.
    pub(super) fn join(&self, member: &MemberRecord) -> PersistentNode {
        let path = child(self.members(), &self.node);
        let data = match self.method {
            Method::BoundedRendezvous => member.encode(),
            Method::EveryNth => self.id.clone(),
        };
        let node = PersistentNode::builder(&self.zk, path, CreateMode::Ephemeral).data(data);
        match self.method {
            Method::BoundedRendezvous => node.start(),
            // kazoo's members do not create a parent again that a container would take away.
            Method::EveryNth => node.with_persistent_parents().start(),
        }
    }

    pub(super) fn roster(&self) -> Roster {
        match self.method {
            Method::BoundedRendezvous => {
                Roster::Group(Box::new(Group::new(&self.zk, self.members()).follow()))
            }
            Method::EveryNth => Roster::Party(Box::new(self.zk.watch_children(self.members()))),
        }
    }

    /// Returns the members now.
    pub(super) async fn present(&self) -> Result<MembersByNode, Error> {
        if self.method == Method::EveryNth {
            return match self.zk.children(self.members()).await {
                Ok(names) => Ok(of_party(names)),
                Err(error) if error.kind() == ErrorKind::NoNode => Ok(MembersByNode::new()),
                Err(error) => Err(error.into()),
            };
        }
        let mut names = match self.zk.children(self.members()).await {
            Err(error) if error.kind() == ErrorKind::NoNode => return Ok(MembersByNode::new()),
            names => names?,
        };
        names.retain(|name| !is_receipt(name));
        let reads = names
            .iter()
            .fold(self.zk.multi_read(), |reads, name| reads.get_data(child(self.members(), name)));
        let mut members = MembersByNode::new();
        for (name, read) in names.iter().zip(reads.await?) {
            match read.map(ReadResult::into_data) {
                // It has left since then.
                Err(error) if error.kind() == ErrorKind::NoNode => {}
                Ok(Some((data, _))) => {
                    drop(members.insert(name.clone(), MemberRecord::parse(&data)));
                }
                Ok(None) | Err(_) => drop(members.insert(name.clone(), MemberRecord::parse(b""))),
            }
        }
        Ok(members)
    }

    /// Creates the shared list of parts if there is none, and returns the present one.
    pub(super) async fn share(&self, parts: &Parts) -> Result<Parts, Error> {
        let create = self.zk.create(self.list()).creating_parents_as_containers().idempotent();
        match create.data(encode_parts(parts)).await {
            Ok(_) => Ok(parts.clone()),
            Err(error) if error.kind() == ErrorKind::NodeExists => self.read_list().await,
            Err(error) => Err(error.into()),
        }
    }

    /// Replaces the shared list of parts.
    pub(super) async fn set_list(&self, parts: &Parts) -> Result<(), Error> {
        let create = self.zk.create(self.list()).creating_parents_as_containers().idempotent();
        create.or_set_data().data(encode_parts(parts)).await?;
        Ok(())
    }

    pub(super) async fn read_list(&self) -> Result<Parts, Error> {
        let data = self.zk.get_data(self.list()).await?;
        parse_parts(&data).ok_or_else(|| Error::NotAList { path: self.list() })
    }
}

/// Follows the members.
pub(super) enum Roster {
    Group(Box<GroupWatch>),
    Party(Box<ChildrenWatch>),
}

impl Roster {
    /// Waits until the members have changed, and returns all of them. Nothing is lost if the future
    /// is dropped.
    pub(super) async fn changed(&mut self) -> Result<MembersByNode, Error> {
        match self {
            Self::Group(group) => {
                group.changed().await?;
                let members = group.members().iter();
                let members = members.map(|(id, data)| (id.clone(), MemberRecord::parse(data)));
                let hidden =
                    group.unreadable().keys().map(|id| (id.clone(), MemberRecord::parse(b"")));
                Ok(members.chain(hidden).collect())
            }
            Self::Party(party) => Ok(match party.next().await? {
                Some((names, _)) => of_party(names),
                None => MembersByNode::new(),
            }),
        }
    }
}

/// kazoo takes every child for a member.
fn of_party(names: Vec<String>) -> MembersByNode {
    names.into_iter().map(|name| (name, MemberRecord::default())).collect()
}

/// Follows the parts.
pub(super) enum List {
    /// The parts that are set in this process.
    Local { parts: Arc<Signal<LocalParts>>, seen: u64 },
    /// The parts of the shared list.
    Shared { watch: Box<DataWatch>, path: String },
}

impl List {
    pub(super) fn local(parts: &Arc<Signal<LocalParts>>) -> Self {
        // The first change is the present state.
        Self::Local { parts: Arc::clone(parts), seen: u64::MAX }
    }

    pub(super) fn shared(site: &PartitionSite) -> Self {
        Self::Shared { watch: Box::new(site.zk.watch_data(site.list())), path: site.list() }
    }

    /// Waits until the parts have changed. Nothing is lost if the future is dropped.
    pub(super) async fn changed(&mut self) -> Result<Parts, Error> {
        match self {
            Self::Local { parts, seen } => {
                let last = *seen;
                let changed = |local: &LocalParts| {
                    (local.changes != last).then(|| (local.parts.clone(), local.changes))
                };
                let (parts, changes) = parts.find(changed).await;
                *seen = changes;
                Ok(parts)
            }
            Self::Shared { watch, path } => loop {
                // A deleted list leaves the parts unchanged.
                if let Some((data, _)) = watch.next().await? {
                    let parts = parse_parts(&data);
                    return parts.ok_or_else(|| Error::NotAList { path: path.clone() });
                }
            },
        }
    }
}

impl PartitionSite {
    /// The name of a member for people, by the name of its node.
    pub(super) fn id_of<'n>(&self, node: &'n str) -> &'n str {
        if self.method == Method::EveryNth { kazoo::identifier(node) } else { node }
    }
}

/// Never resolves without an end of the wait.
pub(super) async fn optional<T>(wait: Option<impl Future<Output = T>>) -> T {
    match wait {
        Some(wait) => wait.await,
        None => pending().await,
    }
}
