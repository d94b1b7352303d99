//! The watch tables: who is told when a node changes.
//!
//! A watch belongs to a connection, not to a session: a client sets its watches again after a reconnect.
//! There are two tables, as on Apache ZooKeeper: `exists` and `getData` leave their watches in the first,
//! `getChildren` in the second, and a persistent watch is in both. Releases differ in what happens when a
//! connection has several watches on one path, see [`ZooKeeperVersion`].

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use zk_curator_proto::records::{Acl, EventType, WatcherType};

use crate::ZooKeeperVersion;
use crate::collections::{Map, Set};
use crate::tree::{Change, ChangeKind, parent};

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
    /// Who may know of it.
    pub(crate) acl: Arc<[Acl]>,
}

/// All watches of a server.
#[derive(Debug)]
pub(crate) struct WatchTable {
    version: ZooKeeperVersion,
    data: Table,
    child: Table,
}

impl WatchTable {
    pub(crate) fn new(version: ZooKeeperVersion) -> Self {
        Self { version, data: Table::new(version), child: Table::new(version) }
    }

    /// Leaves a one-shot watch for creation, change and deletion of the node.
    pub(crate) fn watch_data(&mut self, path: &str, watcher: ConnectionId) {
        self.data.add(path, watcher, WatchMode::OneShot);
    }

    /// Leaves a one-shot watch for the children and the deletion of the node.
    pub(crate) fn watch_children(&mut self, path: &str, watcher: ConnectionId) {
        self.child.add(path, watcher, WatchMode::OneShot);
    }

    /// Leaves a watch that stays. A recursive one is told of nodes only, not of changed child lists.
    pub(crate) fn watch_persistently(&mut self, path: &str, watcher: ConnectionId, mode: WatchMode) {
        self.data.add(path, watcher, mode);
        if mode != WatchMode::Recursive || self.version == ZooKeeperVersion::V3_8 {
            self.child.add(path, watcher, mode);
        }
    }

    /// Whether there is a watch of this type. 3.8 asks only whether anybody has one on the path.
    pub(crate) fn contains(&self, path: &str, watcher: ConnectionId, kind: WatcherType) -> bool {
        let (data, child) = (&self.data, &self.child);
        let has = |table: &Table, mode| table.contains(path, watcher, mode);
        match kind {
            WatcherType::Children => has(child, Some(WatchMode::OneShot)),
            WatcherType::Data => has(data, Some(WatchMode::OneShot)),
            WatcherType::Persistent => has(data, Some(WatchMode::Persistent)),
            WatcherType::PersistentRecursive => has(data, Some(WatchMode::Recursive)),
            _ => has(child, None) || has(data, None),
        }
    }

    /// Removes watches of this type; whether there was one. 3.8 removes whatever watch is in the table.
    pub(crate) fn remove(&mut self, path: &str, watcher: ConnectionId, kind: WatcherType) -> bool {
        let (data, child) = (&mut self.data, &mut self.child);
        match kind {
            WatcherType::Children => child.remove(path, watcher, Some(WatchMode::OneShot)),
            WatcherType::Data => data.remove(path, watcher, Some(WatchMode::OneShot)),
            WatcherType::Persistent => {
                let removed = child.remove(path, watcher, Some(WatchMode::Persistent));
                data.remove(path, watcher, Some(WatchMode::Persistent)) || removed
            }
            WatcherType::PersistentRecursive => data.remove(path, watcher, Some(WatchMode::Recursive)),
            _ => {
                let removed = child.remove(path, watcher, None);
                data.remove(path, watcher, None) || removed
            }
        }
    }

    /// Forgets every watch of a connection.
    pub(crate) fn forget(&mut self, watcher: ConnectionId) {
        self.data.forget(watcher);
        self.child.forget(watcher);
    }

