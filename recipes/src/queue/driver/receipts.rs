use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use zk_curator::certain::{Applied, Receipt};
use zk_curator::op::Transaction;
use zk_curator::{CuratorFramework, ErrorCode, ErrorKind, OpResult, OwnedNode};

use crate::queue::layout::QueueLayout;

/// The receipts of the transactions about claims: one for each of those that are under way at a time, used again. Clones
/// share them.
#[derive(Debug, Clone)]
pub(in crate::queue) struct Receipts {
    zk: CuratorFramework,
    parent: String,
    free: Arc<Mutex<Vec<Receipt>>>,
}

impl Receipts {
    /// Below a node that is there as long as there are claims.
    pub(in crate::queue) fn below(layout: &QueueLayout, parent: impl Into<String>) -> Self {
        Self { zk: layout.zk.clone(), parent: parent.into(), free: Arc::default() }
    }

    /// Applies a transaction, once, or fails. An error without `may_have_applied` has changed nothing. One that is so large
    /// that servers accept nothing beside it goes without a receipt.
    ///
    /// Dropping the future leaves it applied, or not.
    pub(in crate::queue) async fn commit(
        &self,
        build: impl Fn() -> Transaction,
    ) -> zk_curator::Result<Vec<OpResult>> {
        let receipt = self.take();
        let results = |applied: Applied| applied.results().unwrap_or_default().to_vec();
        let done = build().certain(&receipt).commit().await.map(results);
        let done = match done {
            Err(error) if error.kind() == ErrorKind::TooLarge => build().commit().await,
            done => done,
        };
        self.free().push(receipt);
        done
    }

    fn take(&self) -> Receipt {
        self.free().pop().unwrap_or_else(|| Receipt::at(&self.zk, self.parent.as_str()))
    }

    fn free(&self) -> MutexGuard<'_, Vec<Receipt>> {
        // A plain value: whole, whatever panicked.
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends a claim, all of it or nothing: with what `ending` does in a transaction that is fenced by the claim, and which
/// deletes the node of the claim among others. A receipt tells what came of it after a lost answer: that the node is gone
/// proves nothing, for an operator may have deleted it.
///
/// Dropping the future leaves it applied, or the claim is given back.
pub(in crate::queue) async fn settle(
    receipts: &Receipts,
    claim: OwnedNode,
    ending: impl Fn(Transaction) -> Transaction,
) -> zk_curator::Result<()> {
    try_settle(receipts, &claim, ending).await?;
    drop(claim.leak());
    Ok(())
}

/// The same, and the claim may be settled in another way if it was refused. If it was not, nothing is left to delete. Without
/// results if the answer was lost.
pub(in crate::queue) async fn try_settle(
    receipts: &Receipts,
    claim: &OwnedNode,
    ending: impl Fn(Transaction) -> Transaction,
) -> zk_curator::Result<Vec<OpResult>> {
    receipts.commit(|| ending(claim.ownership().fenced().uncompressed())).await
}

/// Counts a delivery: writes the data of the item again, as they are stored, and so its version. From then on an
/// acknowledgement of the item by an earlier consumer is refused, also where that does not know that its claim was lost.
/// The version since; `None` if the claim or the item is gone, or somebody else has counted.
pub(in crate::queue) async fn count(
    receipts: &Receipts,
    claim: &OwnedNode,
    item: &str,
    stored: Bytes,
    version: i32,
) -> zk_curator::Result<Option<i32>> {
    let fenced = || claim.ownership().fenced().uncompressed();
    match receipts.commit(|| fenced().set_data_if(item, stored.clone(), version)).await {
        Ok(_) => Ok(Some(version.wrapping_add(1))),
        Err(error) if is_lost(&error, 0) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether a transaction that is fenced by a claim was refused because the claim is lost, or because of the operation at
/// this index the item.
pub(in crate::queue) fn is_lost(error: &zk_curator::Error, item: usize) -> bool {
    match error.kind() {
        ErrorKind::OwnershipLost => true,
        ErrorKind::TransactionFailed { index, code: ErrorCode::NoNode | ErrorCode::BadVersion } => {
            index == item
        }
        _ => false,
    }
}
