use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::time::Duration;

use tokio::time::Instant;

use crate::queue::feed::items::{FeedItems, SeenItem};
use crate::queue::feed::machine::FeedMachine;

/// The number of items of the list that are read together.
const SCOUTED: usize = 128;
/// The number of reads without a free item after which the queue is listed again.
const LOOKS: usize = 8;
/// The bounds of the longest pause after another consumer has claimed an item, in round trips.
const PAUSES: RangeInclusive<u32> = 32..=256;
/// The bounds of the estimated round trip.
const SHORTEST_ROUND_TRIP: Duration = Duration::from_millis(1);
const LONGEST_ROUND_TRIP: Duration = Duration::from_millis(10);

/// Decides which items of a feed are claimed, and which claim is delivered.
#[derive(Debug)]
pub(crate) struct Claiming {
    pub(crate) prefetch: usize,
    /// `true` if a claim is released, instead of delivered, when an item that comes before it can
    /// be claimed: in queues with priorities or times.
    gives_way: bool,
    /// The items that are being claimed, in their order.
    under_way: VecDeque<String>,
    /// The next item to deliver, unless another item comes before it.
    held: Option<HeldClaim>,
    contention: ClaimContention,
    /// The number of reads of the front of the list since the last claim.
    looks: usize,
}

/// An item that is claimed, and that is delivered unless another item comes before it.
#[derive(Debug)]
struct HeldClaim {
    name: String,
    look: EarlierItems,
}

/// The knowledge of the items that come before one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EarlierItems {
    /// Nothing yet.
    Unknown,
    /// There are new items, and no list of them.
    New,
    /// The list is as new as the claim.
    Done,
}

/// The knowledge about other consumers that claim items of the same queue at the same time.
///
/// A failed attempt is a useless write. So after the first failure the front of the list is read
/// before an item is claimed. All consumers read the same front, so the next attempt follows a
/// random pause within a window that grows with every failure.
#[derive(Debug, Default)]
struct ClaimContention {
    /// `true` if the front of the list must be read first.
    is_likely: bool,
    /// The longest pause, in round trips.
    window: u32,
    paused_until: Option<Instant>,
}

/// The next step of a driver.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ClaimAction {
    /// Reports a node that is no item.
    Report(String),
    /// Checks whether there are new items.
    Refresh,
    /// Lists the items but for this one.
    ListOthers(String),
    /// Reads the state of these items, not before this time.
    Scout { names: Vec<String>, not_before: Option<Instant> },
    /// Begins to claim these items. If other consumers probably claim them as well, nothing else is
    /// read in the same round trip.
    Claim { names: Vec<String>, is_contended: bool },
    /// Waits for the first claim that is under way.
    Await,
    /// Delivers the claimed item.
    HandOut(String),
    /// There is no item.
    End,
}

/// A report of a driver.
#[derive(Debug)]
pub(crate) enum ClaimReport {
    /// The result of the check for new items.
    Refreshed(bool),
    OthersListed,
    Scouted(Vec<SeenItem>),
    /// The first item that was under way is claimed.
    Ours,
    /// Another client has it, by the node at this path. The attempt took `round_trip`; `by_chance`
    /// is from 0 to 1.
    Others {
        on: Option<String>,
        round_trip: Duration,
        by_chance: f64,
    },
    /// It cannot be claimed, and stays in place.
    Aside,
    /// An operation failed.
    Failed,
}

impl ClaimContention {
    /// Another client was faster.
    fn collided(&mut self, round_trip: Duration, by_chance: f64, now: Instant) {
        self.is_likely = true;
        self.window = (self.window * 4).clamp(*PAUSES.start(), *PAUSES.end());
        let most = round_trip.clamp(SHORTEST_ROUND_TRIP, LONGEST_ROUND_TRIP) * self.window;
        self.paused_until = Some(now + most.mul_f64(by_chance));
    }

    fn succeeded(&mut self) {
        self.window -= self.window.div_ceil(4);
    }

    /// The front of the list was read. Other consumers have claimed or removed this number of its
    /// items.
    fn found(&mut self, taken: usize) {
        self.is_likely = taken > 0 || self.window > 0;
        self.paused_until = None;
    }
}

impl Claiming {
    pub(crate) fn new(gives_way: bool) -> Self {
        Self {
            prefetch: 1,
            gives_way,
            under_way: VecDeque::new(),
            held: None,
            contention: ClaimContention::default(),
            looks: 0,
        }
    }

    /// Notes that other consumers probably claim the same items.
    pub(crate) const fn expect_others(&mut self) {
        self.contention.is_likely = true;
    }

    /// The number of items that are being claimed.
    pub(crate) fn under_way(&self) -> usize {
        self.under_way.len()
    }