    /// The notifications of a change, in the order in which they are sent. One-shot watches are used up.
    pub(crate) fn trigger(&mut self, change: &Change) -> Vec<Notification> {
        let mut out = Vec::new();
        let path = &change.path;
        let mut tell = |watchers: &[ConnectionId], event: EventType, path: &Arc<str>, acl: &Arc<[Acl]>| {
            out.extend(watchers.iter().map(|&watcher| Notification {
                watcher,
                event,
                path: Arc::clone(path),
                acl: Arc::clone(acl),
            }));
        };
        match change.kind {
            ChangeKind::Created => {
                let event = EventType::NodeCreated;
                tell(&self.data.trigger(path, event), event, path, &change.acl);
            }
            ChangeKind::Deleted => {
                let event = EventType::NodeDeleted;
                let told = self.data.trigger(path, event);
                tell(&told, event, path, &change.acl);
                let mut others = self.child.trigger(path, event);
                others.retain(|watcher| told.binary_search(watcher).is_err());
                tell(&others, event, path, &change.acl);
            }
            ChangeKind::DataChanged => {
                let event = EventType::NodeDataChanged;
                tell(&self.data.trigger(path, event), event, path, &change.acl);
            }
        }
        if let Some(acl) = &change.parent_acl {
            let (event, parent) = (EventType::NodeChildrenChanged, parent(path));
            tell(&self.child.trigger(parent, event), event, &parent.into(), acl);
        }
        out
    }

    /// The first table, which the four-letter words are about.
    pub(crate) const fn of_nodes(&self) -> &Table {
        &self.data
    }

