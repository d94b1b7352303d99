use std::collections::VecDeque;
use std::future::Future;
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::time::{Instant, sleep_until};
use zk_curator::OwnedNode;
use zk_curator::op::Started;

use super::feed::{FeedDriver, Turn};
use super::source::Source;
use crate::queue::core::{Action, Claiming, Outcome, Seen};
use crate::queue::error::Error;
use crate::queue::layout::{QueueLayout, at_least_one};
use crate::random::fraction;

/// Claims the items of a feed in their order, a few ahead if the caller wants that.
pub(in crate::queue) struct Claims<C: Claimer> {
    pub(in crate::queue) feed: FeedDriver,
    pub(in crate::queue) claimer: C,
    core: Claiming,
    under_way: VecDeque<Attempt<C::Claim>>,
    /// The claim to the item that is handed out if none comes before it.
    held: Option<Box<C::Claim>>,
    returned: Returned,
}

/// A way to claim items.
pub(in crate::queue) trait Claimer: Send + Sync {
    /// A claim: given back when it is dropped.
    type Claim: Send + 'static;

    /// Whether a claim is given back, and not handed out, when another item can be claimed by then that comes before it: in
    /// queues with priorities or times.
    const GIVES_WAY: bool;

    /// Which delivery of the item it is, as far as that is counted.
    fn attempt(claim: &Self::Claim) -> u32;

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

/// The outcome of an attempt to claim an item.
pub(in crate::queue) enum Claimed<T> {
    Ours(Box<T>),
    /// Another client has it, by the node at this path.
    Others(String),
    /// Another client was faster.
    Gone,
}

struct Attempt<T> {
    since: Instant,
    done: Started<Result<Claimed<T>, Error>>,
}

/// The names of the items that were handed out and are back at their place.
#[derive(Debug, Clone, Default)]
pub(in crate::queue) struct Returned(Arc<Mutex<Vec<String>>>);

impl Returned {
    /// Notes the name when it is dropped: for the field after the claim, which is deleted first.
    pub(in crate::queue) fn on_drop(&self, name: String) -> Back {
        Back { name: Some(name), to: self.clone() }
    }

