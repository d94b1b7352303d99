use std::collections::VecDeque;
use std::fmt;
use std::future::{Future, IntoFuture, Ready, pending};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::Stream;
use tokio::time::Instant;
use tracing::{debug, warn};
use zk_curator::op::Started;
use zk_curator::path::ZPath;
use zk_curator::{ErrorKind, Stat};

use super::codec;
use super::core::{Pipeline, Stage, Stages};
use super::driver::{self, FeedDriver, Removed, Source, Turn, delete_all, delete_with_receipt};
use super::error::Error;
use super::item::Item;
use super::layout::{QueueLayout, at_least_one};
use super::unconfirmed::{Unconfirmed, is_unconfirmed};

/// The time for which a look at the parent is believed.
const FRESH: Duration = Duration::from_millis(100);
/// The number of items that are read ahead, unless a caller says otherwise.
const PREFETCH: usize = 16;

/// Takes items from a queue, in their order: each is **removed, then handed out**. So it is handed out at most once, as by
/// Apache Curator's queues without a lock path: a consumer that crashes with an item has lost it. A
/// [`Consumer`](super::Consumer) is for items that must not get lost.
///
/// # Cost
/// An item costs a read and a delete, and one flight, because items are read ahead; a listing is worked through before the
/// queue is listed again. Items that others take meanwhile cost a read.
///
/// # Cancel safety
/// An item that a dropped [`next`](Self::next) removed comes from the next. Dropping the consumer loses what it has removed and
/// not handed out, at most as many items as its [window of deletes](Self::ack_batch).
pub struct AutoAckConsumer {
    feed: FeedDriver,
    removing: Removing,
    pipeline: Pipeline,
    fetches: VecDeque<Fetch>,
    /// The items that were read and will be removed together.
    gathered: Vec<Gathered>,
    removals: VecDeque<Removal>,
    /// The outcomes of the removals that were sent first.
    removed: VecDeque<(Item, Result<Removed, zk_curator::Error>)>,
    /// When the last item was handed out.
    handed_out: Option<Instant>,
}

/// The way items are removed.
enum Removing {
    /// By a delete.
    Delete,
    /// With a receipt in our node among the items, for which the feed has to be guarded: a lost answer can then be found
    /// out. One at a time, for it tells of the last only.
    Receipt(Option<Unconfirmed>),
}

struct Fetch {
    name: String,
    read: Started<Result<(Bytes, Stat), zk_curator::Error>>,
}

struct Gathered {
    name: String,
    item: Item,
    stat: Stat,
}

/// Items that are being removed together.
struct Removal {
    items: Vec<Item>,
    done: Started<Vec<Result<Removed, zk_curator::Error>>>,
}

impl AutoAckConsumer {
    /// Takes the items of a layout, as Curator does.
    pub(super) fn of_curator(layout: QueueLayout, line: Option<ZPath>, refresh_after: u32) -> Self {
        Self::new(FeedDriver::new(layout, line, refresh_after), Removing::Delete)
    }

    /// Takes the items of a layout, and leaves receipts.
    pub(super) fn with_receipts(
        layout: QueueLayout,
        line: Option<ZPath>,
        unconfirmed: Option<Unconfirmed>,
    ) -> Self {
        Self::new(FeedDriver::new(layout, line, 1).guarded(), Removing::Receipt(unconfirmed))
    }