    /// How many watches there are: one per table, connection and path.
    pub(crate) fn len(&self) -> usize {
        self.data.by_path.values().chain(self.child.by_path.values()).map(BTreeMap::len).sum()
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
#[derive(Debug)]
pub(crate) struct Table {
    version: ZooKeeperVersion,
    by_path: Map<Arc<str>, BTreeMap<ConnectionId, Modes>>,
    /// A watcher stays here when its last watch has fired, as on Apache ZooKeeper, whose four-letter words count it.
    by_watcher: BTreeMap<ConnectionId, Set<Arc<str>>>,
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

impl Modes {
    const fn of(mode: WatchMode) -> Self {
        let (one_shot, persistent) =
            (matches!(mode, WatchMode::OneShot), matches!(mode, WatchMode::Persistent));
        Self { one_shot, persistent, recursive: matches!(mode, WatchMode::Recursive) }
    }

    const fn has(self, mode: WatchMode) -> bool {
        match mode {
            WatchMode::OneShot => self.one_shot,
            WatchMode::Persistent => self.persistent,
            WatchMode::Recursive => self.recursive,
        }
    }

    const fn with(self, mode: WatchMode) -> Self {
        let more = Self::of(mode);
        Self {
            one_shot: self.one_shot || more.one_shot,
            persistent: self.persistent || more.persistent,
            recursive: self.recursive || more.recursive,
        }
    }

    const fn without(self, mode: WatchMode) -> Self {
        let less = Self::of(mode);
        Self {
            one_shot: self.one_shot && !less.one_shot,
            persistent: self.persistent && !less.persistent,
            recursive: self.recursive && !less.recursive,
        }
    }

    const fn is_none(self) -> bool {
        !(self.one_shot || self.persistent || self.recursive)
    }
}

impl Table {
    fn new(version: ZooKeeperVersion) -> Self {
        Self { version, by_path: Map::default(), by_watcher: BTreeMap::new(), recursive: 0 }
    }

    /// The paths with watches, and who watches each.
    pub(crate) fn paths(&self) -> impl Iterator<Item = (&Arc<str>, impl Iterator<Item = ConnectionId>)> {
        self.by_path.iter().map(|(path, watchers)| (path, watchers.keys().copied()))
    }

    /// The watchers, and what each watches.
    pub(crate) fn watchers(&self) -> impl Iterator<Item = (ConnectionId, &Set<Arc<str>>)> {
        self.by_watcher.iter().map(|(watcher, paths)| (*watcher, paths))
    }

    fn add(&mut self, path: &str, watcher: ConnectionId, mode: WatchMode) {
        let path: Arc<str> = match self.by_path.get_key_value(path) {
            Some((known, _)) => Arc::clone(known),
            None => path.into(),
        };
        self.by_watcher.entry(watcher).or_default().insert(Arc::clone(&path));
        let modes = self.by_path.entry(path).or_default().entry(watcher).or_default();
        let before = *modes;
        *modes = match self.version {
            ZooKeeperVersion::V3_8 => Modes::of(mode),
            ZooKeeperVersion::V3_9 => before.with(mode),
        };
        self.recursive = self.recursive + usize::from(modes.recursive) - usize::from(before.recursive);
    }

    fn contains(&self, path: &str, watcher: ConnectionId, mode: Option<WatchMode>) -> bool {
        let Some(watchers) = self.by_path.get(path) else { return false };
        match self.version {
            ZooKeeperVersion::V3_8 => true,
            ZooKeeperVersion::V3_9 => {
                watchers.get(&watcher).is_some_and(|modes| mode.is_none_or(|mode| modes.has(mode)))
            }
        }
    }

    /// Removes one mode or all; whether there was anything to remove.
    fn remove(&mut self, path: &str, watcher: ConnectionId, mode: Option<WatchMode>) -> bool {
        let mode = mode.filter(|_| self.version != ZooKeeperVersion::V3_8);
        let Some(watchers) = self.by_path.get_mut(path) else { return false };
        let Some(modes) = watchers.get_mut(&watcher) else { return false };
        let before = *modes;
        *modes = mode.map_or_else(Modes::default, |mode| before.without(mode));
        let after = *modes;
        self.recursive -= usize::from(before.recursive && !after.recursive);
        if after.is_none() {
            watchers.remove(&watcher);
            if watchers.is_empty() {
                self.by_path.remove(path);
            }
            if let Some(paths) = self.by_watcher.get_mut(&watcher) {
                paths.remove(path);
                if paths.is_empty() && self.version != ZooKeeperVersion::V3_8 {
                    self.by_watcher.remove(&watcher);
                }
            }
        }
        mode.is_none_or(|mode| before.has(mode))
    }

    fn forget(&mut self, watcher: ConnectionId) {
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

    /// Who is told of an event at `path`, sorted, each once.
    fn trigger(&mut self, path: &str, event: EventType) -> Vec<ConnectionId> {
        let mut told = Vec::new();
        let of_nodes = event != EventType::NodeChildrenChanged;
        if let Some(watchers) = self.by_path.get_mut(path) {
            let hear = |modes: &Modes| modes.one_shot || modes.persistent || (modes.recursive && of_nodes);
            told.extend(watchers.iter().filter(|(_, modes)| hear(modes)).map(|(watcher, _)| *watcher));
            watchers.retain(|watcher, modes| {
                *modes = modes.without(WatchMode::OneShot);
                if modes.is_none()
                    && let Some(paths) = self.by_watcher.get_mut(watcher)
                {
                    paths.remove(path);
                }
                !modes.is_none()
            });
            if watchers.is_empty() {
                self.by_path.remove(path);
            }
        }
        if self.recursive > 0 && of_nodes {
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

    fn created(path: &str) -> Change {
        change(ChangeKind::Created, path)
    }

    fn deleted(path: &str) -> Change {
        change(ChangeKind::Deleted, path)
    }

    fn set(path: &str) -> Change {
        Change { parent_acl: None, ..change(ChangeKind::DataChanged, path) }
    }

    fn change(kind: ChangeKind, path: &str) -> Change {
        Change {
            kind,
            path: path.into(),
            czxid: 0,
            is_ephemeral: false,
            acl: [].into(),
            parent_acl: Some([].into()),
        }
    }

    fn table() -> WatchTable {
        WatchTable::new(ZooKeeperVersion::V3_9)
    }

    fn told(table: &mut WatchTable, change: Change) -> Vec<(ConnectionId, EventType, String)> {
        table.trigger(&change).into_iter().map(|n| (n.watcher, n.event, n.path.to_string())).collect()
    }

    #[test]
    fn a_one_shot_watch_fires_once() {
        let mut table = table();
        table.watch_data("/a", 1);
        assert_eq!(told(&mut table, set("/a")), [(1, EventType::NodeDataChanged, "/a".into())]);
        assert_eq!(told(&mut table, set("/a")), []);
        assert_eq!(table.list(), []);
        assert!(table.data.by_path.is_empty());
    }

    #[test]
    fn a_deletion_is_told_once_to_a_watcher_of_data_and_children() {
        let mut table = table();
        table.watch_data("/a/b", 1);
        table.watch_children("/a/b", 1);
        table.watch_children("/a/b", 2);
        table.watch_children("/a", 1);
        assert_eq!(
            told(&mut table, deleted("/a/b")),
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
        let mut table = table();
        table.watch_data("/a", 1);
        table.watch_children("/", 2);
        table.watch_data("/", 3);
        assert_eq!(
            told(&mut table, created("/a")),
            [(1, EventType::NodeCreated, "/a".into()), (2, EventType::NodeChildrenChanged, "/".into())]
        );
        assert_eq!(table.list(), [(3, "/".into(), WatchKind::Data)]);
    }

    #[test]
    fn persistent_watches_stay_and_one_shot_watches_beside_them_go() {
        let mut table = table();
        table.watch_persistently("/a", 1, WatchMode::Persistent);
        table.watch_data("/a", 1);
        for _ in 0..2 {
            assert_eq!(told(&mut table, set("/a")), [(1, EventType::NodeDataChanged, "/a".into())]);
        }
        assert_eq!(table.list(), [(1, "/a".into(), WatchKind::Persistent)]);
    }

    #[test]
    fn recursive_watches_see_descendants_but_no_child_lists() {
        let mut table = table();
        table.watch_persistently("/", 1, WatchMode::Recursive);
        table.watch_persistently("/a", 1, WatchMode::Recursive);
        assert_eq!(told(&mut table, created("/a/b/c")), [(1, EventType::NodeCreated, "/a/b/c".into())]);
        assert_eq!(told(&mut table, deleted("/x")), [(1, EventType::NodeDeleted, "/x".into())]);
        table.forget(1);
        assert_eq!(table.data.recursive, 0);
        assert_eq!(told(&mut table, created("/a/b/c")), []);
    }

    #[test]
    fn watches_are_removed_by_kind() {
        let mut table = table();
        table.watch_data("/a", 1);
        table.watch_children("/a", 1);
        table.watch_persistently("/a", 1, WatchMode::Persistent);
        table.watch_persistently("/a", 1, WatchMode::Recursive);
        let kinds = [
            WatcherType::Data,
            WatcherType::Children,
            WatcherType::Persistent,
            WatcherType::PersistentRecursive,
        ];
        for kind in kinds {
            assert!(table.contains("/a", 1, kind) && !table.contains("/a", 2, kind), "{kind:?}");
            assert!(!table.remove("/a", 2, kind) && !table.remove("/b", 1, kind), "{kind:?}");
            assert!(table.remove("/a", 1, kind) && !table.remove("/a", 1, kind), "{kind:?}");
        }
        assert!(!table.contains("/a", 1, WatcherType::Any) && !table.remove("/a", 1, WatcherType::Any));
        assert_eq!((table.list().len(), table.data.recursive), (0, 0));
    }

    #[test]
    fn any_removes_every_kind() {
        let mut table = table();
        table.watch_data("/a", 1);
        table.watch_persistently("/a", 1, WatchMode::Recursive);
        table.watch_children("/a", 2);
        assert!(table.remove("/a", 1, WatcherType::Any));
        assert_eq!(table.list(), [(2, "/a".into(), WatchKind::Child)]);
        assert_eq!(table.data.recursive, 0);
    }

    #[test]
    fn in_3_8_a_one_shot_watch_replaces_a_persistent_one_in_its_table() {
        let mut table = WatchTable::new(ZooKeeperVersion::V3_8);
        table.watch_persistently("/a", 1, WatchMode::Recursive);
        table.watch_data("/a", 1);
        assert_eq!(table.data.recursive, 0);
        assert_eq!(told(&mut table, set("/a/b")), []);
        // The second table still has it.
        assert_eq!(told(&mut table, deleted("/a/b")), [(1, EventType::NodeDeleted, "/a/b".into())]);
        assert_eq!(told(&mut table, set("/a")), [(1, EventType::NodeDataChanged, "/a".into())]);
        assert_eq!(told(&mut table, set("/a")), []);
        assert!(table.contains("/a", 7, WatcherType::Any), "of another connection");
        assert!(table.remove("/a", 1, WatcherType::Children));
    }
}
