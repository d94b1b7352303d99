//! The engine of all consumers that take items under claims.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::mem;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::time::{Instant, sleep_until};
use tracing::warn;
use zk_curator::certain::{Applied, Receipt};
use zk_curator::op::{Started, Transaction};
use zk_curator::{CuratorFramework, ErrorCode, ErrorKind, OpResult, OwnedNode};

use super::Error;
use super::feed::{Feed, Seen, Turn};
use super::layout::{QueueLayout, at_least_one};
use super::redelivery::{MOST_HELD, fraction};

/// The number of items of the list that are looked at together.
const SCOUTED: usize = 128;
/// After so many looks that found no free item, the queue is listed again.
const LOOKS: usize = 8;
/// The bounds of the longest pause after an item was claimed by others, in round trips.
const PAUSES: RangeInclusive<u32> = 32..=256;
/// The bounds of what is taken for a round trip.
const SHORTEST_ROUND_TRIP: Duration = Duration::from_millis(1);
const LONGEST_ROUND_TRIP: Duration = Duration::from_millis(10);

/// Claims the items of a feed in their order, a few ahead if the caller wants that.
pub(super) struct Claims<C: Claimer> {
    pub(super) feed: Feed,
    pub(super) claimer: C,
    pub(super) prefetch: usize,
    under_way: VecDeque<Claiming<C::Claim>>,
    /// The next, if nothing comes before it.
    held: Option<Held<C::Claim>>,
    returned: Returned,
    contention: Contention,
}

/// How an item is claimed.
pub(super) trait Claimer: Sync {
    /// A claim: given back when it is dropped.
    type Claim: Send + 'static;

    /// Whether a claim is given back, and not handed out, when another item can be claimed by then that comes before it: in
    /// queues with priorities or times.
    const GIVES_WAY: bool;

    /// The node of a claim.
    fn node(claim: &Self::Claim) -> &OwnedNode;

    /// The path of the node that is there as long as this item is claimed; `None` where a claim takes the item away.
    fn claimed_by(&self, layout: &QueueLayout, name: &str) -> Option<String>;

    /// Claims the item with this name. Where it `is_contended`, so that another client may be faster, nothing is read
    /// before it is claimed. What is to be put back when the claim is dropped notes its name in `returned`.
    fn claim(
        &self,
        layout: QueueLayout,
        name: String,
        is_contended: bool,
        returned: Returned,
    ) -> impl Future<Output = Result<Claimed<Self::Claim>, Error>> + Send + 'static;

    /// The last step before an item is handed out; `None` if it is not to be.
    fn admit(&self, claim: Self::Claim) -> impl Future<Output = Result<Option<Self::Claim>, Error>> + Send {
        async { Ok(Some(claim)) }
    }
}

/// What has become of an attempt to claim an item.
pub(super) enum Claimed<T> {
    Ours(Box<T>),
    /// Another client has it, by the node at this path.
    Others(String),
    /// Somebody was faster.
    Gone,
}

struct Claiming<T> {
    name: String,
    since: Instant,
    done: Started<Result<Claimed<T>, Error>>,
}

/// What is known of others that claim items of the same queue at the same time.
///
/// An attempt that fails is a write in vain. So after the first one the front of the list is read before an item is claimed.
/// Several consumers read the same, so the next attempt comes after a random pause, within a window that grows with every
/// failure.
#[derive(Debug, Default)]
struct Contention {
    /// Whether the front of the list has to be read first.
    is_likely: bool,
    /// The longest pause, in round trips.
    window: u32,
    paused_until: Option<Instant>,
}

impl Contention {
    /// Another client was faster, in an attempt that took `round_trip`.
    fn collided(&mut self, zk: &CuratorFramework, round_trip: Duration) {
        self.is_likely = true;
        self.window = (self.window * 4).clamp(*PAUSES.start(), *PAUSES.end());
        let most = round_trip.clamp(SHORTEST_ROUND_TRIP, LONGEST_ROUND_TRIP) * self.window;
        self.paused_until = Some(Instant::now() + most.mul_f64(fraction(zk)));
    }

    fn succeeded(&mut self) {
        self.window -= self.window.div_ceil(4);
    }

    /// The front of the list was read, and others have claimed or removed so many of its items.
    fn found(&mut self, taken: usize) {
        self.is_likely = taken > 0 || self.window > 0;
    }
}

/// A claim that is handed out if nothing comes before it.
struct Held<T> {
    name: String,
    claim: Box<T>,
    look: Look,
}

/// What is known of the items that come before one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    /// Nothing yet.
    Unknown,
    /// There are new items, and no list of them.
    New,
    /// The list is as new as the claim.
    Done,
}

