use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use futures_util::stream::{Stream, unfold};

use crate::cache::task::{Alive, CacheShared};
use crate::cache::told::{CacheEvent, Delivered, Subscriber};

/// The changes of a cache, for one subscriber.
///
/// It reports **states**, not steps: the difference between the last reported state and the state
/// at the time of the call. A node that changes ten times between two calls is reported once. A
/// node that is back in its last reported state is not reported. The latest state is never skipped,
/// even for a slow subscriber, which costs memory only for nodes with unreported changes.
///
/// Deletions are reported first, children before their parents; then creations, parents before
/// their children; then changes, in the order of their transactions. Every outage is bracketed by
/// [`Stale`](CacheEvent::Stale) and [`Fresh`](CacheEvent::Fresh); several outages between two calls
/// are reported as one.
///
/// Keeps the cache alive.
pub struct CacheEvents {
    shared: Arc<CacheShared>,
    alive: Alive,
    id: u64,
    ready: VecDeque<CacheEvent>,
    /// The position after the last event in `ready`.
    taken: Delivered,
    delivered: Delivered,
}

impl CacheEvents {
    pub(crate) fn new(shared: Arc<CacheShared>, alive: Alive, begins_with_all: bool) -> Self {
        let id = shared.arrange(|contents| {
            contents.last_subscriber += 1;
            let subscriber = Subscriber::new(
                begins_with_all,
                contents.is_loaded,
                contents.freshness.is_fresh(),
                contents.outages,
            );
            contents.subscribers.insert(contents.last_subscriber, subscriber);
            contents.last_subscriber
        });
        let (taken, delivered) = (Delivered::default(), Delivered::default());
        Self { shared, alive, id, ready: VecDeque::new(), taken, delivered }
    }

    /// Waits for the next event; `None` when the cache has ended and everything was reported.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn next(&mut self) -> Option<CacheEvent> {
        let _alive = &self.alive;
        if self.ready.is_empty() {
            let (shared, id) = (&self.shared, self.id);
            (self.ready, self.taken) = shared
                .find_mut(|contents| {
                    let events = contents.take_events(id);
                    (!events.is_empty() || contents.ended).then(|| (events, contents.delivered(id)))
                })
                .await;
        }
        let event = self.ready.pop_front();
        if self.ready.is_empty() {
            self.delivered = self.taken;
        }
        event
    }

    /// Returns the position after the event that [`next`](Self::next) has returned last. With
    /// [`freshness_of`](crate::cache::CuratorCache::freshness_of), it tells how fresh a state is
    /// that is derived from these events.
    #[must_use]
    pub const fn delivered(&self) -> Delivered {
        self.delivered
    }

    /// Returns the events that are there, without a wait.
    pub(crate) fn take(&mut self) -> VecDeque<CacheEvent> {
        let mut events = std::mem::take(&mut self.ready);
        self.shared.arrange(|contents| {
            events.extend(contents.take_events(self.id));
            self.taken = contents.delivered(self.id);
        });
        self.delivered = self.taken;
        events
    }

    /// Returns the path of the root of the cache.
    pub(crate) fn root(&self) -> &str {
        &self.shared.root
    }

    /// Returns the events as a stream.
    ///
    /// # Cancel safety
    /// As [`next`](Self::next).
    pub fn into_stream(self) -> impl Stream<Item = CacheEvent> + Send + 'static {
        unfold(self, async |mut events| events.next().await.map(|event| (event, events)))
    }
}

impl Drop for CacheEvents {
    fn drop(&mut self) {
        let forgotten = self.shared.arrange(|contents| contents.subscribers.remove(&self.id));
        drop(forgotten);
    }
}

impl fmt::Debug for CacheEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CacheEvents").field("root", &self.shared.root).finish_non_exhaustive()
    }
}
