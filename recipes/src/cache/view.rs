use std::fmt;
use std::sync::Arc;

use zk_curator::ErrorKind;

use super::freshness::Freshness;
use super::node::{CachedNode, Lookup};
use super::shared::Inner;
use super::snapshot::Snapshot;

/// The contents of a cache at one moment, without a copy: see [`CuratorCache::read`](super::CuratorCache::read).
pub struct TreeView<'a>(&'a Inner);

impl<'a> TreeView<'a> {
    pub(super) const fn new(inner: &'a Inner) -> Self {
        Self(inner)
    }

    /// How far the contents can be trusted.
    #[must_use]
    pub const fn freshness(&self) -> Freshness {
        self.0.freshness
    }

    /// The node at a path.
    #[must_use]
    pub fn get(&self, path: &str) -> Lookup<&'a Arc<CachedNode>> {
        self.0.state.lookup(path, self.0.is_loaded)
    }

    /// The children of a node that have been read, in the order of their names.
    pub fn children_of(&self, path: &str) -> impl Iterator<Item = &'a Arc<CachedNode>> + use<'a> {
        let dir = self.0.state.tree().entry(path).and_then(|entry| entry.dir.as_ref());
        dir.into_iter().flat_map(|dir| dir.children.values()).filter_map(|entry| entry.node.as_ref())
    }

    /// All nodes that have been read, parents before their children, and these in the order of their names.
    pub fn nodes(&self) -> impl Iterator<Item = &'a Arc<CachedNode>> + use<'a> {
        let tree = self.0.state.tree();
        tree.walk(tree.root())
    }

    /// The nodes that have been read at and below a path.
    pub fn nodes_below(&self, path: &str) -> impl Iterator<Item = &'a Arc<CachedNode>> + use<'a> {
        self.0.state.tree().walk(path)
    }

    /// The number of nodes.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.0.state.tree().len()
    }

    /// Whether there are no nodes.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The paths that exist, or may exist, and could not be read; and why.
    pub fn unreadable(&self) -> impl Iterator<Item = (&'a str, &'a ErrorKind)> + use<'a> {
        self.0.state.unreadable().iter().map(|(path, kind)| (&**path, kind))
    }
}

impl fmt::Debug for TreeView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TreeView").field("nodes", &self.len()).field("freshness", &self.freshness()).finish()
    }
}

impl Snapshot {
    pub(super) fn of(inner: &Inner) -> Self {
        let view = TreeView::new(inner);
        Self {
            zxid: inner.freshness.zxid().unwrap_or_default(),
            nodes: view.nodes().cloned().collect(),
            unreadable: view.unreadable().map(|(path, kind)| (path.to_owned(), *kind)).collect(),
        }
    }
}