/// The names of the items that were handed out and are back at their place.
#[derive(Debug, Clone, Default)]
pub(super) struct Returned(Arc<Mutex<Vec<String>>>);

impl Returned {
    /// Notes the name when it is dropped: for the field after the claim, which is deleted first.
    pub(super) fn on_drop(&self, name: String) -> Back {
        Back { name: Some(name), to: self.clone() }
    }

    fn take(&self) -> Vec<String> {
        mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// An item that is back at its place when this is dropped.
pub(super) struct Back {
    name: Option<String>,
    to: Returned,
}

impl Back {
    /// The item is not back: it is settled.
    pub(super) fn never(mut self) {
        self.name = None;
    }
}

impl Drop for Back {
    fn drop(&mut self) {
        if let Some(name) = self.name.take() {
            self.to.0.lock().unwrap_or_else(PoisonError::into_inner).push(name);
        }
    }
}

impl<C: Claimer> Claims<C> {
    pub(super) fn new(feed: Feed, claimer: C) -> Self {
        Self {
            feed,
            claimer,
            prefetch: 1,
            under_way: VecDeque::new(),
            held: None,
            returned: Returned::default(),
            contention: Contention::default(),
        }
    }

    /// Refuses settings that make no sense.
    pub(super) fn check_settings(&self) -> Result<(), Error> {
        at_least_one("prefetch", self.prefetch)?;
        self.feed.check_settings()
    }

    /// The next item, however long it takes until there is one. Dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> Result<C::Claim, Error> {
        self.check_settings()?;
        let mut turn = None;
        loop {
            if let Some(claim) = self.of_list(&mut turn).await? {
                return Ok(claim);
            }
            let was_first = turn.is_some();
            self.feed.more(&mut turn).await?;
            let at_least = if was_first { 2 } else { 1 };
            if turn.is_some() && self.feed.has_at_least(at_least) {
                // Those who were in line before us work on some of the items.
                self.contention.is_likely = true;
            }
        }
    }

    /// The next item if there is one that nobody has claimed. Never waits for others.
    pub(super) async fn try_next(&mut self) -> Result<Option<C::Claim>, Error> {
        self.check_settings()?;
        if self.feed.retry_unwatched() {
            self.contention.is_likely = true;
        }
        loop {
            if let Some(claim) = self.of_list(&mut None).await? {
                return Ok(Some(claim));
            }
            if !self.feed.look().await? {
                return Ok(None);
            }
        }
    }

    /// The next item of the list; `None` at its end.
    async fn of_list(&mut self, turn: &mut Turn) -> Result<Option<C::Claim>, Error> {
        // Once: it takes time to find them all claimed again.
        if self.feed.try_stale() {
            self.contention.is_likely = true;
        }
        loop {
            if let Some(path) = self.feed.pop_foreign() {
                return Err(Error::Foreign { path });
            }
            self.feed.put_back(self.returned.take());
            poll_fn(|cx| {
                self.feed.poll_freed(cx);
                Poll::Ready(())
            })
            .await;
            self.look().await?;
            if self.contention.is_likely && self.under_way.is_empty() {
                self.scout().await?;
            }
            let in_hand = self.under_way.len();
            let held = self.held.as_ref().map(|held| held.name.as_str());
            let is_wanted = |feed: &Feed, name: &str| match held {
                Some(held) => C::GIVES_WAY && feed.can_be_reordered() && feed.is_before(name, held),
                None => true,
            };
            // Where others claim items too, those ahead are claimed together, right after the look.
            let may_claim = !self.contention.is_likely || in_hand == 0;
            while may_claim
                && self.under_way.len() < self.prefetch
                && let Some(name) = self.feed.pop_if(is_wanted)
            {
                let (layout, returned) = (self.feed.layout.clone(), self.returned.clone());
                let claim = self.claimer.claim(layout, name.clone(), self.contention.is_likely, returned);
                let (since, done) = (Instant::now(), Started::new(claim));
                self.under_way.push_back(Claiming { name, since, done });
            }
            if self.under_way.len() > in_hand {
                // In the same flight.
                self.feed.start_check();
            }
            let first = self.under_way.front_mut();
            let Some(first) = first.filter(|first| is_wanted(&self.feed, &first.name)) else {
                let Some(held) = self.held.take() else { return Ok(None) };
                match self.admit(held).await? {
                    Some(claim) => {
                        self.feed.took(turn);
                        return Ok(Some(claim));
                    }
                    None => continue,
                }
            };
            let done = (&mut first.done).await;
            let Some(Claiming { name, since, .. }) = self.under_way.pop_front() else { continue };
            if let Ok(Claimed::Others(_) | Claimed::Gone) = &done {
                self.contention.collided(&self.feed.layout.zk, since.elapsed());
            }
            match done {
                Ok(Claimed::Ours(claim)) => {
                    self.contention.succeeded();
                    if let Some(Held { name, claim, .. }) =
                        self.held.replace(Held { name, claim, look: Look::Unknown })
                    {
                        drop(claim);
                        self.feed.put_back([name]);
                    }
                }
                Ok(Claimed::Others(on)) => self.feed.block_claimed(&name, on),
                Ok(Claimed::Gone) => drop(self.feed.missed()),
                Err(error) => {
                    if matches!(error, Error::Corrupt { .. } | Error::Foreign { .. }) {
                        self.feed.put_aside(name);
                    } else {
                        self.feed.reset();
                    }
                    return Err(error);
                }
            }
        }
    }

    /// Reads which items at the front of the list are claimed by others, or gone, until one is free.
    async fn scout(&mut self) -> Result<(), Error> {
        if self.held.is_some() && !C::GIVES_WAY {
            return Ok(());
        }
        let layout = self.feed.layout.clone();
        for _ in 0..LOOKS {
            let names = self.feed.front(SCOUTED);
            if names.is_empty() || self.is_behind_held(&names[0]) {
                return Ok(());
            }
            if let Some(until) = self.contention.paused_until {
                sleep_until(until).await;
                self.contention.paused_until = None;
            }
            let by: Vec<Option<String>> =
                names.iter().map(|name| self.claimer.claimed_by(&layout, name)).collect();
            let items = names.iter().map(|name| layout.item(name));
            let paths: Vec<String> = items.chain(by.iter().flatten().cloned()).collect();
            let mut there = layout.zk.children_of_each(paths).await?;
            let mut claims = there.split_off(names.len()).into_iter();
            let seen = there.into_iter().zip(by).map(|(item, by)| {
                let claim = by.filter(|_| claims.next().flatten().is_some());
                match (item, claim) {
                    (None, _) => Seen::Gone,
                    (_, Some(claim)) => Seen::Claimed(claim),
                    _ => Seen::Free,
                }
            });
            let seen: Vec<Seen> = seen.collect();
            let free = seen.iter().filter(|seen| matches!(seen, Seen::Free)).count();
            self.contention.found(seen.len() - free);
            self.feed.replace_front(seen);
            if free > 0 {
                return Ok(());
            }
        }
        // The list is old.
        self.feed.reset();
        Ok(())
    }

    /// Whether an item comes after the one that is held.
    fn is_behind_held(&self, name: &str) -> bool {
        self.held.as_ref().is_some_and(|held| !self.feed.is_before(name, &held.name))
    }

    /// Finds out what comes before the claim that is held.
    async fn look(&mut self) -> Result<(), Error> {
        let Some(held) = &mut self.held else { return Ok(()) };
        if held.look == Look::Unknown {
            let is_new = self.feed.refreshed(true).await? && C::GIVES_WAY;
            held.look = if is_new { Look::New } else { Look::Done };
            if is_new {
                // What is claimed behind it may have to come later, too.
                self.under_way.clear();
            }
        }
        if held.look == Look::New {
            self.feed.list_others(&held.name).await?;
            held.look = Look::Done;
        }
        Ok(())
    }

    /// The last step before a claim is handed out. Dropped here, its item is the next again.
    async fn admit(&mut self, held: Held<C::Claim>) -> Result<Option<C::Claim>, Error> {
        // It was claimed for a call that was given up, or before the others were listed.
        if !C::node(&held.claim).is_ours() {
            self.feed.reset();
            return Ok(None);
        }
        let name = held.name.clone();
        // Noted after the claim is dropped, in this order.
        let (back, claim) = (self.returned.on_drop(held.name), held.claim);
        let admitted = self.claimer.admit(*claim).await;
        back.never();
        match &admitted {
            Ok(Some(_)) => self.feed.handed_out(name),
            Ok(None) => {}
            Err(_) => self.feed.reset(),
        }
        admitted
    }
}

/// The receipts of the transactions about claims: one for each of those that are under way at a time, used again. Clones
/// share them.
#[derive(Debug, Clone)]
pub(super) struct Receipts {
    zk: CuratorFramework,
    parent: String,
    free: Arc<Mutex<Vec<Receipt>>>,
}

impl Receipts {
    /// Below a node that is there as long as there are claims.
    pub(super) fn below(layout: &QueueLayout, parent: impl Into<String>) -> Self {
        Self { zk: layout.zk.clone(), parent: parent.into(), free: Arc::default() }
    }

