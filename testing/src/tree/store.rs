//! [`Tree`]: the nodes of a server, and indexes of ephemeral nodes, containers and nodes with a
//! TTL.

use std::collections::BTreeSet;
use std::sync::Arc;

use zk_curator_proto::ErrorCode;
use zk_curator_proto::records::{Acl, Permissions};

use super::acls::Acls;
use super::node::Node;
use super::owner::Owner;
use super::path;
use crate::collections::{Map, Set};
use crate::config::Config;
use crate::version::{SequenceOverflow, ZooKeeperVersion};

/// All nodes of a server. A copy is cheap, and stays unchanged.
#[derive(Debug, Clone)]
pub(crate) struct Tree {
    pub(super) root: Arc<Node>,
    /// The number of nodes, including the root.
    pub(super) count: usize,
    pub(super) acls: Acls,
    /// The ephemeral nodes of every session that has any.
    pub(super) ephemerals: Map<i64, BTreeSet<Arc<str>>>,
    /// The containers and nodes with a TTL, which the reaper checks.
    pub(super) containers: Set<Arc<str>>,
    pub(super) ttls: Set<Arc<str>>,
    /// The paths that have a quota.
    pub(super) quotas: BTreeSet<String>,
    pub(super) version: ZooKeeperVersion,
    pub(super) sequence_overflow: SequenceOverflow,
    pub(super) enforces_quotas: bool,
}

impl Tree {
    /// Creates a tree with the initial nodes of every server.
    pub(crate) fn new(config: &Config) -> Self {
        let mut acls = Acls::default();
        let open = acls.share(Acl::open_unsafe());
        let born = || Node::new(Some(Box::default()), Arc::clone(&open), Owner::None, 0, 0);
        let (mut root, mut zookeeper, mut dynamic) = (born(), born(), born());
        dynamic.acl = acls.share(vec![Acl::new(Permissions::READ, "world", "anyone")]);
        dynamic.aversion = -1;
        // The initial children do not count in the counter of their parent.
        zookeeper.link("quota", Arc::new(born()));
        zookeeper.link("config", Arc::new(dynamic));
        root.link("zookeeper", Arc::new(zookeeper));
        Self {
            root: Arc::new(root),
            count: path::SPECIAL.len(),
            acls,
            ephemerals: Map::default(),
            containers: Set::default(),
            ttls: Set::default(),
            quotas: BTreeSet::new(),
            version: config.version,
            sequence_overflow: config.sequence_overflow,
            enforces_quotas: config.enforce_quotas,
        }
    }

    /// Writes the list of the members of an ensemble to `/zookeeper/config`.
    pub(crate) fn set_membership(&mut self, list: &str) {
        if let Ok(node) = self.node_mut("/zookeeper/config") {
            node.data = Some(list.as_bytes().into());
        }
    }

    /// Returns the node at `path`. The empty path is an alias of `/`, as on Apache ZooKeeper.
    pub(crate) fn get(&self, path: &str) -> Option<&Node> {
        self.root.get(path)
    }

    /// Returns the root. The returned nodes stay unchanged.
    pub(crate) const fn root(&self) -> &Arc<Node> {
        &self.root
    }

    /// Returns the number of nodes, including the root.
    pub(crate) const fn count(&self) -> usize {
        self.count
    }

    /// Returns the number of nodes below `path`, as Apache ZooKeeper counts them: the empty path is
    /// above the root.
    pub(crate) fn count_below(&self, path: &str) -> usize {
        match path {
            "" => self.count,
            "/" => self.count - 1,
            _ => self.get(path).map_or(0, |node| node.walk("").count() - 1),
        }
    }

    /// Returns the ephemeral nodes of a session, sorted.
    pub(crate) fn ephemerals(&self, session: i64) -> impl Iterator<Item = &Arc<str>> {
        self.ephemerals.get(&session).into_iter().flatten()
    }

    /// Returns the sessions that have ephemeral nodes, sorted, and their nodes.
    pub(crate) fn owners(&self) -> impl Iterator<Item = (i64, &BTreeSet<Arc<str>>)> {
        let mut owners: Vec<_> =
            self.ephemerals.iter().map(|(owner, paths)| (*owner, paths)).collect();
        owners.sort_unstable_by_key(|(owner, _)| *owner);
        owners.into_iter()
    }

    /// Makes `next` the number of the next sequential child of `path`.
    pub(crate) fn set_sequence(&mut self, path: &str, next: i32) -> Result<(), ErrorCode> {
        self.node_mut(path)?.created_children = next;
        Ok(())
    }

    pub(crate) fn set_version(&mut self, path: &str, version: i32) -> Result<(), ErrorCode> {
        self.node_mut(path)?.version = version;
        Ok(())
    }

    pub(crate) const fn set_sequence_overflow(&mut self, overflow: SequenceOverflow) {
        self.sequence_overflow = overflow;
    }

    /// Returns the containers whose last child is gone, and the nodes whose time to live has
    /// passed, sorted. A container that never had a child is kept for `never_used_millis`; zero
    /// means forever.
    pub(crate) fn reapable(&self, time: i64, never_used_millis: i64) -> Vec<Arc<str>> {
        let due = |path: &Arc<str>| {
            self.get(path).is_some_and(|node| {
                let age = time - node.mtime;
                !node.has_children()
                    && match node.owner() {
                        Owner::Container if node.created_children > 0 => true,
                        Owner::Container => never_used_millis != 0 && age > never_used_millis,
                        Owner::Ttl(millis) => age > millis,
                        Owner::None | Owner::Session(_) => false,
                    }
            })
        };
        let candidates = self.containers.iter().chain(&self.ttls);
        let mut paths: Vec<_> = candidates.filter(|path| due(path)).cloned().collect();
        paths.sort_unstable();
        paths
    }

    /// Returns the node at `path`, or the error that it does not exist.
    pub(super) fn node(&self, path: &str) -> Result<&Node, ErrorCode> {
        self.get(path).ok_or(ErrorCode::NoNode)
    }

    /// Returns the same node for changes.
    pub(super) fn node_mut(&mut self, path: &str) -> Result<&mut Node, ErrorCode> {
        Arc::make_mut(&mut self.root).get_mut(path).ok_or(ErrorCode::NoNode)
    }

    /// Adds a node to the index of its owner.
    pub(super) fn register(&mut self, path: &Arc<str>, owner: Owner) {
        match owner {
            Owner::None => {}
            Owner::Session(id) => {
                self.ephemerals.entry(id).or_default().insert(Arc::clone(path));
            }
            Owner::Container => {
                self.containers.insert(Arc::clone(path));
            }
            Owner::Ttl(_) => {
                self.ttls.insert(Arc::clone(path));
            }
        }
    }

    /// Removes a node from the index of its owner.
    pub(super) fn unregister(&mut self, path: &Arc<str>, owner: Owner) {
        match owner {
            Owner::None => {}
            Owner::Session(id) => {
                if let Some(paths) = self.ephemerals.get_mut(&id) {
                    paths.remove(path);
                    if paths.is_empty() {
                        self.ephemerals.remove(&id);
                    }
                }
            }
            Owner::Container => {
                self.containers.remove(path);
            }
            Owner::Ttl(_) => {
                self.ttls.remove(path);
            }
        }
    }
}
