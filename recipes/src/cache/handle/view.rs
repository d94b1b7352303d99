use std::fmt;
use std::sync::Arc;

use zk_curator::ErrorKind;

use crate::cache::state::{CachedNode, Freshness, Lookup};
use crate::cache::told::Contents;

/// The contents of a cache at one moment, without a copy: see
/// [`CuratorCache::read`](crate::cache::CuratorCache::read).
pub struct TreeView<'a>(&'a Contents);

impl<'a> TreeView<'a> {
    pub(crate) const fn new(contents: &'a Contents) -> Self {
        Self(contents)
    }

    /// Returns how fresh the contents are.
    #[must_use]
    pub const fn freshness(&self) -> Freshness {
        self.0.freshness
    }

    /// Returns the node at a path.
    #[must_use]
    pub fn get(&self, path: &str) -> Lookup<&'a Arc<CachedNode>> {
        self.0.state.lookup(path, self.0.is_loaded)
    }

    /// Returns the children of a node that have been read, sorted by name.
    pub fn children_of(&self, path: &str) -> impl Iterator<Item = &'a Arc<CachedNode>> + use<'a> {
        let dir = self.0.state.tree().entry(path).and_then(|entry| entry.dir.as_ref());
        let nodes = dir
            .into_iter()
            .flat_map(|dir| dir.children.values())
            .filter_map(|entry| entry.node.as_ref());
        nodes.filter(|node| node.is_kept)
    }

    /// Returns all nodes that have been read, parents before their children, and children sorted by
    /// name.
    pub fn nodes(&self) -> impl Iterator<Item = &'a Arc<CachedNode>> + use<'a> {
        let tree = self.0.state.tree();
        tree.walk(tree.root()).filter(|node| node.is_kept)
    }

    /// Returns the nodes that have been read at and below a path.
    pub fn nodes_below(&self, path: &str) -> impl Iterator<Item = &'a Arc<CachedNode>> + use<'a> {
        self.0.state.tree().walk(path).filter(|node| node.is_kept)
    }

    /// Returns the number of nodes.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.0.state.tree().len()
    }

    /// Returns `true` if there are no nodes.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the paths that exist, or may exist, but could not be read, with the reasons.
    pub fn unreadable(&self) -> impl Iterator<Item = (&'a str, &'a ErrorKind)> + use<'a> {
        self.0.state.unreadable().iter().map(|(path, kind)| (&**path, kind))
    }
}

impl fmt::Debug for TreeView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TreeView")
            .field("nodes", &self.len())
            .field("freshness", &self.freshness())
            .finish()
    }
}
