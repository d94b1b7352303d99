use std::collections::BTreeSet;
use std::mem;
use std::time::Duration;

use tokio::time::Instant;

use super::blocked::{BlockReason, BlockedItems, TRIED_AGAIN};
use super::buckets::{BucketChildren, BucketList};
use super::effects::{FeedEffect, FeedInput, FeedWatchKey, ListingOptions, ParentStat};
use super::items::{FeedItems, SeenItem};
use super::watch_state::WatchState;
use crate::queue::wire::name::NamingRules;

/// The time without an event after which a waiting consumer reads the claims of other consumers.
const QUIET: Duration = Duration::from_millis(500);

/// The knowledge of a consumer about its queue: a list of items, and the events that change it.
#[derive(Debug)]
pub(crate) struct FeedMachine {
    pub(crate) items: FeedItems,
    blocked: BlockedItems,
    parent: FeedParent,
    buckets: BucketList,
    /// The number of taken items after which a check is due for items that come before those of
    /// the list.
    refresh_after: u32,
    /// The number of items that were taken since the last check.
    taken: u32,
    listing: FeedListing,
    /// The time without an event after which claims of other consumers are read.
    quiet: Duration,
    /// `true` while they are being read.
    is_looking: bool,
}

/// The knowledge of the parent of the items.
#[derive(Debug, Default)]
struct FeedParent {
    /// Its state when it was listed.
    listed: Option<ParentStat>,
    watch: WatchState,
}

/// A listing in progress.
#[derive(Debug, Default)]
struct FeedListing {
    order: ListingOptions,
    /// `true` if the buckets of the parent were known.
    is_known: bool,
    children: Vec<String>,
    /// The next bucket.
    next: usize,
    /// The number of buckets that are being listed.
    count: usize,
    /// The number of items in buckets that can be taken.
    free: usize,
}

impl FeedMachine {
    pub(crate) fn new(kind: NamingRules, refresh_after: u32) -> Self {
        Self {
            items: FeedItems::new(kind),
            blocked: BlockedItems::default(),
            parent: FeedParent::default(),
            buckets: BucketList::default(),
            refresh_after,
            taken: 0,
            listing: FeedListing::default(),
            quiet: QUIET,
            is_looking: false,
        }
    }

    /// Notes that a watch has fired.
    pub(crate) fn fired(&mut self, watched: &FeedWatchKey) {
        match watched {
            FeedWatchKey::Parent => self.parent.watch.fire(),
            FeedWatchKey::Bucket(name) => self.buckets.fired(name),
            FeedWatchKey::Blocked(number) => self.blocked.fired(*number),
        }
    }

    /// Returns `true` if an event of this watch is of interest.
    pub(crate) fn is_armed(&self, watched: &FeedWatchKey) -> bool {
        match watched {
            FeedWatchKey::Parent => self.parent.watch == WatchState::Armed,
            FeedWatchKey::Bucket(name) => self.buckets.is_armed(name),
            FeedWatchKey::Blocked(number) => self.blocked.is_armed(*number),
        }
    }

    /// Processes a report of the driver, and returns its next step.
    ///
    /// Events are reported [before](Self::fired) the responses that come after them.
    pub(crate) fn step(&mut self, input: FeedInput, now: Instant) -> FeedEffect {
        match input {
            FeedInput::List(order) => {
                // If the call is dropped in the middle, the list does not match the watches.
                self.items.is_complete = false;
                self.unblock_fired();
                self.begin(order, now)
            }
            FeedInput::Parent(listed) => self.parent_listed(listed, now),
            FeedInput::ParentExists(true) => self.begin(self.listing.order, now),
            FeedInput::ParentExists(false) => {
                self.parent.watch = WatchState::Armed;
                self.children_listed(Vec::new(), now)
            }
            FeedInput::Buckets(listed) => self.buckets_listed(listed, now),
            FeedInput::Deleted(deletions) => {
                deletions.iter().for_each(|(name, deletion)| self.buckets.deleted(name, *deletion));
                self.all_listed(now)
            }
            FeedInput::Guarded(is_guarded) => {
                // From now on the listed items are guarded.
                self.parent.watch = WatchState::Unwatched;
                self.begin(ListingOptions { is_guarded, ..self.listing.order }, now)
            }
            FeedInput::Wait => {
                (self.quiet, self.is_looking) = (QUIET, false);
                if self.has_fired() { self.woken() } else { self.watch_blocked(false) }
            }
            FeedInput::Quiet => {
                self.is_looking = true;
                self.watch_blocked(true)
            }
            FeedInput::BlockedOn(versions) => {
                let is_any_free = self.blocked.watched(versions);
                self.looked(is_any_free)
            }
            FeedInput::AreThere(are_there) => {
                (self.quiet, self.is_looking) = (TRIED_AGAIN, false);
                let is_any_free = self.blocked.looked(&are_there);
                self.looked(is_any_free)
            }
            FeedInput::Woken => self.woken(),
        }
    }

