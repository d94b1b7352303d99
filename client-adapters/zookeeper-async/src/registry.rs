use std::collections::HashMap;
use std::sync::Arc;

use zk_curator_client::internal::{Locked, LockedGuard};
use zk_curator_client::{ErrorCode, EventType, OneshotWatch, Stat, WatchEnded, WatchNotifier};

/// The read that armed a watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ArmingRead {
    Data,
    Children,
    /// `exists` of a node that did not exist.
    Absent,
}

/// The result of the read that armed a watch: the transactions that created the node, wrote it, and
/// changed its children.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ArmingResult {
    czxid: i64,
    mzxid: i64,
    pzxid: i64,
}

impl From<&Stat> for ArmingResult {
    fn from(stat: &Stat) -> Self {
        Self { czxid: stat.czxid, mzxid: stat.mzxid, pzxid: stat.pzxid }
    }
}

/// Returns the change between two reads, if a watch of this kind reports it.
pub(super) fn change(
    kind: ArmingRead,
    before: Option<ArmingResult>,
    now: Option<ArmingResult>,
) -> Option<EventType> {
    match (kind, before, now) {
        (ArmingRead::Absent, _, now) => now.map(|_| EventType::NodeCreated),
        (_, _, None) => Some(EventType::NodeDeleted),
        (ArmingRead::Data, Some(before), Some(now)) => ((before.czxid, before.mzxid)
            != (now.czxid, now.mzxid))
            .then_some(EventType::NodeDataChanged),
        (ArmingRead::Children, Some(before), Some(now)) => ((before.czxid, before.pzxid)
            != (now.czxid, now.pzxid))
            .then_some(EventType::NodeChildrenChanged),
        // There was no earlier read: an additional event is better than a missing one.
        (ArmingRead::Data, None, Some(_)) => Some(EventType::NodeDataChanged),
        (ArmingRead::Children, None, Some(_)) => Some(EventType::NodeChildrenChanged),
    }
}

/// A watch with a waiter.
#[derive(Debug)]
struct WaitingWatch {
    /// The path on the server.
    path: Arc<str>,
    kind: ArmingRead,
    seen: Option<ArmingResult>,
    /// `true` if the server has responded to the read that arms the watch. Earlier events belong to
    /// another watch.
    armed: bool,
    notifier: WatchNotifier,
}

/// The watches of a session. The link fires them in the order of the server's events.
#[derive(Debug, Default)]
pub(super) struct AdapterRegistry(Locked<AdapterRegistryState>);

#[derive(Debug, Default)]
struct AdapterRegistryState {
    entries: HashMap<u64, WaitingWatch>,
    next: u64,
    /// The number of entries above which those without a waiter are removed.
    purge_at: usize,
}

/// A watch that must be armed again.
#[derive(Debug)]
pub(super) struct StaleWatch {
    pub(super) id: u64,
    pub(super) path: Arc<str>,
    pub(super) kind: ArmingRead,
    pub(super) seen: Option<ArmingResult>,
}

impl AdapterRegistry {
    /// Adds a watch whose read is about to be sent; `visible` is the path without the chroot.
    pub(super) fn insert(
        &self,
        path: &str,
        visible: &str,
        kind: ArmingRead,
    ) -> (u64, OneshotWatch) {
        let (notifier, watch) = OneshotWatch::channel(visible);
        let mut inner = self.lock();
        if inner.entries.len() >= inner.purge_at {
            inner.entries.retain(|_, entry| !entry.notifier.is_abandoned());
            inner.purge_at = (2 * inner.entries.len()).max(64);
        }
        let id = inner.next;
        inner.next += 1;
        inner.entries.insert(
            id,
            WaitingWatch { path: path.into(), kind, seen: None, armed: false, notifier },
        );
        (id, watch)
    }

    /// Arms every watch that waits for the response to its read. Only one request is in flight at a
    /// time.
    pub(super) fn arm(&self) {
        self.lock().entries.values_mut().for_each(|entry| entry.armed = true);
    }

