use std::collections::VecDeque;
use std::future::{IntoFuture, ready};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;
use tracing::{debug, warn};
use zk_curator::op::Started;
use zk_curator::path::ZPath;
use zk_curator::{ErrorKind, Ownership, Stat};

use super::consumer::Consumer;
use super::kind::{Engine, Finish, ItemSource, QueueKind, TakenItem};
use super::pipeline::{Pipeline, PipelineStep, StageCounts};
use super::removal::{RemovalOutcome, delete_all, delete_with_receipt};
use crate::queue::error::Error;
use crate::queue::feed::driver::{FeedDriver, Turn};
use crate::queue::produce::unconfirmed::{Unconfirmed, is_unconfirmed};
use crate::queue::wire::codec;
use crate::queue::wire::item::Item;
use crate::queue::wire::layout::{QueueLayout, at_least_one};

/// The time for which a check of the parent is valid.
const FRESH: Duration = Duration::from_millis(100);

/// A [`Consumer`] of this kind removes each item **before it delivers it**. So an item is delivered
/// at most once, as by Apache Curator's queues without a lock path: if the consumer crashes, the
/// item is lost. Use [`LockPath`](crate::queue::LockPath) for items that must not be lost.
///
/// # Cost
/// An item costs a read and a delete, but only one round trip, because items are prefetched. The
/// queue is listed again at the end of a listing. Items that other consumers take first cost a
/// read.
///
/// # Cancel safety
/// If a dropped [`next`](Consumer::next) has removed an item, the next call returns it. Dropping
/// the consumer loses the items that it has removed but not delivered; their number is limited by
/// [`ack_batch`](Consumer::ack_batch).
#[derive(Debug)]
#[non_exhaustive]
pub struct AutoAck;

/// The consumer of a queue that removes an item before it delivers it.
pub type AutoAckConsumer = Consumer<AutoAck>;

impl QueueKind for AutoAck {
    type Delivery = Item;
    type Message = Bytes;
    type Done = ();
}

impl Engine for AutoAck {
    type Source = AutoAckSource;
    type Item = ();
}

impl Consumer<AutoAck> {
    /// Takes the items of a layout, as Curator does.
    pub(in crate::queue) fn of_curator(
        layout: QueueLayout,
        line: Option<ZPath>,
        refresh_after: u32,
    ) -> Self {
        let feed = FeedDriver::new(layout, line, refresh_after);
        Self::of(AutoAckSource::new(feed, RemovalMethod::Delete))
    }

    /// Takes the items of a layout, and leaves receipts.
    pub(in crate::queue) fn with_receipts(
        layout: QueueLayout,
        line: Option<ZPath>,
        unconfirmed: Option<Unconfirmed>,
    ) -> Self {
        let feed = FeedDriver::new(layout, line, 1).guarded();
        Self::of(AutoAckSource::new(feed, RemovalMethod::Receipt(unconfirmed)))
    }

    /// Sets the number of items that are removed at a time, from 1. They share one round trip, but
    /// a crash loses all that were removed and not delivered. Default: 1.
    ///
    /// Half of them, or 64 at most, are removed in one transaction. If one of these was deleted or
    /// changed, each is removed separately.
    #[must_use]
    pub const fn ack_batch(mut self, items: usize) -> Self {
        self.source.pipeline.set_ack_batch(items);
        self
    }

    /// Returns `true` if an item was removed that is not delivered yet.
    pub(in crate::queue) fn has_removed(&self) -> bool {
        self.source.has_removed()
    }
}

/// Prefetches the items of a feed, in their order, and removes them.
pub(in crate::queue) struct AutoAckSource {
    feed: FeedDriver,
    removing: RemovalMethod,
    pipeline: Pipeline,
    fetches: VecDeque<Fetch>,
    /// The items that were read and will be removed together.
    gathered: Vec<Gathered>,
    removals: VecDeque<RemovalBatch>,
    /// The outcomes of the removals that were sent first.
    removed: VecDeque<(Item, Result<RemovalOutcome, zk_curator::Error>)>,
    /// The time at which the last item was delivered.
    handed_out: Option<Instant>,
}

/// The method by which items are removed.
enum RemovalMethod {
    /// By a delete.
    Delete,
    /// With a receipt in our node among the items, for which the feed must be guarded. After a lost
    /// response the receipt shows the outcome. Only one item at a time, because the receipt records
    /// only the last removal.
    Receipt(Option<Unconfirmed>),
}

