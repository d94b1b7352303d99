//! The watch tables: who is told when a node changes.
//!
//! A watch belongs to a connection, not to a session: a client sets its watches again after a reconnect.
//! There are two tables, as on Apache ZooKeeper: `exists` and `getData` leave their watches in the first,
//! `getChildren` in the second, and a persistent watch is in both.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use zk_curator_proto::records::EventType;

use crate::collections::{Map, Set};
use crate::tree::{Change, parent};

/// Identifies a connection for as long as the server object lives.
pub(crate) type ConnectionId = u64;

/// How long a watch lasts and what it covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WatchMode {
    /// Fires once.
    OneShot,
    /// Fires until it is removed.
    Persistent,
    /// Fires until it is removed, for the node and everything below it.
    Recursive,
}

/// The kind of a watch in a [`crate::Probe`].
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum WatchKind {
    /// One-shot, left by `exists` or `getData`.
    Data,
    /// One-shot, left by `getChildren`.
    Child,
    /// Persistent.
    Persistent,
    /// Persistent, for the node and everything below it.
    PersistentRecursive,
}

impl fmt::Display for WatchKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Data => "data",
            Self::Child => "child",
            Self::Persistent => "persistent",
            Self::PersistentRecursive => "persistent recursive",
        })
    }
}

/// An event for one connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Notification {
    pub(crate) watcher: ConnectionId,
    pub(crate) event: EventType,
    pub(crate) path: Arc<str>,
}

/// All watches of a server.
#[derive(Debug, Default)]
pub(crate) struct WatchTable {
    data: Table,
    child: Table,
}

impl WatchTable {
    /// Leaves a one-shot watch for creation, change and deletion of the node.
    pub(crate) fn watch_data(&mut self, path: &str, watcher: ConnectionId) {
        self.data.add(path, watcher, WatchMode::OneShot);
    }

    /// Leaves a one-shot watch for the children and the deletion of the node.
    pub(crate) fn watch_children(&mut self, path: &str, watcher: ConnectionId) {
        self.child.add(path, watcher, WatchMode::OneShot);
    }

    /// Leaves a watch that stays. A recursive one is told of nodes only, not of changed child lists, and so
    /// is in the first table only.
    pub(crate) fn watch_persistently(&mut self, path: &str, watcher: ConnectionId, mode: WatchMode) {
        self.data.add(path, watcher, mode);
        if mode != WatchMode::Recursive {
            self.child.add(path, watcher, mode);
        }
    }

    /// Forgets every watch of a connection.
    pub(crate) fn remove(&mut self, watcher: ConnectionId) {
        self.data.remove(watcher);
        self.child.remove(watcher);
    }

    /// The notifications of a change, in the order in which they are sent. One-shot watches are used up.
    pub(crate) fn trigger(&mut self, change: &Change) -> Vec<Notification> {
        let mut out = Vec::new();
        let mut tell = |watchers: &[ConnectionId], event: EventType, path: &Arc<str>| {
            let notify = |&watcher: &ConnectionId| Notification { watcher, event, path: Arc::clone(path) };
            out.extend(watchers.iter().map(notify));
        };
        match change {
            Change::Created(path) => {
                tell(&self.data.trigger(path), EventType::NodeCreated, path);
                let parent = parent(path);
                tell(&self.child.trigger(parent), EventType::NodeChildrenChanged, &parent.into());
            }
            Change::Deleted(path) => {
                let told = self.data.trigger(path);
                tell(&told, EventType::NodeDeleted, path);
                let mut others = self.child.trigger(path);
                others.retain(|watcher| told.binary_search(watcher).is_err());
                tell(&others, EventType::NodeDeleted, path);
                let parent = parent(path);
                tell(&self.child.trigger(parent), EventType::NodeChildrenChanged, &parent.into());
            }
            Change::DataChanged(path) => tell(&self.data.trigger(path), EventType::NodeDataChanged, path),
        }
        out
    }

