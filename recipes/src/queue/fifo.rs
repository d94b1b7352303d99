use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::Mutex;
use zk_curator::path::ZPath;
use zk_curator::value::ToData;
use zk_curator::{CreateMode, CuratorFramework, ErrorCode, ErrorKind, OwnedNode};

use super::auto_ack::AutoAckConsumer;
use super::buckets::{Buckets, PutTarget};
use super::core::name::Kind;
use super::error::Error;
use super::layout::QueueLayout;
use super::put::{Producer, SMALL};
use super::put_ids::{PRODUCER, protected};
use super::simple::SharedConsumers;
use super::unconfirmed::Unconfirmed;
use super::value::encode;
use crate::path::child;

/// A queue: bytes, first in, first out, each exactly once into it and at most once out of it.
///
/// # Layout
/// ```text
/// /queue                                 container; as all below, made on first use
///   ├─ items                             persistent; data: `buckets 1`
///   │    ├─ b-100000000|0000000003      persistent, sequential: a bucket, as of a LockingQueue
///   │    │    ├─ item-0000000007         persistent, sequential; data: the item
///   │    │    └─ _c_<uuid>-item-0000000008    the same, put in two phases
///   │    └─ _c_<uuid>-taker-0000000009   ephemeral, sequential: one who takes; data: the item that it has removed last
///   ├─ ids                               persistent: puts under way
///   │    ├─ _c_<uuid>-producer-0000000000     ephemeral, sequential: one who puts
///   │    └─ put-<count>-<producer>       persistent
///   ├─ producers                         container: those that put in two phases
///   │    └─ _c_<uuid>-producer-0000000000     ephemeral, sequential
///   └─ line                              container: those that wait for an item
///        └─ _c_<uuid>-wait-0000000003    ephemeral, sequential
/// ```
///
/// # Protocol
/// 1. Put: see [`PutMode`].
/// 2. Take the first: create our own node, list the queue, and read the nodes in the order of their numbers, a few ahead;
///    in one transaction, delete the first and write its name into our own node. After a lost answer that node says
///    whether the item is ours; and as long as it is there, no name that was listed can be that of another item. If
///    somebody else was faster, go on with the next.
/// 3. Wait for an item: get into the line. Only its first watches the items; with the first item that it takes it leaves
///    the line, which wakes the next. So a new item wakes one that waits, and then another, however many there are.
///
/// # Guarantees
/// * A put that succeeds has put its item once. One that fails says whether it may have.
/// * An item is handed out at most once, and it is the first of those that nobody else has taken. It is lost if its
///   consumer crashes with it: a [`Consumer`](super::Consumer) is for items that must not get lost.
/// * Items of one producer, which waits for each put, are taken in their order.
///
/// # Connection loss
/// * SUSPENDED: operations wait for a connection.
/// * LOST: those that wait get into the line again. If the answer to a removal was lost with the session, nobody can tell
///   what has become of it: [`Error::Unknown`].
///
/// # Cancel safety
/// An item that a dropped [`take`](Self::take) or [`poll`](Self::poll) has removed is handed out by the next one of this queue or
/// of a clone. So a time limit is `tokio::time::timeout`. A put that is dropped may be in the queue.
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
    consumers: SharedConsumers,
}

/// The way an item gets into a [`FifoQueue`] exactly once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum PutMode {
    /// One transaction creates the item and a node with an id. After a lost answer it is sent again with the same id:
    /// `NodeExists` says that it was applied. One flight; the id is deleted along with the next put. Those of producers that
    /// crash are collected by others that put, ten minutes later. If ids were collected between the end of a session
    /// and the question what has become of a put in it, it fails with
    /// [`may_have_applied`](zk_curator::Error::may_have_applied).
    #[default]
    Transaction,
    /// The item is created empty, with a name that only its producer knows, and written when its producer is sure that it
    /// is there; it can be consumed from then on. Two flights. Items of producers that crash in between are collected by
    /// those who take. If the session ends before the answer to the second step is known, the put fails with
    /// [`may_have_applied`](zk_curator::Error::may_have_applied).
    TwoPhase,
}

