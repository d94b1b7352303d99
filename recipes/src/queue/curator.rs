use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use zk_curator::op::fan_out;
use zk_curator::value::ToData;
use zk_curator::{CuratorFramework, ErrorCode, ErrorKind};

use super::auto_ack::AutoAckConsumer;
use super::codec;
use super::consumer::Consumer;
use super::core::name::{self, Kind};
use super::driver::FeedDriver;
use super::error::Error;
use super::layout::QueueLayout;
use super::put::{Producer, WhenFull};
use super::value::{encode, encode_all};

/// The number of items that are removed by their id at a time.
const REMOVED_AT_ONCE: usize = 64;

/// A queue of Apache Curator's family, with its layout and its bytes; what differs between them is how items are put.
///
/// * [`DistributedQueue`]: first in, first out;
/// * [`DistributedPriorityQueue`]: the lowest priority number first;
/// * [`DistributedDelayQueue`]: each item not before its time;
/// * [`DistributedIdQueue`]: items can be removed by an id.
///
/// # Layout
/// ```text
/// /queue                                     persistent, made on first use
///   ├─ queue-0000000000                      persistent, sequential: a DistributedQueue; data: items
///   ├─ queue-1000000050000000001             DistributedPriorityQueue: priority 5
///   ├─ queue-0FFFFFFFB0000000002             priority -5
///   ├─ queue-|198F0A2B3C4|0000000003         DistributedDelayQueue: due at this time, milliseconds since 1970
///   └─ queue-|order 17|0000000004            DistributedIdQueue: its id
/// ```
/// A queue is of one kind. The data of an item are `00010001`, then for each item `01`, its length in four bytes, and its
/// bytes, and at last `02`.
///
/// # Taking items
/// With an [`AutoAckConsumer`], at most once: Curator's queues without a lock path. With a [`Consumer`], at least once: those with
/// one. All that take from one queue must do it in the same way.
///
/// A queue that is in use must not be deleted. A queue that is created again begins with the same names, and a consumer
/// that has read ahead, or has a claim, may remove a new item in the place of an old one: an [`AutoAckConsumer`] has to be stopped before; a [`Consumer`]
/// cannot once its lock path is deleted. ([`FifoQueue`](super::FifoQueue) and
/// [`SimpleDistributedQueue`](super::SimpleDistributedQueue) may be deleted at any time.)
///
/// # Puts
/// A put is answered when its item is in the queue: that is its acknowledgement. Puts are sent when they are first
/// polled; several at a time are one flight. After a lost answer a put fails with
/// [`may_have_applied`](zk_curator::Error::may_have_applied), because who would look for the item could find it consumed; a
/// queue [with ids](Self::idempotent_puts) finds out instead. (Curator puts again, and the item may be there twice.)
///
/// # Connection loss
/// * SUSPENDED: puts wait for a connection, as all operations of the framework; consumers and consumers wait on.
/// * LOST: consumers and consumers go on in the next session (CURATOR-623).
///
/// # Cancel safety
/// A put that is dropped once it was polled may be in the queue.
pub struct CuratorQueue<K> {
    producer: Producer,
    refresh_after: u32,
    kind: PhantomData<fn() -> K>,
}

/// First in, first out: Apache Curator's `DistributedQueue`. See [`CuratorQueue`].
///
/// # Example
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = zk_curator_testing::TestServer::start().await;
/// # let zk = zk_curator::CuratorFramework::builder().connect_string(server.connect_string()).build()?;
/// # zk.start().await?;
/// use zk_curator_recipes::queue::DistributedQueue;
///
/// let queue = DistributedQueue::new(&zk, "/queue");
/// queue.put("one").await?;
/// queue.put("two").await?;
///
/// let mut consumer = queue.consumer("/queue-locks");
/// let one = consumer.next().await?;
/// let two = consumer.next().await?;
/// assert_eq!(two.items(), ["two"]);
/// one.requeue().await?;
/// two.ack().await?;
/// assert_eq!(consumer.next().await?.items(), ["one"]);
/// # drop(consumer);
/// # zk.close().await?;
/// # Ok(()) }
/// ```
pub type DistributedQueue = CuratorQueue<Plain>;
/// The lowest priority number first, and among equals the first that came: Apache Curator's `DistributedPriorityQueue`.
/// See [`CuratorQueue`].
///
/// A consumer gives up its list of items when new ones have come: at the latest
/// [so many items](CuratorQueue::min_items_before_refresh) later. To look costs a request per item and no flight; the queue
/// is listed again only if there are new items.
pub type DistributedPriorityQueue = CuratorQueue<Priority>;
/// Each item not before its time: Apache Curator's `DistributedDelayQueue`. See [`CuratorQueue`].
///
/// The clocks of those who put and those who take have to agree. When a clock is set while an item is waited for, that is
/// noticed within a second.
pub type DistributedDelayQueue = CuratorQueue<Delay>;
/// First in, first out, and items can be removed by an id: Apache Curator's `DistributedIdQueue`. See [`CuratorQueue`].
pub type DistributedIdQueue = CuratorQueue<Id>;

