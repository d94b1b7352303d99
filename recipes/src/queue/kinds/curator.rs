use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use zk_curator::internal::{ResolvedOutcome, millis, resolve};
use zk_curator::op::fan_out;
use zk_curator::value::ToData;
use zk_curator::{CuratorFramework, ErrorCode, ErrorKind};

use crate::queue::consume::auto_ack::AutoAckConsumer;
use crate::queue::consume::consumer::Consumer;
use crate::queue::error::Error;
use crate::queue::feed::driver::FeedDriver;
use crate::queue::kinds::lock_path::LockPathConsumer;
use crate::queue::produce::producer::{OnFull, Producer};
use crate::queue::wire::codec;
use crate::queue::wire::layout::QueueLayout;
use crate::queue::wire::name::{self, NamingRules};
use crate::queue::wire::value::{encode, encode_all};

/// The maximum number of items that are removed by their id at a time.
const REMOVED_AT_ONCE: usize = 64;

/// One of Apache Curator's queues, with its layout and its bytes. The kinds differ in how items are
/// put.
///
/// * [`DistributedQueue`]: first in, first out;
/// * [`DistributedPriorityQueue`]: the lowest priority number first;
/// * [`DistributedDelayQueue`]: no item before its time;
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
/// A queue has one kind. The data of a node are `00010001`, then for each item `01`, its length in
/// four bytes, and its bytes, and finally `02`.
///
/// # Taking items
/// An [`AutoAckConsumer`] delivers at most once, like Curator's queues without a lock path. A
/// [`LockPathConsumer`] delivers at least once, like those with a lock path. All consumers of a
/// queue must be of the same kind.
///
/// A queue must not be deleted while it is in use. A queue that is created again begins with the
/// same names, so a consumer that has prefetched or claimed an item may remove a new item instead.
/// Stop an [`AutoAckConsumer`] first. A [`LockPathConsumer`] cannot remove an item once its lock
/// path is deleted. ([`FifoQueue`](crate::queue::FifoQueue) and
/// [`SimpleDistributedQueue`](crate::queue::SimpleDistributedQueue) may be deleted at any time.)
///
/// # Puts
/// A put returns when its item is in the queue. Puts are sent when they are first polled;
/// concurrent puts share a round trip. After a lost response a put fails with
/// [`may_have_applied`](zk_curator::Error::may_have_applied): a search for the item would prove
/// nothing, because the item may have been consumed. A queue [with ids](Self::idempotent_puts)
/// determines the outcome instead. (Curator puts again, and the item may exist twice.)
///
/// # Connection loss
/// * SUSPENDED: puts wait for a connection, like all operations of the framework; consumers keep
///   waiting.
/// * LOST: consumers continue in the next session (CURATOR-623).
///
/// # Cancel safety
/// If a put is dropped after it was polled, its item may be in the queue.
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
/// The lowest priority number first, and first in, first out among equal priorities: Apache
/// Curator's `DistributedPriorityQueue`. See [`CuratorQueue`].
///
/// A consumer checks for new items after every
/// [`min_items_before_refresh`](CuratorQueue::min_items_before_refresh) items. A check costs one
/// request, but no additional round trip. The queue is listed again only if there are new items.
pub type DistributedPriorityQueue = CuratorQueue<Priority>;
/// No item before its time: Apache Curator's `DistributedDelayQueue`. See [`CuratorQueue`].
///
/// The clocks of producers and consumers must be synchronised. A consumer that waits for an item
/// notices a change of its clock within one second.
pub type DistributedDelayQueue = CuratorQueue<Delay>;
/// First in, first out, and items can be removed by an id: Apache Curator's `DistributedIdQueue`.
/// See [`CuratorQueue`].
pub type DistributedIdQueue = CuratorQueue<Id>;

/// The kind of a [`DistributedQueue`].
#[derive(Debug)]
#[non_exhaustive]
pub struct Plain;
/// The kind of a [`DistributedPriorityQueue`]: items are put with a priority. A lower number is
/// delivered earlier.
#[derive(Debug)]
#[non_exhaustive]
pub struct Priority;
/// The kind of a [`DistributedDelayQueue`]: items are put with a time. They are delivered at this
/// time or later.
#[derive(Debug)]
#[non_exhaustive]
pub struct Delay;
/// The kind of a [`DistributedIdQueue`]: items are put with an id. Several items may have the same
/// id. `/` and `|` in it become `_`. An id that cannot be part of a path is refused with
/// `InvalidPath`.
#[derive(Debug)]
#[non_exhaustive]
pub struct Id;

