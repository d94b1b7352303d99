//! Reading a tree.

use std::fmt;

use zk_curator::{Acl, SessionId, Stat};
use zk_curator_proto::DecodeError;

use super::arena::{ArenaNode, NONE, NodeId};
use super::lists::AclList;
use super::stat::{Owner, StoredStat};
use super::tree::Tree;

/// A node of a [`Tree`].
#[derive(Clone, Copy)]
pub struct NodeRef<'t> {
    tree: &'t Tree,
    id: NodeId,
}

impl Tree {
    /// Returns the number of nodes, including the root.
    #[must_use]
    pub const fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// Returns `true` if the tree knows the node at this path, or knows that it does not exist: all
    /// nodes, or those below the paths to which it is restricted.
    #[must_use]
    pub fn covers(&self, path: &str) -> bool {
        self.scope.contains(path)
    }

    /// Returns the node at a path; `None` if it does not exist, and for paths that the tree does
    /// not [cover](Self::covers).
    #[must_use]
    pub fn get(&self, path: &str) -> Option<NodeRef<'_>> {
        if !self.covers(path) {
            return None;
        }
        self.find(path).map(|id| NodeRef { tree: self, id })
    }

    /// Returns a node and all nodes below it, parents before their children, children by name. The
    /// iterator is empty if the node does not exist.
    #[must_use]
    pub fn walk(&self, path: &str) -> Walk<'_> {
        Walk { tree: self, left: self.get(path).map(|node| node.id).into_iter().collect() }
    }

    /// Returns the open sessions and their timeouts in milliseconds.
    pub fn sessions(&self) -> impl Iterator<Item = (SessionId, i32)> {
        self.sessions.iter().map(|(id, timeout)| (SessionId::new(*id), *timeout))
    }

    /// Returns the paths of the ephemeral nodes of a session, sorted.
    #[must_use]
    pub fn ephemerals(&self, session: SessionId) -> Vec<String> {
        let ids = self.ephemerals.get(&session.get()).into_iter().flatten();
        let mut paths: Vec<_> = ids.map(|id| self.path(*id)).collect();
        paths.sort_unstable();
        paths
    }
}

impl<'t> NodeRef<'t> {
    /// Returns the path.
    #[must_use]
    pub fn path(&self) -> String {
        let path = self.tree.path(self.id);
        if path.is_empty() { "/".to_owned() } else { path }
    }

    /// Returns the name; empty for the root.
    #[must_use]
    pub fn name(&self) -> &'t str {
        self.tree.name(self.id)
    }

    /// Returns the data; `None` is Java's `null`.
    #[must_use]
    pub fn data(&self) -> Option<&'t [u8]> {
        self.node().data()
    }

    /// Returns the metadata as a server stores it.
    #[must_use]
    pub fn stored_stat(&self) -> StoredStat {
        self.node().stat
    }

    /// Returns the metadata as a client sees it.
    #[must_use]
    pub fn stat(&self) -> Stat {
        let length = self.data().map_or(0, <[u8]>::len);
        self.node().stat.to_stat(length, self.node().children)
    }

    /// Returns the owner, which tells ephemeral nodes, containers and nodes with a time to live.
    #[must_use]
    pub fn owner(&self) -> Owner {
        self.node().stat.owner()
    }

    /// Returns the ACL; `None` if the snapshot does not contain it.
    ///
    /// # Errors
    /// [`DecodeError::InvalidUtf8`] if a scheme or an identity is not text.
    pub fn acl(&self) -> Result<Option<Vec<Acl>>, DecodeError> {
        self.stored_acl().map(|acl| acl.to_vec()).transpose()
    }

    /// Returns the ACL in its stored form; `None` if the snapshot does not contain it.
    #[must_use]
    pub fn stored_acl(&self) -> Option<AclList<'t>> {
        self.tree.acl(self.node().acl)
    }

    /// Returns the number of children.
    #[must_use]
    pub fn child_count(&self) -> usize {
        self.node().children as usize
    }

    /// Returns the children, sorted by name.
    #[must_use]
    pub fn children(&self) -> Vec<Self> {
        let tree = self.tree;
        self.sorted().into_iter().map(|id| Self { tree, id }).collect()
    }

    fn sorted(&self) -> Vec<NodeId> {
        let mut ids = Vec::with_capacity(self.child_count());
        let mut child = self.node().first_child;
        while child != NONE {
            ids.push(child);
            child = self.tree.nodes[child].next;
        }
        ids.sort_unstable_by(|one, other| {
            self.tree.nodes[*one].name().cmp(self.tree.nodes[*other].name())
        });
        ids
    }

    fn node(&self) -> &'t ArenaNode {
        &self.tree.nodes[self.id]
    }
}

impl fmt::Debug for NodeRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeRef").field("path", &self.path()).finish_non_exhaustive()
    }
}

/// An iterator over a subtree: see [`Tree::walk`]. Its memory is bounded by the children of the
/// nodes on one path.
#[derive(Debug, Clone)]
pub struct Walk<'t> {
    tree: &'t Tree,
    left: Vec<NodeId>,
}

impl<'t> Iterator for Walk<'t> {
    type Item = NodeRef<'t>;

    fn next(&mut self) -> Option<NodeRef<'t>> {
        let node = NodeRef { tree: self.tree, id: self.left.pop()? };
        self.left.extend(node.sorted().into_iter().rev());
        Some(node)
    }
}
