use std::collections::HashMap;
use std::sync::{Arc, MutexGuard};

use zk_curator_client::internal::Locked;
use zk_curator_client::{ErrorCode, EventType, OneshotWatch, Stat, WatchEnded, WatchNotifier};

/// The read that armed a watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Data,
    Children,
    /// `exists` of a node that did not exist.
    Absent,
}

/// The result of the read that armed a watch: the transactions that created the node, wrote it, and
/// changed its children.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seen {
    czxid: i64,
    mzxid: i64,
    pzxid: i64,
}

impl From<&Stat> for Seen {
    fn from(stat: &Stat) -> Self {
        Self { czxid: stat.czxid, mzxid: stat.mzxid, pzxid: stat.pzxid }
    }
}

/// Returns the change between two reads, if a watch of this kind reports it.
pub(super) fn change(kind: Kind, before: Option<Seen>, now: Option<Seen>) -> Option<EventType> {
    match (kind, before, now) {
        (Kind::Absent, _, now) => now.map(|_| EventType::NodeCreated),
        (_, _, None) => Some(EventType::NodeDeleted),
        (Kind::Data, Some(before), Some(now)) => ((before.czxid, before.mzxid)
            != (now.czxid, now.mzxid))
            .then_some(EventType::NodeDataChanged),
        (Kind::Children, Some(before), Some(now)) => ((before.czxid, before.pzxid)
            != (now.czxid, now.pzxid))
            .then_some(EventType::NodeChildrenChanged),
        // There was no earlier read: an additional event is better than a missing one.
        (Kind::Data, None, Some(_)) => Some(EventType::NodeDataChanged),
        (Kind::Children, None, Some(_)) => Some(EventType::NodeChildrenChanged),
    }
}

/// A watch with a waiter.
#[derive(Debug)]
struct Entry {
    /// The path on the server.
    path: Arc<str>,
    kind: Kind,
    seen: Option<Seen>,
    /// `true` if the server has responded to the read that arms the watch. Earlier events belong to
    /// another watch.
    armed: bool,
    notifier: WatchNotifier,
}

/// The watches of a session. The link fires them in the order of the server's events.
#[derive(Debug, Default)]
pub(super) struct Registry(Locked<Inner>);

#[derive(Debug, Default)]
struct Inner {
    entries: HashMap<u64, Entry>,
    next: u64,
    /// The number of entries above which those without a waiter are removed.
    purge_at: usize,
}

/// A watch that must be armed again.
#[derive(Debug)]
pub(super) struct Stale {
    pub(super) id: u64,
    pub(super) path: Arc<str>,
    pub(super) kind: Kind,
    pub(super) seen: Option<Seen>,
}

impl Registry {
    /// Adds a watch whose read is about to be sent; `visible` is the path without the chroot.
    pub(super) fn insert(&self, path: &str, visible: &str, kind: Kind) -> (u64, OneshotWatch) {
        let (notifier, watch) = OneshotWatch::channel(visible);
        let mut inner = self.lock();
        if inner.entries.len() >= inner.purge_at {
            inner.entries.retain(|_, entry| !entry.notifier.is_abandoned());
            inner.purge_at = (2 * inner.entries.len()).max(64);
        }
        let id = inner.next;
        inner.next += 1;
        inner
            .entries
            .insert(id, Entry { path: path.into(), kind, seen: None, armed: false, notifier });
        (id, watch)
    }

    /// Arms every watch that waits for the response to its read. Only one request is in flight at a
    /// time.
    pub(super) fn arm(&self) {
        self.lock().entries.values_mut().for_each(|entry| entry.armed = true);
    }

    /// Notes the result of the read.
    pub(super) fn saw(&self, id: u64, kind: Kind, stat: Option<&Stat>) {
        if let Some(entry) = self.lock().entries.get_mut(&id) {
            (entry.kind, entry.seen) = (kind, stat.map(Seen::from));
        }
    }

    /// Removes a watch whose read has failed, or that has fired.
    pub(super) fn remove(&self, id: u64) {
        self.lock().entries.remove(&id);
    }

