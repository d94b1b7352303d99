use std::sync::Arc;

use bytes::Bytes;
use zk_curator::op::{CreateOp, Transaction};
use zk_curator::value::FromData;
use zk_curator::{CreateMode, ErrorCode, ErrorKind, OpResult, Ownership};

use crate::observe::QUEUE_DEAD_LETTERS;
use crate::queue::consume::claims::{ClaimedData, Claims, ReturnOnDrop};
use crate::queue::consume::consumer::Consumer;
use crate::queue::consume::delivery::Delivery;
use crate::queue::consume::kind::{Engine, QueueKind};
use crate::queue::consume::settle::{count, is_lost, try_settle};
use crate::queue::error::Error;
use crate::queue::produce::buckets::{Buckets, PutTarget};
use crate::queue::wire::name::{CLAIM, ItemMeta, NamingRules};
use crate::queue::wire::rejection::{self, Rejection};
use crate::queue::wire::value::decode;

/// A delivered item, without the duty to settle it. Cheap to clone.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Message {
    /// The item.
    pub data: Bytes,
    /// Stays the same as long as the item exists, even if it is put back or dead-lettered.
    pub id: String,
    /// The number of this delivery of the item, from 1: see [`Delivery::attempt`].
    pub attempt: u32,
    /// Why and when it became a dead letter, if it is one.
    pub rejection: Option<Rejection>,
    /// The claim: [`Ownership::fenced`] transactions are only applied while it is held.
    pub claim: Ownership,
}

impl Message {
    /// Decodes the item as a value of this type.
    ///
    /// # Errors
    /// [`Error::Undecodable`] if it cannot be decoded.
    pub fn value<T: FromData>(&self) -> Result<T, Error> {
        decode(&self.id, &self.data)
    }
}

/// A [`Consumer`](crate::queue::Consumer) of this kind takes the items of a
/// [`LockingQueue`](crate::queue::LockingQueue) as a [`Delivery`], each under a claim, which is a
/// child of the item.
#[derive(Debug)]
pub struct Locking {
    pub(super) home: Home,
    pub(super) max_deliveries: Option<u32>,
}

/// The consumer of a [`LockingQueue`](crate::queue::LockingQueue).
pub type LockingConsumer = Consumer<Locking>;

/// An item of a [`LockingConsumer`].
pub type LockingDelivery = Delivery<Locking>;

impl QueueKind for Locking {
    type Delivery = Delivery<Self>;
    type Message = Message;
    type Done = ();
}

impl Engine for Locking {
    type Source = Claims<Self>;
    type Item = ClaimedItem;
}

impl ClaimedData<Message> for ClaimedItem {
    fn label<'a>(&'a self, _path: &'a str) -> &'a str {
        &self.message.id
    }

    fn messages(&self) -> Vec<Message> {
        vec![self.message.clone()]
    }
}

/// A claimed item.
pub(in crate::queue) struct ClaimedItem {
    pub(super) home: Home,
    pub(super) priority: i32,
    pub(super) stored: StoredMessage,
    pub(super) message: Message,
    /// `true` if it was claimed at this place before: an earlier consumer may still believe that it
    /// has the item.
    pub(super) is_redelivered: bool,
    pub(super) max_deliveries: Option<u32>,
    pub(super) back: ReturnOnDrop,
}

/// The destinations of settled items.
#[derive(Debug, Clone)]
pub(in crate::queue) struct Home {
    /// The queue itself.
    pub(in crate::queue) items: Arc<Buckets>,
    /// The dead letters.
    pub(in crate::queue) dead: Arc<Buckets>,
}

impl Home {
    pub(super) fn new(items: &Arc<Buckets>, dead: &Arc<Buckets>) -> Self {
        Self { items: Arc::clone(items), dead: Arc::clone(dead) }
    }
}

/// The data of an item.
pub(in crate::queue) struct StoredMessage {
    pub(in crate::queue) data: Bytes,
    /// The item without the record of its rejection.
    pub(in crate::queue) body: Bytes,
    /// The version of the item, which differs for each consumer that it was delivered to.
    pub(in crate::queue) version: i32,
}