    /// Every watch, sorted.
    pub(crate) fn list(&self) -> Vec<(ConnectionId, Arc<str>, WatchKind)> {
        let mut all: Vec<_> =
            self.data.list(WatchKind::Data).chain(self.child.list(WatchKind::Child)).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

/// Watches by path and by watcher.
#[derive(Debug, Default)]
struct Table {
    by_path: Map<Arc<str>, BTreeMap<ConnectionId, Modes>>,
    by_watcher: Map<ConnectionId, Set<Arc<str>>>,
    /// How many recursive watches there are: while there are none, ancestors need not be looked at.
    recursive: usize,
}

/// The watches of one watcher on one path; one of each mode at most.
#[derive(Debug, Clone, Copy, Default)]
struct Modes {
    one_shot: bool,
    persistent: bool,
    recursive: bool,
}

impl Table {
    fn add(&mut self, path: &str, watcher: ConnectionId, mode: WatchMode) {
        let path: Arc<str> = match self.by_path.get_key_value(path) {
            Some((known, _)) => Arc::clone(known),
            None => path.into(),
        };
        self.by_watcher.entry(watcher).or_default().insert(Arc::clone(&path));
        let modes = self.by_path.entry(path).or_default().entry(watcher).or_default();
        match mode {
            WatchMode::OneShot => modes.one_shot = true,
            WatchMode::Persistent => modes.persistent = true,
            WatchMode::Recursive => {
                self.recursive += usize::from(!modes.recursive);
                modes.recursive = true;
            }
        }
    }

    fn remove(&mut self, watcher: ConnectionId) {
        for path in self.by_watcher.remove(&watcher).unwrap_or_default() {
            let Some(watchers) = self.by_path.get_mut(&path) else {
                continue;
            };
            if watchers.remove(&watcher).is_some_and(|modes| modes.recursive) {
                self.recursive -= 1;
            }
            if watchers.is_empty() {
                self.by_path.remove(&path);
            }
        }
    }

    /// Who is told of a change at `path`, sorted, each once.
    fn trigger(&mut self, path: &str) -> Vec<ConnectionId> {
        let mut told = Vec::new();
        if let Some(watchers) = self.by_path.get_mut(path) {
            told.extend(watchers.keys().copied());
            watchers.retain(|watcher, modes| {
                modes.one_shot = false;
                let stays = modes.persistent || modes.recursive;
                if !stays && let Some(paths) = self.by_watcher.get_mut(watcher) {
                    paths.remove(path);
                    if paths.is_empty() {
                        self.by_watcher.remove(watcher);
                    }
                }
                stays
            });
            if watchers.is_empty() {
                self.by_path.remove(path);
            }
        }
        if self.recursive > 0 {
            let mut below = path;
            while below != "/" {
                below = parent(below);
                let watchers = self.by_path.get(below).into_iter().flatten();
                told.extend(watchers.filter(|(_, modes)| modes.recursive).map(|(watcher, _)| *watcher));
            }
            told.sort_unstable();
            told.dedup();
        }
        told
    }

    fn list(&self, one_shot: WatchKind) -> impl Iterator<Item = (ConnectionId, Arc<str>, WatchKind)> {
        self.by_path.iter().flat_map(move |(path, watchers)| {
            watchers.iter().flat_map(move |(&watcher, modes)| {
                [
                    modes.one_shot.then_some(one_shot),
                    modes.persistent.then_some(WatchKind::Persistent),
                    modes.recursive.then_some(WatchKind::PersistentRecursive),
                ]
                .into_iter()
                .flatten()
                .map(move |kind| (watcher, Arc::clone(path), kind))
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(table: &mut WatchTable, change: Change) -> Vec<(ConnectionId, EventType, String)> {
        table.trigger(&change).into_iter().map(|n| (n.watcher, n.event, n.path.to_string())).collect()
    }

    #[test]
    fn a_one_shot_watch_fires_once() {
        let mut table = WatchTable::default();
        table.watch_data("/a", 1);
        assert_eq!(
            told(&mut table, Change::DataChanged("/a".into())),
            [(1, EventType::NodeDataChanged, "/a".into())]
        );
        assert_eq!(told(&mut table, Change::DataChanged("/a".into())), []);
        assert_eq!(table.list(), []);
        assert!(table.data.by_path.is_empty() && table.data.by_watcher.is_empty());
    }

    #[test]
    fn a_deletion_is_told_once_to_a_watcher_of_data_and_children() {
        let mut table = WatchTable::default();
        table.watch_data("/a/b", 1);
        table.watch_children("/a/b", 1);
        table.watch_children("/a/b", 2);
        table.watch_children("/a", 1);
        assert_eq!(
            told(&mut table, Change::Deleted("/a/b".into())),
            [
                (1, EventType::NodeDeleted, "/a/b".into()),
                (2, EventType::NodeDeleted, "/a/b".into()),
                (1, EventType::NodeChildrenChanged, "/a".into()),
            ]
        );
        assert_eq!(table.list(), []);
    }

    #[test]
    fn creation_is_told_to_exist_watches_and_to_the_parent() {
        let mut table = WatchTable::default();
        table.watch_data("/a", 1);
        table.watch_children("/", 2);
        table.watch_data("/", 3);
        assert_eq!(
            told(&mut table, Change::Created("/a".into())),
            [(1, EventType::NodeCreated, "/a".into()), (2, EventType::NodeChildrenChanged, "/".into())]
        );
        assert_eq!(table.list(), [(3, "/".into(), WatchKind::Data)]);
    }

    #[test]
    fn persistent_watches_stay_and_one_shot_watches_beside_them_go() {
        let mut table = WatchTable::default();
        table.watch_persistently("/a", 1, WatchMode::Persistent);
        table.watch_data("/a", 1);
        for _ in 0..2 {
            assert_eq!(
                told(&mut table, Change::DataChanged("/a".into())),
                [(1, EventType::NodeDataChanged, "/a".into())]
            );
        }
        assert_eq!(table.list(), [(1, "/a".into(), WatchKind::Persistent)]);
    }

    #[test]
    fn recursive_watches_see_descendants_but_no_child_lists() {
        let mut table = WatchTable::default();
        table.watch_persistently("/", 1, WatchMode::Recursive);
        table.watch_persistently("/a", 1, WatchMode::Recursive);
        assert_eq!(
            told(&mut table, Change::Created("/a/b/c".into())),
            [(1, EventType::NodeCreated, "/a/b/c".into())]
        );
        assert_eq!(
            told(&mut table, Change::Deleted("/x".into())),
            [(1, EventType::NodeDeleted, "/x".into())]
        );
        table.remove(1);
        assert_eq!(table.data.recursive, 0);
        assert_eq!(told(&mut table, Change::Created("/a/b/c".into())), []);
    }
}
