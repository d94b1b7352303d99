use std::future::Future;

use bytes::Bytes;
use tracing::warn;
use zk_curator::certain::ReceiptPool;
use zk_curator::op::{CreateOp, Transaction};
use zk_curator::path::ZPath;
use zk_curator::value::FromData;
use zk_curator::{CreateMode, ErrorCode, ErrorKind};

use crate::observe::QUEUE_DEAD_LETTERS;
use crate::path::child;
use crate::queue::consume::claims::{ClaimKind, ClaimResult, ClaimedData, Claims, Unclaimed};
use crate::queue::consume::consumer::Consumer;
use crate::queue::consume::delivery::Delivery;
use crate::queue::consume::kind::{Engine, Finish, QueueKind};
use crate::queue::consume::settle::{count, is_lost, settle};
use crate::queue::error::{Error, ErrorMode};
use crate::queue::feed::driver::FeedDriver;
use crate::queue::wire::codec;
use crate::queue::wire::layout::{QueueLayout, create_persistent};
use crate::queue::wire::value::decode_all;

/// A [`Consumer`] of this kind delivers each item under a claim, which is a node below a lock path.
/// An item leaves the queue when it is [acknowledged](Delivery::ack), and is delivered again if its
/// consumer fails. Wire-compatible with Apache Curator's queues with a lock path.
///
/// # Layout
/// ```text
/// <lock path>                          persistent, made on first use
///   ├─ queue-0000000007                ephemeral: the claim to the item of the same name; data: which claim it is
///   └─ _r_<uuid>                       ephemeral: a receipt of a consumer that settles items
/// ```
///
/// # Protocol
/// 1. Create the claim, and read the item, in one round trip. If another consumer has claimed it,
///    take the next.
/// 2. Deliver it.
/// 3. Acknowledge: in one transaction, check the claim, delete the item, and delete the claim. Put
///    back: the same, and create the item again at the end.
///
/// Three requests and two round trips for each item; with [dead letters](Consumer::dead_letters)
/// four and three. With many consumers one or two more requests: the first 128 items are read to
/// find one without a claim. If no item can be claimed, a watch waits for new items. After half a
/// second, further watches wait for the first 64 claims of other consumers, and the remaining
/// claims are read every second. While other items can be claimed, the claims of other consumers
/// are read again after a second, by the next call.
///
/// In queues with priorities or times, a claim is released if an item that was put later, but comes
/// first, can be claimed instead.
///
/// # Guarantees
/// * Each item is delivered at least once. Two consumers never have it at the same time while both
///   sessions are alive.
/// * A consumer that has lost its claim can neither acknowledge the item nor put it back
///   (CURATOR-605), and the item is delivered again. Use [`Delivery::ownership`] to fence the work
///   of the first consumer.
/// * An item that is put back keeps its priority, its time and its id.
/// * If an operator deletes a claim, another consumer can claim the item while the first one works
///   on it. ZooKeeper cannot tell the two claims apart, because they have the same path. If the
///   first consumer has not [noticed](Delivery::lost) it, its acknowledgement removes the item and
///   the other claim, and the other consumer gets [`Error::Lost`]. With
///   [dead letters](Consumer::dead_letters), the version of the item distinguishes the consumers
///   from the next delivery on, and the first one gets [`Error::Lost`]. In both cases the item is
///   acknowledged once. A consumer in Java does not write the item, so dead letters do not protect
///   its claim.
///
/// # Assumptions
/// With ACLs, a consumer needs permission to create and delete children of the lock path, which
/// contains its claims and receipts, and to delete children of the queue. To
/// [put items back](Delivery::requeue) it must also be able to create them. With dead letters it
/// must be able to write items, and to create children of the queue of dead letters.
///
/// # Connection loss
/// * SUSPENDED: deliveries are kept.
/// * LOST: the claims end with the session, [`Delivery::lost`] resolves, and other consumers get
///   the items.
#[derive(Debug)]
pub struct LockPath {
    path: ZPath,
    dead_letters: Option<DeadLetters>,
    /// `None` if it was not set.
    on_error: Option<ErrorMode>,
}

/// The consumer of a queue with a lock path.
pub type LockPathConsumer = Consumer<LockPath>;