    fn new(feed: FeedDriver, removing: Removing) -> Self {
        let pipeline = Pipeline::new(PREFETCH, matches!(removing, Removing::Delete));
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

    /// Sets the most items that are read ahead, from 1; they are in memory meanwhile. Default: 16.
    #[must_use]
    pub const fn prefetch(mut self, items: usize) -> Self {
        self.pipeline.prefetch = items;
        self
    }

    /// Sets the number of items that are removed at a time, from 1. With more than 1, a crash loses as many items that were
    /// removed and not handed out; but the network is waited for once for all of them. Default: 1.
    ///
    /// Half of them, or 64 at most, are removed in one transaction. If one of these has gone or changed, each is removed for
    /// itself.
    #[must_use]
    pub const fn ack_batch(mut self, items: usize) -> Self {
        self.pipeline.set_ack_batch(items);
        self
    }

    /// The next item, however long it takes until there is one.
    ///
    /// # Errors
    /// None of them ends the consumer: it may be called again.
    /// * [`Error::Corrupt`] for an item that cannot be read, once; it stays where it is.
    /// * [`Error::Foreign`] for a node that is no item, or is below one, once; it stays where it is.
    /// * [`Error::Unknown`] when the answer to the delete of an item was lost, and it is gone since.
    /// * [`Error::Framework`] when an operation fails for longer than the retry policy allows; nothing was taken.
    ///
    /// # Cancel safety
    /// Nothing is lost: an item that was removed meanwhile is the next.
    pub async fn next(&mut self) -> Result<Item, Error> {
        driver::next(self).await
    }

    /// The next item if there is one, `None` if not. Never waits for others.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    ///
    /// # Cancel safety
    /// As [`next`](Self::next).
    pub async fn try_next(&mut self) -> Result<Option<Item>, Error> {
        driver::try_next(self).await
    }

    /// The items as a stream, which does not end. An error is not the end either.
    ///
    /// # Cancel safety
    /// As [`next`](Self::next); dropping the stream is dropping the consumer.
    pub fn into_stream(self) -> impl Stream<Item = Result<Item, Error>> + Send {
        driver::into_stream(self)
    }

    /// Hands every item to `body`, so many at a time at most, from 1. Ends with an error that does not pass; what `body`
    /// has in its hands then is dropped, with `body`.
    ///
    /// # Errors
    /// `Closed`, and what else no repetition mends. What [`next`](Self::next) reports of single items is logged as a
    /// warning.
    ///
    /// # Cancel safety
    /// The items of `body` are lost, as when it panics.
    pub async fn run<F, Fut>(self, limit: usize, body: F) -> Result<(), Error>
    where
        F: Fn(Bytes) -> Fut,
        Fut: Future<Output = ()>,
    {
        self.run_until(limit, pending(), Duration::ZERO, body).await
    }

    /// As [`run`](Self::run), until `stop`: no removal begins after that; what was being removed then is handed out once it is, and
    /// may be worked off for as long as `drain`. Then the rest is dropped, and is lost: there is nothing to give back. See
    /// [the graceful stop](crate::queue#a-graceful-stop).
    ///
    /// # Errors
    /// As [`run`](Self::run).
    ///
    /// # Cancel safety
    /// As [`run`](Self::run).
    pub async fn run_until<F, Fut>(
        self,
        limit: usize,
        stop: impl Future<Output = ()>,
        drain: Duration,
        body: F,
    ) -> Result<(), Error>
    where
        F: Fn(Bytes) -> Fut,
        Fut: Future<Output = ()>,
    {
        let each = |item: Item| async {
            for item in item.items {
                body(item).await;
            }
            // What is taken cannot be held back.
            None::<(Ready<()>, Ready<()>)>
        };
        driver::run(self, limit, (stop, drain), each).await
    }

    /// Whether something was removed that is not handed out yet.
    pub(super) fn has_removed(&self) -> bool {
        !self.removals.is_empty() || !self.removed.is_empty()
    }

    /// An item cannot be removed: it is reported, and not looked at again.
    async fn stays(&mut self, item: &str) -> Result<(), Error> {
        let Some(path) = self.feed.layout.foreign_child(item, None).await? else {
            // It can by now.
            self.reset();
            return Ok(());
        };
        self.feed.core.items.put_aside(self.feed.layout.name(item).to_owned());
        Err(Error::Foreign { path })
    }

    fn reset(&mut self) {
        self.feed.reset();
        self.forget();
    }

    /// Forgets what has been read.
    fn forget(&mut self) {
        self.fetches.clear();
        self.gathered.clear();
    }

    fn missed(&mut self) {
        if self.feed.core.missed() {
            self.forget();
        }
    }

    fn stages(&self) -> Stages {
        Stages {
            fetching: self.fetches.len(),
            gathered: self.gathered.len(),
            removing: self.removals.iter().map(|removal| removal.items.len()).sum(),
            removed: self.removed.len(),
        }
    }

    /// Looks whether better items have come.
    async fn refresh(&mut self) -> Result<(), Error> {
        if self.handed_out.take().is_some_and(|at| at.elapsed() > FRESH) {
            self.feed.start_check();
        }
        if !self.feed.is_guarded() {
            // What was read may be of a queue that is gone.
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

    /// Begins to remove what has been gathered.
    fn remove(&mut self, turn: &mut Turn) {
        let zk = self.feed.layout.zk.clone();
        let gathered = self.gathered.drain(..).map(|Gathered { name, item, stat }| {
            let node = (item.path.clone(), stat);
            (item, (node, name))
        });
        let (items, nodes): (Vec<_>, Vec<_>) = gathered.unzip();
        let done = match (&self.removing, self.feed.guard()) {
            (Removing::Delete, _) => {
                Started::new(delete_all(zk, nodes.into_iter().map(|(node, _)| node).collect()))
            }
            (Removing::Receipt(_), Some(receipt)) => {
                let receipt = Arc::clone(receipt);
                Started::new(async move {
                    let mut removed = Vec::new();
                    for ((path, stat), name) in nodes {
                        removed
                            .push(delete_with_receipt(zk.clone(), path, stat, receipt.clone(), name).await);
                    }
                    removed
                })
            }
            // It is gone with its session, since the items were listed.
            (Removing::Receipt(_), None) => return self.reset(),
        };
        for _ in &items {
            self.feed.took(turn);
        }
        self.removals.push_back(Removal { items, done });
        self.feed.start_check();
    }

    async fn await_removal(&mut self) {
        let Some(removal) = self.removals.front_mut() else { return };
        let removed = (&mut removal.done).await;
        if let Some(Removal { items, .. }) = self.removals.pop_front() {
            self.removed.extend(items.into_iter().zip(removed));
        }
    }

    /// Returns the first item that was to be removed, if we have removed it.
    async fn hand_out(&mut self) -> Result<Option<Item>, Error> {
        let Some((item, removed)) = self.removed.pop_front() else { return Ok(None) };
        match removed {
            Ok(Removed::Ours) => {
                self.pipeline.handed_out();
                self.handed_out = Some(Instant::now());
                return Ok(Some(item));
            }
            Ok(Removed::Others) => self.missed(),
            Ok(Removed::Not) => {
                self.feed.unguard();
                self.reset();
            }
            Ok(Removed::HasChildren) => self.stays(&item.path).await?,
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

    /// An item has been read.
    async fn found(&mut self, name: String, data: Bytes, stat: Stat) -> Result<(), Error> {
        let layout = self.feed.layout.clone();
        let path = layout.item(&name);
        if let Removing::Receipt(Some(unconfirmed)) = &self.removing
            && is_unconfirmed(&name, &stat)
        {
            let (producer, strict) = (unconfirmed.producer(&data), unconfirmed.strict);
            self.unconfirmed(&name, (path, stat.version), &producer, strict).await?;
            return Ok(());
        }
        let items = layout
            .unpack(data)
            .and_then(|data| if layout.kind.has_lists() { codec::decode(&data) } else { Ok(vec![data]) });
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

    /// An item that its producer has not confirmed yet. Without its producer it will never be.
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
            // Its producer was sure in the end, or somebody else has removed it: see again.
            Err(error) if matches!(error.kind(), ErrorKind::BadVersion | ErrorKind::NoNode) => {}
            Err(error) if error.may_have_applied() => {}
            Err(error) => return Err(error.into()),
        }
        self.feed.core.unblock_item(name);
        self.reset();
        Ok(())
    }
}

impl Source for AutoAckConsumer {
    type Delivery = Item;

    fn feed(&mut self) -> &mut FeedDriver {
        &mut self.feed
    }

    async fn prepare(&mut self) -> Result<(), Error> {
        at_least_one("prefetch", self.pipeline.prefetch)?;
        at_least_one("ack_batch", self.pipeline.ack_batch)?;
        self.feed.check_settings()
    }

    async fn of_list(&mut self, turn: &mut Turn) -> Result<Option<Item>, Error> {
        self.pipeline.begin();
        loop {
            if let Some(name) = self.feed.core.items.pop_foreign() {
                return Err(self.feed.foreign(&name));
            }
            self.fetch();
            match self.pipeline.next(self.stages()) {
                Stage::Refresh => self.refresh().await?,
                Stage::AwaitFetch => self.await_fetch().await?,
                Stage::Remove => self.remove(turn),
                Stage::AwaitRemoval => self.await_removal().await,
                Stage::HandOut => {
                    if let Some(item) = self.hand_out().await? {
                        return Ok(Some(item));
                    }
                }
                Stage::End => return Ok(None),
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
                Err(error) => warn!(%error, "an item was not handed out"),
            }
        }
        None
    }

    fn looks_again(&mut self, has_looked: bool) -> bool {
        // What was seen by an earlier call, or read ahead by it, may be old.
        if !has_looked {
            self.feed.core.unblock();
        }
        !self.feed.core.is_blocked()
    }
}

impl fmt::Debug for AutoAckConsumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AutoAckConsumer").field("layout", &self.feed.layout).finish_non_exhaustive()
    }
}
