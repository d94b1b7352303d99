use std::collections::VecDeque;
use std::future::{Future, ready};
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::time::Instant;
use tracing::warn;
use zk_curator::Ownership;
use zk_curator::certain::ReceiptPool;
use zk_curator::internal::{Locked, sleep_until};
use zk_curator::op::Started;

use super::claiming::{ClaimAction, ClaimReport, Claiming};
use super::delivery::Delivery;
use super::kind::{Engine, Finish, ItemSource, QueueKind, TakenItem};
use crate::queue::error::Error;
use crate::queue::feed::driver::{FeedDriver, Turn};
use crate::queue::feed::items::SeenItem;
use crate::queue::wire::layout::{QueueLayout, at_least_one};
use crate::random::fraction;

/// An older claim is looked at before its item is delivered: an operator may have deleted it, and
/// another consumer may have the item.
const EVIDENT: Duration = Duration::from_secs(1);

/// Claims the items of a feed in their order, a few in advance if the caller wants that.
pub(in crate::queue) struct Claims<K: ClaimKind> {
    pub(in crate::queue) feed: FeedDriver,
    pub(in crate::queue) kind: K,
    receipts: ReceiptPool,
    core: Claiming,
    under_way: VecDeque<ClaimAttempt<K>>,
    /// The claim to the item that is delivered unless another item comes before it, and the time
    /// at which it was sent.
    held: Option<(Box<Delivery<K>>, Instant)>,
    /// The last step before a claimed item is delivered. The delivery may have been counted, so
    /// this is kept when a call is dropped.
    admission: Option<Admission<K>>,
    returned: Returned,
}

/// The last step before the claimed item with this name is delivered.
struct Admission<K: QueueKind> {
    name: String,
    done: BoxFuture<'static, Result<Option<Delivery<K>>, Error>>,
}

/// The differences between queues whose items are claimed.
pub(in crate::queue) trait ClaimKind:
    QueueKind<Delivery = Delivery<Self>> + Engine<Item: ClaimedData<Self::Message>> + Send + Sync
{
    /// `true` if a claim is released, instead of delivered, when an item that comes before it can
    /// be claimed: in queues with priorities or times.
    const GIVES_WAY: bool = false;
    /// See [`ItemSource::WATCHES_CLAIM`].
    const WATCHES_CLAIM: bool = true;

    /// Prepares the queue before the first item is requested.
    fn prepare(&mut self) -> impl Future<Output = Result<(), Error>> + Send {
        ready(Ok(()))
    }

    /// Returns the path of the node that exists as long as an item is claimed; `None` where a claim
    /// takes the item away.
    fn claimed_by(&self, layout: &QueueLayout, name: &str) -> Option<String>;

    /// Claims an item.
    fn claim(
        &self,
        item: Unclaimed,
    ) -> impl Future<Output = Result<ClaimResult<Self>, Error>> + Send + 'static;

    /// Takes the last step before an item is delivered: counts the delivery. Returns `None` if the
    /// item is not delivered.
    fn admit(
        &self,
        delivery: Delivery<Self>,
    ) -> impl Future<Output = Result<Option<Delivery<Self>>, Error>> + Send + 'static {
        ready(Ok(Some(delivery)))
    }

    /// See [`TakenItem::finish`].
    fn finish(delivery: Delivery<Self>, done: Result<Self::Done, String>) -> Finish;
}

/// The data that are kept with a claimed item.
pub(in crate::queue) trait ClaimedData<M> {
    /// The name of the item in the log.
    fn label<'a>(&'a self, path: &'a str) -> &'a str;

    /// See [`TakenItem::messages`].
    fn messages(&self) -> Vec<M>;
}

/// An item to claim.
pub(in crate::queue) struct Unclaimed {
    pub(in crate::queue) layout: QueueLayout,
    pub(in crate::queue) name: String,
    /// `true` if another client may be faster: then nothing is read before the item is claimed.
    pub(in crate::queue) is_contended: bool,
    /// Receives the name of the item when its claim is dropped.
    pub(in crate::queue) returned: Returned,
    pub(in crate::queue) receipts: ReceiptPool,
}

/// The outcome of an attempt to claim an item.
pub(in crate::queue) enum ClaimResult<K: QueueKind> {
    Ours(Box<Delivery<K>>),
    /// Another client has it, by the node at this path.
    Others(String),
    /// Another client was faster.
    Gone,
}

struct ClaimAttempt<K: QueueKind> {
    since: Instant,
    done: Started<Result<ClaimResult<K>, Error>>,
}

