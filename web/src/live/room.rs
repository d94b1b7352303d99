//! One watched path.

use std::future::pending;
use std::time::Duration;

use tokio::time::Instant;
use zk_curator::internal::{Locked, Signal, sleep_until};
use zk_curator::watch::PersistentWatch;
use zk_curator::{CuratorFramework, PersistentEvent, WatchEnded};

use super::news::{Freshness, News};
use super::scope::Scope;
use super::shared::Memo;
use super::watch::{Unwatched, watch_below};

/// The longest pause between two announcements, however long the reads take.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// A watched path, its viewers, and the reads that they share.
#[derive(Debug)]
pub(super) struct Room {
    pub(super) path: String,
    pub(super) scope: Scope,
    pub(super) news: Signal<News>,
    pub(super) seats: Signal<Seats>,
    pub(super) memo: Memo,
    /// The time between two announcements that the last read asks for.
    pace: Locked<Duration>,
}

/// The viewers of a room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Seats {
    pub(super) viewers: usize,
    /// `true` if the room has to end because another one needs its place.
    pub(super) is_evicted: bool,
}

impl Room {
    pub(super) fn new(path: String, scope: Scope) -> Self {
        let (news, seats) = (Signal::new(News::first()), Signal::default());
        Self { path, scope, news, seats, memo: Memo::default(), pace: Locked::default() }
    }

    /// Notes how long a read of the whole subtree took. At most a tenth of the time is spent with
    /// such reads.
    pub(super) fn paced(&self, took: Duration) {
        *self.pace.lock() = took.saturating_mul(9).min(LONGEST_PAUSE);
    }

    fn pause(&self) -> Duration {
        self.scope.pause().max(*self.pace.lock())
    }

    /// Returns `true` if reads may be shared: every change since is known.
    pub(super) fn is_fresh(&self) -> bool {
        self.news.look(|news| news.freshness == Freshness::Fresh && !news.is_over)
    }

    /// Follows the path until the framework is closed.
    pub(super) async fn follow(&self, zk: &CuratorFramework) {
        let failed = |why: Unwatched| match why {
            Unwatched::ForNow => self.stale(),
            Unwatched::ForGood => self.news.modify(|news| news.freshness = Freshness::Unsupported),
        };
        while let Some(watch) = watch_below(zk, &self.path, failed).await {
            self.armed(true);
            if self.listen(watch).await == WatchEnded::Closed {
                return;
            }
            self.stale();
        }
    }

    /// Passes the events of a watch on until it ends.
    async fn listen(&self, mut watch: PersistentWatch) -> WatchEnded {
        // The time at which a change is announced, and the earliest time of the next one.
        let (mut due, mut earliest) = (None, Instant::now());
        let mut announced = Instant::now();
        loop {
            let next = due.or_else(|| self.scope.tick().map(|tick| announced + tick));
            let event = tokio::select! {
                event = watch.next() => event,
                () = until(next) => {
                    due = None;
                    announced = Instant::now();
                    earliest = announced + self.pause();
                    self.announce();
                    continue;
                }
            };
            match event {
                Some(PersistentEvent::Changed(event)) => {
                    if self.scope.concerns(&self.path, &event) {
                        due.get_or_insert_with(|| earliest.max(Instant::now()));
                    }
                }
                Some(PersistentEvent::Disarmed) => self.stale(),
                Some(PersistentEvent::Rearmed { unchanged }) => self.armed(!unchanged),
                Some(PersistentEvent::Ended(why)) => return why,
                // Later kinds of events do not concern nodes.
                Some(_) => {}
                None => return WatchEnded::SessionLost,
            }
        }
    }

    fn announce(&self) {
        // Before the news, so that a read after them is not an older one.
        self.memo.forget();
        self.news.modify(|news| news.generation += 1);
    }

    /// With `is_changed`, something may have changed since the last read.
    fn armed(&self, is_changed: bool) {
        if is_changed {
            self.memo.forget();
        }
        self.news.modify(|news| {
            let is_first = news.freshness == Freshness::Starting;
            news.freshness = Freshness::Fresh;
            news.generation += u64::from(is_changed && !is_first);
        });
    }

    fn stale(&self) {
        self.news.modify(|news| {
            if !matches!(news.freshness, Freshness::Stale { .. }) {
                news.freshness = Freshness::Stale { since: Instant::now() };
            }
        });
    }
}

/// Waits for a time, or forever without one.
async fn until(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => pending().await,
    }
}
