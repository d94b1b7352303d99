//! One watched path.

use std::future::pending;
use std::time::Duration;

use tokio::time::Instant;
use zk_curator::internal::{Signal, sleep, sleep_until};
use zk_curator::watch::PersistentWatch;
use zk_curator::{
    CuratorFramework, ErrorKind, EventType, PersistentEvent, WatchEnded, WatchedEvent,
};

use super::news::{Freshness, News};
use super::shared::Memo;

/// The shortest time between two announcements.
const PAUSE: Duration = Duration::from_millis(250);
/// The pause before another attempt to add the watch.
const RETRY: Duration = Duration::from_secs(1);

/// A watched path, its viewers, and the reads that they share.
#[derive(Debug)]
pub(super) struct Room {
    pub(super) path: String,
    pub(super) news: Signal<News>,
    pub(super) seats: Signal<Seats>,
    pub(super) memo: Memo,
}

/// The viewers of a room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Seats {
    pub(super) viewers: usize,
    /// `true` if the room has to end because another one needs its place.
    pub(super) is_evicted: bool,
}

impl Room {
    pub(super) fn new(path: String) -> Self {
        let (news, seats) = (Signal::new(News::first()), Signal::default());
        Self { path, news, seats, memo: Memo::default() }
    }

    /// Returns `true` if reads may be shared: every change since is known.
    pub(super) fn is_fresh(&self) -> bool {
        self.news.look(|news| news.freshness == Freshness::Fresh && !news.is_over)
    }

    /// Follows the path until the framework is closed.
    pub(super) async fn follow(&self, zk: &CuratorFramework) {
        loop {
            match zk.add_watch(&self.path).recursive().await {
                Ok(watch) => {
                    self.armed(true);
                    if self.listen(watch).await == WatchEnded::Closed {
                        return;
                    }
                    self.stale();
                }
                Err(error) => match error.kind() {
                    ErrorKind::Closed | ErrorKind::NotStarted => return,
                    ErrorKind::Unsupported | ErrorKind::NoAuth => {
                        self.news.modify(|news| news.freshness = Freshness::Unsupported);
                        // Until the framework is closed.
                        let mut states = zk.states();
                        while states.next().await.is_some() {}
                        return;
                    }
                    _ => {
                        self.stale();
                        sleep(RETRY).await;
                    }
                },
            }
        }
    }

    /// Passes the events of a watch on until it ends.
    async fn listen(&self, mut watch: PersistentWatch) -> WatchEnded {
        // The time at which a change is announced, and the earliest time of the next one.
        let (mut due, mut earliest) = (None, Instant::now());
        loop {
            let event = tokio::select! {
                event = watch.next() => event,
                () = until(due) => {
                    due = None;
                    earliest = Instant::now() + PAUSE;
                    self.announce();
                    continue;
                }
            };
            match event {
                Some(PersistentEvent::Changed(event)) => {
                    if self.concerns(&event) {
                        self.memo.forget();
                        due.get_or_insert(earliest.max(Instant::now()));
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

    /// Returns `true` if a page of this path shows the change: that of the node, of a child, or of
    /// the number of children of a child.
    fn concerns(&self, event: &WatchedEvent) -> bool {
        let is_birth_or_death =
            matches!(event.event_type, EventType::NodeCreated | EventType::NodeDeleted);
        match levels_below(&self.path, &event.path) {
            Some(0 | 1) => true,
            Some(2) => is_birth_or_death,
            _ => false,
        }
    }

    fn announce(&self) {
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

/// Returns the number of levels of `path` below `root`; `None` if it is elsewhere.
fn levels_below(root: &str, path: &str) -> Option<usize> {
    let root = if root == "/" { "" } else { root };
    let rest = path.strip_prefix(root)?;
    match rest {
        "" | "/" => Some(0),
        rest if rest.starts_with('/') => Some(rest.matches('/').count()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_counted_by_whole_names() {
        for (root, path, levels) in [
            ("/", "/", Some(0)),
            ("/", "/a", Some(1)),
            ("/a", "/a", Some(0)),
            ("/a", "/a/b/c", Some(2)),
            ("/a", "/ab", None),
            ("/a/b", "/a", None),
        ] {
            assert_eq!(levels_below(root, path), levels, "{root} {path}");
        }
    }

    #[test]
    fn deep_changes_do_not_count() {
        let room = Room::new("/a".to_owned());
        let concerns = |kind, path: &str| room.concerns(&WatchedEvent::new(kind, path.to_owned()));
        assert!(concerns(EventType::NodeDataChanged, "/a"));
        assert!(concerns(EventType::NodeDataChanged, "/a/b"));
        assert!(concerns(EventType::NodeCreated, "/a/b/c"));
        assert!(!concerns(EventType::NodeDataChanged, "/a/b/c"));
        assert!(!concerns(EventType::NodeCreated, "/a/b/c/d"));
    }
}