    /// Applies a transaction, once, or fails. An error without `may_have_applied` has changed nothing. One that is so large
    /// that servers accept nothing beside it goes without a receipt.
    ///
    /// Dropping the future leaves it applied, or not.
    pub(super) async fn commit(&self, build: impl Fn() -> Transaction) -> zk_curator::Result<Vec<OpResult>> {
        let receipt = self.take();
        let results = |applied: Applied| applied.results().unwrap_or_default().to_vec();
        let done = build().certain(&receipt).commit().await.map(results);
        let done = match done {
            Err(error) if error.kind() == ErrorKind::TooLarge => build().commit().await,
            done => done,
        };
        self.free().push(receipt);
        done
    }

    fn take(&self) -> Receipt {
        self.free().pop().unwrap_or_else(|| Receipt::at(&self.zk, self.parent.as_str()))
    }

    fn free(&self) -> MutexGuard<'_, Vec<Receipt>> {
        // A plain value: whole, whatever panicked.
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends a claim, all of it or nothing: with what `ending` does in a transaction that is fenced by the claim, and which
/// deletes the node of the claim among others. A receipt tells what came of it after a lost answer: that the node is gone
/// proves nothing, for an operator may have deleted it.
///
/// Dropping the future leaves it applied, or the claim is given back.
pub(super) async fn settle(
    receipts: &Receipts,
    claim: OwnedNode,
    ending: impl Fn(Transaction) -> Transaction,
) -> zk_curator::Result<()> {
    try_settle(receipts, &claim, ending).await?;
    drop(claim.leak());
    Ok(())
}

/// The same, and the claim may be settled in another way if it was refused. If it was not, nothing is left to delete. Without
/// results if the answer was lost.
pub(super) async fn try_settle(
    receipts: &Receipts,
    claim: &OwnedNode,
    ending: impl Fn(Transaction) -> Transaction,
) -> zk_curator::Result<Vec<OpResult>> {
    receipts.commit(|| ending(claim.ownership().fenced().uncompressed())).await
}

/// Counts a delivery: writes the data of the item again, as they are stored, and so its version. From then on an
/// acknowledgement of the item by an earlier consumer is refused, also where that does not know that its claim was lost.
/// The version since; `None` if the claim or the item is gone, or somebody else has counted.
pub(super) async fn count(
    receipts: &Receipts,
    claim: &OwnedNode,
    item: &str,
    stored: Bytes,
    version: i32,
) -> zk_curator::Result<Option<i32>> {
    let fenced = || claim.ownership().fenced().uncompressed();
    match receipts.commit(|| fenced().set_data_if(item, stored.clone(), version)).await {
        Ok(_) => Ok(Some(version.wrapping_add(1))),
        Err(error) if is_lost(&error, 0) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether a transaction that is fenced by a claim was refused because the claim is lost, or because of the operation at
/// this index the item.
pub(super) fn is_lost(error: &zk_curator::Error, item: usize) -> bool {
    match error.kind() {
        ErrorKind::OwnershipLost => true,
        ErrorKind::TransactionFailed { index, code: ErrorCode::NoNode | ErrorCode::BadVersion } => {
            index == item
        }
        _ => false,
    }
}

/// Hands what comes from `source` to `body`, so many at a time, through every failure that passes. What `body` returns goes
/// on beside the others and does not count among them: it holds an item back.
pub(super) async fn run<S, T, B, Fut, W>(
    zk: &CuratorFramework,
    limit: usize,
    source: &mut S,
    next: impl AsyncFn(&mut S) -> Result<T, Error>,
    body: B,
) -> Result<(), Error>
where
    B: Fn(T) -> Fut,
    Fut: Future<Output = Option<W>>,
    W: Future<Output = ()>,
{
    let limit = at_least_one("limit", limit)?;
    let (mut running, mut held) = (FuturesUnordered::new(), FuturesUnordered::new());
    loop {
        let is_free = running.len() < limit && held.len() < MOST_HELD;
        let next = tokio::select! {
            biased;
            Some(back) = running.next(), if !running.is_empty() => {
                held.extend(back);
                continue;
            }
            Some(()) = held.next(), if !held.is_empty() => continue,
            next = next(source), if is_free => next,
        };
        match next {
            Ok(item) => running.push(body(item)),
            Err(Error::Framework(error))
                if error.is_retryable() || error.kind() == ErrorKind::SessionExpired =>
            {
                warn!(%error, "consuming goes on when there is a connection");
                zk.wait_connected().await?;
            }
            Err(error @ (Error::Framework(_) | Error::Zero { .. })) => return Err(error),
            Err(error) => warn!(%error, "an item was not handed out"),
        }
    }
}
