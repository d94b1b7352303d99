use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::Mutex;
use zk_curator::internal::{ResolvedOutcome, protected_name, resolve};
use zk_curator::path::ZPath;
use zk_curator::value::ToData;
use zk_curator::{CreateMode, CuratorFramework, ErrorCode, ErrorKind, OwnedNode};

use crate::path::child;
use crate::queue::consume::auto_ack::AutoAckConsumer;
use crate::queue::consume::consumer::Consumer;
use crate::queue::error::Error;
use crate::queue::kinds::simple::SharedConsumers;
use crate::queue::produce::buckets::{Buckets, PutTarget};
use crate::queue::produce::producer::{Producer, SMALL};
use crate::queue::produce::unconfirmed::Unconfirmed;
use crate::queue::wire::layout::QueueLayout;
use crate::queue::wire::name::NamingRules;
use crate::queue::wire::value::encode;

/// The end of the name of a producer that puts in two phases, before its number.
const PRODUCER: &str = "producer-";

/// A queue of byte strings: first in, first out. Each item is put exactly once and delivered at
/// most once.
///
/// # Layout
/// ```text
/// /queue                                 container; as all below, made on first use
///   ├─ items                             persistent; data: `buckets 1`
///   │    ├─ b-100000000|0000000003      persistent, sequential: a bucket, as of a LockingQueue
///   │    │    ├─ item-0000000007         persistent, sequential; data: the item
///   │    │    └─ _c_<uuid>-item-0000000008    the same, put in two phases
///   │    └─ _c_<uuid>-taker-0000000009   ephemeral, sequential: a consumer; data: the item that it has removed last
///   ├─ ids                               persistent: puts under way
///   │    ├─ _c_<uuid>-producer-0000000000     ephemeral, sequential: a producer
///   │    └─ put-<count>-<producer>       persistent
///   ├─ producers                         container: producers in two phases
///   │    └─ _c_<uuid>-producer-0000000000     ephemeral, sequential
///   └─ line                              container: consumers that wait for an item
///        └─ _c_<uuid>-wait-0000000003    ephemeral, sequential
/// ```
///
/// # Protocol
/// 1. Put: see [`PutMode`].
/// 2. Take the first: create a node of our own, list the queue, and read the nodes in the order of
///    their numbers, prefetching a few. In one transaction, delete the first item and write its
///    name into our own node. After a lost response that node shows whether the item is ours. As
///    long as the node exists, the queue was not re-created, so no listed name can belong to
///    another item. If another consumer was faster, continue with the next item.
/// 3. Wait for an item: enter the line. Only the first waiter in line watches the items. When it
///    takes an item it leaves the line, which wakes the next waiter. So a new item wakes at most
///    two waiters, regardless of their number.
///
/// # Guarantees
/// * A successful put has put its item once. The error of a failed put says whether it may have
///   been applied.
/// * An item is delivered at most once. It is always the first item that no other consumer has
///   taken. It is lost if its consumer crashes: use a [`LockingQueue`](crate::queue::LockingQueue)
///   for items that must not be lost.
/// * The items of a producer that waits for each put are taken in their order.
///
/// # Connection loss
/// * SUSPENDED: operations wait for a connection.
/// * LOST: waiters enter the line again. If the response to a removal was lost with the
///   session, the outcome cannot be known: [`Error::Unknown`].
///
/// # Cancel safety
/// If a dropped [`take`](Self::take) or [`poll`](Self::poll) has already removed an item, the next
/// call on this queue or a clone returns it. So `tokio::time::timeout` is a safe time limit. The
/// item of a dropped put may be in the queue.
///
/// # Example
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = zk_curator_testing::TestServer::start().await;
/// # let zk = zk_curator::CuratorFramework::builder().connect_string(server.connect_string()).build()?;
/// # zk.start().await?;
/// use zk_curator_recipes::queue::FifoQueue;
///
/// let queue = FifoQueue::new(&zk, "/queue");
/// queue.put("one").await?;
/// queue.put("two").await?;
/// assert_eq!(queue.poll().await?.unwrap(), "one");
/// assert_eq!(queue.take().await?, "two");
/// assert_eq!(queue.poll().await?, None);
/// # zk.close().await?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct FifoQueue {
    buckets: Arc<Buckets>,
    producer: Producer,
    put_mode: PutMode,
    phases: Arc<Phases>,
    policy: OnUnconfirmed,
    consumers: SharedConsumers,
}