    /// Notes the result of the read.
    pub(super) fn saw(&self, id: u64, kind: ArmingRead, stat: Option<&Stat>) {
        if let Some(entry) = self.lock().entries.get_mut(&id) {
            (entry.kind, entry.seen) = (kind, stat.map(ArmingResult::from));
        }
    }

    /// Removes a watch whose read has failed, or that has fired.
    pub(super) fn remove(&self, id: u64) {
        self.lock().entries.remove(&id);
    }

    /// Handles an event of the server.
    pub(super) fn fire(&self, path: &str, event: EventType, zxid: Option<i64>) {
        let fires = |entry: &WaitingWatch| {
            &*entry.path == path
                && entry.armed
                && match event {
                    EventType::NodeDeleted => true,
                    EventType::NodeChildrenChanged => entry.kind == ArmingRead::Children,
                    _ => entry.kind != ArmingRead::Children,
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
    pub(super) fn rearmed(&self, stale: &StaleWatch, now: Option<&Stat>) {
        let now = now.map(ArmingResult::from);
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
    pub(super) fn refused(&self, stale: &StaleWatch, why: ErrorCode) {
        if let Some(entry) = self.lock().entries.remove(&stale.id) {
            entry.notifier.notify(Err(WatchEnded::Refused(why)));
        }
    }

    /// Returns every watch with a waiter, to be armed again on another connection.
    pub(super) fn stale(&self) -> Vec<StaleWatch> {
        let mut inner = self.lock();
        inner.entries.retain(|_, entry| !entry.notifier.is_abandoned());
        inner.entries.values_mut().for_each(|entry| entry.armed = false);
        let entries = inner.entries.iter();
        entries
            .map(|(id, entry)| StaleWatch {
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

    fn lock(&self) -> LockedGuard<'_, AdapterRegistryState> {
        self.0.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_reports_the_changes_since_the_previous_one() {
        use EventType as E;
        let seen = |czxid, mzxid, pzxid| Some(ArmingResult { czxid, mzxid, pzxid });
        let before = seen(1, 5, 7);
        for (kind, now, expected) in [
            (ArmingRead::Data, seen(1, 5, 7), None),
            (ArmingRead::Data, seen(1, 5, 8), None),
            (ArmingRead::Data, seen(1, 6, 7), Some(E::NodeDataChanged)),
            (ArmingRead::Data, seen(9, 9, 9), Some(E::NodeDataChanged)),
            (ArmingRead::Data, None, Some(E::NodeDeleted)),
            (ArmingRead::Children, seen(1, 6, 7), None),
            (ArmingRead::Children, seen(1, 5, 8), Some(E::NodeChildrenChanged)),
            (ArmingRead::Children, None, Some(E::NodeDeleted)),
        ] {
            assert_eq!(change(kind, before, now), expected, "{kind:?} {now:?}");
        }
        assert_eq!(change(ArmingRead::Absent, None, None), None);
        assert_eq!(change(ArmingRead::Absent, None, before), Some(E::NodeCreated));
    }

    #[test]
    fn events_before_the_response_belong_to_another_watch() {
        let registry = AdapterRegistry::default();
        let (id, mut watch) = registry.insert("/app/a", "/a", ArmingRead::Data);
        let mut fired = || {
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            std::pin::Pin::new(&mut watch).poll(&mut context).is_ready()
        };
        registry.fire("/app/a", EventType::NodeDataChanged, None);
        assert!(!fired());
        registry.arm();
        registry.saw(id, ArmingRead::Data, None);
        registry.fire("/app/b", EventType::NodeDataChanged, None);
        registry.fire("/app/a", EventType::NodeChildrenChanged, None);
        assert!(!fired());
        registry.fire("/app/a", EventType::NodeDataChanged, None);
        assert!(fired());
    }

    #[test]
    fn watches_that_were_dropped_do_not_pile_up() {
        let registry = AdapterRegistry::default();
        for _ in 0..1000 {
            drop(registry.insert("/a", "/a", ArmingRead::Data));
        }
        assert!(registry.lock().entries.len() <= 64);
        assert!(registry.stale().is_empty());
    }
}
