use std::collections::VecDeque;
use std::fmt;
use std::future::IntoFuture;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use futures_util::stream::{Stream, unfold};
use tokio::time::Instant;
use tracing::debug;
use zk_curator::op::Started;
use zk_curator::path::ZPath;
use zk_curator::{CuratorFramework, ErrorCode, ErrorKind, OwnedNode, Stat};

use super::feed::{Feed, Turn};
use super::layout::{QueueLayout, at_least_one};
use super::name::{Kind, apart};
use super::{Error, codec};
use crate::path::child;

/// How long it is believed that nothing new has come.
const FRESH: Duration = Duration::from_millis(100);
/// How many items are read ahead, unless it is said otherwise.
const PREFETCH: usize = 16;

/// How many items are removed in one transaction at most.
const BATCH: usize = 64;

/// What was taken from a queue, and is not in it any more.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Item {
    /// The path of the node that it was.
    pub path: String,
    /// The data: one item, unless several were [put as one](super::CuratorQueue::put_multi).
    pub items: Vec<Bytes>,
}

/// Takes items from a queue, in their order: each is **removed, then handed out**. So it is handed out at most once, as by
/// Apache Curator's queues without a lock path: whoever crashes with an item in its hands has lost it. A
/// [`Consumer`](super::Consumer) is for items that must not get lost.
///
/// # Cost
/// An item costs a read and a delete, and one flight, because items are read ahead; a listing is worked through before the
/// queue is listed anew. Items that others take meanwhile cost a read.
///
/// # Cancel safety
/// What a dropped [`next`](Self::next) has removed comes from the next one. Dropping the consumer loses what it has removed and
/// not handed out, at most as many items as its [window of deletes](Self::ack_batch).
pub struct AutoAckConsumer {
    feed: Feed,
    how: How,
    prefetch: usize,
    /// How many are read ahead now: more while they are wanted.
    window: usize,
    ack_batch: usize,
    fetches: VecDeque<Fetch>,
    /// What has been read, and will be removed together.
    gathered: Vec<Gathered>,
    removals: VecDeque<Removal>,
    /// What has become of those that were to be removed first.
    removed: VecDeque<(Item, Result<Removed, zk_curator::Error>)>,
    /// When the last item was handed out.
    handed_out: Option<Instant>,
}

/// How items are removed.
pub(super) enum How {
    /// By a delete.
    Delete,
    /// With a receipt in our node among the items, for which the feed has to be guarded: a lost answer can then be found
    /// out. One at a time, for it tells of the last only.
    Receipt(Option<Unconfirmed>),
}

/// What to do about items whose producer is not sure of them yet.
pub(super) struct Unconfirmed {
    pub(super) producers: ZPath,
    /// Whether nothing behind them may be taken.
    pub(super) strict: bool,
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

/// What has become of an item.
enum Removed {
    /// We have removed it.
    Ours,
    /// Somebody else has.
    Others,
    /// It is still there.
    Not,
    /// It cannot be removed: somebody has created a node below it.
    HasChildren,
}

impl AutoAckConsumer {
    pub(super) fn new(feed: Feed, how: How) -> Self {
        Self {
            feed,
            how,
            prefetch: PREFETCH,
            window: 1,
            ack_batch: 1,
            fetches: VecDeque::new(),
            gathered: Vec::new(),
            removals: VecDeque::new(),
            removed: VecDeque::new(),
            handed_out: None,
        }
    }

    /// How many items are read ahead at most, from 1; they are in memory meanwhile. Default: 16.
    #[must_use]
    pub fn prefetch(mut self, items: usize) -> Self {
        self.prefetch = items;
        self
    }

    /// How many items are removed at a time, from 1. More than 1, and a crash loses as many items that were removed and not
    /// handed out; but the network is waited for once for all of them. Default: 1.
    ///
    /// Half of them, or 64 at most, are removed in one transaction. If one of these has gone or changed, each is removed for
    /// itself.
    #[must_use]
    pub fn ack_batch(mut self, items: usize) -> Self {
        self.ack_batch = items;
        self.window = items;
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
        self.check_settings()?;
        let mut turn = None;
        loop {
            if let Some(item) = self.of_list(&mut turn).await? {
                return Ok(item);
            }
            self.feed.more(&mut turn).await?;
        }
    }