/// The kind of a [`DistributedQueue`].
#[derive(Debug)]
#[non_exhaustive]
pub struct Plain;
/// The kind of a [`DistributedPriorityQueue`]: items are put with a priority. The lower, the earlier they are handed out.
#[derive(Debug)]
#[non_exhaustive]
pub struct Priority;
/// The kind of a [`DistributedDelayQueue`]: items are put with a time. They are handed out then, or later.
#[derive(Debug)]
#[non_exhaustive]
pub struct Delay;
/// The kind of a [`DistributedIdQueue`]: items are put with an id. Several may have the same; `/` and `|` in it become `_`. An
/// id that cannot be in a path is refused with `InvalidPath`.
#[derive(Debug)]
#[non_exhaustive]
pub struct Id;

/// One of Curator's kinds of queues.
trait QueueKind {
    const KIND: Kind;
}

impl QueueKind for Plain {
    const KIND: Kind = Kind::Plain;
}

impl QueueKind for Priority {
    const KIND: Kind = Kind::Priority;
}

impl QueueKind for Delay {
    const KIND: Kind = Kind::Delay;
}

impl QueueKind for Id {
    const KIND: Kind = Kind::Id;
}

/// A kind of queue whose items are put with a key: [`Priority`], [`Delay`], or [`Id`].
#[expect(private_bounds, reason = "sealed: there are no other kinds in Curator")]
pub trait KeyedQueue: QueueKind {
    /// The key of an item.
    type Key<'a>: Send;

    /// Writes a key as it stands in names.
    #[doc(hidden)]
    fn in_name(key: Self::Key<'_>) -> String;
}

impl KeyedQueue for Priority {
    type Key<'a> = i32;

    fn in_name(priority: i32) -> String {
        name::priority(priority)
    }
}

impl KeyedQueue for Delay {
    type Key<'a> = SystemTime;

    fn in_name(due: SystemTime) -> String {
        // Times before 1970 are due now, as 1970 is.
        let millis = due.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        name::due(u64::try_from(millis).unwrap_or(u64::MAX))
    }
}

impl KeyedQueue for Id {
    type Key<'a> = &'a str;

    fn in_name(id: &str) -> String {
        name::id(id)
    }
}

#[expect(private_bounds, reason = "sealed: there are no other kinds in Curator")]
impl<K: QueueKind> CuratorQueue<K> {
    /// The queue at a path. Nothing is sent. An invalid path is refused by the first operation.
    pub fn new(zk: &CuratorFramework, path: impl Into<String>) -> Self {
        let layout = QueueLayout::new(zk, path.into(), K::KIND);
        Self { producer: Producer::new(layout), refresh_after: 1, kind: PhantomData }
    }
}

impl<K> CuratorQueue<K> {
    /// Sets the most nodes of the queue, from 1: [`put`](DistributedQueue::put) waits until there is room, or
    /// [is refused](Self::when_full). Default: no limit.
    ///
    /// The limit holds for all that put with one; those without do not know of it, nor do those in Java, who may exceed it
    /// (CURATOR-254). A put then writes the parent of the items as well, and begins again when another producer was faster.
    ///
    /// Without a limit a queue can be put more into than can be taken out: to take items, all names are listed, and an answer
    /// may have [4 MiB](zk_curator::CuratorFrameworkBuilder::max_answer). That is 209,000 nodes of a [`DistributedQueue`],
    /// 144,000 with priorities, 127,000 with times, and with ids of 36 bytes 72,000. A longer queue fails with
    /// `AnswerTooLarge`. [`FifoQueue`](super::FifoQueue) and [`LockingQueue`](super::LockingQueue) have no such bound.
    #[must_use]
    pub fn max_items(mut self, limit: u32) -> Self {
        self.producer.bounded(limit);
        self
    }

    /// The behaviour of a put while the queue is [full](Self::max_items). Default: [`WhenFull::Wait`].
    #[must_use]
    pub fn when_full(mut self, when_full: WhenFull) -> Self {
        self.producer.when_full = when_full;
        self
    }

    /// Puts every item **exactly once**, also when the answer is lost: in one transaction with a node below `path`, which
    /// says after a lost answer whether the transaction was applied. The node is deleted along with the next put, or with
    /// [`flush`](Self::flush); those of producers that crash are collected by others, ten minutes later.
    ///
    /// ```text
    /// <path>                                   persistent, made on first use
    ///   ├─ _c_<uuid>-producer-0000000000       ephemeral, sequential: one who puts
    ///   └─ put-<count>-<producer>              persistent: a put under way
    /// ```
    #[must_use]
    pub fn idempotent_puts(mut self, path: impl Into<String>) -> Self {
        self.producer.with_ids(path);
        self
    }