    const fn has_buckets(&self) -> bool {
        self.items.kind.has_buckets()
    }

    fn begin(&mut self, order: ListingOptions, now: Instant) -> FeedEffect {
        self.forget_fired();
        let is_known = self.has_buckets() && self.parent.watch == WatchState::Armed;
        self.listing = FeedListing { order, is_known, ..FeedListing::default() };
        if is_known {
            return self.next_buckets(now);
        }
        FeedEffect::ListParent { is_watched: order.is_watched || self.has_buckets() }
    }

    /// The next listing shows the changes.
    fn forget_fired(&mut self) {
        self.parent.watch.forget_fired();
        self.buckets.forget_fired();
    }

    fn parent_listed(
        &mut self,
        listed: Option<(Vec<String>, ParentStat)>,
        now: Instant,
    ) -> FeedEffect {
        let is_watched = self.listing.order.is_watched || self.has_buckets();
        let Some((names, stat)) = listed else {
            // The parent does not exist yet, or was an empty container (CURATOR-308). A consumer
            // does not create it, because an unused one would never be deleted.
            return if is_watched {
                FeedEffect::WatchParent
            } else {
                self.children_listed(Vec::new(), now)
            };
        };
        if is_watched {
            self.parent.watch = WatchState::Armed;
        }
        if self.parent.listed.is_some_and(|listed| listed.czxid != stat.czxid) {
            // The data belong to another queue that was at the same path.
            self.items.forget_aside();
            self.blocked.clear();
            self.buckets = BucketList::default();
        }
        self.parent.listed = Some(stat);
        self.children_listed(names, now)
    }

    fn children_listed(&mut self, mut children: Vec<String>, now: Instant) -> FeedEffect {
        if !self.has_buckets() {
            self.listing.children = children;
            return self.all_listed(now);
        }
        self.buckets.update(&mut children);
        self.listing.children = children;
        self.next_buckets(now)
    }

    /// Lists buckets in their order, until enough items can be taken or all buckets are listed.
    fn next_buckets(&mut self, now: Instant) -> FeedEffect {
        while self.listing.next < self.buckets.len()
            && self.listing.free < self.listing.order.enough
        {
            let (count, names) = self.buckets.to_list(self.listing.next, self.listing.free > 0);
            if !names.is_empty() {
                self.listing.count = count;
                return FeedEffect::ListBuckets { names, is_watched: self.watches_buckets() };
            }
            self.listing.next += count;
        }
        match self.buckets.begin_deletes() {
            deletes if deletes.is_empty() => self.all_listed(now),
            deletes => FeedEffect::DeleteBuckets(deletes),
        }
    }

    /// Returns `true` if buckets are watched, so that events report better items.
    const fn watches_buckets(&self) -> bool {
        self.listing.order.is_watched || (self.is_reordered() && self.refresh_after != u32::MAX)
    }

    fn buckets_listed(
        &mut self,
        listed: Vec<(String, BucketChildren)>,
        now: Instant,
    ) -> FeedEffect {
        let blocked = self.blocked.names();
        let is_free =
            |name: &&String| !blocked.contains(name.as_str()) && !self.items.is_aside(name);
        let names = || {
            listed.iter().filter_map(|(_, children)| children.as_ref()).flat_map(|(names, _)| names)
        };
        self.listing.free += names().filter(is_free).count();
        let is_watched = self.watches_buckets();
        for (name, children) in listed {
            self.buckets.listed(&name, &children, is_watched);
            self.listing.children.extend(children.unwrap_or_default().0);
        }
        self.listing.next += self.listing.count;
        self.next_buckets(now)
    }

