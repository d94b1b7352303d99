//! [`Deadlines`]: the expiry times of sessions.

use std::collections::{BTreeMap, BTreeSet};

/// The deadline of a session that does not expire.
pub(super) const NEVER: u64 = u64::MAX;

/// The sessions by deadline. Deadlines are rounded up to the tick, so most packets change nothing.
/// Each session is listed at most once.
#[derive(Debug)]
pub(super) struct Deadlines {
    by_time: BTreeMap<u64, BTreeSet<i64>>,
    /// Milliseconds, at least one.
    tick: u64,
}

impl Deadlines {
    pub(super) fn new(tick: u64) -> Self {
        Self { by_time: BTreeMap::new(), tick: tick.max(1) }
    }

    /// Returns the first tick after a time.
    pub(super) const fn after(&self, time: u64) -> u64 {
        (time / self.tick + 1) * self.tick
    }

    /// Returns the first tick at or after a time.
    pub(super) const fn not_before(&self, time: u64) -> u64 {
        time.next_multiple_of(self.tick)
    }

    pub(super) fn insert(&mut self, id: i64, deadline: u64) {
        if deadline != NEVER {
            self.by_time.entry(deadline).or_default().insert(id);
        }
    }

    pub(super) fn remove(&mut self, id: i64, deadline: u64) {
        if let Some(ids) = self.by_time.get_mut(&deadline) {
            ids.remove(&id);
            if ids.is_empty() {
                self.by_time.remove(&deadline);
            }
        }
    }

    pub(super) fn next(&self) -> Option<u64> {
        self.by_time.keys().next().copied()
    }

    /// Returns the sessions with a deadline up to `now`, in the order of deadlines.
    pub(super) fn until(&self, now: u64) -> impl Iterator<Item = i64> {
        self.by_time.range(..=now).flat_map(|(_, ids)| ids).copied()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &BTreeSet<i64>)> {
        self.by_time.iter().map(|(deadline, ids)| (*deadline, ids))
    }
}
