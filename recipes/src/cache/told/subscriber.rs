use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use tokio::time::Instant;
use zk_curator::ErrorKind;

use crate::cache::state::{CachedNode, Freshness, Snapshot, StaleCause, TreeChange, TreeState};

/// A difference between the current state and the state last delivered to the subscriber.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum CacheEvent<N = Arc<CachedNode>> {
    /// The first load is complete: the first event of
    /// [`events`](crate::cache::CuratorCache::events).
    #[doc(alias = "INITIALIZED")]
    Loaded(Snapshot<N>),
    /// A node exists that did not, or that was [unreadable](Self::Unreadable).
    #[doc(alias = "NODE_CREATED")]
    #[doc(alias = "CHILD_ADDED")]
    Created(N),
    /// The data of a node were set.
    #[doc(alias = "NODE_CHANGED")]
    #[doc(alias = "CHILD_UPDATED")]
    Changed {
        /// The last delivered state.
        old: N,
        /// The current state.
        new: N,
    },
    /// A node was deleted, and another one was created at its path. Its data may be equal.
    Replaced {
        /// The last delivered state.
        old: N,
        /// The current state.
        new: N,
    },
    /// A node no longer exists. This is its last delivered state.
    #[doc(alias = "NODE_DELETED")]
    #[doc(alias = "CHILD_REMOVED")]
    Deleted(N),
    /// A node could be read before and cannot be read now. It may exist: [`Created`](Self::Created)
    /// or [`Deleted`](Self::Deleted) follows when that is known.
    Unreadable {
        /// The last delivered state.
        old: N,
        /// The reason why it cannot be read.
        error: ErrorKind,
    },
    /// Changes may have been missed since `since`. [`Fresh`](Self::Fresh) follows when the cache
    /// has caught up.
    #[doc(alias = "CONNECTION_SUSPENDED")]
    Stale {
        /// When the cache became stale.
        since: Instant,
        /// The cause of the outage. If the outage has ended, the cause of the last one.
        cause: StaleCause,
    },
    /// The cache has caught up.
    #[doc(alias = "CONNECTION_RECONNECTED")]
    Fresh {
        /// The contents are not older than this transaction.
        zxid: i64,
        /// The number of nodes that cannot be read: see
        /// [`unreadable`](crate::cache::CuratorCache::unreadable).
        unreadable: usize,
    },
}

impl CacheEvent {
    /// Returns the path of the node; `None` for an event of the whole cache.
    #[must_use]
    pub fn path(&self) -> Option<&str> {
        match self {
            Self::Created(node)
            | Self::Changed { new: node, .. }
            | Self::Replaced { new: node, .. }
            | Self::Deleted(node)
            | Self::Unreadable { old: node, .. } => Some(&node.path),
            Self::Loaded(_) | Self::Stale { .. } | Self::Fresh { .. } => None,
        }
    }
}

impl<N> CacheEvent<N> {
    /// Maps the nodes.
    pub fn map<M>(self, mut map: impl FnMut(N) -> M) -> CacheEvent<M> {
        match self {
            Self::Loaded(snapshot) => CacheEvent::Loaded(snapshot.map(map)),
            Self::Created(node) => CacheEvent::Created(map(node)),
            Self::Changed { old, new } => CacheEvent::Changed { old: map(old), new: map(new) },
            Self::Replaced { old, new } => CacheEvent::Replaced { old: map(old), new: map(new) },
            Self::Deleted(node) => CacheEvent::Deleted(map(node)),
            Self::Unreadable { old, error } => CacheEvent::Unreadable { old: map(old), error },
            Self::Stale { since, cause } => CacheEvent::Stale { since, cause },
            Self::Fresh { zxid, unreadable } => CacheEvent::Fresh { zxid, unreadable },
        }
    }
}

/// The position of a subscriber in the changes of a cache: see
/// [`CacheEvents::delivered`](crate::cache::CacheEvents::delivered).
#[derive(Debug, Clone, Copy)]
pub struct Delivered {
    pub(crate) subscriber: u64,
    receipts: u64,
    freshness: Freshness,
}

impl Default for Delivered {
    /// Returns the position before the first event.
    fn default() -> Self {
        Self { subscriber: 0, receipts: 0, freshness: Freshness::Loading }
    }
}

impl Delivered {
    pub(crate) const fn freshness(self) -> Freshness {
        self.freshness
    }
}

/// The last delivered states, by path; `None` for a node that was absent.
pub(crate) type DeliveredStates = BTreeMap<Box<str>, Option<Arc<CachedNode>>>;

/// The differences that one subscriber has not received yet.
#[derive(Debug)]
pub(crate) struct Subscriber {
    /// `true` if the first event is the loaded state.
    begins_with_all: bool,
    /// The nodes that have changed, with their last delivered state; `None` before the first event.
    pub(crate) told: Option<DeliveredStates>,
    /// The nodes that were reported as unreadable, with the state that was delivered before.
    pub(crate) unreadable: BTreeMap<Box<str>, Arc<CachedNode>>,
    pub(crate) outages: u64,
    pub(crate) is_fresh: bool,
    /// The number of times that it has received events.
    receipts: u64,
    /// `true` if there may be events that it has not received.
    is_behind: bool,
    /// When `told` reaches this size, nodes without a difference are removed from it.
    crowd: usize,
}

/// The smallest such size.
const CROWD: usize = 1_000;

impl Subscriber {
    /// Creates a subscriber. The last three arguments are the current state of the cache.
    pub(crate) fn new(
        begins_with_all: bool,
        is_loaded: bool,
        is_fresh: bool,
        outages: u64,
    ) -> Self {
        let told = (is_loaded && !begins_with_all).then(BTreeMap::new);
        let unreadable = BTreeMap::new();
        Self {
            begins_with_all,
            told,
            unreadable,
            outages,
            is_fresh: is_fresh || !is_loaded,
            receipts: 0,
            is_behind: true,
            crowd: CROWD,
        }
    }

    /// The first load is complete.
    pub(crate) fn loaded(&mut self) {
        if !self.begins_with_all {
            self.told.get_or_insert_default();
        }
    }

    /// There may be a new event.
    pub(crate) const fn falls_behind(&mut self) {
        self.is_behind = true;
    }

    /// It has received these events: all that there are.
    pub(crate) fn receives(&mut self, events: &VecDeque<CacheEvent>) {
        self.receipts += u64::from(!events.is_empty());
        self.is_behind = false;
    }

    /// Returns the position after everything that it has received, which is not older than
    /// `freshness`.
    pub(crate) const fn delivered(&self, id: u64, freshness: Freshness) -> Delivered {
        Delivered { subscriber: id, receipts: self.receipts, freshness }
    }

    /// Returns `true` if there are no events after this position.
    pub(crate) const fn is_at(&self, delivered: Delivered) -> bool {
        !self.is_behind && self.receipts == delivered.receipts
    }

    pub(crate) fn record(&mut self, changes: &[TreeChange], state: &TreeState) {
        self.is_behind |= !changes.is_empty();
        let Some(told) = &mut self.told else { return };
        for (path, old) in changes {
            if !told.contains_key(path) {
                told.insert(path.clone(), old.clone());
            }
        }
        if told.len() >= self.crowd {
            // Removes nodes that were created and deleted in between.
            told.retain(|path, old| {
                old.is_some()
                    || self.unreadable.contains_key(path)
                    || !state.lookup(path, true).is_absent()
            });
            self.crowd = CROWD.max(2 * told.len());
        }
    }
}