/// An item of a [`LockPathConsumer`].
pub type LockPathDelivery = Delivery<LockPath>;

impl LockPath {
    /// The deliveries of a requeued item are counted from zero, so it would never become a dead
    /// letter.
    fn error_mode(&self) -> ErrorMode {
        let is_counted = self.dead_letters.is_some();
        self.on_error.unwrap_or(if is_counted { ErrorMode::Return } else { ErrorMode::Requeue })
    }

    fn check(&self) -> Result<(), Error> {
        let (Some(dead), Some(ErrorMode::Requeue)) = (&self.dead_letters, self.on_error) else {
            return Ok(());
        };
        let why = "the deliveries of a requeued item are counted from zero, so it never becomes a dead letter";
        Err(zk_curator::Error::invalid_argument("dead_letters", dead.path.as_str(), why).into())
    }
}

/// The destination of items that were delivered too often without an acknowledgement.
#[derive(Debug, Clone)]
struct DeadLetters {
    path: ZPath,
    deliveries: u32,
}

/// A claimed item.
pub(in crate::queue) struct ClaimedItems {
    layout: QueueLayout,
    /// The stored bytes.
    data: Bytes,
    items: Vec<Bytes>,
    version: i32,
    on_error: ErrorMode,
}

impl QueueKind for LockPath {
    type Delivery = Delivery<Self>;
    type Message = Bytes;
    type Done = ();
}

impl Engine for LockPath {
    type Source = Claims<Self>;
    type Item = ClaimedItems;
}

impl ClaimedData<Bytes> for ClaimedItems {
    fn label<'a>(&'a self, path: &'a str) -> &'a str {
        path
    }

    fn messages(&self) -> Vec<Bytes> {
        self.items.clone()
    }
}

impl ClaimKind for LockPath {
    const GIVES_WAY: bool = true;
    const WATCHES_CLAIM: bool = false;

    fn claimed_by(&self, _layout: &QueueLayout, name: &str) -> Option<String> {
        Some(child(&self.path, name))
    }

    fn claim(
        &self,
        item: Unclaimed,
    ) -> impl Future<Output = Result<ClaimResult<Self>, Error>> + Send + 'static {
        claim(item, self.path.clone(), self.error_mode())
    }

    fn admit(
        &self,
        delivery: Delivery<Self>,
    ) -> impl Future<Output = Result<Option<Delivery<Self>>, Error>> + Send + 'static {
        admit(delivery, self.dead_letters.clone())
    }

    fn finish(delivery: Delivery<Self>, done: Result<(), String>) -> Finish {
        match (done, delivery.item.on_error) {
            (Ok(()), _) => Finish::done(delivery.ack()),
            (Err(_), ErrorMode::Delete) => Finish::now("an item is given up", delivery.ack()),
            (Err(_), ErrorMode::Requeue) => {
                Finish::later("an item goes back to the queue", delivery.requeue())
            }
            (Err(_), ErrorMode::Return) => Finish::give_back(delivery),
        }
    }
}

impl Consumer<LockPath> {
    pub(in crate::queue) fn claiming(feed: FeedDriver, path: ZPath) -> Self {
        let receipts = ReceiptPool::below(&feed.layout.zk, path.as_str());
        let kind = LockPath { path, dead_letters: None, on_error: None };
        Self::of(Claims::new(feed, kind, receipts))
    }

    /// Counts the deliveries of each item. After `deliveries` deliveries, from 1, without an
    /// acknowledgement the item becomes a dead letter: it is moved to the queue at `path`, which
    /// must be of the same kind.
    ///
    /// The count is the version of the item's node, which is written before each delivery. So
    /// deliveries to consumers that crash count as well, at the cost of one request and one round
    /// trip. An item that is [put back](Delivery::requeue) is a new item, whose count begins again;
    /// an item that is dropped keeps its place and its count. Consumers without this setting, and
    /// those in Java, neither count deliveries nor move items.
    ///
    /// The count is written before the item is delivered. An item is counted but not delivered only
    /// if the consumer is dropped, or its session ends, in between. A dropped [`next`](Self::next)
    /// keeps the item for the next call, with its number.
    #[must_use]
    pub fn dead_letters(mut self, path: impl Into<String>, deliveries: u32) -> Self {
        let layout = &mut self.source.feed.layout;
        let path = layout.other_path("dead letters", path);
        layout.note_at_least_one("dead_letters", deliveries);
        self.source.kind.dead_letters = Some(DeadLetters { path, deliveries });
        self.checked()
    }

