use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use futures_util::stream::{Stream, unfold};
use tokio::time::Instant;

use super::freshness::Freshness;
use super::node::{CachedNode, Lookup};
use super::shared::{Alive, Inner, Shared};
use super::snapshot::Snapshot;
use super::subscriber::{CacheEvent, Subscriber, Told};

impl Inner {
    /// Takes the events that a subscriber has still to be told.
    fn take_events(&mut self, id: u64) -> VecDeque<CacheEvent> {
        let mut events = VecDeque::new();
        if !self.is_loaded {
            return events;
        }
        let Some(mut subscriber) = self.subscribers.remove(&id) else { return events };
        let told = match subscriber.told.take() {
            Some(told) => told,
            None => {
                events.push_back(CacheEvent::Loaded(Snapshot::of(self)));
                (subscriber.outages, subscriber.is_fresh) = (self.outages, true);
                if !self.freshness.is_fresh() {
                    // The bracket is opened: it is closed by `Fresh`.
                    subscriber.outages = self.outages.wrapping_sub(1);
                }
                BTreeMap::new()
            }
        };
        if subscriber.outages != self.outages {
            subscriber.outages = self.outages;
            let since = match self.freshness {
                Freshness::Stale { since, .. } => since,
                // It has passed already.
                _ => Instant::now(),
            };
            // One that was told of an outage that has not ended for it is in the midst of this one, too.
            if std::mem::take(&mut subscriber.is_fresh) {
                events.push_back(CacheEvent::Stale { since });
            }
        }
        let (differences, undecided) = self.differences(told, &mut subscriber.unreadable);
        events.extend(differences);
        subscriber.told = Some(undecided);
        if let (Freshness::Fresh { zxid }, false) = (self.freshness, subscriber.is_fresh) {
            subscriber.is_fresh = true;
            events.push_back(CacheEvent::Fresh { zxid });
        }
        self.subscribers.insert(id, subscriber);
        events
    }

    /// The differences between what was told and the present state, in the order in which they are told; and the nodes whose
    /// present state is being read.
    fn differences(
        &self,
        told: Told,
        hidden: &mut BTreeMap<Box<str>, Arc<CachedNode>>,
    ) -> (Vec<CacheEvent>, Told) {
        let mut undecided = BTreeMap::new();
        let (mut deleted, mut created, mut changed, mut unreadable) = (vec![], vec![], vec![], vec![]);
        // In the order of the paths: parents before their children.
        for (path, old) in told {
            match (old, self.state.lookup(&path, true)) {
                (None, Lookup::Present(new)) => {
                    hidden.remove(&path);
                    created.push(CacheEvent::Created(Arc::clone(new)));
                }
                (Some(old), Lookup::Present(new)) => {
                    let new = Arc::clone(new);
                    if old.stat.czxid != new.stat.czxid {
                        created.push(CacheEvent::Replaced { old, new });
                    } else if old.stat.mzxid != new.stat.mzxid {
                        changed.push((new.stat.mzxid, CacheEvent::Changed { old, new }));
                    }
                }
                (Some(old), Lookup::Absent) => deleted.push(CacheEvent::Deleted(old)),
                (None, Lookup::Absent) => deleted.extend(hidden.remove(&path).map(CacheEvent::Deleted)),
                (old, Lookup::Unknown) => match (self.state.unreadable().get(&path), old) {
                    (Some(error), Some(old)) => {
                        unreadable.push(CacheEvent::Unreadable { old: Arc::clone(&old), error: *error });
                        hidden.insert(path, old);
                    }
                    (Some(_), None) => {}
                    (None, old) => drop(undecided.insert(path, old)),
                },
            }
        }
        changed.sort_by_key(|(zxid, _)| *zxid);
        let changed = changed.into_iter().map(|(_, event)| event);
        let events = deleted.into_iter().rev().chain(created).chain(changed).chain(unreadable).collect();
        (events, undecided)
    }
}

/// The changes of a cache, for one subscriber.
///
/// It tells **states**, not steps: the difference between what was told last and what is there when it is asked. A node that
/// changes ten times before anybody asks is told once, and one that is back to what was told is not told. No last state is
/// left out, however slow the subscriber is, and it costs memory only for nodes whose change was not told yet.
///
/// Deletions are told first, children before their parents; then creations, parents before their children; then changes, in
/// the order of their transactions. Every outage is bracketed by [`Stale`](CacheEvent::Stale) and [`Fresh`](CacheEvent::Fresh):
/// several that were not looked at are told as one.
///
/// Keeps the cache alive.
pub struct CacheEvents {
    shared: Arc<Shared>,
    alive: Alive,
    id: u64,
    ready: VecDeque<CacheEvent>,
}

impl CacheEvents {
    pub(super) fn new(shared: Arc<Shared>, alive: Alive, begins_with_all: bool) -> Self {
        let id = shared.arrange(|inner| {
            inner.last_subscriber += 1;
            let subscriber =
                Subscriber::new(begins_with_all, inner.is_loaded, inner.freshness.is_fresh(), inner.outages);
            inner.subscribers.insert(inner.last_subscriber, subscriber);
            inner.last_subscriber
        });
        Self { shared, alive, id, ready: VecDeque::new() }
    }

    /// Waits for the next event; `None` when the cache has ended and everything is told.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn next(&mut self) -> Option<CacheEvent> {
        let _alive = &self.alive;
        if self.ready.is_empty() {
            let (shared, id) = (&self.shared, self.id);
            self.ready = shared
                .find_mut(|inner| {
                    let events = inner.take_events(id);
                    (!events.is_empty() || inner.ended).then_some(events)
                })
                .await;
        }
        self.ready.pop_front()
    }

    /// The events as a stream.
    ///
    /// # Cancel safety
    /// As [`next`](Self::next).
    pub fn into_stream(self) -> impl Stream<Item = CacheEvent> + Send + 'static {
        unfold(self, async |mut events| events.next().await.map(|event| (event, events)))
    }
}

impl Drop for CacheEvents {
    fn drop(&mut self) {
        let forgotten = self.shared.arrange(|inner| inner.subscribers.remove(&self.id));
        drop(forgotten);
    }
}

impl fmt::Debug for CacheEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CacheEvents").field("root", &self.shared.root).finish_non_exhaustive()
    }
}
