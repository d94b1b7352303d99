//! The knowledge of a path.

use std::sync::Arc;

use zk_curator::{EventType, WatchedEvent};

use super::node::{CachedNode, Lookup};
use super::tree::parent;
use super::tree_state::TreeState;

impl TreeState {
    /// The paths that may exist, or may have more children than the known ones, and are being
    /// read.
    pub(crate) fn undecided(&self) -> Vec<String> {
        let is_open = |path: &&str| {
            !self.unreadable.contains(path)
                && self.tree.entry(path).is_some()
                && self.reads.doubts(path, self.tree.node(path).is_some())
        };
        self.reads.open().filter(is_open).map(str::to_owned).collect()
    }

    /// Returns `true` if the cache covers only the root.
    pub(crate) fn is_of_one_node(&self) -> bool {
        self.scope.max_depth == Some(0)
    }

    /// Returns `true` if an event may change the shown contents.
    pub(crate) fn concerns(&self, event: &WatchedEvent) -> bool {
        let path = event.path.as_str();
        self.covers(path)
            && (event.event_type != EventType::NodeChildrenChanged || self.lists(path))
    }

    /// Returns the state of a path. `loaded` is `true` if the first load is complete.
    pub(crate) fn lookup(&self, path: &str, loaded: bool) -> Lookup<&Arc<CachedNode>> {
        if let Some(node) = self.tree.node(path).filter(|node| node.is_kept) {
            return Lookup::Present(node);
        }
        if !self.covers(path) || !self.keeps(path) {
            return Lookup::Unknown;
        }
        let mut place = path;
        while self.tree.entry(place).is_none() {
            let Some(parent) = parent(place) else { return Lookup::Unknown };
            place = parent;
        }
        let is_open = self.reads.doubts(place, self.tree.node(place).is_some());
        if loaded && !is_open && !self.unreadable.contains(place) {
            Lookup::Absent
        } else {
            Lookup::Unknown
        }
    }

    /// Returns `true` if a path is in the scope of the cache.
    pub(crate) fn covers(&self, path: &str) -> bool {
        let Some(depth) = self.tree.depth(path) else { return false };
        if self.scope.max_depth.is_some_and(|most| depth > most) {
            return false;
        }
        let Some(filter) = &self.scope.filter else { return true };
        let mut place = path;
        while place != self.tree.root() {
            if !filter(place) {
                return false;
            }
            let Some(parent) = parent(place) else { break };
            place = parent;
        }
        true
    }

    /// Returns `true` if a node is shown to users if it is in the scope.
    pub(crate) fn keeps(&self, path: &str) -> bool {
        self.scope.kept.as_ref().is_none_or(|kept| kept(path))
    }

    /// Returns `true` if the children of a path are in the scope.
    pub(crate) fn lists(&self, path: &str) -> bool {
        let depth = self.tree.depth(path);
        depth.is_some_and(|depth| self.scope.max_depth.is_none_or(|most| depth < most))
    }
}