    /// Sets what happens to an item after the body of [`run`](Self::run) has failed. Default:
    /// [`ErrorMode::Requeue`], and with [dead letters](Self::dead_letters) [`ErrorMode::Return`].
    /// With dead letters `Requeue` is refused by the first call, with `InvalidArgument`: an item
    /// that is put back is a new one, so it would never be delivered too often.
    #[must_use]
    pub fn on_error(mut self, mode: ErrorMode) -> Self {
        self.source.kind.on_error = Some(mode);
        self.checked()
    }

    fn checked(mut self) -> Self {
        let checked = self.source.kind.check();
        self.source.feed.layout.note(checked);
        self
    }
}

/// Claims an item and reads it, in one round trip unless other consumers contend for it.
async fn claim(
    item: Unclaimed,
    lock_path: ZPath,
    on_error: ErrorMode,
) -> Result<ClaimResult<LockPath>, Error> {
    let Unclaimed { layout, name, is_contended, receipts, .. } = item;
    let path = layout.item(&name);
    let on = child(&lock_path, &name);
    let create = layout.zk.create(&on).mode(CreateMode::Ephemeral).creating_parents();
    // The data distinguish our claim from claims of other consumers after a lost response.
    let create = create.data(layout.zk.new_guid()).protected_by_data();
    // The item is read after our claim exists, even after several attempts: before, another
    // consumer may have claimed and removed it.
    let claimed = if is_contended {
        match create.owned().await {
            Ok(claim) => match layout.zk.get_data(&path).with_stat().await {
                Ok(read) => Ok((claim, Some(read))),
                Err(error) if error.kind() == ErrorKind::NoNode => Ok((claim, None)),
                Err(error) => return Err(error.into()),
            },
            Err(error) => Err(error),
        }
    } else {
        create.owned_with_data(&path).await
    };
    let (claim, read) = match claimed {
        Ok(claimed) => claimed,
        Err(error) if error.kind() == ErrorKind::NodeExists => return Ok(ClaimResult::Others(on)),
        Err(error) => return Err(error.into()),
    };
    let Some((data, stat)) = read else { return Ok(ClaimResult::Gone) };
    if stat.num_children > 0
        && let Some(path) = layout.foreign_child(&path, None).await?
    {
        // The item could not be acknowledged.
        return Err(Error::Foreign { path });
    }
    let items = layout.unpack(data.clone()).and_then(|data| codec::decode(&data));
    let items = items.map_err(|why| Error::Corrupt { path: path.clone(), why })?;
    let (version, attempt) = (stat.version, attempt(stat.version));
    let item = ClaimedItems { layout, data, items, version, on_error };
    Ok(ClaimResult::Ours(Box::new(Delivery { claim, receipts, path, attempt, item })))
}