/// The names of delivered items that have returned to their place.
#[derive(Debug, Clone, Default)]
pub(in crate::queue) struct Returned(Arc<Locked<Vec<String>>>);

impl Returned {
    /// Returns a value that notes the name when it is dropped. It must be a field behind the claim,
    /// which is deleted first.
    pub(in crate::queue) fn on_drop(&self, name: String) -> ReturnOnDrop {
        ReturnOnDrop { name: Some(name), to: self.clone() }
    }

    fn take(&self) -> Vec<String> {
        mem::take(&mut self.0.lock())
    }
}

/// An item that has returned to its place when this is dropped.
pub(in crate::queue) struct ReturnOnDrop {
    name: Option<String>,
    to: Returned,
}

impl ReturnOnDrop {
    /// The item does not return: it is settled.
    pub(in crate::queue) fn never(mut self) {
        self.name = None;
    }
}

impl Drop for ReturnOnDrop {
    fn drop(&mut self) {
        if let Some(name) = self.name.take() {
            self.to.0.lock().push(name);
        }
    }
}

impl<K: ClaimKind> Claims<K> {
    pub(in crate::queue) fn new(feed: FeedDriver, kind: K, receipts: ReceiptPool) -> Self {
        Self {
            feed,
            kind,
            receipts,
            core: Claiming::new(K::GIVES_WAY),
            under_way: VecDeque::new(),
            held: None,
            admission: None,
            returned: Returned::default(),
        }
    }

    fn step(&mut self, outcome: ClaimReport) {
        self.core.step(&mut self.feed.core, outcome, Instant::now());
    }

    fn start(&mut self, names: Vec<String>, is_contended: bool) {
        for name in names {
            let (layout, returned) = (self.feed.layout.clone(), self.returned.clone());
            let receipts = self.receipts.clone();
            let item = Unclaimed { layout, name, is_contended, returned, receipts };
            let (since, done) = (Instant::now(), Started::new(self.kind.claim(item)));
            self.under_way.push_back(ClaimAttempt { since, done });
        }
        // In the same round trip.
        self.feed.start_check();
    }

    /// Takes the response to the first attempt.
    fn answered(
        &mut self,
        since: Instant,
        done: Result<ClaimResult<K>, Error>,
    ) -> Result<(), Error> {
        let others = |on| ClaimReport::Others {
            on,
            round_trip: since.elapsed(),
            by_chance: fraction(&self.feed.layout.zk),
        };
        let outcome = match done {
            Ok(ClaimResult::Ours(claim)) => {
                // The claim to another item is released for it.
                drop(self.held.replace((claim, since)));
                ClaimReport::Ours
            }
            Ok(ClaimResult::Others(on)) => others(Some(on)),
            Ok(ClaimResult::Gone) => others(None),
            Err(error) => {
                let is_item = matches!(error, Error::Corrupt { .. } | Error::Foreign { .. });
                self.step(if is_item { ClaimReport::Aside } else { ClaimReport::Failed });
                return Err(error);
            }
        };
        self.step(outcome);
        Ok(())
    }

    /// Begins the last step before this claimed item is delivered.
    fn admit(&mut self, name: String) {
        let Some((claim, since)) = self.held.take() else { return };
        // It was claimed for a call that was dropped, or in advance, or before other items were
        // listed.
        if !claim.claim.is_ours() {
            return self.feed.reset();
        }
        let admitted = self.kind.admit(*claim);
        let done = async move {
            match admitted.await? {
                Some(claim) if since.elapsed() > EVIDENT => still_there(claim).await,
                admitted => Ok(admitted),
            }
        };
        self.admission = Some(Admission { name, done: Box::pin(done) });
    }

    /// Finishes the last step before a claimed item is delivered, if there is one.
    async fn admitted(&mut self) -> Result<Option<Delivery<K>>, Error> {
        let Some(admission) = &mut self.admission else { return Ok(None) };
        let admitted = (&mut admission.done).await;
        let Some(Admission { name, .. }) = self.admission.take() else { return Ok(None) };
        match admitted {
            Ok(Some(claim)) if claim.claim.is_ours() => {
                self.feed.core.handed_out(name);
                Ok(Some(claim))
            }
            // Its session has ended after that step, perhaps between two calls.
            Ok(Some(_)) => {
                self.feed.reset();
                Ok(None)
            }
            Ok(None) => Ok(None),
            Err(error) => {
                self.feed.reset();
                Err(error)
            }
        }
    }
}