    /// The next item if there is one, `None` if not. Never waits for others.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    ///
    /// # Cancel safety
    /// As [`next`](Self::next).
    pub async fn try_next(&mut self) -> Result<Option<Item>, Error> {
        self.check_settings()?;
        let mut has_looked = false;
        loop {
            if let Some(item) = self.of_list(&mut None).await? {
                return Ok(Some(item));
            }
            // What was seen by an earlier call, or read ahead by it, may be old.
            if !has_looked {
                self.feed.unblock();
            }
            if self.feed.is_blocked() || !self.feed.look().await? {
                return Ok(None);
            }
            has_looked = true;
        }
    }

    /// The items as a stream, which does not end. An error is not the end either.
    ///
    /// # Cancel safety
    /// As [`next`](Self::next); dropping the stream is dropping the consumer.
    pub fn into_stream(self) -> impl Stream<Item = Result<Item, Error>> + Send {
        unfold(self, |mut consumer| async move { Some((consumer.next().await, consumer)) })
    }

    /// Refuses settings that make no sense.
    fn check_settings(&self) -> Result<(), Error> {
        at_least_one("prefetch", self.prefetch)?;
        at_least_one("ack_batch", self.ack_batch)?;
        self.feed.check_settings()
    }

    /// Whether something was removed that is not handed out yet.
    pub(super) fn has_removed(&self) -> bool {
        !self.removals.is_empty() || !self.removed.is_empty()
    }

    /// The next item of the list; `None` at its end.
    async fn of_list(&mut self, turn: &mut Turn) -> Result<Option<Item>, Error> {
        loop {
            if let Some(path) = self.feed.pop_foreign() {
                return Err(Error::Foreign { path });
            }
            self.fill(turn).await?;
            if self.removed.is_empty() {
                let Some(removal) = self.removals.front_mut() else {
                    self.window = self.ack_batch;
                    return Ok(None);
                };
                let removed = (&mut removal.done).await;
                if let Some(Removal { items, .. }) = self.removals.pop_front() {
                    self.removed.extend(items.into_iter().zip(removed));
                }
            }
            let Some((item, removed)) = self.removed.pop_front() else { continue };
            match removed {
                Ok(Removed::Ours) => {
                    self.window = (self.window * 2).min(self.prefetch.max(self.ack_batch));
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
        }
    }

    /// An item cannot be removed: it is reported, and not looked at again.
    async fn stays(&mut self, item: &str) -> Result<(), Error> {
        let Some(path) = self.feed.layout.foreign_child(item, None).await? else {
            // It can by now.
            self.reset();
            return Ok(());
        };
        self.feed.put_aside(self.feed.layout.name(item).to_owned());
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
        if self.feed.missed() {
            self.forget();
        }
    }

    /// How many items are removed together.
    fn batch(&self) -> usize {
        match self.how {
            How::Delete => self.ack_batch.div_ceil(2).min(BATCH),
            How::Receipt(_) => 1,
        }
    }

    /// Whether others may be removed, beside those that are not handed out yet.
    fn has_room(&self) -> bool {
        let under_way: usize = self.removals.iter().map(|removal| removal.items.len()).sum();
        under_way + self.removed.len() + self.batch() <= self.ack_batch
    }

    /// Reads ahead, and begins to remove what has been read.
    async fn fill(&mut self, turn: &mut Turn) -> Result<(), Error> {
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
        self.fetch();
        while self.has_room() {
            while self.gathered.len() < self.batch()
                && let Some(fetch) = self.fetches.front_mut()
            {
                let read = (&mut fetch.read).await;
                let Some(Fetch { name, .. }) = self.fetches.pop_front() else { break };
                match read {
                    Ok((data, stat)) => self.found(name, data, stat).await?,
                    Err(error) if error.kind() == ErrorKind::NoNode => self.missed(),
                    Err(error) => {
                        self.reset();
                        return Err(error.into());
                    }
                }
                // In the same flight.
                self.fetch();
            }
            if self.gathered.is_empty() {
                break;
            }
            self.remove(turn);
        }
        Ok(())
    }

    /// Begins to remove what has been gathered.
    fn remove(&mut self, turn: &mut Turn) {
        let zk = self.feed.layout.zk.clone();
        let mut names = Vec::with_capacity(self.gathered.len());
        let mut items = Vec::with_capacity(self.gathered.len());
        let mut nodes = Vec::with_capacity(self.gathered.len());
        for Gathered { name, item, stat } in self.gathered.drain(..) {
            nodes.push((item.path.clone(), stat));
            items.push(item);
            names.push(name);
        }
        let done = match (&self.how, self.feed.guard()) {
            (How::Delete, _) => Started::new(delete_all(zk, nodes)),
            (How::Receipt(_), Some(receipt)) => {
                let receipt = Arc::clone(receipt);
                Started::new(async move {
                    let mut removed = Vec::new();
                    for ((path, stat), name) in nodes.into_iter().zip(names) {
                        removed
                            .push(delete_with_receipt(zk.clone(), path, stat, receipt.clone(), name).await);
                    }
                    removed
                })
            }
            // It is gone with its session, since the items were listed.
            (How::Receipt(_), None) => return self.reset(),
        };
        for _ in &items {
            self.feed.took(turn);
        }
        self.removals.push_back(Removal { items, done });
        self.feed.start_check();
    }

    fn fetch(&mut self) {
        while self.fetches.len() < self.window
            && let Some(name) = self.feed.pop()
        {
            let layout = &self.feed.layout;
            let read = layout.zk.get_data(layout.item(&name)).with_stat().into_future().start();
            self.fetches.push_back(Fetch { name, read });
        }
    }

    /// An item has been read.
    async fn found(&mut self, name: String, data: Bytes, stat: Stat) -> Result<(), Error> {
        let layout = self.feed.layout.clone();
        let path = layout.item(&name);
        if let How::Receipt(Some(Unconfirmed { producers, strict })) = &self.how
            && is_unconfirmed(&name, &stat)
        {
            let (producer, strict) = (producer(producers, &data), *strict);
            self.unsure(&name, (path, stat.version), &producer, strict).await?;
            return Ok(());
        }
        let items = layout.unpack(data).and_then(|data| match layout.kind {
            Kind::Simple | Kind::Fifo => Ok(vec![data]),
            _ => codec::decode(&data),
        });
        let items = match items {
            Ok(items) => items,
            Err(why) => {
                debug!(path, %why, "a corrupt item stays where it is");
                self.feed.put_aside(name);
                return Err(Error::Corrupt { path, why });
            }
        };
        self.gathered.push(Gathered { name, item: Item { path, items }, stat });
        Ok(())
    }

    /// An item of whose enqueueing its producer is not sure yet. Without its producer it will never be.
    async fn unsure(
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
        self.feed.block_unconfirmed(name, node, producer.to_owned(), strict);
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
                self.feed.unblock_item(name);
                return self.stays(&path).await;
            }
            // Its producer was sure in the end, or somebody else has removed it: see again.
            Err(error) if matches!(error.kind(), ErrorKind::BadVersion | ErrorKind::NoNode) => {}
            Err(error) if error.may_have_applied() => {}
            Err(error) => return Err(error.into()),
        }
        self.feed.unblock_item(name);
        self.reset();
        Ok(())
    }