    /// Those that wait for items stand in a line, in ephemeral nodes below `path`; only the first of them watches the
    /// queue. So do producers that wait for room in a [bounded](Self::max_items) queue. Without it, every new item wakes
    /// all consumers that wait, and every removal all producers that wait: in Apache Curator always.
    #[must_use]
    pub fn fair_waiting(mut self, path: impl Into<String>) -> Self {
        self.producer.line = Some(self.producer.layout.valid_path("fair waiting", path));
        self
    }

    /// The path of the queue.
    #[must_use]
    pub fn path(&self) -> &str {
        self.producer.layout.path.as_str()
    }

    /// Returns the number of nodes in the queue; Curator's `getLastMessageCount`.
    ///
    /// # Errors
    /// As every read of the framework. A queue that nobody has used yet is empty.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn count(&self) -> Result<usize, Error> {
        self.producer.layout.check()?;
        let stat = self.producer.layout.zk.exists(self.path()).await?;
        Ok(stat.map_or(0, |stat| usize::try_from(stat.num_children).unwrap_or(0)))
    }

    /// Waits until all puts are answered that were begun through this queue, in whatever task; Curator's `flushPuts`.
    ///
    /// # Errors
    /// [`Error::Framework`] when [ids](Self::idempotent_puts) that are not needed any more cannot be deleted; that goes on in the
    /// background.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn flush(&self) -> Result<(), Error> {
        self.producer.flush().await
    }

    /// Takes items: each is removed before it is handed out. Nothing is sent yet.
    pub fn auto_ack_consumer(&self) -> AutoAckConsumer {
        AutoAckConsumer::of_curator(
            self.producer.layout.clone(),
            self.producer.line.clone(),
            self.refresh_after,
        )
    }

    /// Consumes items under claims, which are nodes below `lock_path`: each is removed when it is acknowledged. Nothing is
    /// sent yet.
    pub fn consumer(&self, lock_path: impl Into<String>) -> Consumer {
        let mut layout = self.producer.layout.clone();
        let lock_path = layout.valid_path("consume", lock_path);
        Consumer::new(FeedDriver::new(layout, self.producer.line.clone(), self.refresh_after), lock_path)
    }

    /// One node for each list of items: how its name begins, and its data.
    fn nodes(
        &self,
        middle: &str,
        items: impl IntoIterator<Item = Vec<Bytes>>,
    ) -> Result<Vec<(String, Bytes)>, Error> {
        let base = format!("{}{middle}", self.producer.layout.kind.tag());
        let node = |items: Vec<Bytes>| Some((base.clone(), codec::encode(&items)?));
        items.into_iter().map(|items| node(items).ok_or(Error::TooLong)).collect()
    }

    async fn put_as(&self, key: &str, items: impl IntoIterator<Item = Vec<Bytes>>) -> Result<(), Error> {
        self.producer.put(&self.nodes(key, items)?).await
    }

    async fn try_put_as(&self, key: &str, item: Bytes) -> Result<bool, Error> {
        self.producer.try_put(&self.nodes(key, [vec![item]])?).await
    }
}

impl<K: KeyedQueue> CuratorQueue<K> {
    /// Puts an item with its key: a [priority](Priority), a [time](Delay), or an [id](Id).
    ///
    /// # Errors
    /// As [`DistributedQueue::put`].
    ///
    /// # Cancel safety
    /// Once polled, the item may be in the queue.
    pub async fn put(&self, item: impl ToData, key: K::Key<'_>) -> Result<(), Error> {
        self.put_as(&K::in_name(key), [vec![encode(self.path(), &item)?]]).await
    }

    /// Puts an item with its key if there is room: whether there was. Never waits for room.
    ///
    /// # Errors
    /// As [`DistributedQueue::put`].
    ///
    /// # Cancel safety
    /// Once polled, the item may be in the queue.
    pub async fn try_put(&self, item: impl ToData, key: K::Key<'_>) -> Result<bool, Error> {
        self.try_put_as(&K::in_name(key), encode(self.path(), &item)?).await
    }

    /// Puts several items as one: see [`DistributedQueue::put_multi`].
    ///
    /// # Errors
    /// As [`DistributedQueue::put`].
    ///
    /// # Cancel safety
    /// Once polled, the items may be in the queue.
    pub async fn put_multi(
        &self,
        items: impl IntoIterator<Item = impl ToData>,
        key: K::Key<'_>,
    ) -> Result<(), Error> {
        self.put_as(&K::in_name(key), [encode_all(self.path(), items)?]).await
    }
}