/// One of Curator's kinds of queues.
trait CuratorKind {
    const KIND: NamingRules;
}

impl CuratorKind for Plain {
    const KIND: NamingRules = NamingRules::Plain;
}

impl CuratorKind for Priority {
    const KIND: NamingRules = NamingRules::Priority;
}

impl CuratorKind for Delay {
    const KIND: NamingRules = NamingRules::Delay;
}

impl CuratorKind for Id {
    const KIND: NamingRules = NamingRules::Id;
}

/// A kind of queue whose items are put with a key: [`Priority`], [`Delay`], or [`Id`].
#[expect(private_bounds, reason = "sealed: there are no other kinds in Curator")]
pub trait KeyedQueue: CuratorKind {
    /// The key of an item.
    type Key: Send;

    /// Writes a key in the form that names contain.
    #[doc(hidden)]
    fn in_name(key: Self::Key) -> String;
}

impl KeyedQueue for Priority {
    type Key = i32;

    fn in_name(priority: i32) -> String {
        name::priority(priority)
    }
}

impl KeyedQueue for Delay {
    type Key = SystemTime;

    fn in_name(due: SystemTime) -> String {
        // A time before 1970 is written as 1970: both are due now.
        name::due(millis(due.duration_since(UNIX_EPOCH).unwrap_or_default()).cast_unsigned())
    }
}

impl KeyedQueue for Id {
    type Key = String;

    fn in_name(id: String) -> String {
        name::id(&id)
    }
}

#[expect(private_bounds, reason = "sealed: there are no other kinds in Curator")]
impl<K: CuratorKind> CuratorQueue<K> {
    /// Returns the queue at a path. Nothing is sent. The first operation reports an invalid path.
    pub fn new(zk: &CuratorFramework, path: impl Into<String>) -> Self {
        let layout = QueueLayout::new(zk, path.into(), K::KIND);
        Self { producer: Producer::new(layout), refresh_after: 1, kind: PhantomData }
    }
}

impl<K> CuratorQueue<K> {
    /// Sets the maximum number of nodes in the queue, from 1. When it is reached,
    /// [`put`](DistributedQueue::put) waits for room, or [is refused](Self::on_full). Default: no
    /// limit.
    ///
    /// The limit applies only to producers that set one. Producers without a limit, and those in
    /// Java, may exceed it (CURATOR-254). With a limit, a put also writes the parent of the items,
    /// and starts again if another producer was faster.
    ///
    /// Without a limit a queue can become too long for its consumers: they list all names, and a
    /// response may have at most [4 MiB](zk_curator::CuratorFrameworkBuilder::max_response). That
    /// is 209,000 nodes of a [`DistributedQueue`], 144,000 with priorities, 127,000 with times, and
    /// with ids of 36 bytes 72,000. A longer queue fails with `ResponseTooLarge`.
    /// [`FifoQueue`](crate::queue::FifoQueue) and [`LockingQueue`](crate::queue::LockingQueue) have
    /// no such bound.
    #[must_use]
    pub fn max_items(mut self, limit: u32) -> Self {
        self.producer.bounded(limit);
        self
    }

    /// The behaviour of a put while the queue is [full](Self::max_items). Default:
    /// [`OnFull::Wait`].
    #[must_use]
    pub fn on_full(mut self, on_full: OnFull) -> Self {
        self.producer.on_full = on_full;
        self
    }

    /// Puts every item **exactly once**, even if the response is lost. One transaction creates the
    /// item and a node below `path`, which shows after a lost response whether the transaction was
    /// applied. The next put, or [`flush`](Self::flush), deletes the node. Other producers delete
    /// the nodes of crashed producers after ten minutes.
    ///
    /// ```text
    /// <path>                                   persistent, made on first use
    ///   ├─ _c_<uuid>-producer-0000000000       ephemeral, sequential: a producer
    ///   └─ put-<count>-<producer>              persistent: a put under way
    /// ```
    #[must_use]
    pub fn idempotent_puts(mut self, path: impl Into<String>) -> Self {
        self.producer.with_ids(path);
        self
    }

