use bytes::Bytes;
use zk_curator::certain::ReceiptPool;
use zk_curator::op::Transaction;
use zk_curator::{ErrorCode, ErrorKind, OpResult, OwnedNode};

/// Ends a claim with the operations of `ending`, in one transaction that is fenced by the claim and
/// also deletes the node of the claim. After a lost response a receipt shows the outcome: a missing
/// node proves nothing, because an operator may have deleted it.
///
/// If the future is dropped, the transaction is applied, or the claim is released.
pub(in crate::queue) async fn settle(
    receipts: &ReceiptPool,
    claim: OwnedNode,
    ending: impl Fn(Transaction) -> Transaction,
) -> zk_curator::Result<()> {
    try_settle(receipts, &claim, ending).await?;
    drop(claim.leak());
    Ok(())
}

/// As [`settle`], but if the transaction is refused, the claim can still be settled in another way.
/// If it is applied, nothing is left to delete. Returns no results if the response was lost.
pub(in crate::queue) async fn try_settle(
    receipts: &ReceiptPool,
    claim: &OwnedNode,
    ending: impl Fn(Transaction) -> Transaction,
) -> zk_curator::Result<Vec<OpResult>> {
    receipts.commit(|| ending(claim.ownership().fenced().uncompressed())).await
}

/// Counts a delivery: writes the stored data of the item again, which increments its version. After
/// that, acknowledgements by earlier consumers are refused, even if these do not know that their
/// claim was lost. Returns the new version; `None` if the claim or the item is gone, or another
/// consumer has counted.
pub(in crate::queue) async fn count(
    receipts: &ReceiptPool,
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

/// Returns `true` if a transaction that is fenced by a claim was refused because the claim is lost,
/// or because of the item, whose operation has this index.
pub(in crate::queue) fn is_lost(error: &zk_curator::Error, item: usize) -> bool {
    match error.kind() {
        ErrorKind::OwnershipLost => true,
        ErrorKind::TransactionFailed { index, code: ErrorCode::NoNode | ErrorCode::BadVersion } => {
            index == item
        }
        _ => false,
    }
}