    /// Handles an event of the server.
    pub(super) fn fire(&self, path: &str, event: EventType, zxid: Option<i64>) {
        let fires = |entry: &Entry| {
            &*entry.path == path
                && entry.armed
                && match event {
                    EventType::NodeDeleted => true,
                    EventType::NodeChildrenChanged => entry.kind == Kind::Children,
                    _ => entry.kind != Kind::Children,
                }
        };
        let mut inner = self.lock();
        let ids: Vec<_> =
            inner.entries.iter().filter(|(_, entry)| fires(entry)).map(|(id, _)| *id).collect();
        for id in ids {
            if let Some(entry) = inner.entries.remove(&id) {
                entry.notifier.notify_of(event, zxid);
            }
        }
    }

    /// Notes that a watch was armed again. Fires it if its node has changed in between.
    pub(super) fn rearmed(&self, stale: &Stale, now: Option<&Stat>) {
        let now = now.map(Seen::from);
        let mut inner = self.lock();
        match change(stale.kind, stale.seen, now) {
            Some(event) => {
                if let Some(entry) = inner.entries.remove(&stale.id) {
                    entry.notifier.notify(Ok(event));
                }
            }
            None => {
                if let Some(entry) = inner.entries.get_mut(&stale.id) {
                    entry.seen = now;
                }
            }
        }
    }

    /// Ends a watch that the server refuses to arm again.
    pub(super) fn refused(&self, stale: &Stale, why: ErrorCode) {
        if let Some(entry) = self.lock().entries.remove(&stale.id) {
            entry.notifier.notify(Err(WatchEnded::Refused(why)));
        }
    }

    /// Returns every watch with a waiter, to be armed again on another connection.
    pub(super) fn stale(&self) -> Vec<Stale> {
        let mut inner = self.lock();
        inner.entries.retain(|_, entry| !entry.notifier.is_abandoned());
        inner.entries.values_mut().for_each(|entry| entry.armed = false);
        let entries = inner.entries.iter();
        entries
            .map(|(id, entry)| Stale {
                id: *id,
                path: Arc::clone(&entry.path),
                kind: entry.kind,
                seen: entry.seen,
            })
            .collect()
    }

    /// Ends all watches, because the session is over.
    pub(super) fn end(&self, why: WatchEnded) {
        for (_, entry) in self.lock().entries.drain() {
            entry.notifier.notify(Err(why));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_reports_the_changes_since_the_previous_one() {
        use EventType as E;
        let seen = |czxid, mzxid, pzxid| Some(Seen { czxid, mzxid, pzxid });
        let before = seen(1, 5, 7);
        for (kind, now, expected) in [
            (Kind::Data, seen(1, 5, 7), None),
            (Kind::Data, seen(1, 5, 8), None),
            (Kind::Data, seen(1, 6, 7), Some(E::NodeDataChanged)),
            (Kind::Data, seen(9, 9, 9), Some(E::NodeDataChanged)),
            (Kind::Data, None, Some(E::NodeDeleted)),
            (Kind::Children, seen(1, 6, 7), None),
            (Kind::Children, seen(1, 5, 8), Some(E::NodeChildrenChanged)),
            (Kind::Children, None, Some(E::NodeDeleted)),
        ] {
            assert_eq!(change(kind, before, now), expected, "{kind:?} {now:?}");
        }
        assert_eq!(change(Kind::Absent, None, None), None);
        assert_eq!(change(Kind::Absent, None, before), Some(E::NodeCreated));
    }

    #[test]
    fn events_before_the_response_belong_to_another_watch() {
        let registry = Registry::default();
        let (id, mut watch) = registry.insert("/app/a", "/a", Kind::Data);
        let mut fired = || {
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            std::pin::Pin::new(&mut watch).poll(&mut context).is_ready()
        };
        registry.fire("/app/a", EventType::NodeDataChanged, None);
        assert!(!fired());
        registry.arm();
        registry.saw(id, Kind::Data, None);
        registry.fire("/app/b", EventType::NodeDataChanged, None);
        registry.fire("/app/a", EventType::NodeChildrenChanged, None);
        assert!(!fired());
        registry.fire("/app/a", EventType::NodeDataChanged, None);
        assert!(fired());
    }

    #[test]
    fn watches_that_were_dropped_do_not_pile_up() {
        let registry = Registry::default();
        for _ in 0..1000 {
            drop(registry.insert("/a", "/a", Kind::Data));
        }
        assert!(registry.lock().entries.len() <= 64);
        assert!(registry.stale().is_empty());
    }
}
