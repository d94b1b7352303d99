//! [`WatchTable`]: the watches of a server.
//!
//! A watch belongs to a connection, not to a session: a client sets its watches again after a
//! reconnect. There are two tables, as in Apache ZooKeeper: watches of `exists` and `getData` are
//! in the first, those of `getChildren` in the second, and persistent watches in both. For several
//! watches of a connection on one path, releases differ, see [`ZooKeeperVersion`].

mod kind;
mod table;

use std::sync::Arc;

use zk_curator_proto::records::{Acl, EventType, WatcherType};

pub use kind::WatchKind;
pub(crate) use kind::WatchMode;
use table::Table;

use crate::ids::ConnectionId;
use crate::tree::{Change, ChangeKind, parent};
use crate::version::ZooKeeperVersion;

/// An event for one connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Notification {
    pub(crate) watcher: ConnectionId,
    pub(crate) event: EventType,
    pub(crate) path: Arc<str>,
    /// The ACL to check before sending.
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

    /// Adds a one-shot watch for creation, change and deletion of a node.
    pub(crate) fn watch_data(&mut self, path: &str, watcher: ConnectionId) {
        self.data.add(path, watcher, WatchMode::OneShot);
    }

    /// Adds a one-shot watch for the children and the deletion of a node.
    pub(crate) fn watch_children(&mut self, path: &str, watcher: ConnectionId) {
        self.child.add(path, watcher, WatchMode::OneShot);
    }

    /// Adds a persistent watch. A recursive one does not receive changes of child lists.
    pub(crate) fn watch_persistently(
        &mut self,
        path: &str,
        watcher: ConnectionId,
        mode: WatchMode,
    ) {
        self.data.add(path, watcher, mode);
        if mode != WatchMode::Recursive || self.version == ZooKeeperVersion::V3_8 {
            self.child.add(path, watcher, mode);
        }
    }

    /// Returns `true` if there is a watch of this type. 3.8 only checks whether the path has any
    /// watch.
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

    /// Removes watches of this type; returns `true` if there was one. 3.8 removes any watch in the
    /// table.
    pub(crate) fn remove(&mut self, path: &str, watcher: ConnectionId, kind: WatcherType) -> bool {
        let (data, child) = (&mut self.data, &mut self.child);
        match kind {
            WatcherType::Children => child.remove(path, watcher, Some(WatchMode::OneShot)),
            WatcherType::Data => data.remove(path, watcher, Some(WatchMode::OneShot)),
            WatcherType::Persistent => {
                let removed = child.remove(path, watcher, Some(WatchMode::Persistent));
                data.remove(path, watcher, Some(WatchMode::Persistent)) || removed
            }
            WatcherType::PersistentRecursive => {
                data.remove(path, watcher, Some(WatchMode::Recursive))
            }
            _ => {
                let removed = child.remove(path, watcher, None);
                data.remove(path, watcher, None) || removed
            }
        }
    }

    /// Removes every watch of a connection.
    pub(crate) fn forget(&mut self, watcher: ConnectionId) {
        self.data.forget(watcher);
        self.child.forget(watcher);
    }

    /// Returns the notifications of a change, in sending order. Removes one-shot watches that fire.
    pub(crate) fn trigger(&mut self, change: &Change) -> Vec<Notification> {
        let mut out = Vec::new();
        let path = &change.path;
        let mut tell =
            |watchers: &[ConnectionId], event: EventType, path: &Arc<str>, acl: &Arc<[Acl]>| {
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

    /// Returns the first table, which four-letter words report.
    pub(crate) const fn of_nodes(&self) -> &Table {
        &self.data
    }

    /// Returns the number of watches: one per table, connection and path.
    pub(crate) fn len(&self) -> usize {
        self.data.len() + self.child.len()
    }

    /// Returns every watch, sorted.
    pub(crate) fn list(&self) -> Vec<(ConnectionId, Arc<str>, WatchKind)> {
        let mut all: Vec<_> =
            self.data.list(WatchKind::Data).chain(self.child.list(WatchKind::Child)).collect();
        all.sort_unstable();
        all.dedup();
        all
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
        table
            .trigger(&change)
            .into_iter()
            .map(|n| (n.watcher, n.event, n.path.to_string()))
            .collect()
    }

    #[test]
    fn a_one_shot_watch_fires_once() {
        let mut table = table();
        table.watch_data("/a", 1);
        assert_eq!(told(&mut table, set("/a")), [(1, EventType::NodeDataChanged, "/a".into())]);
        assert_eq!(told(&mut table, set("/a")), []);
        assert_eq!(table.list(), []);
        assert_eq!(table.data.paths().count(), 0);
    }

    #[test]
    fn a_watcher_of_data_and_children_gets_one_deletion_event() {
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
    fn creation_fires_exist_watches_and_those_of_the_parent() {
        let mut table = table();
        table.watch_data("/a", 1);
        table.watch_children("/", 2);
        table.watch_data("/", 3);
        assert_eq!(
            told(&mut table, created("/a")),
            [
                (1, EventType::NodeCreated, "/a".into()),
                (2, EventType::NodeChildrenChanged, "/".into())
            ]
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
        assert_eq!(
            told(&mut table, created("/a/b/c")),
            [(1, EventType::NodeCreated, "/a/b/c".into())]
        );
        assert_eq!(told(&mut table, deleted("/x")), [(1, EventType::NodeDeleted, "/x".into())]);
        table.forget(1);
        assert_eq!(table.data.recursive(), 0);
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
        assert!(
            !table.contains("/a", 1, WatcherType::Any) && !table.remove("/a", 1, WatcherType::Any)
        );
        assert_eq!((table.list().len(), table.data.recursive()), (0, 0));
    }

    #[test]
    fn any_removes_every_kind() {
        let mut table = table();
        table.watch_data("/a", 1);
        table.watch_persistently("/a", 1, WatchMode::Recursive);
        table.watch_children("/a", 2);
        assert!(table.remove("/a", 1, WatcherType::Any));
        assert_eq!(table.list(), [(2, "/a".into(), WatchKind::Child)]);
        assert_eq!(table.data.recursive(), 0);
    }

    #[test]
    fn in_3_8_a_one_shot_watch_replaces_a_persistent_one() {
        let mut table = WatchTable::new(ZooKeeperVersion::V3_8);
        table.watch_persistently("/a", 1, WatchMode::Recursive);
        table.watch_data("/a", 1);
        assert_eq!(table.data.recursive(), 0);
        assert_eq!(told(&mut table, set("/a/b")), []);
        // The second table still has the watch.
        assert_eq!(told(&mut table, deleted("/a/b")), [(1, EventType::NodeDeleted, "/a/b".into())]);
        assert_eq!(told(&mut table, set("/a")), [(1, EventType::NodeDataChanged, "/a".into())]);
        assert_eq!(told(&mut table, set("/a")), []);
        assert!(table.contains("/a", 7, WatcherType::Any), "of another connection");
        assert!(table.remove("/a", 1, WatcherType::Children));
    }
}
