use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::time::Instant;
use zk_curator::ErrorKind;

use super::node::CachedNode;
use super::snapshot::Snapshot;
use super::tree_state::Change;

/// A difference between the state that a subscriber was told last and the present one.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum CacheEvent {
    /// The first load is complete: the first event of [`events`](super::CuratorCache::events).
    #[doc(alias = "INITIALIZED")]
    Loaded(Snapshot),
    /// A node exists that did not, or that was [unreadable](Self::Unreadable).
    #[doc(alias = "NODE_CREATED")]
    #[doc(alias = "CHILD_ADDED")]
    Created(Arc<CachedNode>),
    /// The data of a node were set.
    #[doc(alias = "NODE_CHANGED")]
    #[doc(alias = "CHILD_UPDATED")]
    Changed {
        /// The state that was told last.
        old: Arc<CachedNode>,
        /// The present state.
        new: Arc<CachedNode>,
    },
    /// A node was deleted, and another one was created at its path. Its data may be equal.
    Replaced {
        /// The state that was told last.
        old: Arc<CachedNode>,
        /// The present state.
        new: Arc<CachedNode>,
    },
    /// A node does not exist any more: its last state that was told.
    #[doc(alias = "NODE_DELETED")]
    #[doc(alias = "CHILD_REMOVED")]
    Deleted(Arc<CachedNode>),
    /// A node could be read before and cannot be read now. It may exist: [`Created`](Self::Created) or
    /// [`Deleted`](Self::Deleted) follows when that is known.
    Unreadable {
        /// The state that was told last.
        old: Arc<CachedNode>,
        /// Why it cannot be read.
        error: ErrorKind,
    },
    /// Changes may have been missed since then. [`Fresh`](Self::Fresh) follows when the cache has caught up.
    #[doc(alias = "CONNECTION_SUSPENDED")]
    Stale {
        /// When the cache became stale.
        since: Instant,
    },
    /// The cache has caught up.
    #[doc(alias = "CONNECTION_RECONNECTED")]
    Fresh {
        /// The contents are not older than this transaction.
        zxid: i64,
    },
}

/// The states that were told last, by their paths; `None` for a node that was absent.
pub(super) type Told = BTreeMap<Box<str>, Option<Arc<CachedNode>>>;

/// The differences that one subscriber has still to be told.
#[derive(Debug)]
pub(super) struct Subscriber {
    /// Whether the first event is the loaded state.
    begins_with_all: bool,
    /// The nodes that have changed, with the state that was told last; `None` before the begin.
    pub(super) told: Option<Told>,
    /// The nodes that were told as unreadable, with the state that was told before.
    pub(super) unreadable: BTreeMap<Box<str>, Arc<CachedNode>>,
    pub(super) outages: u64,
    pub(super) is_fresh: bool,
}

impl Subscriber {
    /// Creates a subscriber; the last three are the present state of the cache.
    pub(super) fn new(begins_with_all: bool, is_loaded: bool, is_fresh: bool, outages: u64) -> Self {
        let told = (is_loaded && !begins_with_all).then(BTreeMap::new);
        let unreadable = BTreeMap::new();
        Self { begins_with_all, told, unreadable, outages, is_fresh: is_fresh || !is_loaded }
    }

    /// The first load is complete.
    pub(super) fn loaded(&mut self) {
        if !self.begins_with_all {
            self.told.get_or_insert_default();
        }
    }

    pub(super) fn record(&mut self, changes: &[Change]) {
        if let Some(told) = &mut self.told {
            for (path, old) in changes {
                if !told.contains_key(path) {
                    told.insert(path.clone(), old.clone());
                }
            }
        }
    }
}