/// The next stage that is not only a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RemovalStep {
    Remove,
    HandOut,
    End,
}

struct Fetch {
    name: String,
    read: Started<Result<(Bytes, Stat), zk_curator::Error>>,
}

/// An item that was read.
pub(super) struct Gathered {
    name: String,
    pub(super) item: Item,
    stat: Stat,
}

/// An item that is the next to be delivered.
pub(super) enum First {
    /// It was read.
    Read(Gathered),
    /// An earlier call has removed it.
    Removed(Item),
}

impl First {
    pub(super) const fn item(&self) -> &Item {
        match self {
            Self::Read(read) => &read.item,
            Self::Removed(item) => item,
        }
    }
}

/// Items that are being removed together.
struct RemovalBatch {
    items: Vec<Item>,
    done: Started<Vec<Result<RemovalOutcome, zk_curator::Error>>>,
}

impl AutoAckSource {
    fn new(feed: FeedDriver, removing: RemovalMethod) -> Self {
        let pipeline = Pipeline::new(Self::PREFETCH, matches!(removing, RemovalMethod::Delete));
        Self {
            feed,
            removing,
            pipeline,
            fetches: VecDeque::new(),
            gathered: Vec::new(),
            removals: VecDeque::new(),
            removed: VecDeque::new(),
            handed_out: None,
        }
    }

    /// Returns `true` if an item was removed that is not delivered yet.
    fn has_removed(&self) -> bool {
        !self.removals.is_empty() || !self.removed.is_empty()
    }

    /// An item cannot be removed: it is reported once, and not read again.
    async fn stays(&mut self, item: &str) -> Result<(), Error> {
        let Some(path) = self.feed.layout.foreign_child(item, None).await? else {
            // By now the item can be removed.
            self.reset();
            return Ok(());
        };
        self.feed.core.items.put_aside(self.feed.layout.name(item).to_owned());
        Err(Error::Foreign { path })
    }

    pub(super) fn reset(&mut self) {
        self.feed.reset();
        self.forget();
    }

    /// Forgets the prefetched items.
    fn forget(&mut self) {
        self.fetches.clear();
        self.gathered.clear();
    }

    fn missed(&mut self) {
        if self.feed.core.missed() {
            self.forget();
        }
    }

    fn stages(&self) -> StageCounts {
        StageCounts {
            fetching: self.fetches.len(),
            gathered: self.gathered.len(),
            removing: self.removals.iter().map(|removal| removal.items.len()).sum(),
            removed: self.removed.len(),
        }
    }

    /// Checks whether better items have arrived.
    async fn refresh(&mut self) -> Result<(), Error> {
        if self.handed_out.take().is_some_and(|at| at.elapsed() > FRESH) {
            self.feed.start_check();
        }
        if !self.feed.is_guarded() {
            // The prefetched items may belong to a queue that was deleted.
            self.reset();
        }
        let is_ahead = !self.fetches.is_empty() || !self.gathered.is_empty();
        if !self.has_removed() && self.feed.refreshed(is_ahead).await? {
            self.forget();
        }
        Ok(())
    }

    fn fetch(&mut self) {
        while self.pipeline.fetches(self.fetches.len())
            && let Some(name) = self.feed.pop()
        {
            let layout = &self.feed.layout;
            let read = layout.zk.get_data(layout.item(&name)).with_stat().into_future().start();
            self.fetches.push_back(Fetch { name, read });
        }
    }

    async fn await_fetch(&mut self) -> Result<(), Error> {
        let Some(fetch) = self.fetches.front_mut() else { return Ok(()) };
        let read = (&mut fetch.read).await;
        let Some(Fetch { name, .. }) = self.fetches.pop_front() else { return Ok(()) };
        match read {
            Ok((data, stat)) => self.found(name, data, stat).await?,
            Err(error) if error.kind() == ErrorKind::NoNode => self.missed(),
            Err(error) => {
                self.reset();
                return Err(error.into());
            }
        }
        Ok(())
    }

