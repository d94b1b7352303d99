use std::collections::{BTreeSet, VecDeque};

use crate::queue::wire::name::{ItemPlace, NamingRules, is_taker};

/// The maximum number of items that are kept in memory.
const LONGEST_LIST: usize = 10_000;
/// The number of consecutive items taken by other consumers after which the queue is listed again.
const MISSES: u32 = 16;

/// The names of the items, in the order in which one consumer takes them.
#[derive(Debug)]
pub(crate) struct FeedItems {
    pub(crate) kind: NamingRules,
    names: VecDeque<(ItemPlace, String)>,
    /// Items that were reported, and are not used again.
    aside: BTreeSet<String>,
    /// Nodes that are not items, to be reported.
    foreign: VecDeque<String>,
    /// `true` if every item of the last listing is in the list, blocked, or gone.
    pub(in crate::queue) is_complete: bool,
    misses: u32,
}

/// The state of an item of the list, as read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SeenItem {
    Free,
    /// Claimed, as long as the node at this path exists.
    Claimed(String),
    Gone,
}

impl FeedItems {
    pub(in crate::queue) fn new(kind: NamingRules) -> Self {
        Self {
            kind,
            names: VecDeque::new(),
            aside: BTreeSet::new(),
            foreign: VecDeque::new(),
            is_complete: false,
            misses: 0,
        }
    }

    /// Returns the time until an item at this place is due, in milliseconds.
    pub(crate) fn until_due(&self, place: ItemPlace, now: i64) -> u64 {
        let millis =
            if self.kind == NamingRules::Delay { place.rank.saturating_sub(now) } else { 0 };
        u64::try_from(millis).unwrap_or(0)
    }

    pub(crate) fn first(&self) -> Option<ItemPlace> {
        self.names.front().map(|(place, _)| *place)
    }

    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Returns `true` if the next item of the list is due.
    fn has_next(&self, now: i64) -> bool {
        self.first().is_some_and(|place| self.until_due(place, now) == 0)
    }

    /// Returns `true` if there is something to do without waiting.
    pub(crate) fn has_work(&self, now: i64) -> bool {
        self.has_next(now) || !self.foreign.is_empty()
    }

    /// Removes the next item from the list and returns it, if it is due.
    pub(crate) fn pop(&mut self, now: i64) -> Option<String> {
        self.pop_if(now, |_, _| true)
    }

    /// Removes the next item from the list and returns it, if it is due and wanted.
    pub(crate) fn pop_if(
        &mut self,
        now: i64,
        is_wanted: impl FnOnce(&Self, &str) -> bool,
    ) -> Option<String> {
        let (_, name) = self.names.front().filter(|_| self.has_next(now))?;
        if !is_wanted(self, name) {
            return None;
        }
        self.is_complete = false;
        self.names.pop_front().map(|(_, name)| name)
    }

    /// Returns the name of a node among the items that is not an item, once.
    pub(crate) fn pop_foreign(&mut self) -> Option<String> {
        self.foreign.pop_front()
    }

    /// Returns `true` if an item comes before another.
    pub(crate) fn is_before(&self, name: &str, other: &str) -> bool {
        self.kind.place(name) < self.kind.place(other)
    }

    /// Returns the first names of the list that are due, at most `count`.
    pub(crate) fn front(&self, count: usize, now: i64) -> Vec<String> {
        let due =
            self.names.iter().take(count).take_while(|(place, _)| self.until_due(*place, now) == 0);
        due.map(|(_, name)| name.clone()).collect()
    }

    /// Keeps the free ones of the first names of the list, and returns the claimed ones, with their
    /// claims.
    pub(in crate::queue) fn replace_front(&mut self, seen: Vec<SeenItem>) -> Vec<(String, String)> {
        let (mut free, mut claimed) = (Vec::new(), Vec::new());
        for seen in seen {
            let Some(item) = self.names.pop_front() else { break };
            match seen {
                SeenItem::Free => free.push(item),
                SeenItem::Claimed(on) => claimed.push((item.1, on)),
                SeenItem::Gone => {}
            }
        }
        free.into_iter().rev().for_each(|item| self.names.push_front(item));
        claimed
    }

    pub(crate) fn remove(&mut self, name: &str) {
        self.names.retain(|(_, other)| other != name);
    }

    /// Marks an item as reported, so that it is not read again.
    pub(crate) fn put_aside(&mut self, name: String) {
        self.aside.insert(name);
    }

    pub(in crate::queue) fn is_aside(&self, name: &str) -> bool {
        self.aside.contains(name)
    }

    /// Adds items that have returned to their place. If items that are not listed yet may come
    /// first, a listing finds them instead.
    pub(crate) fn put_back(&mut self, names: impl IntoIterator<Item = String>) {
        let mut names = names.into_iter().peekable();
        if self.names.is_empty() && self.kind.is_reordered() {
            self.is_complete &= names.peek().is_none();
            return;
        }
        for name in names {
            if let Some(place) = self.kind.place(&name) {
                let item = (place, name);
                if let Err(at) = self.names.binary_search(&item) {
                    self.names.insert(at, item);
                }
            }
        }
    }

    /// Discards the list.
    pub(in crate::queue) fn clear(&mut self) {
        self.names.clear();
        self.is_complete = false;
    }

    /// Discards the list, and counts from zero.
    pub(in crate::queue) fn reset(&mut self) {
        self.clear();
        self.misses = 0;
    }

    /// Forgets the data of another queue that was at the same path.
    pub(in crate::queue) fn forget_aside(&mut self) {
        self.aside.clear();
    }

    pub(in crate::queue) fn took(&mut self) {
        self.misses = 0;
    }

    /// Notes that another client has taken an item. Returns `true` if the list is therefore too
    /// old.
    pub(in crate::queue) fn missed(&mut self) -> bool {
        self.misses += 1;
        self.misses >= MISSES
    }

    /// Reads the items of a listing, without reported ones. The buckets in `left` were not listed,
    /// so their items are unknown; so are nodes next to buckets if `left` contains the empty name.
    pub(in crate::queue) fn read(
        &mut self,
        children: Vec<String>,
        left: &BTreeSet<String>,
    ) -> Vec<(ItemPlace, String)> {
        let is_left =
            |name: &String| left.contains(name.rsplit_once('/').map_or("", |(bucket, _)| bucket));
        let mut aside: BTreeSet<String> =
            self.aside.iter().filter(|name| is_left(name)).cloned().collect();
        let mut listed = Vec::new();
        for name in children {
            if self.aside.contains(&name) {
                aside.insert(name);
            } else if let Some(place) = self.kind.place(&name) {
                listed.push((place, name));
            } else if !is_taker(&name) {
                self.foreign.push_back(name.clone());
                aside.insert(name);
            }
        }
        // Items that no longer exist need not be remembered.
        self.aside = aside;
        listed
    }

    /// Replaces the list by these items, or by the first of them if there are too many.
    pub(in crate::queue) fn fill(&mut self, mut listed: Vec<(ItemPlace, String)>, is_all: bool) {
        let is_too_long = listed.len() > LONGEST_LIST;
        self.is_complete = !is_too_long && is_all;
        if is_too_long {
            listed.select_nth_unstable(LONGEST_LIST);
            listed.truncate(LONGEST_LIST);
            listed.shrink_to_fit();
        }
        listed.sort_unstable();
        self.names = listed.into();
        self.misses = 0;
    }
}
