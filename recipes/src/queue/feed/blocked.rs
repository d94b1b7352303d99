use std::collections::{BTreeSet, VecDeque};
use std::mem;
use std::time::Duration;

use tokio::time::Instant;

use super::watch_state::WatchState;

/// The time after which an item that another consumer had claimed is tried again, unless the claim
/// is watched.
pub(in crate::queue) const TRIED_AGAIN: Duration = Duration::from_secs(1);
/// The number of items that are remembered as delivered by this consumer.
const HANDED_OUT: usize = 256;
/// The maximum number of watched nodes that block items.
const WATCHED_AT_ONCE: usize = 64;

/// The items that cannot be taken as long as some node stays unchanged.
#[derive(Debug, Default)]
pub(crate) struct BlockedItems {
    list: Vec<BlockedItem>,
    /// The number of the next one.
    next: u64,
    /// The last items that this consumer has claimed and delivered. When one returns, this process
    /// knows it.
    handed_out: VecDeque<String>,
}

#[derive(Debug)]
struct BlockedItem {
    number: u64,
    name: String,
    why: BlockReason,
    /// The path of the node.
    on: String,
    watch: WatchState,
    since: Instant,
}

impl BlockedItem {
    fn is_stale(&self, now: Instant) -> bool {
        self.why == BlockReason::Claimed
            && self.watch == WatchState::Unwatched
            && now.duration_since(self.since) >= TRIED_AGAIN
    }
}

/// The reason why an item cannot be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BlockReason {
    /// Another client has claimed it, as long as the node exists.
    Claimed,
    /// Its producer has not confirmed it, as long as the node exists and has this version, if that
    /// is one.
    Unconfirmed {
        /// `true` if no item behind it may be taken either.
        strict: bool,
        version: Option<i32>,
    },
}

impl BlockReason {
    const fn is_strict(self) -> bool {
        matches!(self, Self::Unconfirmed { strict: true, .. })
    }

    /// Returns `true` if it may be taken when other items can, even without an event.
    const fn passes_with_time(self) -> bool {
        matches!(self, Self::Unconfirmed { strict: false, .. })
    }

    /// Returns `true` if a node with this version has changed.
    fn is_over(self, now: i32) -> bool {
        matches!(self, Self::Unconfirmed { version: Some(version), .. } if version != now)
    }
}

impl BlockedItems {
    pub(in crate::queue) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(in crate::queue) fn clear(&mut self) {
        self.list.clear();
    }

    pub(in crate::queue) fn block(
        &mut self,
        name: &str,
        why: BlockReason,
        on: String,
        now: Instant,
    ) {
        let blocked = BlockedItem {
            number: self.next,
            name: name.to_owned(),
            why,
            on,
            watch: WatchState::Unwatched,
            since: now,
        };
        self.next += 1;
        self.list.push(blocked);
    }

    /// Removes what blocks an item.
    pub(in crate::queue) fn unblock(&mut self, name: &str) {
        self.list.retain(|blocked| blocked.name != name);
    }

    /// Removes all watches: a client that is not the first in line need not be woken when an item
    /// becomes free.
    pub(in crate::queue) fn unwatch(&mut self) {
        self.list.iter_mut().for_each(|blocked| blocked.watch = WatchState::Unwatched);
    }

    pub(in crate::queue) fn fired(&mut self, number: u64) {
        if let Some(blocked) = self.list.iter_mut().find(|blocked| blocked.number == number) {
            blocked.watch.fire();
        }
    }

    pub(in crate::queue) fn is_armed(&self, number: u64) -> bool {
        self.list
            .iter()
            .any(|blocked| blocked.number == number && blocked.watch == WatchState::Armed)
    }

    pub(in crate::queue) fn has_fired(&self) -> bool {
        self.list.iter().any(|blocked| blocked.watch == WatchState::Fired)
    }

    /// Removes a block whose node has changed, and returns the name of its item.
    pub(in crate::queue) fn next_fired(&mut self) -> Option<String> {
        let fired = self.list.iter().position(|blocked| blocked.watch == WatchState::Fired)?;
        Some(self.list.remove(fired).name)
    }

    /// Removes the blocks whose nodes have changed, and returns the names of their items.
    pub(in crate::queue) fn take_fired(&mut self) -> Vec<String> {
        self.take(|blocked| blocked.watch == WatchState::Fired)
    }