    /// Begins to remove the gathered items.
    fn remove(&mut self, turn: &mut Turn) {
        let zk = self.feed.layout.zk.clone();
        let gathered = self.gathered.drain(..).map(|Gathered { name, item, stat }| {
            let node = (item.path.clone(), stat);
            (item, (node, name))
        });
        let (items, nodes): (Vec<_>, Vec<_>) = gathered.unzip();
        let done = match (&self.removing, self.feed.guard()) {
            (RemovalMethod::Delete, _) => {
                Started::new(delete_all(zk, nodes.into_iter().map(|(node, _)| node).collect()))
            }
            (RemovalMethod::Receipt(_), Some(receipt)) => {
                let receipt = Arc::clone(receipt);
                Started::new(async move {
                    let mut removed = Vec::new();
                    for ((path, stat), name) in nodes {
                        removed.push(
                            delete_with_receipt(zk.clone(), path, stat, receipt.clone(), name)
                                .await,
                        );
                    }
                    removed
                })
            }
            // Our node has ended with its session after the items were listed.
            (RemovalMethod::Receipt(_), None) => return self.reset(),
        };
        for _ in &items {
            self.feed.took(turn);
        }
        self.removals.push_back(RemovalBatch { items, done });
        self.feed.start_check();
    }

    async fn await_removal(&mut self) {
        let Some(removal) = self.removals.front_mut() else { return };
        let removed = (&mut removal.done).await;
        if let Some(RemovalBatch { items, .. }) = self.removals.pop_front() {
            self.removed.extend(items.into_iter().zip(removed));
        }
    }

    /// Returns the first item that was to be removed, if we have removed it.
    async fn hand_out(&mut self) -> Result<Option<Item>, Error> {
        let Some((item, removed)) = self.removed.pop_front() else { return Ok(None) };
        match removed {
            Ok(RemovalOutcome::Ours) => {
                self.pipeline.handed_out();
                self.handed_out = Some(Instant::now());
                return Ok(Some(item));
            }
            Ok(RemovalOutcome::Others) => self.missed(),
            Ok(RemovalOutcome::Not) => {
                self.feed.unguard();
                self.reset();
            }
            Ok(RemovalOutcome::HasChildren) => self.stays(&item.path).await?,
            Err(error) if error.may_have_applied() => {
                return Err(Error::Unknown { item: Box::new(item), why: error });
            }
            Err(error) => {
                self.reset();
                return Err(error.into());
            }
        }
        Ok(None)
    }

    /// Returns the next item of the current list, without removing it.
    pub(super) async fn first(&mut self) -> Result<Option<First>, Error> {
        self.pipeline.begin();
        loop {
            let next = self.advance().await?;
            if next == RemovalStep::End {
                return Ok(None);
            }
            // What was removed by an earlier call comes first.
            if !self.removed.is_empty() {
                if let Some(item) = self.hand_out().await? {
                    return Ok(Some(First::Removed(item)));
                }
            } else if self.removals.is_empty() {
                return Ok(Some(First::Read(self.gathered.remove(0))));
            } else {
                self.await_removal().await;
            }
        }
    }

    /// Goes on until items can be removed or delivered, or there are none.
    async fn advance(&mut self) -> Result<RemovalStep, Error> {
        loop {
            if let Some(name) = self.feed.core.items.pop_foreign() {
                return Err(self.feed.foreign(&name));
            }
            self.fetch();
            match self.pipeline.next(self.stages()) {
                PipelineStep::Refresh => self.refresh().await?,
                PipelineStep::AwaitFetch => self.await_fetch().await?,
                PipelineStep::AwaitRemoval => self.await_removal().await,
                PipelineStep::Remove => return Ok(RemovalStep::Remove),
                PipelineStep::HandOut => return Ok(RemovalStep::HandOut),
                PipelineStep::End => return Ok(RemovalStep::End),
            }
        }
    }

    /// Removes an item that was read, while no other is being removed.
    pub(super) async fn remove_one(
        &mut self,
        read: Gathered,
        turn: &mut Turn,
    ) -> Result<(), Error> {
        let path = read.item.path.clone();
        let others = std::mem::replace(&mut self.gathered, vec![read]);
        self.remove(turn);
        self.gathered = others;
        self.await_removal().await;
        // It is taken by another client, or still there.
        self.hand_out().await?.map(|_| ()).ok_or(Error::Taken { path })
    }

    /// An item that was removed is delivered again.
    pub(super) fn give_back(&mut self, item: Item) {
        self.removed.push_front((item, Ok(RemovalOutcome::Ours)));
    }

