use std::sync::Arc;

use bytes::Bytes;
use zk_curator::CuratorFramework;
use zk_curator::path::ZPath;
use zk_curator::value::ToData;

use super::consumer::LockingConsumer;
use super::delivery::Home;
use crate::path::child;
use crate::queue::buckets::{self, Buckets};
use crate::queue::core::name::{ItemMeta, Kind};
use crate::queue::driver::FeedDriver;
use crate::queue::error::Error;
use crate::queue::layout::{QueueLayout, at_least_one};
use crate::queue::put::Producer;
use crate::queue::redelivery::MOST_DELIVERIES;
use crate::queue::value::{encode, encode_all};

/// A queue whose items are taken under claims: an item leaves it when it is acknowledged, and is back at its place when
/// its consumer lets go of it or dies. Each is put exactly once, in a line of those that wait there is no herd, every
/// delivery carries its number, and an item that fails too often is put aside.
///
/// A queue for the purposes of kazoo's `LockingQueue`, with a layout of its own.
///
/// # Layout
/// ```text
/// /queue
///   ├─ items                                         persistent, made on first use; data: `buckets 1`
///   │    └─ b-100000000|0000000003                      persistent, sequential: a bucket, for items of one priority
///   │         └─ item-100000000|<id>|0|0000000007           persistent, sequential; data: the item
///   │              └─ claim                                  ephemeral: its consumer's; data: a GUID
///   ├─ ids                                           persistent: puts under way
///   │    ├─ _c_<uuid>-producer-0000000000                ephemeral, sequential: one who puts
///   │    └─ put-<count>-<producer>                       persistent
///   ├─ _r_<uuid>                                     ephemeral: a receipt of a consumer that settles items
///   ├─ line                                          container: those that wait for an item
///   │    └─ _c_<uuid>-wait-0000000003                    ephemeral, sequential
///   └─ dead                                          a queue like this one: what was put aside; data: how often it
///                                                    was delivered, why it was rejected, and the item
/// ```
/// A bucket takes [4,096 items](Self::bucket_size), then it is closed and the next one opened; empty ones are deleted by
/// consumers. Items directly below `items` were put by an earlier version of this crate, and come first; a queue whose `items`
/// have other data is [used without buckets](Self::upgrade_layout).
///
/// The name of an item has its priority, as Curator writes it; an id, which it keeps as long as it is anywhere; and how
/// often it was claimed before it came to this place. The server counts how often it was claimed there: that is how
/// many children its node has had.
///
/// # Protocol
/// 1. Put: in one transaction, create a node with an id, as of [`FifoQueue`](crate::queue::FifoQueue), make sure that the bucket is
///    open, and create the item. A full bucket is closed in one transaction that creates the next.
/// 2. Take: create the claim and read the item, in one flight. If another consumer has claimed it, read which of the
///    next items are free, and claim the first of them after a short random pause. One that is back is tried before
///    those behind it. An item that was claimed before is written again, under the claim: its version tells its consumers apart.
/// 3. Acknowledge: in one [certain](zk_curator::certain) transaction, make sure of the claim, delete it, delete the item at
///    its version. Back to the end, or aside: the same, and create it there.
/// 4. Wait for an item: get into the line. Only its first watches the items and the claims of others, and leaves
///    the line with the first item that it claims, which wakes the next. It watches 64 claims, and reads more than those
///    every second.
///
/// Taking an item and acknowledging it are three requests and two flights; with many consumers one or two requests more. A
/// redelivery is one request and one flight more.
///
/// # Guarantees
/// * A put that succeeds has put its item once. One that fails says whether it may have.
/// * Each item is handed out at least once, and not to two at a time as long as the sessions of both live. It is
///   acknowledged, put back or put aside by one of those who had it, and by nobody who has lost its claim.
/// * Of items with the same priority those put earlier are handed out earlier; what comes back keeps its place, and is
///   handed out before those behind it to a consumer that looks after it has heard of that.
/// * Nothing of a claim stays anywhere when its item is gone: a claim is a child of the item.
/// * No name is given twice, also if somebody deletes the queue and it is created again: a consumer with an item of the
///   first one has lost its claim. If somebody deletes a claim by hand, its consumer can acknowledge the item until it is
///   delivered to another one, and gets [`Error::Lost`] from then on.
///
/// # Assumptions
/// Only users of this queue write here. Nobody holds more items than a few: those who look for one read which are claimed.
///
/// # Access control
/// New nodes get the ACL of the framework's [provider](zk_curator::acl::AclProvider). Everybody who uses the queue may read all of
/// it, and has these rights:
///
/// | node | producers | consumers |
/// |---|---|---|
/// | `/queue` | – | create, delete: receipts |
/// | `items` | create, write: buckets | delete: buckets; as producers, to requeue |
/// | a bucket | create: items; write: to close it | delete: items; as producers, to requeue |
/// | an item | – | create, delete: claims; write: redeliveries |
/// | `ids` | create, delete, write | – |
/// | `line` | – | create, delete |
/// | `dead` | – | create |
/// | `dead/items` and its buckets | – | as producers |
///
/// The first user of the queue creates `items`, `ids` and `line`, which takes the right to create children of `/queue`; or an
/// operator
/// has created them before, `items` with the data `buckets 1`. A right that is missing is an [`Error::Framework`] with
/// `NoAuth` and a path: without that to create children of `/queue`, an acknowledgement fails with the path of the receipt,
/// `/queue/_r_<uuid>`, and so does [`next`](LockingConsumer::next) with an item that is handed out again.
///
/// # Connection loss
/// * SUSPENDED: what was handed out is held on to, operations wait for a connection.
/// * LOST: the claims are gone with the session, [`lost`](super::LockingDelivery::lost) resolves, and others get the items.
///
/// # Cancel safety
/// A put that is dropped may be in the queue.
///
/// # Example
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = zk_curator_testing::TestServer::start().await;
/// # let zk = zk_curator::CuratorFramework::builder().connect_string(server.connect_string()).build()?;
/// # zk.start().await?;
/// use zk_curator_recipes::queue::LockingQueue;
///
/// let queue = LockingQueue::new(&zk, "/queue").max_deliveries(2);
/// queue.put("one").await?;
/// queue.put("two").await?;
///
/// let mut consumer = queue.consumer();
/// let one = consumer.next().await?;
/// drop(one); // The consumer has failed, or crashed.
/// let one = consumer.next().await?;
/// assert_eq!((&one.data()[..], one.attempt()), (&b"one"[..], 2));
/// one.ack().await?;
///
/// let two = consumer.next().await?;
/// two.reject("not a number").await?;
/// let dead = queue.dead_letters().consumer().next().await?;
/// assert_eq!((dead.data(), &dead.rejection().unwrap().why[..]), (&"two".into(), "not a number"));
/// # drop(consumer);
/// # zk.close().await?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct LockingQueue {
    zk: CuratorFramework,
    items: Arc<Buckets>,
    producer: Producer,
    line: ZPath,
    dead: Arc<Buckets>,
    refresh_after: u32,
    max_deliveries: Option<u32>,
}

