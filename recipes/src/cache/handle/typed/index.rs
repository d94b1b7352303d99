use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use zk_curator::internal::{Locked, unless_it_panics};
use zk_curator::value::FromData;

use super::cache::TypedCache;
use super::node::TypedNode;
use crate::cache::handle::events::CacheEvents;
use crate::cache::state::CachedNode;
use crate::cache::told::CacheEvent;

/// The nodes of a [`TypedCache`] by a key that is computed from their values. Many nodes may have
/// one key. Nodes whose data cannot be decoded have none.
///
/// It needs no task: a lookup first processes the changes since the last lookup. So it agrees with
/// the cache at the time of the call, and costs memory for every node that has changed in between.
/// Keeps the cache alive.
pub struct CacheIndex<K, T> {
    key: KeyOf<K, T>,
    entries: Locked<Entries<K, T>>,
}

type KeyOf<K, T> = Box<dyn Fn(&T) -> K + Send + Sync>;

struct Entries<K, T> {
    events: CacheEvents,
    nodes: BTreeMap<K, BTreeMap<Box<str>, TypedNode<T>>>,
    keys: BTreeMap<Box<str>, K>,
}

impl<T: FromData + Send + Sync + 'static> TypedCache<T> {
    /// Returns an index of the nodes by a key. `key` runs under a lock of the index, so it must be
    /// short, and must not use the index. A node for which it panics has no key.
    pub fn index_by<K: Ord + Clone>(
        &self,
        key: impl Fn(&T) -> K + Send + Sync + 'static,
    ) -> CacheIndex<K, T> {
        let (nodes, keys) = (BTreeMap::new(), BTreeMap::new());
        let entries = Entries { events: self.cache().events(), nodes, keys };
        CacheIndex { key: Box::new(key), entries: Locked::new(entries) }
    }
}

impl<K: Ord + Clone, T: FromData + Send + Sync + 'static> CacheIndex<K, T> {
    /// Returns the nodes with a key, sorted by path.
    #[must_use]
    pub fn get(&self, key: &K) -> Vec<TypedNode<T>> {
        self.look(|entries| {
            entries.nodes.get(key).into_iter().flat_map(BTreeMap::values).cloned().collect()
        })
    }

    /// Returns the keys that nodes have, sorted.
    #[must_use]
    pub fn keys(&self) -> Vec<K> {
        self.look(|entries| entries.nodes.keys().cloned().collect())
    }

    fn look<R>(&self, look: impl FnOnce(&Entries<K, T>) -> R) -> R {
        let mut entries = self.entries.lock();
        for event in entries.events.take() {
            entries.apply(event, &self.key);
        }
        look(&entries)
    }
}

impl<K: Ord + Clone, T: FromData + Send + Sync + 'static> Entries<K, T> {
    fn apply(&mut self, event: CacheEvent, key: &KeyOf<K, T>) {
        match event {
            CacheEvent::Loaded(snapshot) => {
                for node in snapshot.nodes {
                    self.insert(node, key);
                }
            }
            CacheEvent::Created(node)
            | CacheEvent::Changed { new: node, .. }
            | CacheEvent::Replaced { new: node, .. } => self.insert(node, key),
            CacheEvent::Deleted(node) | CacheEvent::Unreadable { old: node, .. } => {
                self.remove(&node.path);
            }
            CacheEvent::Stale { .. } | CacheEvent::Fresh { .. } => {}
        }
    }

    fn insert(&mut self, node: Arc<CachedNode>, key: &KeyOf<K, T>) {
        self.remove(&node.path);
        let path = node.path.clone();
        let node = TypedNode::of(node);
        if let Ok(value) = &node.value
            && let Some(key) = unless_it_panics(|| key(value))
        {
            self.keys.insert(path.clone(), key.clone());
            self.nodes.entry(key).or_default().insert(path, node);
        }
    }

    fn remove(&mut self, path: &str) {
        let Some(key) = self.keys.remove(path) else { return };
        if let Some(nodes) = self.nodes.get_mut(&key) {
            nodes.remove(path);
            if nodes.is_empty() {
                self.nodes.remove(&key);
            }
        }
    }
}

impl<K, T> fmt::Debug for CacheIndex<K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CacheIndex").finish_non_exhaustive()
    }
}
