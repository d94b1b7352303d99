use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use zk_curator::op::{CreateOp, Transaction};
use zk_curator::value::FromData;
use zk_curator::{CreateMode, ErrorCode, ErrorKind, FencingToken, OpResult, OwnedNode, Ownership};

use crate::measure;
use crate::queue::buckets::{Buckets, PutTarget};
use crate::queue::core::name::{ItemMeta, Kind};
use crate::queue::driver::{Back, Receipts, count, is_lost, try_settle};
use crate::queue::error::Error;
use crate::queue::redelivery::{self, Rejection};
use crate::queue::value::decode;

/// The name of the claim to an item.
pub(super) const CLAIM: &str = "claim";

/// An item that was handed out, without the duty to settle it. Cheap to clone.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Message {
    /// The item.
    pub data: Bytes,
    /// Stays as long as the item exists, also when it is put back or put aside.
    pub id: String,
    /// The number of claims of the item, from 1: this one is the last.
    pub attempt: u32,
    /// Why and when it became a dead letter, if it is one.
    pub rejection: Option<Rejection>,
    /// The claim: [`Ownership::fenced`] transactions are only applied while it is held.
    pub claim: Ownership,
}

impl Message {
    /// The item as a value of this type.
    ///
    /// # Errors
    /// [`Error::Undecodable`] when it is none.
    pub fn value<T: FromData>(&self) -> Result<T, Error> {
        decode(&self.id, &self.data)
    }
}

/// An item in the hands of its consumer. Dropped, it goes back to its place in the queue.
#[must_use = "dropping it puts the item back"]
pub struct LockingDelivery {
    pub(super) home: Home,
    pub(super) path: String,
    pub(super) priority: i32,
    pub(super) stored: Stored,
    pub(super) message: Message,
    /// Whether it was claimed at this place before: an earlier consumer may take itself for the present one.
    pub(super) is_redelivered: bool,
    pub(super) claim: OwnedNode,
    pub(super) back: Back,
}

/// Where items go that are settled.
#[derive(Debug, Clone)]
pub(super) struct Home {
    /// The queue itself.
    pub(super) items: Arc<Buckets>,
    /// The dead letters.
    pub(super) dead: Arc<Buckets>,
    pub(super) receipts: Receipts,
}

impl Home {
    pub(super) fn new(items: &Arc<Buckets>, dead: &Arc<Buckets>) -> Self {
        let receipts = Receipts::below(&items.layout, items.layout.parent());
        Self { items: Arc::clone(items), dead: Arc::clone(dead), receipts }
    }
}

/// The data of an item.
pub(super) struct Stored {
    pub(super) data: Bytes,
    /// Returns the item without the record of its rejection.
    pub(super) body: Bytes,
    /// Another one for every consumer that it was handed out to.
    pub(super) version: i32,
}

impl LockingDelivery {
    /// The item.
    #[must_use]
    pub const fn data(&self) -> &Bytes {
        &self.message.data
    }

    /// The item as a value of this type: see [`Message::value`].
    ///
    /// # Errors
    /// [`Error::Undecodable`] when it is none.
    pub fn value<T: FromData>(&self) -> Result<T, Error> {
        self.message.value()
    }