    fn take(&self) -> Vec<String> {
        mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// An item that is back at its place when this is dropped.
pub(in crate::queue) struct Back {
    name: Option<String>,
    to: Returned,
}

impl Back {
    /// The item is not back: it is settled.
    pub(in crate::queue) fn never(mut self) {
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
    pub(in crate::queue) fn new(feed: FeedDriver, claimer: C) -> Self {
        Self {
            feed,
            claimer,
            core: Claiming::new(C::GIVES_WAY),
            under_way: VecDeque::new(),
            held: None,
            returned: Returned::default(),
        }
    }

    /// Sets the number of items that are claimed at a time.
    pub(in crate::queue) const fn prefetch(&mut self, items: usize) {
        self.core.prefetch = items;
    }

    fn step(&mut self, outcome: Outcome) {
        self.core.step(&mut self.feed.core, outcome, Instant::now());
    }

    fn start(&mut self, names: Vec<String>, is_contended: bool) {
        for name in names {
            let (layout, returned) = (self.feed.layout.clone(), self.returned.clone());
            let claim = self.claimer.claim(layout, name, is_contended, returned);
            let (since, done) = (Instant::now(), Started::new(claim));
            self.under_way.push_back(Attempt { since, done });
        }
        // In the same flight.
        self.feed.start_check();
    }

    /// Takes the answer to the first attempt.
    fn answered(&mut self, since: Instant, done: Result<Claimed<C::Claim>, Error>) -> Result<(), Error> {
        let others = |on| Outcome::Others {
            on,
            round_trip: since.elapsed(),
            by_chance: fraction(&self.feed.layout.zk),
        };
        let outcome = match done {
            Ok(Claimed::Ours(claim)) => {
                // The claim to another item is given back for it.
                drop(self.held.replace(claim));
                Outcome::Ours
            }
            Ok(Claimed::Others(on)) => others(Some(on)),
            Ok(Claimed::Gone) => others(None),
            Err(error) => {
                let is_item = matches!(error, Error::Corrupt { .. } | Error::Foreign { .. });
                self.step(if is_item { Outcome::Aside } else { Outcome::Failed });
                return Err(error);
            }
        };
        self.step(outcome);
        Ok(())
    }

    /// Takes the last step before a claim is handed out. Dropped here, its item is the next again.
    async fn admit(&mut self, name: String) -> Result<Option<C::Claim>, Error> {
        let Some(claim) = self.held.take() else { return Ok(None) };
        // It was claimed for a call that was given up, or before the others were listed.
        if !C::node(&claim).is_ours() {
            self.feed.reset();
            return Ok(None);
        }
        // Noted after the claim is dropped, in this order.
        let (back, claim) = (self.returned.on_drop(name.clone()), claim);
        let admitted = self.claimer.admit(*claim).await;
        back.never();
        match &admitted {
            Ok(Some(_)) => self.feed.core.handed_out(name),
            Ok(None) => {}
            Err(_) => self.feed.reset(),
        }
        admitted
    }
}

impl<C: Claimer> Source for Claims<C> {
    type Delivery = C::Claim;

    fn feed(&mut self) -> &mut FeedDriver {
        &mut self.feed
    }

    fn attempt(delivery: &C::Claim) -> u32 {
        C::attempt(delivery)
    }

    async fn prepare(&mut self) -> Result<(), Error> {
        at_least_one("prefetch", self.core.prefetch)?;
        self.feed.check_settings()
    }

    async fn of_list(&mut self, turn: &mut Turn) -> Result<Option<C::Claim>, Error> {
        self.core.begin(&mut self.feed.core, Instant::now());
        loop {
            self.feed.core.items.put_back(self.returned.take());
            self.feed.note_fired();
            match self.core.next(&mut self.feed.core, self.feed.layout.now()) {
                Action::Report(name) => return Err(self.feed.foreign(&name)),
                Action::Refresh => {
                    let is_new = self.feed.refreshed(true).await?;
                    self.step(Outcome::Refreshed(is_new));
                    self.under_way.truncate(self.core.under_way());
                }
                Action::ListOthers(name) => {
                    self.feed.list_others(&name).await?;
                    self.step(Outcome::OthersListed);
                }
                Action::Scout { names, not_before } => {
                    if let Some(until) = not_before {
                        sleep_until(until).await;
                    }
                    let seen = scout(&self.claimer, &self.feed.layout, names).await?;
                    self.step(Outcome::Scouted(seen));
                }
                Action::Claim { names, is_contended } => self.start(names, is_contended),
                Action::Await => {
                    let Some(first) = self.under_way.front_mut() else { return Ok(None) };
                    let (since, done) = (first.since, (&mut first.done).await);
                    self.under_way.pop_front();
                    self.answered(since, done)?;
                }
                Action::HandOut(name) => {
                    if let Some(claim) = self.admit(name).await? {
                        self.feed.took(turn);
                        return Ok(Some(claim));
                    }
                }
                Action::End => return Ok(None),
            }
        }
    }

    fn begin_poll(&mut self) {
        if self.feed.core.retry_unwatched() {
            self.core.expect_others();
        }
    }

    fn looks_again(&mut self, _has_looked: bool) -> bool {
        true
    }

    fn listed(&mut self, was_first: bool, is_first: bool) {
        let at_least = if was_first { 2 } else { 1 };
        if is_first && self.feed.core.items.len() >= at_least {
            // Consumers ahead of us in line work on some of the items.
            self.core.expect_others();
        }
    }
}

/// Reads which of these items are claimed by others, or gone.
async fn scout<C: Claimer>(
    claimer: &C,
    layout: &QueueLayout,
    names: Vec<String>,
) -> Result<Vec<Seen>, Error> {
    let by: Vec<Option<String>> = names.iter().map(|name| claimer.claimed_by(layout, name)).collect();
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
    Ok(seen.collect())
}