/// The policy of consumers for an item that is put in [two phases](PutMode::TwoPhase), and not written yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum UnconfirmedPolicy {
    /// Wait for it: items are taken strictly in the order in which their nodes were created.
    #[default]
    Wait,
    /// Take those behind it. It is taken when it is written, and before whatever its producer puts then. All that take from
    /// a queue should do the same: a consumer behind one that [waits](Self::Wait) waits as well.
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
    /// The queue at a path. Nothing is sent. An invalid path is refused by the first operation.
    pub fn new(zk: &CuratorFramework, path: impl Into<String>) -> Self {
        let path = path.into();
        let mut layout = QueueLayout::below(zk, &path, child(&path, "items"), Kind::Fifo);
        let [line, producers] =
            ["line", "producers"].map(|name| layout.valid_path("queue", child(&path, name)));
        let consumers = consumers(&layout, &line, &producers, UnconfirmedPolicy::default());
        let buckets = Arc::new(Buckets::new(layout));
        let mut producer = Producer::in_buckets(&buckets);
        producer.line = Some(line);
        producer.with_ids(child(&path, "ids"));
        let phases = Arc::new(Phases { producers, node: Mutex::new(None) });
        Self { buckets, producer, put_mode: PutMode::default(), phases, consumers }
    }

    /// Sets the policy of consumers for items that are put in [two phases](PutMode::TwoPhase) and not written yet. Default:
    /// [`UnconfirmedPolicy::Wait`].
    #[must_use]
    pub fn unconfirmed_policy(mut self, policy: UnconfirmedPolicy) -> Self {
        let Producer { layout, line, .. } = &self.producer;
        if let Some(line) = line {
            self.consumers = consumers(layout, line, &self.phases.producers, policy);
        }
        self
    }

    /// Sets the way items get into the queue. Default: [`PutMode::Transaction`].
    #[must_use]
    pub const fn put_mode(mut self, mode: PutMode) -> Self {
        self.put_mode = mode;
        self
    }

    /// The number of items that are put into a bucket, from 1: as of a
    /// [`LockingQueue`](super::LockingQueue::bucket_size). Default: 4,096.
    #[must_use]
    pub fn bucket_size(mut self, items: u32) -> Self {
        self.producer.layout.set_bucket_size(items);
        self
    }

    /// Puts items into buckets also where an earlier version of this crate has put items without: as of a
    /// [`LockingQueue`](super::LockingQueue::upgrade_layout).
    #[must_use]
    pub fn upgrade_layout(self) -> Self {
        self.producer.layout.upgrade_layout();
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
        let item = encode(self.producer.layout.path.as_str(), &item)?;
        match self.put_mode {
            PutMode::Transaction => self.producer.put(&[(Kind::Fifo.tag().to_owned(), item)]).await,
            PutMode::TwoPhase => self.put_in_two_phases(item).await,
        }
    }

    /// Takes the first item, however long it takes until there is one.
    ///
    /// # Errors
    /// As [`AutoAckConsumer::next`](super::AutoAckConsumer::next).
    ///
    /// # Cancel safety
    /// An item that was removed meanwhile is handed out by the next call.
    pub async fn take(&self) -> Result<Bytes, Error> {
        self.producer.layout.check()?;
        self.consumers.take().await
    }

    /// Takes the first item if there is one. Never waits for others.
    ///
    /// # Errors
    /// As [`AutoAckConsumer::next`](super::AutoAckConsumer::next).
    ///
    /// # Cancel safety
    /// An item that was removed meanwhile is handed out by the next call.
    pub async fn poll(&self) -> Result<Option<Bytes>, Error> {
        self.producer.layout.check()?;
        self.consumers.poll().await
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

    async fn put_in_two_phases(&self, item: Bytes) -> Result<(), Error> {
        self.producer.layout.check()?;
        let (buckets, layout) = (&self.buckets, &self.buckets.layout);
        let zk = &layout.zk;
        let item = layout.pack(item)?;
        if item.len() >= SMALL {
            // The second step, with other names that are as long: what is too large is refused before the first.
            let target = PutTarget::as_long(&layout.path);
            let write = zk.transaction().check(child(&self.phases.producers, &protected(PRODUCER)), None);
            let write = target.check(write);
            write.set_data_if(target.item(&protected(Kind::Fifo.tag())), item.clone(), 0).check_size()?;
        }
        loop {
            let producer = self.phases.node(zk).await?;
            let target = buckets.target(0, 1).await?;
            let create = zk.create(target.item(Kind::Fifo.tag())).mode(CreateMode::PersistentSequential);
            // Dropped before it is written, it goes away.
            let created = create.protected().data(producer.name().to_owned()).owned().await; // 1
            let node = match created {
                Err(error) if error.kind() == ErrorKind::NoNode => {
                    buckets.gone(0, &target).await;
                    continue;
                }
                created => created?,
            };
            buckets.put(0, &target, [node.path()]).await;
            loop {
                let write = target.check(producer.ownership().fenced().uncompressed());
                let write = write.set_data_if(node.path(), item.clone(), 0); // 2
                let Err(error) = write.await else {
                    drop(node.leak());
                    return Ok(());
                };
                if !error.may_have_applied() {
                    match error.kind() {
                        _ if target.is_stale(&error) => {
                            buckets.gone(0, &target).await;
                            break;
                        }
                        // Our session is over, and the item may be collected: begin again.
                        ErrorKind::OwnershipLost
                        | ErrorKind::TransactionFailed { code: ErrorCode::NoNode, .. } => break,
                        _ => return Err(error.into()),
                    }
                }
                let seen = zk.exists(node.path()).linearizable().await;
                let written = match seen.map_err(|_| error.clone())? {
                    Some(stat) => stat.version > 0,
                    // Consumed, so it was written; unless it was collected after the end of our session.
                    None if producer.is_ours() => true,
                    None => return Err(error.into()),
                };
                if written {
                    drop(node.leak());
                    return Ok(());
                }
                if !producer.is_ours() {
                    return Err(error.into());
                }
            }
        }
    }
}

/// Consumers of a queue with the line and the producers at these paths.
fn consumers(
    layout: &QueueLayout,
    line: &ZPath,
    producers: &ZPath,
    policy: UnconfirmedPolicy,
) -> SharedConsumers {
    SharedConsumers::new(|| {
        let unconfirmed =
            Unconfirmed { producers: producers.clone(), strict: policy == UnconfirmedPolicy::Wait };
        AutoAckConsumer::with_receipts(layout.clone(), Some(line.clone()), Some(unconfirmed))
    })
}

impl Phases {
    /// The node of this producer.
    async fn node(&self, zk: &CuratorFramework) -> Result<Arc<OwnedNode>, Error> {
        let mut present = self.node.lock().await;
        if let Some(node) = present.as_ref().filter(|node| node.is_ours()) {
            return Ok(Arc::clone(node));
        }
        let create = zk.create(child(&self.producers, PRODUCER)).mode(CreateMode::EphemeralSequential);
        let create = create.creating_parents_as_containers().protected().data("-").owned();
        let node = Arc::new(create.await?);
        *present = Some(Arc::clone(&node));
        Ok(node)
    }
}