    /// Begins to search for an item.
    pub(crate) fn begin(&mut self, feed: &mut FeedMachine, now: Instant) {
        // Only once: finding all of them claimed again takes time.
        if feed.retry_stale(now) {
            self.expect_others();
        }
        self.looks = 0;
    }

    /// Returns what to do next. The time that items are due by is `wall`, in milliseconds since
    /// 1970.
    pub(crate) fn next(&mut self, feed: &mut FeedMachine, wall: i64) -> ClaimAction {
        if let Some(name) = feed.items.pop_foreign() {
            return ClaimAction::Report(name);
        }
        feed.return_freed();
        match &self.held {
            Some(HeldClaim { look: EarlierItems::Unknown, .. }) => return ClaimAction::Refresh,
            Some(HeldClaim { look: EarlierItems::New, name }) => {
                return ClaimAction::ListOthers(name.clone());
            }
            _ => {}
        }
        if let Some(names) = self.scouted(feed, wall) {
            return ClaimAction::Scout { names, not_before: self.contention.paused_until };
        }
        let names = self.claimed(feed, wall);
        if !names.is_empty() {
            self.looks = 0;
            return ClaimAction::Claim { names, is_contended: self.contention.is_likely };
        }
        if self.under_way.front().is_some_and(|name| self.is_wanted(&feed.items, name)) {
            return ClaimAction::Await;
        }
        self.looks = 0;
        match self.held.take() {
            Some(HeldClaim { name, .. }) => ClaimAction::HandOut(name),
            None => ClaimAction::End,
        }
    }

    /// Returns the items at the front of the list, if their claims must be read first.
    fn scouted(&mut self, feed: &mut FeedMachine, wall: i64) -> Option<Vec<String>> {
        let is_needed = self.contention.is_likely
            && self.under_way.is_empty()
            && self.looks <= LOOKS
            && (self.held.is_none() || self.gives_way);
        let names = feed.items.front(if is_needed { SCOUTED } else { 0 }, wall);
        if !self.is_wanted(&feed.items, names.first()?) {
            return None;
        }
        self.looks += 1;
        if self.looks > LOOKS {
            // The list is old.
            feed.reset();
            return None;
        }
        Some(names)
    }

    fn claimed(&mut self, feed: &mut FeedMachine, wall: i64) -> Vec<String> {
        let mut names = Vec::new();
        // If other consumers claim items, too, the prefetched items are claimed together, right
        // after the read.
        if self.contention.is_likely && !self.under_way.is_empty() {
            return names;
        }
        while self.under_way.len() < self.prefetch
            && let Some(name) = feed.items.pop_if(wall, |items, name| self.is_wanted(items, name))
        {
            self.under_way.push_back(name.clone());
            names.push(name);
        }
        names
    }

    /// Returns `true` if an item is claimed and delivered before the held one.
    fn is_wanted(&self, items: &FeedItems, name: &str) -> bool {
        match &self.held {
            Some(held) => {
                self.gives_way && items.kind.is_reordered() && items.is_before(name, &held.name)
            }
            None => true,
        }
    }

    /// Takes over what a driver reports.
    pub(crate) fn step(&mut self, feed: &mut FeedMachine, outcome: ClaimReport, now: Instant) {
        match outcome {
            ClaimReport::Refreshed(is_new) => {
                let is_new = is_new && self.gives_way;
                if is_new {
                    // Later claims may have to be delivered later, too.
                    self.under_way.clear();
                }
                self.looked(if is_new { EarlierItems::New } else { EarlierItems::Done });
            }
            ClaimReport::OthersListed => self.looked(EarlierItems::Done),
            ClaimReport::Scouted(seen) => {
                let free = seen.iter().filter(|seen| matches!(seen, SeenItem::Free)).count();
                self.contention.found(seen.len() - free);
                feed.replace_front(seen, now);
                if free > 0 {
                    self.looks = LOOKS + 1;
                }
            }
            ClaimReport::Ours => {
                self.contention.succeeded();
                let Some(name) = self.under_way.pop_front() else { return };
                if let Some(HeldClaim { name, .. }) =
                    self.held.replace(HeldClaim { name, look: EarlierItems::Unknown })
                {
                    feed.items.put_back([name]);
                }
            }
            ClaimReport::Others { on, round_trip, by_chance } => {
                self.contention.collided(round_trip, by_chance, now);
                let Some(name) = self.under_way.pop_front() else { return };
                match on {
                    Some(on) => feed.block_claimed(&name, on, now),
                    None => drop(feed.missed()),
                }
            }
            ClaimReport::Aside => {
                self.under_way.pop_front().into_iter().for_each(|name| feed.items.put_aside(name));
            }
            ClaimReport::Failed => {
                self.under_way.pop_front();
                feed.reset();
            }
        }
    }

    fn looked(&mut self, look: EarlierItems) {
        self.held.iter_mut().for_each(|held| held.look = look);
    }
}
