//! One of the two tables of watches.

use std::collections::BTreeMap;
use std::sync::Arc;

use zk_curator_proto::records::EventType;

use super::kind::{WatchKind, WatchMode};
use crate::collections::{Map, Set};
use crate::ids::ConnectionId;
use crate::tree::parent;
use crate::version::ZooKeeperVersion;

/// Watches by path and by watcher.
#[derive(Debug)]
pub(crate) struct Table {
    version: ZooKeeperVersion,
    by_path: Map<Arc<str>, BTreeMap<ConnectionId, Modes>>,
    /// A watcher remains after its last watch has fired: Apache ZooKeeper's four-letter words count
    /// it.
    by_watcher: BTreeMap<ConnectionId, Set<Arc<str>>>,
    /// The number of recursive watches. Without any, ancestors need not be searched.
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
    pub(super) fn new(version: ZooKeeperVersion) -> Self {
        Self { version, by_path: Map::default(), by_watcher: BTreeMap::new(), recursive: 0 }
    }

    /// Returns the number of watches: one per watcher and path.
    pub(super) fn len(&self) -> usize {
        self.by_path.values().map(BTreeMap::len).sum()
    }

    /// Returns the number of recursive watches.
    #[cfg(test)]
    pub(super) const fn recursive(&self) -> usize {
        self.recursive
    }

    /// Returns the paths with watches, and the watchers of each.
    pub(crate) fn paths(
        &self,
    ) -> impl Iterator<Item = (&Arc<str>, impl Iterator<Item = ConnectionId>)> {
        self.by_path.iter().map(|(path, watchers)| (path, watchers.keys().copied()))
    }

    /// Returns the watchers, and the paths of each.
    pub(crate) fn watchers(&self) -> impl Iterator<Item = (ConnectionId, &Set<Arc<str>>)> {
        self.by_watcher.iter().map(|(watcher, paths)| (*watcher, paths))
    }

    /// Adds a watch of this mode.
    pub(super) fn add(&mut self, path: &str, watcher: ConnectionId, mode: WatchMode) {
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
        self.recursive =
            self.recursive + usize::from(modes.recursive) - usize::from(before.recursive);
    }

    /// Returns `true` if there is a watch of this mode, or of any.
    pub(super) fn contains(
        &self,
        path: &str,
        watcher: ConnectionId,
        mode: Option<WatchMode>,
    ) -> bool {
        let Some(watchers) = self.by_path.get(path) else { return false };
        match self.version {
            ZooKeeperVersion::V3_8 => true,
            ZooKeeperVersion::V3_9 => {
                watchers.get(&watcher).is_some_and(|modes| mode.is_none_or(|mode| modes.has(mode)))
            }
        }
    }

    /// Removes one mode or all; returns `true` if there was a watch.
    pub(super) fn remove(
        &mut self,
        path: &str,
        watcher: ConnectionId,
        mode: Option<WatchMode>,
    ) -> bool {
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

    /// Removes every watch of a watcher.
    pub(super) fn forget(&mut self, watcher: ConnectionId) {
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

    /// Returns the watchers of an event at `path`, sorted and unique. Removes one-shot watches that
    /// fire.
    pub(super) fn trigger(&mut self, path: &str, event: EventType) -> Vec<ConnectionId> {
        let mut told = Vec::new();
        let of_nodes = event != EventType::NodeChildrenChanged;
        if let Some(watchers) = self.by_path.get_mut(path) {
            let hear =
                |modes: &Modes| modes.one_shot || modes.persistent || (modes.recursive && of_nodes);
            told.extend(
                watchers.iter().filter(|(_, modes)| hear(modes)).map(|(watcher, _)| *watcher),
            );
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
                told.extend(
                    watchers.filter(|(_, modes)| modes.recursive).map(|(watcher, _)| *watcher),
                );
            }
            told.sort_unstable();
            told.dedup();
        }
        told
    }

    /// Returns every watch, one-shot watches as this kind.
    pub(super) fn list(
        &self,
        one_shot: WatchKind,
    ) -> impl Iterator<Item = (ConnectionId, Arc<str>, WatchKind)> {
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
