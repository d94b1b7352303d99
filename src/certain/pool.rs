use std::sync::Arc;

use zk_curator_client::OpResult;
use zk_curator_client::internal::{Locked, LockedGuard};

use super::commit::Applied;
use super::receipt::Receipt;
use crate::error::{ErrorKind, Result};
use crate::framework::CuratorFramework;
use crate::op::Transaction;

/// Receipts for concurrent transactions: one for each of them, reused. Clones share them.
#[derive(Debug, Clone)]
pub struct ReceiptPool {
    zk: CuratorFramework,
    parent: String,
    free: Arc<Locked<Vec<Receipt>>>,
}

impl ReceiptPool {
    /// Creates a pool of receipts below a node that must exist while there are transactions.
    pub fn below(zk: &CuratorFramework, parent: impl Into<String>) -> Self {
        Self { zk: zk.clone(), parent: parent.into(), free: Arc::default() }
    }

    /// Applies a transaction once, or fails. After an error without `may_have_applied`, nothing has
    /// changed. A transaction that would be too large with a receipt is sent without one. The
    /// results are empty if the receipt has proven that the transaction was applied.
    ///
    /// # Errors
    /// As [`CertainTransaction`](super::CertainTransaction).
    ///
    /// # Cancel safety
    /// If the future is dropped, the transaction may or may not be applied.
    pub async fn commit(&self, build: impl Fn() -> Transaction) -> Result<Vec<OpResult>> {
        let results = |applied: Applied| applied.results().unwrap_or_default().to_vec();
        let done = self.apply(build()).await.map(results);
        match done {
            Err(error) if error.kind() == ErrorKind::TooLarge && !error.may_have_applied() => {
                build().commit().await
            }
            done => done,
        }
    }

    /// Applies a transaction once, or fails, with a receipt that no other transaction uses.
    ///
    /// # Errors
    /// As [`CertainTransaction`](super::CertainTransaction).
    ///
    /// # Cancel safety
    /// If the future is dropped, the transaction may or may not be applied.
    pub async fn apply(&self, transaction: Transaction) -> Result<Applied> {
        let receipt = self.free().pop();
        let receipt = receipt.unwrap_or_else(|| Receipt::new(&self.zk, self.parent.as_str()));
        let applied = transaction.certain(&receipt).commit().await;
        self.free().push(receipt);
        applied
    }

    fn free(&self) -> LockedGuard<'_, Vec<Receipt>> {
        self.free.lock()
    }
}