    /// Hands every item to `body`, so many at a time at most, from 1. Ends with an error that does not pass; what `body`
    /// has in its hands then is dropped, with `body`.
    ///
    /// # Errors
    /// `Closed`, and what else no repetition mends. What [`next`](Self::next) reports of single items is logged as a
    /// warning.
    ///
    /// # Cancel safety
    /// What `body` has in its hands is lost, as when it panics.
    pub async fn run<F, Fut>(mut self, limit: usize, body: F) -> Result<(), Error>
    where
        F: Fn(Bytes) -> Fut,
        Fut: Future<Output = ()>,
    {
        let zk = self.feed.layout.zk.clone();
        let each = |item: Item| async {
            for item in item.items {
                body(item).await;
            }
            // What is taken cannot be held back.
            None::<std::future::Ready<()>>
        };
        super::claims::run(&zk, limit, &mut self, async |consumer: &mut Self| consumer.next().await, each)
            .await
    }
}

impl fmt::Debug for AutoAckConsumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AutoAckConsumer").field("layout", &self.feed.layout).finish_non_exhaustive()
    }
}

/// Whether the producer of an item is not sure yet that it is in the queue: it has created the node and not written it.
fn is_unconfirmed(name: &str, stat: &Stat) -> bool {
    apart(name).1.starts_with("_c_") && stat.version == 0
}

/// The node of the producer of an item.
fn producer(producers: &ZPath, data: &Bytes) -> String {
    let name = String::from_utf8_lossy(data);
    // Whatever is written there, it is a name.
    let name: String =
        name.chars().filter(|char| char.is_ascii_alphanumeric() || "_-".contains(*char)).collect();
    child(producers, if name.is_empty() { "none" } else { &name })
}