impl Delivery<Locking> {
    /// The item.
    #[must_use]
    pub const fn data(&self) -> &Bytes {
        &self.item.message.data
    }

    /// Decodes the item as a value of this type: see [`Message::value`].
    ///
    /// # Errors
    /// [`Error::Undecodable`] if it cannot be decoded.
    pub fn value<T: FromData>(&self) -> Result<T, Error> {
        self.item.message.value()
    }

    /// Returns a UUID that stays the same as long as the item exists, even if it is put back or
    /// dead-lettered.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.item.message.id
    }

    /// Returns the path of the item.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the priority with which the item was put.
    #[must_use]
    pub const fn priority(&self) -> i32 {
        self.item.priority
    }

    /// Returns why and when the item became a dead letter, if it is one.
    #[must_use]
    pub const fn rejection(&self) -> Option<&Rejection> {
        self.item.message.rejection.as_ref()
    }

    /// Returns the item and its properties, without the duty to settle it.
    #[must_use]
    pub fn message(&self) -> Message {
        self.item.message.clone()
    }

    /// Acknowledges the item: removes it from the queue.
    ///
    /// # Errors
    /// * [`Error::Foreign`] if another client has created a node below the item, which therefore
    ///   cannot be removed.
    /// * [`Error::Lost`] if the claim was lost: the item is delivered again, or a later consumer
    ///   has put it back or removed it.
    /// * [`Error::Framework`] with `NoAuth` and the path of a receipt, without
    ///   [permission](crate::queue::LockingQueue#access-control) to create children of the queue.
    ///   The item returns to its place.
    /// * [`Error::Framework`] if the outcome is unknown, or the connection is lost for longer than
    ///   the retry policy allows: the item is removed, or delivered again.
    ///
    /// # Cancel safety
    /// The item is removed, or goes back to its place.
    pub async fn ack(self) -> Result<(), Error> {
        self.settle(None).await
    }

    /// Puts the item back at the end of the queue, behind all other items of its priority. It keeps
    /// its id and the count of its deliveries. To return it to its old place, drop it.
    ///
    /// # Errors
    /// As [`ack`](Self::ack); the item is put back, or delivered again. An item that is too large
    /// for a transaction with a receipt is put back without a receipt; after a lost response the
    /// error then has [`may_have_applied`](zk_curator::Error::may_have_applied).
    ///
    /// # Cancel safety
    /// The item is put back at the end, or returns to its place.
    pub async fn requeue(self) -> Result<(), Error> {
        let put = self.put(&self.item.home.items, self.attempt(), self.item.stored.data.clone());
        self.settle(Some(put)).await
    }

    /// Makes the item a dead letter, with the reason and the number of its deliveries: see
    /// [`dead_letters`](crate::queue::LockingQueue::dead_letters). At most 1,024 bytes of the
    /// reason are kept, and none if servers would not accept it with the item.
    ///
    /// # Errors
    /// As [`requeue`](Self::requeue); the item becomes a dead letter, or is delivered again.
    ///
    /// # Cancel safety
    /// The item becomes a dead letter, or returns to its place.
    pub async fn reject(self, why: impl Into<String>) -> Result<(), Error> {
        let deliveries = self.attempt();
        // On the heap, so that the futures of callers stay small.
        Box::pin(self.put_aside(deliveries, &why.into())).await
    }

    pub(in crate::queue) async fn put_aside(self, deliveries: u32, why: &str) -> Result<(), Error> {
        let put = |data| Some(self.put(&self.item.home.dead, 0, data));
        let with = |why| put(rejection::wrap(deliveries, why, &self.item.stored.body));
        // An item that is too large with a reason is moved without one.
        let candidates =
            [with(why), with(""), put(rejection::escape(self.item.stored.body.clone()))];
        let fits = |put: &Option<PutBack>| {
            let fenced = self.ownership().fenced().uncompressed();
            let changed = changes(
                fenced,
                self.claim.path(),
                &self.path,
                self.item.stored.version,
                put.as_ref(),
            );
            !matches!(changed.check_size(), Err(error) if error.kind() == ErrorKind::TooLarge)
        };
        let put = candidates.into_iter().find(fits).unwrap_or_else(|| with(""));
        let zk = self.ownership().framework().clone();
        self.settle(put).await?;
        QUEUE_DEAD_LETTERS.of(&zk, [NamingRules::Locking.recipe()]).add(1);
        Ok(())
    }

    fn put(&self, to: &Arc<Buckets>, times: u32, data: Bytes) -> PutBack {
        let meta = ItemMeta { priority: self.item.priority, id: &self.item.message.id, times };
        let base = format!("{}{meta}", to.layout.kind.tag());
        PutBack { base, target: PutTarget::as_long(&to.layout.path), to: Arc::clone(to), data }
    }

    /// Counts a delivery. Returns whether the item is still ours.
    pub(in crate::queue) async fn count(&mut self) -> Result<bool, Error> {
        let StoredMessage { data, version, .. } = &mut self.item.stored;
        let counted =
            count(&self.receipts, &self.claim, &self.path, data.clone(), *version).await?;
        *version = counted.unwrap_or(*version);
        Ok(counted.is_some())
    }

    async fn settle(self, mut put: Option<PutBack>) -> Result<(), Error> {
        let claim = self.claim.path().to_owned();
        let error = loop {
            if let Some(put) = &mut put {
                put.find_target(self.item.priority).await?;
            }
            let ending = |fenced: Transaction| {
                changes(fenced, &claim, &self.path, self.item.stored.version, put.as_ref())
            };
            match (try_settle(&self.receipts, &self.claim, ending).await, &put) {
                (Ok(results), put) => {
                    drop(self.claim.leak());
                    self.item.back.never();
                    if let Some(put) = put {
                        put.done(self.item.priority, &results).await;
                    }
                    return Ok(());
                }
                (Err(error), Some(put)) if put.target.is_stale(&error) => {
                    put.retry(self.item.priority).await;
                }
                (Err(error), _) => break error,
            }
        };
        Err(match error.kind() {
            // The claim is gone, or another consumer has the item.
            _ if is_lost(&error, 0) || is_lost(&error, 1) => Error::Lost { path: self.path },
            ErrorKind::TransactionFailed { index: 1, code: ErrorCode::NotEmpty } => {
                match self.item.home.items.layout.foreign_child(&self.path, Some(CLAIM)).await? {
                    Some(path) => Error::Foreign { path },
                    None => Error::Lost { path: self.path },
                }
            }
            _ => error.into(),
        })
    }
}

/// The destination, the name and the data of an item that is created again.
struct PutBack {
    to: Arc<Buckets>,
    target: PutTarget,
    base: String,
    data: Bytes,
}

impl PutBack {
    async fn find_target(&mut self, priority: i32) -> Result<(), Error> {
        // On the heap, so that the futures of callers stay small.
        self.target = Box::pin(self.to.target(priority, 1)).await?;
        Ok(())
    }

    async fn retry(&self, priority: i32) {
        self.to.gone(priority, &self.target).await;
    }

    async fn done(&self, priority: i32, results: &[OpResult]) {
        self.to
            .put(priority, &self.target, results.iter().filter_map(OpResult::created_path))
            .await;
    }
}

/// Removes an item, and creates `put` if there is one.
fn changes(
    fenced: Transaction,
    claim: &str,
    path: &str,
    version: i32,
    put: Option<&PutBack>,
) -> Transaction {
    let removed = fenced.delete(claim).delete_if(path, version);
    let Some(PutBack { target, base, data, .. }) = put else { return removed };
    let anew = CreateOp::new(target.item(base)).mode(CreateMode::PersistentSequential);
    target.check(removed).with(anew.data(data.clone()))
}