    /// Removes the blocks whose nodes are not watched, and returns the names of their items.
    pub(in crate::queue) fn take_unwatched(&mut self) -> Vec<String> {
        self.take(|blocked| blocked.watch == WatchState::Unwatched)
    }

    /// Removes the blocks by claims that were read so long ago that they must be tried again, and
    /// returns the names of their items.
    pub(in crate::queue) fn take_stale(&mut self, now: Instant) -> Vec<String> {
        self.take(|blocked| blocked.is_stale(now))
    }

    fn take(&mut self, is_taken: impl Fn(&BlockedItem) -> bool) -> Vec<String> {
        let mut taken = Vec::new();
        self.list.retain_mut(|blocked| {
            let is_taken = is_taken(blocked);
            if is_taken {
                taken.push(mem::take(&mut blocked.name));
            }
            !is_taken
        });
        taken
    }

    pub(in crate::queue) fn names(&self) -> BTreeSet<&str> {
        self.list.iter().map(|blocked| blocked.name.as_str()).collect()
    }

    /// Returns the names of the items behind which nothing may be taken.
    pub(in crate::queue) fn walls(&self) -> impl Iterator<Item = &str> {
        self.list
            .iter()
            .filter(|blocked| blocked.why.is_strict())
            .map(|blocked| blocked.name.as_str())
    }

    /// Processes a listing with these items: removes blocks of other items, and blocks that are no
    /// longer needed.
    pub(in crate::queue) fn listed(&mut self, names: &BTreeSet<&str>, now: Instant) {
        self.list.retain(|blocked| !blocked.is_stale(now) && names.contains(blocked.name.as_str()));
        let is_any_free = self.names().len() < names.len();
        if is_any_free {
            // Another producer may have confirmed earlier items by now.
            self.list.retain(|blocked| !blocked.why.passes_with_time());
        }
    }

    pub(in crate::queue) fn handed_out(&mut self, name: String) {
        if self.handed_out.len() == HANDED_OUT {
            self.handed_out.pop_front();
        }
        self.handed_out.push_back(name);
    }

    /// Returns the nodes to watch. Claims of other consumers change with every item, so they are
    /// watched only on demand.
    pub(in crate::queue) fn to_watch(&self, claims_of_others: bool) -> Vec<u64> {
        let is_wanted = |blocked: &&BlockedItem| {
            claims_of_others
                || blocked.why != BlockReason::Claimed
                || self.handed_out.contains(&blocked.name)
        };
        let first = self.list.iter().filter(is_wanted).take(WATCHED_AT_ONCE);
        first
            .filter(|blocked| blocked.watch == WatchState::Unwatched)
            .map(|blocked| blocked.number)
            .collect()
    }

    /// Returns the path of the node.
    pub(in crate::queue) fn path(&self, number: u64) -> &str {
        self.list.iter().find(|blocked| blocked.number == number).map_or("", |blocked| &blocked.on)
    }

    /// Processes the versions of nodes that are watched from now on, or their absence. Returns
    /// `true` if an item is free.
    pub(in crate::queue) fn watched(&mut self, versions: Vec<(u64, Option<i32>)>) -> bool {
        let mut freed = BTreeSet::new();
        for (number, version) in versions {
            let Some(blocked) = self.list.iter_mut().find(|blocked| blocked.number == number)
            else {
                continue;
            };
            match version {
                Some(version) if !blocked.why.is_over(version) => blocked.watch = WatchState::Armed,
                _ => drop(freed.insert(blocked.name.clone())),
            }
        }
        self.list.retain(|blocked| !freed.contains(&blocked.name));
        !freed.is_empty()
    }

    /// Returns the paths of the nodes that are not watched because there are too many.
    pub(in crate::queue) fn unwatched(&self) -> Vec<String> {
        let unwatched = self.list.iter().filter(|blocked| blocked.watch == WatchState::Unwatched);
        unwatched.map(|blocked| blocked.on.clone()).collect()
    }

    /// Processes the existence of the unwatched nodes. Returns `true` if an item is free.
    pub(in crate::queue) fn looked(&mut self, are_there: &[bool]) -> bool {
        let unwatched = self.list.iter().filter(|blocked| blocked.watch == WatchState::Unwatched);
        let freed = unwatched
            .zip(are_there)
            .filter(|(blocked, is_there)| !**is_there || blocked.why != BlockReason::Claimed);
        let freed: BTreeSet<String> = freed.map(|(blocked, _)| blocked.name.clone()).collect();
        self.list.retain(|blocked| !freed.contains(&blocked.name));
        !freed.is_empty()
    }
}