/// Removes items: all in one transaction, or each for itself if one of them is not as it was read.
async fn delete_all(
    zk: CuratorFramework,
    nodes: Vec<(String, Stat)>,
) -> Vec<Result<Removed, zk_curator::Error>> {
    if nodes.len() > 1 {
        let all = nodes.iter().fold(zk.transaction(), |all, (path, stat)| all.delete_if(path, stat.version));
        match all.await {
            Ok(_) => return nodes.iter().map(|_| Ok(Removed::Ours)).collect(),
            Err(error) if error.may_have_applied() => {
                let looks = nodes.iter().map(|(path, stat)| look(&zk, path, stat, error.clone()));
                let looked = join_all(looks).await;
                // All of them or none: where one is left, it was not applied, and cannot be any more.
                if !looked.iter().any(|looked| matches!(looked, Ok(Removed::Not))) {
                    return looked;
                }
            }
            Err(error) if is_of_the_batch(error.kind()) => {}
            Err(error) => return nodes.iter().map(|_| Err(error.clone())).collect(),
        }
    }
    join_all(nodes.iter().map(|(path, stat)| delete(&zk, path, stat))).await
}

/// Whether what cannot be done in one transaction may be done one by one.
const fn is_of_the_batch(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::TransactionFailed { .. } | ErrorKind::Unsupported | ErrorKind::TooLarge)
}

async fn delete(zk: &CuratorFramework, path: &str, stat: &Stat) -> Result<Removed, zk_curator::Error> {
    match zk.delete(path).version(stat.version).await {
        Ok(()) => Ok(Removed::Ours),
        Err(error) if error.may_have_applied() => look(zk, path, stat, error).await,
        Err(error) => refused(error),
    }
}

/// After a lost answer: an item is ours if it can be removed again; if it is gone instead, nobody can tell.
async fn look(
    zk: &CuratorFramework,
    path: &str,
    stat: &Stat,
    lost: zk_curator::Error,
) -> Result<Removed, zk_curator::Error> {
    match zk.exists(path).linearizable().await {
        Ok(Some(there)) if there.czxid == stat.czxid => Ok(Removed::Not),
        Ok(_) | Err(_) => Err(lost),
    }
}

fn refused(error: zk_curator::Error) -> Result<Removed, zk_curator::Error> {
    match error.kind() {
        ErrorKind::NoNode => Ok(Removed::Others),
        // It has changed since it was read.
        ErrorKind::BadVersion => Ok(Removed::Not),
        ErrorKind::NotEmpty => Ok(Removed::HasChildren),
        _ => Err(error),
    }
}

/// Removes an item and writes its name into our receipt, or neither: that says what has become of it after a lost answer,
/// as long as our session lives.
async fn delete_with_receipt(
    zk: CuratorFramework,
    path: String,
    stat: Stat,
    receipt: Arc<OwnedNode>,
    name: String,
) -> Result<Removed, zk_curator::Error> {
    loop {
        let delete = zk.transaction().delete_if(&path, stat.version).set_data(receipt.path(), name.clone());
        let Err(error) = delete.await else { return Ok(Removed::Ours) };
        if !error.may_have_applied() {
            return match error.kind() {
                ErrorKind::TransactionFailed { index: 0, code: ErrorCode::NoNode } => Ok(Removed::Others),
                ErrorKind::TransactionFailed { index: 0, code: ErrorCode::NotEmpty } => {
                    Ok(Removed::HasChildren)
                }
                // Changed since it was read, or our receipt is gone with its session: see again.
                ErrorKind::TransactionFailed { .. } => Ok(Removed::Not),
                _ => Err(error),
            };
        }
        // Without our receipt nobody can tell.
        let written = zk.get_data(receipt.path()).linearizable().await.map_err(|_| error.clone())?;
        if written == name {
            return Ok(Removed::Ours);
        }
        // Not applied, and it cannot be any more.
    }
}

/// An auto-ack consumer on the items of a layout, as Curator's.
pub(super) fn of_curator(layout: QueueLayout, line: Option<ZPath>, refresh_after: u32) -> AutoAckConsumer {
    AutoAckConsumer::new(Feed::new(layout, line, refresh_after), How::Delete)
}

/// An auto-ack consumer on the items of a layout that leaves receipts.
pub(super) fn with_receipts(
    layout: QueueLayout,
    line: Option<ZPath>,
    unconfirmed: Option<Unconfirmed>,
) -> AutoAckConsumer {
    AutoAckConsumer::new(Feed::new(layout, line, 1).guarded(), How::Receipt(unconfirmed))
}