/// Counts a delivery before the item is delivered, or dead-letters the item.
async fn admit(
    mut delivery: LockPathDelivery,
    dead_letters: Option<DeadLetters>,
) -> Result<Option<LockPathDelivery>, Error> {
    let Some(dead_letters) = dead_letters else { return Ok(Some(delivery)) };
    match delivery.count(&dead_letters).await {
        Ok(true) => Ok(Some(delivery)),
        Ok(false) => put_aside(delivery, &dead_letters).await.map(|()| None),
        // Another consumer has it now, or none has: the next consumer that claims it delivers it.
        Err(Error::Lost { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the number of the delivery for a node with this version, because every earlier delivery
/// has written the node.
fn attempt(version: i32) -> u32 {
    u32::try_from(version).unwrap_or(0).saturating_add(1)
}

/// Moves an item that was delivered too often.
async fn put_aside(delivery: LockPathDelivery, dead_letters: &DeadLetters) -> Result<(), Error> {
    let (layout, path) = (&delivery.item.layout, delivery.path.clone());
    create_persistent(&layout.zk, dead_letters.path.as_str()).await?;
    let anew =
        CreateOp::new(child(&dead_letters.path, layout.kind.base(layout.name(&delivery.path))));
    let anew = anew.mode(CreateMode::PersistentSequential).data(delivery.item.data.clone());
    warn!(path, attempts = delivery.attempt - 1, aside = %dead_letters.path, "an item became a dead letter");
    let (zk, kind) = (layout.zk.clone(), layout.kind);
    match delivery.settle(Some(anew)).await {
        Ok(()) => {
            QUEUE_DEAD_LETTERS.of(&zk, [kind.recipe()]).add(1);
            Ok(())
        }
        Err(Error::Lost { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

impl Delivery<LockPath> {
    /// Returns the path of the item.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the data: one item, unless several were
    /// [put together](crate::queue::CuratorQueue::put_multi).
    #[must_use]
    pub fn items(&self) -> &[Bytes] {
        &self.item.items
    }

    /// Decodes the items as values of this type.
    ///
    /// # Errors
    /// [`Error::Undecodable`] if one of them cannot be decoded.
    pub fn values<T: FromData>(&self) -> Result<Vec<T>, Error> {
        decode_all(&self.path, &self.item.items)
    }

    /// Returns the id with which the item was put; `None` unless the queue is a
    /// [`DistributedIdQueue`](crate::queue::DistributedIdQueue).
    #[must_use]
    pub fn id(&self) -> Option<&str> {
        self.item.layout.kind.id_of(self.item.layout.name(&self.path))
    }

    /// Acknowledges the item: removes it from the queue.
    ///
    /// # Errors
    /// * [`Error::Lost`] if the claim was lost: the item is delivered again.
    /// * [`Error::Foreign`] if another client has created a node below the item, which therefore
    ///   cannot be removed.
    /// * [`Error::Framework`] if the outcome is unknown, or the connection is lost for longer than
    ///   the retry policy allows: the item is removed, or delivered again.
    ///
    /// # Cancel safety
    /// The item is removed, or goes back to its place.
    pub async fn ack(self) -> Result<(), Error> {
        self.settle(None).await
    }

    /// Puts the item back at the end of the queue, behind all other items of its priority. It keeps
    /// its time and its id. To return it to its old place, drop it.
    ///
    /// # Errors
    /// As [`ack`](Self::ack); the item is put back, or delivered again. An item that is too large
    /// for a transaction with a receipt is put back without a receipt; after a lost response the
    /// error then has [`may_have_applied`](zk_curator::Error::may_have_applied).
    ///
    /// # Cancel safety
    /// The item is put back at the end, or returns to its place.
    pub async fn requeue(self) -> Result<(), Error> {
        let end =
            self.item.layout.item(self.item.layout.kind.base(self.item.layout.name(&self.path)));
        let anew =
            CreateOp::new(end).mode(CreateMode::PersistentSequential).data(self.item.data.clone());
        self.settle(Some(anew)).await
    }

    /// Counts this delivery. Returns `false` if the item was delivered too often before.
    async fn count(&mut self, dead_letters: &DeadLetters) -> Result<bool, Error> {
        if self.attempt > dead_letters.deliveries {
            return Ok(false);
        }
        let (data, version) = (self.item.data.clone(), self.item.version);
        let counted = count(&self.receipts, &self.claim, &self.path, data, version).await?;
        self.item.version = counted.ok_or_else(|| Error::Lost { path: self.path.clone() })?;
        Ok(true)
    }

    async fn settle(self, anew: Option<CreateOp>) -> Result<(), Error> {
        let claim = self.claim.path().to_owned();
        let ending = |fenced: Transaction| {
            let removed = fenced.delete_if(&self.path, self.item.version);
            anew.iter().cloned().fold(removed, Transaction::with).delete(&claim)
        };
        let Err(error) = settle(&self.receipts, self.claim, ending).await else { return Ok(()) };
        if matches!(
            error.kind(),
            ErrorKind::TransactionFailed { index: 0, code: ErrorCode::NotEmpty }
        ) && let Some(path) = self.item.layout.foreign_child(&self.path, None).await?
        {
            return Err(Error::Foreign { path });
        }
        Err(if is_lost(&error, 0) { Error::Lost { path: self.path } } else { error.into() })
    }
}
