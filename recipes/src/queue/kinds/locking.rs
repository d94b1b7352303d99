use std::sync::Arc;

use bytes::Bytes;
use zk_curator::CuratorFramework;
use zk_curator::path::ZPath;
use zk_curator::value::ToData;

use super::locking_delivery::Home;
use crate::path::child;
use crate::queue::consume::consumer::Consumer;
use crate::queue::consume::redelivery::MOST_DELIVERIES;
use crate::queue::error::Error;
use crate::queue::feed::driver::FeedDriver;
use crate::queue::kinds::locking_delivery::LockingConsumer;
use crate::queue::produce::buckets::{self, Buckets};
use crate::queue::produce::producer::Producer;
use crate::queue::wire::layout::QueueLayout;
use crate::queue::wire::name::{ItemMeta, NamingRules};
use crate::queue::wire::value::{encode, encode_all};

/// A queue whose items are claimed. An item leaves it when it is acknowledged, and returns to its
/// place when its consumer drops it or dies. Each item is put exactly once, and every delivery has
/// a number. Waiting consumers form a line, so a new item does not wake all of them. An item that
/// fails too often becomes a dead letter.
///
/// It has the purpose of kazoo's `LockingQueue`, but a different layout.
///
/// # Layout
/// ```text
/// /queue
///   ├─ items                                         persistent, made on first use; data: `buckets 1`
///   │    └─ b-100000000|0000000003                      persistent, sequential: a bucket, for items of one priority
///   │         └─ item-100000000|<id>|0|0000000007           persistent, sequential; data: the item
///   │              └─ claim                                  ephemeral: its consumer's; data: a GUID
///   ├─ ids                                           persistent: puts under way
///   │    ├─ _c_<uuid>-producer-0000000000                ephemeral, sequential: a producer
///   │    └─ put-<count>-<producer>                       persistent
///   ├─ _r_<uuid>                                     ephemeral: a receipt of a consumer that settles items
///   ├─ line                                          container: consumers that wait for an item
///   │    └─ _c_<uuid>-wait-0000000003                    ephemeral, sequential
///   └─ dead                                          a queue like this one: the dead letters; data: the number
///                                                    of deliveries, the reason of the rejection, and the item
/// ```
/// After [4,096 items](Self::bucket_size) a bucket is closed, and the next one is opened. Consumers
/// delete empty buckets.
///
/// The name of an item contains its priority, as Curator writes it, an id, which it keeps as long
/// as it exists, and the number of its deliveries before it came to this place. The server counts
/// the claims at this place, as the number of children that the node has had. Each delivery after
/// the first writes the item, so its version counts the redeliveries.
///
/// # Protocol
/// 1. Put: in one transaction, create a node with an id, as a
///    [`FifoQueue`](crate::queue::FifoQueue) does, check that the bucket is open, and create the
///    item. One transaction closes a full bucket and creates the next.
/// 2. Take: create the claim and read the item, in one round trip. If another consumer has claimed
///    it, read which of the next items are free, and claim the first of them after a short random
///    pause. An item that was returned is tried before those behind it. An item that was claimed
///    before is written again under the claim, so that its version distinguishes its consumers.
/// 3. Acknowledge: in one [certain](zk_curator::certain) transaction, check the claim, delete it,
///    and delete the item at its version. Put back or dead-letter: the same, and create the item
///    there.
/// 4. Wait for an item: enter the line. Only the first consumer in line watches the items and the
///    claims of other consumers. When it claims an item it leaves the line, which wakes the next.
///    It watches 64 claims, and reads the remaining ones every second.
///
/// Taking and acknowledging an item takes three requests and two round trips; with many consumers
/// one or two more requests. A redelivery takes one more request and one more round trip.
///
/// # Guarantees
/// * A successful put has put its item once. The error of a failed put says whether it may have
///   been applied.
/// * Each item is delivered at least once. Two consumers never have it at the same time while both
///   sessions are alive. Exactly one of its consumers acknowledges it, puts it back or dead-letters
///   it, and only while it has its claim.
/// * Items with the same priority are delivered in the order of their puts. A returned item keeps
///   its place: a consumer that knows of its return delivers it before the items behind it.
/// * No claim outlives its item, because a claim is a child of the item.
/// * No name is used twice, even if the queue is deleted and created again: a consumer with an item
///   of the old queue has lost its claim. If an operator deletes a claim, its consumer can
///   acknowledge the item until it is delivered to another consumer, and gets [`Error::Lost`] from
///   then on.
///
/// # Assumptions
/// Only users of this queue write below its path. Each consumer holds only a few items: consumers
/// that search for an item read which ones are claimed.
///
/// # Access control
/// New nodes get the ACL of the framework's [provider](zk_curator::acl::AclProvider). Every client
/// of the queue needs permission to read all of it, and these permissions:
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
/// The first client of the queue creates `items`, `ids` and `line`, for which it needs permission
/// to create children of `/queue`. Otherwise an operator must create them in advance, `items` with
/// the data `buckets 1`. If a permission is missing, an [`Error::Framework`] has the kind `NoAuth`
/// and a path. Without permission to create children of `/queue`, an acknowledgement fails with the
/// path of the receipt, `/queue/_r_<uuid>`, and so does [`next`](Consumer::next) for a redelivered
/// item.
///
/// # Connection loss
/// * SUSPENDED: delivered items are kept, operations wait for a connection.
/// * LOST: the claims end with the session, [`lost`](crate::queue::Delivery::lost) resolves, and
///   other consumers get the items.
///
/// # Cancel safety
/// The item of a dropped put may be in the queue.
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
    /// Returns the queue at a path. Nothing is sent. The first operation reports an invalid path.
    pub fn new(zk: &CuratorFramework, path: impl Into<String>) -> Self {
        let path = path.into();
        let layout =
            |items| QueueLayout::below(zk, &path, child(&path, items), NamingRules::Locking);
        let mut items = layout("items");
        let line = items.valid_path("queue", child(&path, "line"));
        let (items, dead) =
            (Arc::new(Buckets::new(items)), Arc::new(Buckets::new(layout("dead/items"))));
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

    /// Makes consumers check, before each item, whether an item with a better priority has arrived
    /// since their last listing. This costs one more request per item, but no additional round
    /// trip. Default: they check at the end of their list, of at most 10,000 items.
    #[must_use]
    pub const fn prioritized(mut self) -> Self {
        self.refresh_after = 1;
        self
    }

    /// Sets the maximum number of claims of an item, from 1. The next consumer that claims it makes
    /// it a [dead letter](Self::dead_letters) instead. Default: 20, and no limit for a queue of
    /// dead letters.
    ///
    /// The crash of a consumer counts for all items that it had claimed, including those that it
    /// had [prefetched](Consumer::prefetch).
    #[must_use]
    pub fn max_deliveries(mut self, limit: u32) -> Self {
        self.producer.layout.note_at_least_one("max_deliveries", limit);
        self.max_deliveries = Some(limit);
        self
    }

    /// Sets the number of items that are put into a [bucket](Self#layout), from 1. Consumers list
    /// one bucket at a time, so this bounds the size of responses: 4,096 names are 0.3 MB. Clients
    /// with different sizes can share a queue. The setting also applies to existing clones of this
    /// queue. Default: 4,096.
    #[must_use]
    pub fn bucket_size(mut self, items: u32) -> Self {
        self.producer.layout.set_bucket_size(items);
        self.dead.layout.clone().set_bucket_size(items);
        self
    }

    /// Redelivers items without a limit: an item becomes a dead letter only if it is
    /// [rejected](crate::queue::Delivery::reject).
    #[must_use]
    pub const fn unlimited_deliveries(mut self) -> Self {
        self.max_deliveries = None;
        self
    }

    /// Puts an item at the end, exactly once.
    ///
    /// # Errors
    /// [`Error::Framework`]: `TooLarge`, before anything is sent, if servers would not accept the
    /// item; with [`may_have_applied`](zk_curator::Error::may_have_applied) if the outcome could
    /// not be determined for as long as the retry policy allows.
    ///
    /// # Cancel safety
    /// Once polled, the item may be in the queue.
    pub async fn put(&self, item: impl ToData) -> Result<(), Error> {
        self.put_with_priority(item, 0).await
    }

    /// Puts an item behind all items with the same priority or a lower number, exactly once: see
    /// [`prioritized`](Self::prioritized).
    ///
    /// # Errors
    /// As [`put`](Self::put).
    ///
    /// # Cancel safety
    /// Once polled, the item may be in the queue.
    pub async fn put_with_priority(&self, item: impl ToData, priority: i32) -> Result<(), Error> {
        self.producer.put(&[self.node(encode(self.items.layout.parent(), &item)?, priority)]).await
    }

    /// Puts several items at the end, in this order: all or none, and exactly once. Takes one round
    /// trip.
    ///
    /// # Errors
    /// As [`put`](Self::put); `TooLarge` if they are too large together.
    ///
    /// # Cancel safety
    /// Once polled, the items may be in the queue.
    pub async fn put_all(&self, items: impl IntoIterator<Item = impl ToData>) -> Result<(), Error> {
        let items = encode_all(self.items.layout.parent(), items)?;
        let nodes: Vec<_> = items.into_iter().map(|item| self.node(item, 0)).collect();
        self.producer.put(&nodes).await
    }

    /// Waits until all puts are complete, and deletes the ids that are no longer needed.
    ///
    /// # Errors
    /// [`Error::Framework`] if an id cannot be deleted; the deletion continues in the background.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn flush(&self) -> Result<(), Error> {
        self.producer.flush().await
    }

    /// Returns the number of items in the queue, claimed or not. A queue that does not exist yet is
    /// empty. Takes two requests, and one more for each bucket after the first. Items that are put
    /// or removed during the count may be counted or not.
    ///
    /// # Errors
    /// [`Error::Framework`] as for a read of the framework.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn count(&self) -> Result<usize, Error> {
        self.producer.layout.check()?;
        buckets::count(&self.producer.layout).await
    }

    /// Returns a consumer of the items. Nothing is sent yet.
    pub fn consumer(&self) -> LockingConsumer {
        let feed = FeedDriver::new(
            self.producer.layout.clone(),
            Some(self.line.clone()),
            self.refresh_after,
        );
        Consumer::locking(feed, Home::new(&self.items, &self.dead), self.max_deliveries)
    }

    /// Returns the queue of the dead letters, whose items are taken, acknowledged and put back in
    /// the same way. They keep their ids. Their deliveries are counted from 1 again, without a
    /// limit. [`rejection`](crate::queue::Message::rejection) returns the number of their earlier
    /// deliveries, and the reason and the time of their rejection.
    #[must_use]
    pub fn dead_letters(&self) -> Self {
        let mut dead = Self::new(&self.zk, self.dead.layout.parent()).unlimited_deliveries();
        // With the settings of this queue.
        (dead.items, dead.producer) =
            (Arc::clone(&self.dead), dead.producer.of_buckets(&self.dead));
        dead
    }

    fn node(&self, item: Bytes, priority: i32) -> (String, Bytes) {
        let QueueLayout { zk, kind, .. } = &self.producer.layout;
        let id = zk.new_guid();
        (format!("{}{}", kind.tag(), ItemMeta { priority, id: &id, times: 0 }), item)
    }
}