impl LockingQueue {
    /// The queue at a path. Nothing is sent. An invalid path is refused by the first operation.
    pub fn new(zk: &CuratorFramework, path: impl Into<String>) -> Self {
        let path = path.into();
        let layout = |items| QueueLayout::below(zk, &path, child(&path, items), Kind::Locking);
        let mut items = layout("items");
        let line = items.valid_path("queue", child(&path, "line"));
        let (items, dead) = (Arc::new(Buckets::new(items)), Arc::new(Buckets::new(layout("dead/items"))));
        let mut producer = Producer::in_buckets(&items);
        producer.with_ids(child(&path, "ids"));
        Self {
            zk: zk.clone(),
            items,
            producer,
            line,
            dead,
            refresh_after: u32::MAX,
            max_deliveries: Some(MOST_DELIVERIES),
        }
    }

    /// Consumers look for items that were put with a priority meanwhile, and come before those that they have listed:
    /// with every item that they take, which costs one request more and no flight. Default: they look when they have worked through
    /// their list, of 10,000 items at most.
    #[must_use]
    pub const fn prioritized(mut self) -> Self {
        self.refresh_after = 1;
        self
    }

    /// Sets the most claims of an item, from 1; after that it is [put aside](Self::dead_letters), by the consumer that
    /// comes upon it. Default: 20, and no limit for a queue of dead letters.
    ///
    /// Of the crash of a consumer all items are counted that it had claimed, also those that it had
    /// [claimed ahead](LockingConsumer::prefetch).
    #[must_use]
    pub fn max_deliveries(mut self, limit: u32) -> Self {
        self.producer.layout.note(at_least_one("max_deliveries", limit));
        self.max_deliveries = Some(limit);
        self
    }

