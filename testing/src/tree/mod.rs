//! The znode tree: transactions in, replies and changes out.
//!
//! Pure: no I/O, no async, no clock. The caller passes the transaction's zxid and time; the order of checks
//! and so the error of a request with several faults is that of Apache ZooKeeper.

mod image;
mod node;
mod owner;
mod path;
mod quota;
mod txn;
mod undo;

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use zk_curator_proto::ErrorCode;
use zk_curator_proto::records::{Acl, Permissions};

pub(crate) use node::Node;
pub(crate) use owner::Owner;
pub(crate) use path::parent;
pub(crate) use txn::Txn;
pub(crate) use undo::{Change, ChangeKind};

use crate::builder::Config;
use crate::collections::{Map, Set};
use crate::{SequenceOverflow, ZooKeeperVersion};

/// All nodes of a server.
#[derive(Debug, Clone)]
pub(crate) struct Tree {
    nodes: Map<Arc<str>, Node>,
    /// The nodes of every session that has any.
    ephemerals: Map<i64, BTreeSet<Arc<str>>>,
    /// Nodes the reaper has to look at.
    containers: Set<Arc<str>>,
    ttls: Set<Arc<str>>,
    /// The paths that have a quota.
    quotas: BTreeSet<String>,
    version: ZooKeeperVersion,
    sequence_overflow: SequenceOverflow,
    enforces_quotas: bool,
}

impl Tree {
    /// A tree with the nodes every server is born with.
    pub(crate) fn new(config: &Config) -> Self {
        let mut tree = Self {
            nodes: Map::default(),
            ephemerals: Map::default(),
            containers: Set::default(),
            ttls: Set::default(),
            quotas: BTreeSet::new(),
            version: config.version,
            sequence_overflow: config.sequence_overflow,
            enforces_quotas: config.enforce_quotas,
        };
        let open: Arc<[Acl]> = Acl::open_unsafe().into();
        for path in path::SPECIAL {
            let node = Node::new(Some(Bytes::new()), Arc::clone(&open), Owner::None, 0, 0);
            tree.nodes.insert(path.into(), node);
        }
        // Linked by hand: the children every server has do not count in the counter of their parent.
        for (parent, name) in [("/", "zookeeper"), ("/zookeeper", "quota"), ("/zookeeper", "config")] {
            if let Some(node) = tree.nodes.get_mut(parent) {
                node.children.insert(name.into());
            }
        }
        if let Some(config) = tree.nodes.get_mut("/zookeeper/config") {
            config.acl = vec![Acl::new(Permissions::READ, "world", "anyone")].into();
            config.aversion = -1;
        }
        tree
    }

    /// The node at `path`. The empty path is an alias of `/`, as on Apache ZooKeeper.
    pub(crate) fn get(&self, path: &str) -> Option<&Node> {
        self.nodes.get(resolve(path))
    }

    /// Every node with its path, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Node)> {
        self.nodes.iter()
    }

    /// How many nodes there are below `path`, as Apache ZooKeeper counts them: the empty path is above the root.
    pub(crate) fn count_below(&self, path: &str) -> usize {
        match path {
            "" => self.nodes.len(),
            "/" => self.nodes.len() - 1,
            _ => {
                let below =
                    |other: &&Arc<str>| other.strip_prefix(path).is_some_and(|rest| rest.starts_with('/'));
                self.nodes.keys().filter(below).count()
            }
        }
    }

    /// The ephemeral nodes of a session, sorted.
    pub(crate) fn ephemerals(&self, session: i64) -> impl Iterator<Item = &Arc<str>> {
        self.ephemerals.get(&session).into_iter().flatten()
    }

    /// The sessions that have ephemeral nodes, sorted, and these.
    pub(crate) fn owners(&self) -> impl Iterator<Item = (i64, &BTreeSet<Arc<str>>)> {
        let mut owners: Vec<_> = self.ephemerals.iter().map(|(owner, paths)| (*owner, paths)).collect();
        owners.sort_unstable_by_key(|(owner, _)| *owner);
        owners.into_iter()
    }

    /// Makes `next` the number of the next sequential child of `path`.
    pub(crate) fn set_sequence(&mut self, path: &str, next: i32) -> Result<(), ErrorCode> {
        self.node_mut(path)?.created_children = next;
        Ok(())
    }

    pub(crate) const fn set_sequence_overflow(&mut self, overflow: SequenceOverflow) {
        self.sequence_overflow = overflow;
    }

    /// Containers whose last child is gone, and nodes whose time to live has passed, sorted. A container
    /// that never had a child is left alone for `never_used_millis`; zero is for ever.
    pub(crate) fn reapable(&self, time: i64, never_used_millis: i64) -> Vec<Arc<str>> {
        let due = |path: &Arc<str>| {
            self.nodes.get(path).is_some_and(|node| {
                let age = time - node.mtime;
                node.children.is_empty()
                    && match node.owner {
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

    fn node(&self, path: &str) -> Result<&Node, ErrorCode> {
        self.get(path).ok_or(ErrorCode::NoNode)
    }

    fn node_mut(&mut self, path: &str) -> Result<&mut Node, ErrorCode> {
        self.nodes.get_mut(resolve(path)).ok_or(ErrorCode::NoNode)
    }
}

const fn resolve(path: &str) -> &str {
    if path.is_empty() { "/" } else { path }
}

#[cfg(test)]
mod tests;