/// The protocol that puts an item into a [`FifoQueue`] exactly once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum PutMode {
    /// One transaction creates the item and a node with an id. After a lost response it is sent
    /// again with the same id; `NodeExists` then proves that it was applied. Takes one round trip.
    /// The next put deletes the id. Other producers delete the ids of crashed producers after ten
    /// minutes. If the session ends before the response is known, and ids are deleted before this
    /// producer checks its id, the put fails with
    /// [`may_have_applied`](zk_curator::Error::may_have_applied).
    #[default]
    Transaction,
    /// The producer creates the item empty, with a unique name. When it knows that the item exists,
    /// it writes the data; from then on the item can be consumed. Takes two round trips. Consumers
    /// delete empty items of crashed producers. If the session ends before the response to the
    /// second step is known, the put fails with
    /// [`may_have_applied`](zk_curator::Error::may_have_applied).
    TwoPhase,
}

/// The policy of consumers for an item that is being put in [two phases](PutMode::TwoPhase) and is
/// not written yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum OnUnconfirmed {
    /// Wait for it: items are taken strictly in the order in which their nodes were created.
    #[default]
    Wait,
    /// Take the items behind it. The item is taken once it is written, before later items of its
    /// producer. All consumers of a queue should have the same policy: a consumer behind one that
    /// [waits](Self::Wait) waits as well.
    Skip,
}

/// For puts in two phases.
#[derive(Debug)]
struct Phases {
    producers: ZPath,
    /// The node after whose end our items are collected.
    node: Mutex<Option<Arc<OwnedNode>>>,
}

impl FifoQueue {
    /// Returns the queue at a path. Nothing is sent. The first operation reports an invalid path.
    pub fn new(zk: &CuratorFramework, path: impl Into<String>) -> Self {
        let path = path.into();
        let mut layout = QueueLayout::below(zk, &path, child(&path, "items"), NamingRules::Fifo);
        let [line, producers] =
            ["line", "producers"].map(|name| layout.valid_path("queue", child(&path, name)));
        let policy = OnUnconfirmed::default();
        let consumers = SharedConsumers::new(|| consumer(&layout, Some(&line), &producers, policy));
        let buckets = Arc::new(Buckets::new(layout));
        let mut producer = Producer::in_buckets(&buckets);
        producer.line = Some(line);
        producer.with_ids(child(&path, "ids"));
        let phases = Arc::new(Phases { producers, node: Mutex::new(None) });
        Self { buckets, producer, put_mode: PutMode::default(), phases, policy, consumers }
    }

    /// Sets the policy of consumers for items that are put in [two phases](PutMode::TwoPhase) and
    /// not written yet. Default: [`OnUnconfirmed::Wait`].
    #[must_use]
    pub fn on_unconfirmed(mut self, policy: OnUnconfirmed) -> Self {
        self.policy = policy;
        self.consumers = SharedConsumers::new(|| self.auto_ack_consumer());
        self
    }

    /// Sets the protocol that puts items into the queue. Default: [`PutMode::Transaction`].
    #[must_use]
    pub const fn put_mode(mut self, mode: PutMode) -> Self {
        self.put_mode = mode;
        self
    }

    /// Sets the number of items that are put into a bucket, from 1, as for a
    /// [`LockingQueue`](crate::queue::LockingQueue::bucket_size). Default: 4,096.
    #[must_use]
    pub fn bucket_size(mut self, items: u32) -> Self {
        self.producer.layout.set_bucket_size(items);
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
        let item = encode(self.producer.layout.path.as_str(), &item)?;
        match self.put_mode {
            PutMode::Transaction => {
                self.producer.put(&[(NamingRules::Fifo.tag().to_owned(), item)]).await
            }
            PutMode::TwoPhase => self.put_in_two_phases(item).await,
        }
    }

    /// Takes the first item. Waits for one, without a time limit.
    ///
    /// # Errors
    /// As [`Consumer::next`].
    ///
    /// # Cancel safety
    /// An item that was removed in between is returned by the next call.
    pub async fn take(&self) -> Result<Bytes, Error> {
        self.producer.layout.check()?;
        self.consumers.take().await
    }