    /// Processes a listing.
    fn all_listed(&mut self, now: Instant) -> FeedEffect {
        let children = mem::take(&mut self.listing.children);
        let order = self.listing.order;
        if !order.is_guarded && children.iter().any(|name| self.items.kind.place(name).is_some()) {
            return FeedEffect::CreateGuard;
        }
        let mut left = self.buckets.left(self.listing.next);
        if self.listing.is_known {
            left.insert(String::new());
        }
        self.fill(children, &left, now);
        if self.has_buckets() && self.items.is_empty() && self.parent.watch == WatchState::Fired {
            // A bucket may have been created since the first listing.
            return self.begin(order, now);
        }
        // Watches that have fired since then count as fired: a waiting caller lists again.
        FeedEffect::Done
    }

    fn fill(&mut self, children: Vec<String>, left: &BTreeSet<String>, now: Instant) {
        let mut listed = self.items.read(children, left);
        if !self.blocked.is_empty() {
            self.blocked.listed(&listed.iter().map(|(_, name)| name.as_str()).collect(), now);
        }
        let wall = self.blocked.walls().filter_map(|name| self.items.kind.place(name)).min();
        let blocked = self.blocked.names();
        listed.retain(|(place, name)| {
            !blocked.contains(name.as_str()) && wall.is_none_or(|wall| *place < wall)
        });
        self.items.fill(listed, left.iter().all(String::is_empty));
        self.taken = 0;
    }

    fn has_fired(&self) -> bool {
        self.parent.watch == WatchState::Fired
            || self.buckets.has_fired()
            || self.blocked.has_fired()
    }

    fn woken(&mut self) -> FeedEffect {
        self.unblock_fired();
        FeedEffect::Done
    }

    /// Removes the blocks of items that are now free: a listing finds them.
    fn unblock_fired(&mut self) {
        while let Some(name) = self.blocked.next_fired() {
            // It may have been blocked for another reason: check again.
            self.unblock_item(&name);
        }
    }

    fn watch_blocked(&mut self, claims_of_others: bool) -> FeedEffect {
        let numbers = self.blocked.to_watch(claims_of_others);
        if numbers.is_empty() {
            return self.looked(false);
        }
        let path = |number| (number, self.blocked.path(number).to_owned());
        FeedEffect::WatchBlocked(numbers.into_iter().map(path).collect())
    }

    /// Continues after a read of the nodes that block items.
    fn looked(&mut self, is_any_free: bool) -> FeedEffect {
        if is_any_free {
            self.items.is_complete = false;
            return FeedEffect::Done;
        }
        let unwatched = self.blocked.unwatched();
        if self.is_looking && !unwatched.is_empty() {
            return FeedEffect::LookAt(unwatched);
        }
        (self.quiet, self.is_looking) =
            (if self.is_looking { TRIED_AGAIN } else { self.quiet }, false);
        if self.has_fired() {
            return self.woken();
        }
        FeedEffect::Wait { quiet: (!unwatched.is_empty()).then_some(self.quiet) }
    }

    /// The buckets that were not listed, and whether another bucket of the same priority comes
    /// after each.
    pub(crate) fn unlisted_buckets(&self) -> impl Iterator<Item = (&str, bool)> {
        self.buckets.from(self.listing.next)
    }

    /// Returns `true` if there is no need to list the items before they are waited for.
    pub(crate) fn is_current(&self) -> bool {
        let is_watched = self.parent.watch == WatchState::Armed && self.buckets.is_watched();
        self.items.is_complete && is_watched && self.items.is_empty()
    }

    /// Removes the watches on nodes that block items.
    pub(crate) fn unwatch_blocked(&mut self) {
        self.blocked.unwatch();
    }

    /// Returns `true` if items exist that cannot be taken.
    pub(crate) fn is_blocked(&self) -> bool {
        !self.blocked.is_empty()
    }

    /// Blocks an item that its producer has not confirmed, as long as one node has this version and
    /// another exists. If `strict`, items behind it cannot be taken either.
    pub(crate) fn block_unconfirmed(
        &mut self,
        name: &str,
        node: (String, i32),
        producer: String,
        strict: bool,
        now: Instant,
    ) {
        if strict {
            self.items.clear();
        }
        for (on, version) in [(node.0, Some(node.1)), (producer, None)] {
            self.blocked.block(name, BlockReason::Unconfirmed { strict, version }, on, now);
        }
    }

