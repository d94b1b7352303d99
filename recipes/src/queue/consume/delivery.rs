use std::fmt;

use zk_curator::certain::ReceiptPool;
use zk_curator::{FencingToken, OwnedNode, Ownership};

use super::kind::QueueKind;

/// An item that its consumer has claimed. If it is dropped, it returns to its place in the queue.
/// The cleaner makes a dropped job pending again, which counts as an attempt.
///
/// The kind `K` of the queue determines how it can be settled.
#[must_use = "dropping it puts the item back"]
pub struct Delivery<K: QueueKind> {
    /// This field is the first, so that it is dropped first: the item notes its return only after
    /// the claim is released.
    pub(in crate::queue) claim: OwnedNode,
    pub(in crate::queue) receipts: ReceiptPool,
    /// The path of the node that is deleted with the item: the item itself, or the attempt.
    pub(in crate::queue) path: String,
    pub(in crate::queue) attempt: u32,
    pub(in crate::queue) item: K::Item,
}

impl<K: QueueKind> Delivery<K> {
    /// Returns the number of this delivery of the item, or of this attempt at the job, from 1.
    ///
    /// * In a queue with a lock path, only deliveries by consumers that
    ///   [count](crate::queue::Consumer::dead_letters) are counted.
    /// * In a [`LockingQueue`](crate::queue::LockingQueue), a claim that was released before its
    ///   item was delivered counts only if it was the first at the item's place, because the
    ///   servers do not record its outcome. Such a claim is released when a consumer with
    ///   [prefetched](crate::queue::Consumer::prefetch) items is dropped, or its session ends.
    #[must_use]
    pub const fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Returns the claim, or the lease of the job: [`Ownership::fenced`] transactions are only
    /// applied while it is held.
    #[must_use]
    pub const fn ownership(&self) -> &Ownership {
        self.claim.ownership()
    }

    /// Returns the fencing token of the claim, which is higher than the tokens of all earlier
    /// consumers of this item.
    #[must_use]
    pub const fn fencing_token(&self) -> FencingToken {
        self.claim.ownership().fencing_token()
    }

    /// Resolves when the claim is lost, so that other consumers get the item. Sets a watch on the
    /// claim, for one request, to notice its deletion.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn lost(&self) {
        self.claim.ownership().lost().await;
    }
}

impl<K: QueueKind> fmt::Debug for Delivery<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Delivery")
            .field("path", &self.path)
            .field("attempt", &self.attempt)
            .field("claim", &self.claim)
            .finish_non_exhaustive()
    }
}