    /// Takes the first item if there is one. Never waits for other clients.
    ///
    /// # Errors
    /// As [`Consumer::next`].
    ///
    /// # Cancel safety
    /// An item that was removed in between is returned by the next call.
    pub async fn poll(&self) -> Result<Option<Bytes>, Error> {
        self.producer.layout.check()?;
        self.consumers.poll().await
    }

    /// Returns a consumer that removes each item before it delivers it. Nothing is sent yet.
    pub fn auto_ack_consumer(&self) -> AutoAckConsumer {
        let Producer { layout, line, .. } = &self.producer;
        consumer(layout, line.as_ref(), &self.phases.producers, self.policy)
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

    async fn put_in_two_phases(&self, item: Bytes) -> Result<(), Error> {
        self.producer.layout.check()?;
        let (buckets, layout) = (&self.buckets, &self.buckets.layout);
        let zk = &layout.zk;
        let item = layout.pack(item)?;
        if item.len() >= SMALL {
            // The second step, with other names of the same length: an item that is too large is
            // refused before the first.
            let target = PutTarget::as_long(&layout.path);
            let write = zk
                .transaction()
                .check(child(&self.phases.producers, &protected_name(PRODUCER)), None);
            let write = target.check(write);
            write
                .set_data_if(target.item(&protected_name(NamingRules::Fifo.tag())), item.clone(), 0)
                .check_size()?;
        }
        loop {
            let producer = self.phases.node(zk).await?;
            let target = buckets.target(0, 1).await?;
            let create = zk
                .create(target.item(NamingRules::Fifo.tag()))
                .mode(CreateMode::PersistentSequential);
            // If this future is dropped before the item is written, the item is deleted.
            let created = create.protected().data(producer.name().to_owned()).owned().await; // 1
            let node = match created {
                Err(error) if error.kind() == ErrorKind::NoNode => {
                    buckets.gone(0, &target).await;
                    continue;
                }
                created => created?,
            };
            buckets.put(0, &target, [node.path()]).await;
            let write = || {
                let write = target.check(producer.ownership().fenced().uncompressed());
                write.set_data_if(node.path(), item.clone(), 0) // 2
            };
            let is_written = async || {
                Ok(match zk.exists(node.path()).linearizable().await? {
                    Some(stat) if stat.version > 0 => ResolvedOutcome::Applied,
                    Some(_) if producer.is_ours() => ResolvedOutcome::NotApplied,
                    // The item was consumed, so it was written; unless it was deleted after the end
                    // of our session.
                    None if producer.is_ours() => ResolvedOutcome::Applied,
                    _ => ResolvedOutcome::Unknown,
                })
            };
            match resolve(write, is_written).await {
                Ok(_) => {
                    drop(node.leak());
                    return Ok(());
                }
                Err(error) if target.is_stale(&error) => buckets.gone(0, &target).await,
                // Our session is over, so consumers may delete the item: begin again.
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::OwnershipLost
                            | ErrorKind::TransactionFailed { code: ErrorCode::NoNode, .. }
                    ) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// A consumer of a queue with the line and the producers at these paths.
fn consumer(
    layout: &QueueLayout,
    line: Option<&ZPath>,
    producers: &ZPath,
    policy: OnUnconfirmed,
) -> AutoAckConsumer {
    let strict = policy == OnUnconfirmed::Wait;
    let unconfirmed = Unconfirmed { producers: producers.clone(), strict };
    Consumer::with_receipts(layout.clone(), line.cloned(), Some(unconfirmed))
}

impl Phases {
    /// The node of this producer.
    async fn node(&self, zk: &CuratorFramework) -> Result<Arc<OwnedNode>, Error> {
        let mut present = self.node.lock().await;
        if let Some(node) = present.as_ref().filter(|node| node.is_ours()) {
            return Ok(Arc::clone(node));
        }
        let create =
            zk.create(child(&self.producers, PRODUCER)).mode(CreateMode::EphemeralSequential);
        let create = create.creating_parents_as_containers().protected().data("-").owned();
        let node = Arc::new(create.await?);
        *present = Some(Arc::clone(&node));
        Ok(node)
    }
}