    /// An item has been read.
    async fn found(&mut self, name: String, data: Bytes, stat: Stat) -> Result<(), Error> {
        let layout = self.feed.layout.clone();
        let path = layout.item(&name);
        if let RemovalMethod::Receipt(Some(unconfirmed)) = &self.removing
            && is_unconfirmed(&name, &stat)
        {
            let (producer, strict) = (unconfirmed.producer(&data), unconfirmed.strict);
            self.unconfirmed(&name, (path, stat.version), &producer, strict).await?;
            return Ok(());
        }
        let items = layout.unpack(data).and_then(|data| {
            if layout.kind.has_lists() { codec::decode(&data) } else { Ok(vec![data]) }
        });
        let items = match items {
            Ok(items) => items,
            Err(why) => {
                debug!(path, %why, "a corrupt item stays where it is");
                self.feed.core.items.put_aside(name);
                return Err(Error::Corrupt { path, why });
            }
        };
        self.gathered.push(Gathered { name, item: Item { path, items }, stat });
        Ok(())
    }

    /// Handles an item that its producer has not confirmed yet. If the producer is dead, it never
    /// will be.
    async fn unconfirmed(
        &mut self,
        name: &str,
        node: (String, i32),
        producer: &str,
        strict: bool,
    ) -> Result<(), Error> {
        let path = node.0.clone();
        if strict {
            self.fetches.clear();
        }
        self.feed.core.block_unconfirmed(name, node, producer.to_owned(), strict, Instant::now());
        let zk = self.feed.layout.zk.clone();
        if zk.exists(producer).await?.is_some() {
            return Ok(());
        }
        // The server may lag behind.
        if zk.exists(producer).linearizable().await?.is_some() {
            return Ok(());
        }
        match zk.delete(&path).version(0).await {
            Ok(()) => debug!(path, "removed what a dead producer has left"),
            Err(error) if error.kind() == ErrorKind::NotEmpty => {
                self.feed.core.unblock_item(name);
                return self.stays(&path).await;
            }
            // The producer has confirmed it after all, or another client has removed it: read
            // again.
            Err(error) if matches!(error.kind(), ErrorKind::BadVersion | ErrorKind::NoNode) => {}
            Err(error) if error.may_have_applied() => {}
            Err(error) => return Err(error.into()),
        }
        self.feed.core.unblock_item(name);
        self.reset();
        Ok(())
    }
}

impl ItemSource<AutoAck> for AutoAckSource {
    const LOSES_UNDELIVERED: bool = true;
    const PREFETCH: usize = 16;

    fn layout(&self) -> &QueueLayout {
        &self.feed.layout
    }

    fn feed(&mut self) -> &mut FeedDriver {
        &mut self.feed
    }

    async fn prepare(&mut self, prefetch: usize) -> Result<(), Error> {
        let path = &self.feed.layout.path;
        self.pipeline.prefetch = at_least_one(path, "prefetch", prefetch)?;
        at_least_one(path, "ack_batch", self.pipeline.ack_batch)?;
        self.feed.check_settings()
    }

    async fn of_list(&mut self, turn: &mut Turn) -> Result<Option<Item>, Error> {
        self.pipeline.begin();
        loop {
            match self.advance().await? {
                RemovalStep::Remove => self.remove(turn),
                RemovalStep::HandOut => {
                    if let Some(item) = self.hand_out().await? {
                        return Ok(Some(item));
                    }
                }
                RemovalStep::End => return Ok(None),
            }
        }
    }

    async fn rest(&mut self) -> Option<Item> {
        while self.has_removed() {
            if self.removed.is_empty() {
                self.await_removal().await;
            }
            match self.hand_out().await {
                Ok(None) => {}
                Ok(item) => return item,
                Err(error) => warn!(%error, "an item could not be delivered"),
            }
        }
        None
    }

    fn looks_again(&mut self, has_looked: bool) -> bool {
        // A listing or a read of an earlier call may be old.
        if !has_looked {
            self.feed.core.unblock();
        }
        !self.feed.core.is_blocked()
    }
}

impl TakenItem<AutoAck> for Item {
    fn label(&self) -> &str {
        &self.path
    }

    fn claim(&self) -> Option<&Ownership> {
        None
    }

    fn messages(&self) -> Vec<Bytes> {
        self.items.clone()
    }

    /// The item has left the queue already.
    fn finish(self, _done: Result<(), String>) -> Finish {
        Finish::done(ready(Ok(())))
    }
}