    /// A UUID that stays as long as the item exists, also when it is put back or put aside.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.message.id
    }

    /// The path of the item.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The priority that the item was put with.
    #[must_use]
    pub const fn priority(&self) -> i32 {
        self.priority
    }

    /// Returns the number of claims of the item, from 1: this one is the last.
    #[must_use]
    pub const fn attempt(&self) -> u32 {
        self.message.attempt
    }

    /// Returns why and when the item became a dead letter, if it is one.
    #[must_use]
    pub const fn rejection(&self) -> Option<&Rejection> {
        self.message.rejection.as_ref()
    }

    /// All of that, without the duty to settle it.
    #[must_use]
    pub fn message(&self) -> Message {
        self.message.clone()
    }

    /// The claim: [`Ownership::fenced`] transactions are only applied while it is held.
    #[must_use]
    pub const fn ownership(&self) -> &Ownership {
        self.claim.ownership()
    }

    /// The fencing token of the claim: higher than that of everybody who had this item before.
    #[must_use]
    pub const fn fencing_token(&self) -> FencingToken {
        self.claim.ownership().fencing_token()
    }

    /// Resolves when the claim is lost: others get the item. To learn that somebody has deleted it, it leaves a watch,
    /// which costs one request.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn lost(&self) {
        self.claim.ownership().lost().await;
    }

    /// The item is done with: removes it from the queue.
    ///
    /// # Errors
    /// * [`Error::Foreign`] when somebody has created another node below the item: it cannot be removed.
    /// * [`Error::Lost`] when the claim was lost: the item is handed out again, or was put back or removed by a consumer that
    ///   has had it since.
    /// * [`Error::Framework`] with `NoAuth` and the path of a receipt, without the
    ///   [right](super::LockingQueue#access-control) to create children of the queue. The item goes back to its place.
    /// * [`Error::Framework`] when it cannot be known, or the connection is lost for longer than the retry policy allows:
    ///   the item is removed, or handed out again.
    ///
    /// # Cancel safety
    /// The item is removed, or goes back to its place.
    pub async fn ack(self) -> Result<(), Error> {
        self.settle(None).await
    }

    /// Puts the item back at the end of the queue: behind all others of its priority. It keeps its id, and its count goes
    /// on. To put it back at its place, drop it.
    ///
    /// # Errors
    /// As [`ack`](Self::ack); the item is put back, or handed out again. An item so large that servers accept no receipt
    /// beside it is put back without: after a lost answer the error says
    /// [`may_have_applied`](zk_curator::Error::may_have_applied).
    ///
    /// # Cancel safety
    /// The item goes back to the end, or to its place.
    pub async fn requeue(self) -> Result<(), Error> {
        let put = self.put(&self.home.items, self.attempt(), self.stored.data.clone());
        self.settle(Some(put)).await
    }

    /// Puts the item aside, with the reason and the number of its deliveries: see [`dead_letters`](super::LockingQueue::dead_letters). Of a longer
    /// reason the first 1,024 bytes are kept, and none where servers would not accept it along with the item.
    ///
    /// # Errors
    /// As [`requeue`](Self::requeue); the item is put aside, or handed out again.
    ///
    /// # Cancel safety
    /// The item is put aside, or goes back to its place.
    pub async fn reject(self, why: impl Into<String>) -> Result<(), Error> {
        let deliveries = self.attempt();
        // On the heap, for futures of callers that are small.
        Box::pin(self.put_aside(deliveries, &why.into())).await
    }

    pub(super) async fn put_aside(self, deliveries: u32, why: &str) -> Result<(), Error> {
        let put = |data| Some(self.put(&self.home.dead, 0, data));
        let with = |why| put(redelivery::wrap(deliveries, why, &self.stored.body));
        // What servers do not accept with a reason, they accept without.
        let candidates = [with(why), with(""), put(redelivery::escape(self.stored.body.clone()))];
        let fits = |put: &Option<Put>| {
            let fenced = self.ownership().fenced().uncompressed();
            let changed = changes(fenced, self.claim.path(), &self.path, self.stored.version, put.as_ref());
            !matches!(changed.check_size(), Err(error) if error.kind() == ErrorKind::TooLarge)
        };
        let put = candidates.into_iter().find(fits).unwrap_or_else(|| with(""));
        self.settle(put).await?;
        measure::dead_letter(Kind::Locking.recipe());
        Ok(())
    }

    fn put(&self, to: &Arc<Buckets>, times: u32, data: Bytes) -> Put {
        let meta = ItemMeta { priority: self.priority, id: &self.message.id, times };
        let base = format!("{}{meta}", to.layout.kind.tag());
        Put { base, target: PutTarget::as_long(&to.layout.path), to: Arc::clone(to), data }
    }

    pub(super) const fn node(&self) -> &OwnedNode {
        &self.claim
    }

    /// Counts a delivery. Returns whether the item is still ours.
    pub(super) async fn count(&mut self) -> Result<bool, Error> {
        let Stored { data, version, .. } = &mut self.stored;
        let counted = count(&self.home.receipts, &self.claim, &self.path, data.clone(), *version).await?;
        *version = counted.unwrap_or(*version);
        Ok(counted.is_some())
    }

    async fn settle(self, mut put: Option<Put>) -> Result<(), Error> {
        let claim = self.claim.path().to_owned();
        let error = loop {
            if let Some(put) = &mut put {
                put.find_target(self.priority).await?;
            }
            let ending =
                |fenced: Transaction| changes(fenced, &claim, &self.path, self.stored.version, put.as_ref());
            match (try_settle(&self.home.receipts, &self.claim, ending).await, &put) {
                (Ok(results), put) => {
                    drop(self.claim.leak());
                    self.back.never();
                    if let Some(put) = put {
                        put.done(self.priority, &results).await;
                    }
                    return Ok(());
                }
                (Err(error), Some(put)) if put.target.is_stale(&error) => put.retry(self.priority).await,
                (Err(error), _) => break error,
            }
        };
        Err(match error.kind() {
            // The claim is gone, or the item is another consumer's.
            _ if is_lost(&error, 0) || is_lost(&error, 1) => Error::Lost,
            ErrorKind::TransactionFailed { index: 1, code: ErrorCode::NotEmpty } => {
                match self.home.items.layout.foreign_child(&self.path, Some(CLAIM)).await? {
                    Some(path) => Error::Foreign { path },
                    None => Error::Lost,
                }
            }
            _ => error.into(),
        })
    }
}

/// Where an item is created anew, under which name, and with which data.
struct Put {
    to: Arc<Buckets>,
    target: PutTarget,
    base: String,
    data: Bytes,
}

impl Put {
    async fn find_target(&mut self, priority: i32) -> Result<(), Error> {
        // On the heap, for futures of callers that are small.
        self.target = Box::pin(self.to.target(priority, 1)).await?;
        Ok(())
    }

    async fn retry(&self, priority: i32) {
        self.to.gone(priority, &self.target).await;
    }

    async fn done(&self, priority: i32, results: &[OpResult]) {
        self.to.put(priority, &self.target, results.iter().filter_map(OpResult::created_path)).await;
    }
}

/// Removes an item, and creates it anew if it is to be.
fn changes(fenced: Transaction, claim: &str, path: &str, version: i32, put: Option<&Put>) -> Transaction {
    let removed = fenced.delete(claim).delete_if(path, version);
    let Some(Put { target, base, data, .. }) = put else { return removed };
    let anew = CreateOp::new(target.item(base)).mode(CreateMode::PersistentSequential);
    target.check(removed).with(anew.data(data.clone()))
}

impl fmt::Debug for LockingDelivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("LockingDelivery");
        debug.field("path", &self.path).field("attempt", &self.message.attempt);
        debug.field("claim", &self.claim).finish()
    }
}