impl<K: ClaimKind> ItemSource<K> for Claims<K> {
    const WATCHES_CLAIM: bool = K::WATCHES_CLAIM;
    const PREFETCH: usize = 1;

    fn layout(&self) -> &QueueLayout {
        &self.feed.layout
    }

    fn feed(&mut self) -> &mut FeedDriver {
        &mut self.feed
    }

    async fn prepare(&mut self, prefetch: usize) -> Result<(), Error> {
        self.core.prefetch = at_least_one(&self.feed.layout.path, "prefetch", prefetch)?;
        self.feed.check_settings()?;
        self.kind.prepare().await
    }

    async fn of_list(&mut self, turn: &mut Turn) -> Result<Option<Delivery<K>>, Error> {
        self.core.begin(&mut self.feed.core, Instant::now());
        loop {
            if let Some(claim) = self.admitted().await? {
                self.feed.took(turn);
                return Ok(Some(claim));
            }
            self.feed.core.items.put_back(self.returned.take());
            self.feed.note_fired();
            match self.core.next(&mut self.feed.core, self.feed.layout.now()) {
                ClaimAction::Report(name) => return Err(self.feed.foreign(&name)),
                ClaimAction::Refresh => {
                    let is_new = self.feed.refreshed(true).await?;
                    self.step(ClaimReport::Refreshed(is_new));
                    self.under_way.truncate(self.core.under_way());
                }
                ClaimAction::ListOthers(name) => {
                    self.feed.list_others(&name).await?;
                    self.step(ClaimReport::OthersListed);
                }
                ClaimAction::Scout { names, not_before } => {
                    if let Some(until) = not_before {
                        sleep_until(until).await;
                    }
                    let seen = scout(&self.kind, &self.feed.layout, names).await?;
                    self.step(ClaimReport::Scouted(seen));
                }
                ClaimAction::Claim { names, is_contended } => self.start(names, is_contended),
                ClaimAction::Await => {
                    let Some(first) = self.under_way.front_mut() else { return Ok(None) };
                    let (since, done) = (first.since, (&mut first.done).await);
                    self.under_way.pop_front();
                    self.answered(since, done)?;
                }
                ClaimAction::HandOut(name) => self.admit(name),
                ClaimAction::End => return Ok(None),
            }
        }
    }

    async fn rest(&mut self) -> Option<Delivery<K>> {
        loop {
            match self.admitted().await {
                Ok(Some(claim)) => return Some(claim),
                Ok(None) => {}
                Err(error) => warn!(%error, "an item could not be delivered"),
            }
            if self.held.is_none() {
                let first = self.under_way.front_mut()?;
                let (since, done) = (first.since, (&mut first.done).await);
                self.under_way.pop_front();
                if let Err(error) = self.answered(since, done) {
                    warn!(%error, "an item could not be delivered");
                }
            }
            self.admit(String::new());
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

impl<K: ClaimKind> TakenItem<K> for Delivery<K> {
    fn label(&self) -> &str {
        self.item.label(&self.path)
    }

    fn attempt(&self) -> u32 {
        self.attempt
    }

    fn claim(&self) -> Option<&Ownership> {
        Some(self.claim.ownership())
    }

    fn messages(&self) -> Vec<K::Message> {
        self.item.messages()
    }

    fn finish(self, done: Result<K::Done, String>) -> Finish {
        K::finish(self, done)
    }
}

/// Returns the claim if its node still exists.
async fn still_there<K: QueueKind>(claim: Delivery<K>) -> Result<Option<Delivery<K>>, Error> {
    let watch = claim.ownership().confirm().await?;
    Ok(watch.map(|_watch| claim))
}

/// Reads which of these items are gone, or claimed by other consumers.
async fn scout<K: ClaimKind>(
    kind: &K,
    layout: &QueueLayout,
    names: Vec<String>,
) -> Result<Vec<SeenItem>, Error> {
    let by: Vec<Option<String>> = names.iter().map(|name| kind.claimed_by(layout, name)).collect();
    let items = names.iter().map(|name| layout.item(name));
    let paths: Vec<String> = items.chain(by.iter().flatten().cloned()).collect();
    let mut there = layout.zk.children_of_each(paths).await?;
    let mut claims = there.split_off(names.len()).into_iter();
    let seen = there.into_iter().zip(by).map(|(item, by)| {
        let claim = by.filter(|_| claims.next().flatten().is_some());
        match (item, claim) {
            (None, _) => SeenItem::Gone,
            (_, Some(claim)) => SeenItem::Claimed(claim),
            _ => SeenItem::Free,
        }
    });
    Ok(seen.collect())
}