    /// Lets consumers that wait for items form a line of ephemeral nodes below `path`, of which
    /// only the first watches the queue. Producers that wait for room in a
    /// [bounded](Self::max_items) queue do the same. Without a line, as in Apache Curator, every
    /// new item wakes all waiting consumers, and every removal wakes all waiting producers.
    #[must_use]
    pub fn fair_waiting(mut self, path: impl Into<String>) -> Self {
        self.producer.line = Some(self.producer.layout.other_path("fair waiting", path));
        self
    }

    /// Returns the path of the queue.
    #[must_use]
    pub fn path(&self) -> &str {
        self.producer.layout.path.as_str()
    }

    /// Returns the number of nodes in the queue; Curator's `getLastMessageCount`.
    ///
    /// # Errors
    /// Those of a read of the framework. A queue that does not exist yet is empty.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn count(&self) -> Result<usize, Error> {
        self.producer.layout.check()?;
        let stat = self.producer.layout.zk.exists(self.path()).await?;
        Ok(stat.map_or(0, |stat| usize::try_from(stat.num_children).unwrap_or(0)))
    }

    /// Waits until all puts that were started through this queue, in any task, are complete;
    /// Curator's `flushPuts`.
    ///
    /// # Errors
    /// [`Error::Framework`] if unneeded [ids](Self::idempotent_puts) cannot be deleted; the
    /// deletion continues in the background.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn flush(&self) -> Result<(), Error> {
        self.producer.flush().await
    }

    /// Returns a consumer that removes each item before it delivers it. Nothing is sent yet.
    pub fn auto_ack_consumer(&self) -> AutoAckConsumer {
        Consumer::of_curator(
            self.producer.layout.clone(),
            self.producer.line.clone(),
            self.refresh_after,
        )
    }

    /// Returns a consumer that claims items by nodes below `lock_path`, and removes each item when
    /// it is acknowledged. Nothing is sent yet.
    pub fn consumer(&self, lock_path: impl Into<String>) -> LockPathConsumer {
        let mut layout = self.producer.layout.clone();
        let lock_path = layout.other_path("consume", lock_path);
        Consumer::claiming(
            FeedDriver::new(layout, self.producer.line.clone(), self.refresh_after),
            lock_path,
        )
    }

    /// One node for each list of items: how its name begins, and its data.
    fn nodes(
        &self,
        middle: &str,
        items: impl IntoIterator<Item = Vec<Bytes>>,
    ) -> Result<Vec<(String, Bytes)>, Error> {
        let base = format!("{}{middle}", self.producer.layout.kind.tag());
        let node = |items: Vec<Bytes>| match codec::encode(&items) {
            Some(data) => Ok((base.clone(), data)),
            None => Err(Error::TooLong { path: self.producer.layout.path.clone() }),
        };
        items.into_iter().map(node).collect()
    }

    async fn put_as(
        &self,
        key: &str,
        items: impl IntoIterator<Item = Vec<Bytes>>,
    ) -> Result<(), Error> {
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
    pub async fn put(&self, item: impl ToData, key: impl Into<K::Key>) -> Result<(), Error> {
        self.put_as(&K::in_name(key.into()), [vec![encode(self.path(), &item)?]]).await
    }

    /// Puts an item with its key if there is room. Returns `false` if there is none. Never waits
    /// for room.
    ///
    /// # Errors
    /// As [`DistributedQueue::put`].
    ///
    /// # Cancel safety
    /// Once polled, the item may be in the queue.
    pub async fn try_put(&self, item: impl ToData, key: impl Into<K::Key>) -> Result<bool, Error> {
        self.try_put_as(&K::in_name(key.into()), encode(self.path(), &item)?).await
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
        key: impl Into<K::Key>,
    ) -> Result<(), Error> {
        self.put_as(&K::in_name(key.into()), [encode_all(self.path(), items)?]).await
    }
}

