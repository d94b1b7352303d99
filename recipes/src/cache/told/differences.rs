//! The differences between the current state and the one last delivered to a subscriber.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::contents::Contents;
use super::subscriber::{CacheEvent, Delivered, DeliveredStates};
use crate::cache::state::{CachedNode, Freshness, Lookup, Snapshot};

impl Contents {
    /// Returns the events that a subscriber has not received yet.
    pub(crate) fn take_events(&mut self, id: u64) -> VecDeque<CacheEvent> {
        let mut events = VecDeque::new();
        if !self.is_loaded {
            return events;
        }
        let is_first =
            self.subscribers.get(&id).is_some_and(|subscriber| subscriber.told.is_none());
        if is_first && self.state.is_of_one_node() && !self.state.undecided().is_empty() {
            // The existence of the node is unknown.
            return events;
        }
        let Some(mut subscriber) = self.subscribers.remove(&id) else { return events };
        let told = match subscriber.told.take() {
            Some(told) => told,
            None => {
                events.push_back(CacheEvent::Loaded(self.snapshot()));
                (subscriber.outages, subscriber.is_fresh) = (self.outages, true);
                if !self.freshness.is_fresh() {
                    // This opens the bracket that `Fresh` closes.
                    subscriber.outages = self.outages.wrapping_sub(1);
                }
                BTreeMap::new()
            }
        };
        if subscriber.outages != self.outages {
            subscriber.outages = self.outages;
            let outage = match self.freshness {
                Freshness::Stale { since, cause, .. } => Some((since, cause)),
                // The outage is already over.
                _ => self.last_outage,
            };
            // If the last outage has not ended for a subscriber, it counts this outage as the same.
            if std::mem::take(&mut subscriber.is_fresh) {
                events.extend(outage.map(|(since, cause)| CacheEvent::Stale { since, cause }));
            }
        }
        let (differences, undecided) = self.differences(told, &mut subscriber.unreadable);
        events.extend(differences);
        subscriber.told = Some(undecided);
        if let (Freshness::Fresh { zxid, unreadable }, false) =
            (self.freshness, subscriber.is_fresh)
        {
            subscriber.is_fresh = true;
            events.push_back(CacheEvent::Fresh { zxid, unreadable });
        }
        subscriber.receives(&events);
        self.subscribers.insert(id, subscriber);
        events
    }

    /// Returns the position of a subscriber after everything that it has received.
    pub(crate) fn delivered(&self, id: u64) -> Delivered {
        let subscriber = self.subscribers.get(&id).filter(|_| self.is_loaded);
        subscriber.map(|it| it.delivered(id, self.freshness)).unwrap_or_default()
    }

    /// Returns the differences between the delivered and the current state, in the order of their
    /// delivery, and the nodes whose current state is being read.
    fn differences(
        &self,
        told: DeliveredStates,
        hidden: &mut BTreeMap<Box<str>, Arc<CachedNode>>,
    ) -> (Vec<CacheEvent>, DeliveredStates) {
        let mut undecided = BTreeMap::new();
        let (mut deleted, mut created, mut changed, mut unreadable) =
            (vec![], vec![], vec![], vec![]);
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
                (None, Lookup::Absent) => {
                    deleted.extend(hidden.remove(&path).map(CacheEvent::Deleted));
                }
                (old, Lookup::Unknown) => match (self.state.unreadable().get(&path), old) {
                    (Some(error), Some(old)) => {
                        unreadable
                            .push(CacheEvent::Unreadable { old: Arc::clone(&old), error: *error });
                        hidden.insert(path, old);
                    }
                    (Some(_), None) => {}
                    (None, old) => drop(undecided.insert(path, old)),
                },
            }
        }
        changed.sort_by_key(|(zxid, _)| *zxid);
        let changed = changed.into_iter().map(|(_, event)| event);
        let events =
            deleted.into_iter().rev().chain(created).chain(changed).chain(unreadable).collect();
        (events, undecided)
    }
}

impl Contents {
    /// Returns the nodes at this moment, and the unknown paths.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let tree = self.state.tree();
        let unreadable = self.state.unreadable().iter();
        Snapshot {
            zxid: self.freshness.zxid().unwrap_or_default(),
            nodes: tree.walk(tree.root()).filter(|node| node.is_kept).cloned().collect(),
            unreadable: unreadable.map(|(path, kind)| (path.to_string(), *kind)).collect(),
            undecided: self.state.undecided(),
        }
    }
}