    /// Blocks an item that another client has claimed, as long as a node exists.
    pub(crate) fn block_claimed(&mut self, name: &str, on: String, now: Instant) {
        self.blocked.block(name, BlockReason::Claimed, on, now);
    }

    /// Replaces the first items of the list by the free ones.
    pub(crate) fn replace_front(&mut self, seen: Vec<SeenItem>, now: Instant) {
        for (name, on) in self.items.replace_front(seen) {
            self.block_claimed(&name, on, now);
        }
    }

    /// Notes that an item is no longer blocked.
    pub(crate) fn unblock_item(&mut self, name: &str) {
        self.items.is_complete = false;
        self.blocked.unblock(name);
    }

    /// Forgets all blocks.
    pub(crate) fn unblock(&mut self) {
        self.items.is_complete &= self.blocked.is_empty();
        self.blocked.clear();
    }

    /// Adds the items that have become free.
    pub(crate) fn return_freed(&mut self) {
        let freed = self.blocked.take_fired();
        self.items.put_back(freed);
    }

    /// Adds the items that are blocked by unwatched nodes. Returns `true` if there were any.
    pub(crate) fn retry_unwatched(&mut self) -> bool {
        let unwatched = self.blocked.take_unwatched();
        self.put_back(unwatched)
    }

    /// Adds the items whose claims were read so long ago that they must be tried again. Returns
    /// `true` if there were any.
    pub(crate) fn retry_stale(&mut self, now: Instant) -> bool {
        let stale = self.blocked.take_stale(now);
        self.put_back(stale)
    }

    fn put_back(&mut self, names: Vec<String>) -> bool {
        let is_any = !names.is_empty();
        self.items.put_back(names);
        is_any
    }

    /// Forgets the list.
    pub(crate) fn reset(&mut self) {
        self.items.reset();
    }

    /// Notes that an item has been taken, or will be.
    pub(crate) fn took(&mut self) {
        self.items.took();
        self.taken = self.taken.saturating_add(1);
    }

    /// Notes that an item is delivered under a claim.
    pub(crate) fn handed_out(&mut self, name: String) {
        self.blocked.handed_out(name);
    }

    /// Notes that another client has taken an item. Returns `true` if the list is therefore
    /// discarded.
    pub(crate) fn missed(&mut self) -> bool {
        let too_many = self.items.missed();
        if too_many {
            self.reset();
        }
        too_many
    }

    pub(crate) const fn refresh_after(&self) -> u32 {
        self.refresh_after
    }

    /// Returns `true` if new items may come before old ones.
    pub(crate) const fn is_reordered(&self) -> bool {
        self.items.kind.is_reordered()
    }

    /// Returns `true` if a check for new items that come before those of the list is due.
    pub(crate) const fn is_refresh_due(&self) -> bool {
        self.is_reordered() && self.taken >= self.refresh_after
    }

    /// Returns `true` if such a check is useful, that is, if there is a list, or the caller has
    /// items from it.
    pub(crate) fn has_list(&self, is_ahead: bool) -> bool {
        self.parent.listed.is_some() && (is_ahead || !self.items.is_empty())
    }

    /// Processes the current stat of the parent: discards the list if there are new items. Returns
    /// `true` if it did.
    pub(crate) fn refreshed(&mut self, stat: Option<ParentStat>) -> bool {
        self.taken = 0;
        let Some(listed) = self.parent.listed else { return false };
        let is_new =
            stat.is_none_or(|stat| stat.czxid != listed.czxid || stat.created_since(listed) != 0);
        // Earlier changes in buckets are known: events come before responses.
        let is_new = if self.has_buckets() { is_new || self.has_news() } else { is_new };
        if is_new {
            self.reset();
        }
        is_new
    }

    /// Returns `true` if items may have arrived in buckets before the listed items.
    fn has_news(&mut self) -> bool {
        self.forget_fired();
        let first = self.items.first().map_or(i64::MAX, |place| place.rank);
        self.parent.watch != WatchState::Armed || self.buckets.has_news_before(first)
    }
}