impl CuratorQueue<Plain> {
    /// Puts an item at the end. In a full [bounded](Self::max_items) queue it waits for room,
    /// unless it [is refused](Self::on_full).
    ///
    /// # Errors
    /// [`Error::Full`]. [`Error::Framework`]: `TooLarge`, before anything is sent, if servers would
    /// not accept the item; with [`may_have_applied`](zk_curator::Error::may_have_applied) if the
    /// response was lost.
    ///
    /// # Cancel safety
    /// Once polled, the item may be in the queue.
    pub async fn put(&self, item: impl ToData) -> Result<(), Error> {
        self.put_as("", [vec![encode(self.path(), &item)?]]).await
    }

    /// Puts an item at the end if there is room. Returns `false` if there is none. Never waits for
    /// room.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    ///
    /// # Cancel safety
    /// Once polled, the item may be in the queue.
    pub async fn try_put(&self, item: impl ToData) -> Result<bool, Error> {
        self.try_put_as("", encode(self.path(), &item)?).await
    }

    /// Puts several items in one node, so they are delivered together; Curator's `putMulti`.
    ///
    /// # Errors
    /// As [`put`](Self::put).
    ///
    /// # Cancel safety
    /// Once polled, the items may be in the queue.
    pub async fn put_multi(
        &self,
        items: impl IntoIterator<Item = impl ToData>,
    ) -> Result<(), Error> {
        self.put_as("", [encode_all(self.path(), items)?]).await
    }

    /// Puts several items in this order, each in a node of its own: all or none. Takes one request.
    ///
    /// # Errors
    /// As [`put`](Self::put); `TooLarge` if they are too large together.
    ///
    /// # Cancel safety
    /// Once polled, the items may be in the queue.
    pub async fn put_all(&self, items: impl IntoIterator<Item = impl ToData>) -> Result<(), Error> {
        self.put_as("", encode_all(self.path(), items)?.into_iter().map(|item| vec![item])).await
    }
}

impl CuratorQueue<Priority> {
    /// Sets the number of items after which a consumer checks for new ones, from 1. Default: 1.
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
    /// Removes the items with an id, and returns their number. This includes items that are being
    /// consumed; their consumers can no longer acknowledge them. An item that is
    /// [put back](crate::queue::Delivery::requeue) during the call is a new item, and may be
    /// missed.
    ///
    /// # Errors
    /// Those of a delete of the framework. With
    /// [`may_have_applied`](zk_curator::Error::may_have_applied) if a response was lost and the
    /// item no longer exists: either this call has removed it, or a consumer has processed it.
    /// Other items may have been removed.
    ///
    /// # Cancel safety
    /// Some items may be removed.
    pub async fn remove(&self, id: impl Into<String>) -> Result<usize, Error> {
        let layout = &self.producer.layout;
        layout.check()?;
        let wanted = name::id(&id.into());
        let names = match layout.zk.children(self.path()).await {
            Err(error) if error.kind() == ErrorKind::NoNode => return Ok(0),
            names => names?,
        };
        let with_id = |name: &&String| layout.kind.id_of(name) == wanted.get(1..wanted.len() - 1);
        let deletes =
            names.iter().filter(with_id).map(|name| remove(layout.zk.clone(), layout.item(name)));
        let mut removed = 0;
        for is_removed in fan_out(REMOVED_AT_ONCE, deletes).await {
            removed += usize::from(is_removed?);
        }
        Ok(removed)
    }
}

/// Removes an item. Returns `false` if another client has removed it. A plain delete would count a
/// missing node as deleted.
async fn remove(zk: CuratorFramework, path: String) -> zk_curator::Result<bool> {
    let look = async || {
        let there = zk.exists(&path).linearizable().await?;
        Ok(if there.is_some() { ResolvedOutcome::NotApplied } else { ResolvedOutcome::Unknown })
    };
    match resolve(|| zk.transaction().delete(&path), look).await {
        Ok(_) => Ok(true),
        Err(error) if error.code() == Some(ErrorCode::NoNode) => Ok(false),
        Err(error) => Err(error),
    }
}

impl<K> Clone for CuratorQueue<K> {
    fn clone(&self) -> Self {
        Self {
            producer: self.producer.clone(),
            refresh_after: self.refresh_after,
            kind: PhantomData,
        }
    }
}

impl<K> fmt::Debug for CuratorQueue<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CuratorQueue")
            .field("layout", &self.producer.layout)
            .finish_non_exhaustive()
    }
}
