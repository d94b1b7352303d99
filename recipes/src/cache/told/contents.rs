//! The contents of a cache, and their subscribers.

use std::collections::BTreeMap;

use tokio::time::Instant;
use zk_curator::Error;

use super::subscriber::{Delivered, Subscriber};
use crate::cache::state::{Freshness, StaleCause, TreeChange, TreeState};

/// The contents that the task of a cache and its handles share.
#[derive(Debug)]
pub(crate) struct Contents {
    pub(crate) state: TreeState,
    pub(crate) freshness: Freshness,
    pub(crate) is_loaded: bool,
    /// The reason why the cache cannot load or catch up, except a missing connection.
    pub(crate) failed: Option<Error>,
    pub(crate) ended: bool,
    /// The number of times that it became stale.
    pub(crate) outages: u64,
    /// The time and the cause of the last staleness.
    pub(crate) last_outage: Option<(Instant, StaleCause)>,
    /// The last transaction of the server, if the contents are known to be exactly the server's
    /// after it.
    pub(crate) exact: Option<i64>,
    pub(crate) subscribers: BTreeMap<u64, Subscriber>,
    pub(crate) last_subscriber: u64,
}

impl Contents {
    pub(crate) const fn new(state: TreeState) -> Self {
        Self {
            state,
            freshness: Freshness::Loading,
            is_loaded: false,
            failed: None,
            ended: false,
            outages: 0,
            last_outage: None,
            exact: None,
            subscribers: BTreeMap::new(),
            last_subscriber: 0,
        }
    }

    /// Notifies the subscribers of changes.
    pub(crate) fn tell(&mut self, mut changes: Vec<TreeChange>) {
        changes.retain(|(path, _)| self.state.keeps(path));
        for subscriber in self.subscribers.values_mut() {
            subscriber.record(&changes, &self.state);
        }
        if let Freshness::Fresh { unreadable, .. } = &mut self.freshness {
            *unreadable = self.state.unreadable().len();
        }
    }

    /// Notes that the contents are not older than this transaction.
    pub(crate) fn fresh(&self, zxid: i64) -> Freshness {
        Freshness::Fresh { zxid, unreadable: self.state.unreadable().len() }
    }

    /// Returns how fresh a state is that is derived from the events up to this position.
    pub(crate) fn freshness_of(&self, delivered: Delivered) -> Freshness {
        let subscriber = self.subscribers.get(&delivered.subscriber);
        match (delivered.freshness(), self.freshness) {
            (_, latest) if subscriber.is_some_and(|it| it.is_at(delivered)) => latest,
            (Freshness::Loading, _) => Freshness::Loading,
            (
                Freshness::Fresh { zxid, .. } | Freshness::Stale { zxid, .. },
                Freshness::Stale { since, cause, .. },
            ) => Freshness::Stale { since, zxid, cause },
            (delivered, _) => delivered,
        }
    }

    /// Notes that the freshness has changed.
    pub(crate) fn set_freshness(&mut self, freshness: Freshness) {
        if self.freshness.is_fresh() != freshness.is_fresh() {
            self.subscribers.values_mut().for_each(Subscriber::falls_behind);
        }
        if matches!(freshness, Freshness::Stale { .. })
            && !matches!(self.freshness, Freshness::Stale { .. })
        {
            self.outages += 1;
        }
        if let Freshness::Stale { since, cause, .. } = freshness {
            self.last_outage = Some((since, cause));
        }
        self.freshness = freshness;
        if freshness.is_fresh() && !self.is_loaded {
            self.is_loaded = true;
            for subscriber in self.subscribers.values_mut() {
                subscriber.loaded();
            }
        }
    }

    /// Notes that the cache could not be loaded, or may have missed changes.
    pub(crate) fn becomes_stale(&mut self, cause: StaleCause, now: Instant) {
        let (since, zxid) = match self.freshness {
            Freshness::Loading => return,
            Freshness::Fresh { zxid, .. } => (now, zxid),
            Freshness::Stale { since, zxid, .. } => (since, zxid),
        };
        self.set_freshness(Freshness::Stale { since, zxid, cause });
    }
}