    /// The number of items that are put into a [bucket](Self#layout), from 1. Consumers list one bucket at a time, so it bounds
    /// the size of answers: 4,096 names are 0.3 MB. Queues with different sizes at one path work together. It applies to clones
    /// of this queue as well. Default: 4,096.
    #[must_use]
    pub fn bucket_size(mut self, items: u32) -> Self {
        self.producer.layout.set_bucket_size(items);
        self.dead.layout.clone().set_bucket_size(items);
        self
    }

    /// Puts items into buckets also where earlier versions of this crate have put items without: see [Layout](Self#layout).
    /// Those that do not know of buckets find no items any more, and report each bucket as foreign. So it is for when all
    /// clients know of them. Default: such a queue keeps its layout.
    #[must_use]
    pub fn upgrade_layout(self) -> Self {
        self.producer.layout.upgrade_layout();
        self.dead.layout.upgrade_layout();
        self
    }

    /// Items are claimed however often it takes: nothing is put aside but what is [rejected](super::LockingDelivery::reject).
    #[must_use]
    pub const fn unlimited_deliveries(mut self) -> Self {
        self.max_deliveries = None;
        self
    }

    /// Puts an item at the end, once.
    ///
    /// # Errors
    /// [`Error::Framework`]; `TooLarge` when servers would not accept it, before anything is sent;
    /// [`may_have_applied`](zk_curator::Error::may_have_applied) when nobody could tell for longer than the retry policy
    /// allows.
    ///
    /// # Cancel safety
    /// Once polled, the item may be in the queue.
    pub async fn put(&self, item: impl ToData) -> Result<(), Error> {
        self.put_with_priority(item, 0).await
    }

    /// Puts an item behind all with the same priority or a lower number, once: see [`prioritized`](Self::prioritized).
    ///
    /// # Errors
    /// As [`put`](Self::put).
    ///
    /// # Cancel safety
    /// Once polled, the item may be in the queue.
    pub async fn put_with_priority(&self, item: impl ToData, priority: i32) -> Result<(), Error> {
        self.producer.put(&[self.node(encode(self.items.layout.parent(), &item)?, priority)]).await
    }

    /// Puts several items at the end, in this order: all or none, and once. One flight.
    ///
    /// # Errors
    /// As [`put`](Self::put); `TooLarge` when they are too large together.
    ///
    /// # Cancel safety
    /// Once polled, the items may be in the queue.
    pub async fn put_all(&self, items: impl IntoIterator<Item = impl ToData>) -> Result<(), Error> {
        let items = encode_all(self.items.layout.parent(), items)?;
        let nodes: Vec<_> = items.into_iter().map(|item| self.node(item, 0)).collect();
        self.producer.put(&nodes).await
    }

    /// Waits until all puts are answered, and deletes the ids that are not needed any more.
    ///
    /// # Errors
    /// [`Error::Framework`] when an id cannot be deleted; that goes on in the background.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn flush(&self) -> Result<(), Error> {
        self.producer.flush().await
    }

    /// Returns the number of items in the queue, claimed or not. A queue that nobody has used yet is empty. Two requests, and one more
    /// for each bucket after the first; items that come or go meanwhile may be counted or not.
    ///
    /// # Errors
    /// [`Error::Framework`] as every read of the framework.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn count(&self) -> Result<usize, Error> {
        self.producer.layout.check()?;
        buckets::count(&self.producer.layout).await
    }

    /// Takes items. Nothing is sent yet.
    pub fn consumer(&self) -> LockingConsumer {
        let feed = FeedDriver::new(self.producer.layout.clone(), Some(self.line.clone()), self.refresh_after);
        LockingConsumer::new(feed, Home::new(&self.items, &self.dead), self.max_deliveries)
    }

    /// The dead letters: a queue as this one, whose items are taken, acknowledged and put back in the same way. They keep
    /// their ids; their deliveries are counted from 1 again, without a limit. [`rejection`](super::Message::rejection) says how often they
    /// were delivered before, why they were rejected, and when.
    #[must_use]
    pub fn dead_letters(&self) -> Self {
        let mut dead = Self::new(&self.zk, self.dead.layout.parent()).unlimited_deliveries();
        // With the settings of this queue.
        (dead.items, dead.producer) = (Arc::clone(&self.dead), dead.producer.of_buckets(&self.dead));
        dead
    }

    fn node(&self, item: Bytes, priority: i32) -> (String, Bytes) {
        let QueueLayout { zk, kind, .. } = &self.producer.layout;
        let id = zk.new_guid();
        (format!("{}{}", kind.tag(), ItemMeta { priority, id: &id, times: 0 }), item)
    }
}