impl CuratorQueue<Plain> {
    /// Puts an item at the end. Of a [bounded](Self::max_items) queue it waits for room, unless it
    /// [is refused](Self::when_full).
    ///
    /// # Errors
    /// [`Error::Full`]; [`Error::Framework`]; `TooLarge` when servers would not accept it, before anything is sent;
    /// [`may_have_applied`](zk_curator::Error::may_have_applied) when the answer was lost.
    ///
    /// # Cancel safety
    /// Once polled, the item may be in the queue.
    pub async fn put(&self, item: impl ToData) -> Result<(), Error> {
        self.put_as("", [vec![encode(self.path(), &item)?]]).await
    }

    /// Puts an item at the end if there is room: whether there was. Never waits for room.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    ///
    /// # Cancel safety
    /// Once polled, the item may be in the queue.
    pub async fn try_put(&self, item: impl ToData) -> Result<bool, Error> {
        self.try_put_as("", encode(self.path(), &item)?).await
    }

    /// Puts several items as one: in one node, handed out together; Curator's `putMulti`.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    ///
    /// # Cancel safety
    /// Once polled, the items may be in the queue.
    pub async fn put_multi(&self, items: impl IntoIterator<Item = impl ToData>) -> Result<(), Error> {
        self.put_as("", [encode_all(self.path(), items)?]).await
    }

    /// Puts several items, each as its own, in this order: all or none. One request.
    ///
    /// # Errors
    /// As [`put`](Self::put); `TooLarge` when they are too large together.
    ///
    /// # Cancel safety
    /// Once polled, the items may be in the queue.
    pub async fn put_all(&self, items: impl IntoIterator<Item = impl ToData>) -> Result<(), Error> {
        self.put_as("", encode_all(self.path(), items)?.into_iter().map(|item| vec![item])).await
    }
}

impl CuratorQueue<Priority> {
    /// After how many items a consumer looks whether new ones have come, from 1. Default: 1.
    #[must_use]
    pub fn min_items_before_refresh(mut self, items: u32) -> Self {
        self.refresh_after = items;
        self
    }
}

impl CuratorQueue<Delay> {
    /// Sets the source of the time. Default: the clock of the system.
    #[must_use]
    pub fn clock(mut self, clock: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        self.producer.layout.clock = Arc::new(clock);
        self
    }
}

impl CuratorQueue<Id> {
    /// Removes the items with an id: how many there were. Those that are being consumed too; who consumes one of them cannot
    /// acknowledge it any more. An item that is [put back](super::Delivery::requeue) meanwhile is another one, and may be missed.
    ///
    /// # Errors
    /// As every delete of the framework, and [`may_have_applied`](zk_curator::Error::may_have_applied) when the answer was
    /// lost, and an item is gone since: either we have removed it, or it was worked off. Others may be removed.
    ///
    /// # Cancel safety
    /// Some may be removed.
    pub async fn remove(&self, id: &str) -> Result<usize, Error> {
        let layout = &self.producer.layout;
        layout.check()?;
        let wanted = name::id(id);
        let names = match layout.zk.children(self.path()).await {
            Err(error) if error.kind() == ErrorKind::NoNode => return Ok(0),
            names => names?,
        };
        let with_id = |name: &&String| layout.kind.id_of(name) == wanted.get(1..wanted.len() - 1);
        let deletes = names.iter().filter(with_id).map(|name| remove(layout.zk.clone(), layout.item(name)));
        let mut removed = 0;
        for is_removed in fan_out(REMOVED_AT_ONCE, deletes).await {
            removed += usize::from(is_removed?);
        }
        Ok(removed)
    }
}

/// Removes an item: not `true` if somebody else has. Not by a plain delete, for which one that is gone is as good as deleted.
async fn remove(zk: CuratorFramework, path: String) -> zk_curator::Result<bool> {
    loop {
        let Err(error) = zk.transaction().delete(&path).await else { return Ok(true) };
        if matches!(error.kind(), ErrorKind::TransactionFailed { code: ErrorCode::NoNode, .. }) {
            return Ok(false);
        } else if !error.may_have_applied() {
            return Err(error);
        }
        let there = zk.exists(&path).linearizable().await.map_err(|_| error.clone())?;
        if there.is_none() {
            return Err(error);
        }
        // Not applied, and it cannot be any more.
    }
}

impl<K> Clone for CuratorQueue<K> {
    fn clone(&self) -> Self {
        Self { producer: self.producer.clone(), refresh_after: self.refresh_after, kind: PhantomData }
    }
}

impl<K> fmt::Debug for CuratorQueue<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CuratorQueue").field("layout", &self.producer.layout).finish_non_exhaustive()
    }
}
