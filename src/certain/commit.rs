use std::fmt;
use std::future::IntoFuture;
use std::sync::Arc;
use std::time::Duration;

use zk_curator_client::{Created, Error as RawError, ErrorCode, OpResult, Stat};

use super::receipt::{Receipt, Slip, Verdict, append};
use crate::core::{RACE_ROUNDS, Session};
use crate::error::{Error, Result};
use crate::framework::CuratorFramework;
use crate::op::{OpFuture, Transaction};
use crate::owned_node::OwnedNode;
use crate::retry::Budget;

/// The pause after a failed look at the receipt.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// A transaction that was applied, once.
#[derive(Clone)]
#[non_exhaustive]
pub struct Applied {
    zxid: i64,
    results: Option<Vec<OpResult>>,
    session: Arc<Session>,
    proof: Proof,
}

/// The node of a [receipt](Receipt) that a transaction has written. See [`CertainTransaction::while_there`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proof {
    /// On the server. No two nodes of receipts have the same.
    path: Arc<str>,
}

impl Applied {
    /// The node that proves it.
    #[must_use]
    pub const fn proof(&self) -> &Proof {
        &self.proof
    }

    /// Its transaction: the `czxid` of the nodes that it has created, the `mzxid` of those that it has written, until
    /// somebody writes them again.
    #[must_use]
    pub const fn zxid(&self) -> i64 {
        self.zxid
    }

    /// One [`OpResult`] for each operation, in order, with paths within the namespace. `None` if the answer was lost
    /// and the receipt has proven it instead: names with sequence numbers, and stats, are not known then.
    #[must_use]
    pub fn results(&self) -> Option<&[OpResult]> {
        self.results.as_deref()
    }

    /// The guard of a node that this transaction created, whose name others may use too. `stat` is what was read of the
    /// path since; `None` if that is of another node.
    #[must_use = "the node has no guard otherwise"]
    pub fn own(&self, zk: &CuratorFramework, path: &str, stat: Stat) -> Option<OwnedNode> {
        if stat.czxid != self.zxid {
            return None;
        }
        let created = Created::new(zk.ns().apply(path), stat);
        Some(OwnedNode::new(zk, created, Arc::clone(&self.session), stat.is_ephemeral(), true))
    }
}

impl PartialEq for Applied {
    fn eq(&self, other: &Self) -> bool {
        (self.zxid, &self.results) == (other.zxid, &other.results)
    }
}

impl Eq for Applied {}

impl fmt::Debug for Applied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { zxid, results, session: _, proof: _ } = self;
        f.debug_struct("Applied").field("zxid", zxid).field("results", results).finish_non_exhaustive()
    }
}

impl Transaction {
    /// Settles a lost answer: one more operation writes a number to the [receipt](Receipt), which is read after an
    /// unknown outcome. Set the options of the transaction before. See [`certain`](super).
    ///
    /// **Awaiting returns** [`Applied`].
    pub fn certain(self, receipt: &Receipt) -> CertainTransaction {
        CertainTransaction::new(self, receipt.clone())
    }
}

/// A [certain](Transaction::certain) transaction, or a single certain operation, of
/// [`CreateBuilder::certain`](crate::op::CreateBuilder::certain), [`SetDataBuilder::certain`](crate::op::SetDataBuilder::certain)
/// or [`DeleteBuilder::certain`](crate::op::DeleteBuilder::certain). See the [module](super) for its protocol.
///
/// **Awaiting returns** [`Applied`]. **Nothing is sent until it is awaited.**
///
/// # Errors
/// * Those of a [`Transaction`]; `TransactionFailed` counts the operations of the caller. Those of the operation, where it
///   is a single one: `NoNode`, `NodeExists`, `BadVersion`, `NotEmpty`. `InvalidArgument` when its options are for another
///   way to find out; nothing was sent.
/// * Without `may_have_applied`: it was not applied. With it: the receipt could not be read, because the session ended
///   (`SessionExpired`), the deadline passed (`OperationTimeout`), the framework was closed (`Closed`), or the receipt
///   was deleted or written by somebody else (the error of the lost answer).
/// * `NoNode`, `NoAuth`, `NoChildrenForEphemerals` with the path of the receipt, which is below its parent: the receipt
///   cannot be created or written. Nothing was applied.
/// * `Unsupported` with a raw client that has no transactions.
/// * `InvalidArgument` when the receipt is of another framework.
///
/// # Cancel safety
/// Once polled, it may be applied. The receipt is fit for the next transaction.
#[derive(Debug)]
#[must_use = "nothing is sent until it is committed and awaited"]
pub struct CertainTransaction {
    transaction: Transaction,
    receipt: Receipt,
    /// The node of the receipt that has to be there.
    proof: Option<Proof>,
}

impl CertainTransaction {
    pub(crate) fn new(mut transaction: Transaction, receipt: Receipt) -> Self {
        if transaction.target.path.is_empty() {
            receipt.parent().clone_into(&mut transaction.target.path);
        }
        Self { transaction, receipt, proof: None }
    }

    /// Applied only while this node of the receipt is there: nobody has deleted it, and its session has not ended. Otherwise it
    /// fails with `NoNode` and the path of the receipt; nothing was applied.
    ///
    /// A node that has children cannot be deleted. So the parent of the receipt is the same node as when the proof was made, and
    /// what was read of it since is of that node: the version in a conditional write cannot be the equal one of another node that
    /// was created in its place.
    pub fn while_there(mut self, proof: &Proof) -> Self {
        self.proof = Some(proof.clone());
        self
    }

    /// [`Transaction::check_size`], with the receipt.
    ///
    /// # Errors
    /// As there.
    pub fn check_size(&self) -> Result<()> {
        let mut ops = self.transaction.resolve()?;
        let path = self.receipt.server_path(&uuid::Uuid::nil().to_string());
        append(self.transaction.target.zk.core(), &path, None, u64::MAX, &mut ops);
        self.transaction.check_size_of(&ops)
    }

    /// Sends the transaction.
    ///
    /// **Awaiting returns** [`Applied`].
    pub fn commit(self) -> OpFuture<Applied> {
        self.into_future()
    }

    async fn run(self) -> Result<Applied> {
        let Self { transaction, receipt, proof } = &self;
        let target = &transaction.target;
        self.check_receipt()?;
        let mut ops = transaction.resolve()?;
        let own = ops.len();
        let mut budget = target.budget();
        let mut turn = receipt.turn(&budget).await.map_err(|error| target.error(error))?;
        let number = turn.next_number();
        let mut rounds = 0..RACE_ROUNDS;
        loop {
            let attempt = transaction.attempt(&budget).await?;
            let mut slip = turn.take(&attempt.session).unwrap_or_else(|| receipt.slip(&attempt.session));
            if let Some(proof) = proof
                && (slip.version.is_none() || *slip.path != *proof.path)
            {
                turn.put(slip);
                let gone = RawError::Refused(ErrorCode::NoNode);
                return Err(Error::raw(target.operation, target.zk.ns().strip(&proof.path), gone));
            }
            ops.truncate(own);
            slip.prove(number, &mut ops);
            // Dropped while it waits: the slip owes a deletion, and the next transaction makes a new one.
            let error = match attempt.raw.multi(&ops).await {
                Ok(mut results) => {
                    let stat = results.split_off(own).last().and_then(OpResult::stat).copied();
                    let Some(stat) = stat else { return Err(target.error(RawError::UnexpectedAnswer)) };
                    slip.written(stat.mzxid, stat.version);
                    let proof = Proof { path: slip.path.as_str().into() };
                    turn.put(slip);
                    let results = Some(transaction.visible(results));
                    return Ok(Applied { zxid: stat.mzxid, results, session: attempt.session, proof });
                }
                Err(error) => error,
            };
            let refused = refused(&error, own);
            let suspect = matches!(refused, Some(ErrorCode::BadVersion | ErrorCode::NodeExists));
            if error.may_have_applied() || suspect {
                let lost = transaction.error(&ops, error.clone());
                match self.look(&budget, &slip, number, &lost).await? {
                    Verdict::Applied { zxid, version } => {
                        slip.written(zxid, version);
                        let proof = Proof { path: slip.path.as_str().into() };
                        turn.put(slip);
                        return Ok(Applied { zxid, results: None, session: attempt.session, proof });
                    }
                    Verdict::NotApplied if !suspect => slip.unwritten(),
                    Verdict::Unreadable if !suspect => return Err(lost),
                    // Refused because of somebody else. A node that we have not created is not ours.
                    _ if rounds.next().is_some() => {
                        slip.unwritten();
                        continue;
                    }
                    _ => return Err(self.refusal(&slip, error)),
                }
                turn.put(slip);
                budget.spend(lost, attempt.session.epoch).await.map_err(Error::not_applied)?;
                continue;
            }
            if let Some(parent) = transaction.missing_parent(&ops, &error)
                && rounds.next().is_some()
            {
                slip.unwritten();
                turn.put(slip);
                transaction.create_parents(&mut budget, parent).await?;
                continue;
            }
            match refused {
                // Deleted by somebody else.
                Some(ErrorCode::NoNode) if slip.version.is_some() && rounds.next().is_some() => slip.gone(),
                Some(code) => {
                    slip.unwritten();
                    return Err(self.refusal(&slip, RawError::Refused(code)));
                }
                None => {
                    slip.unwritten();
                    turn.put(slip);
                    let error = transaction.error(&ops, error);
                    budget.spend(error, attempt.session.epoch).await?;
                }
            }
        }
    }

    fn check_receipt(&self) -> Result<()> {
        let (target, receipt) = (&self.transaction.target, &self.receipt);
        if !Arc::ptr_eq(target.zk.core(), receipt.zk().core()) {
            return Err(target.error(RawError::InvalidArgument("a receipt of another framework")));
        }
        zk_curator_client::path::validate(receipt.parent())
            .map_err(|why| Error::invalid_path(target.operation, receipt.parent(), why))
    }

    fn refusal(&self, slip: &Slip, error: RawError) -> Error {
        let target = &self.transaction.target;
        let error = match error {
            RawError::TransactionFailed { code, .. } => RawError::Refused(code),
            error => error,
        };
        Error::raw(target.operation, target.zk.ns().strip(&slip.path), error)
    }

    /// Learns what became of the transaction, however long the outage: it is the session that decides. Fails when that
    /// is over, with the call's deadline, or when the receipt cannot be read.
    async fn look(&self, budget: &Budget<'_>, slip: &Slip, number: u64, lost: &Error) -> Result<Verdict> {
        let target = &self.transaction.target;
        let expired = || target.error(RawError::SessionExpired { sent: true });
        loop {
            let attempt = target.attempt(budget).await.map_err(Error::of_unknown_outcome)?;
            if !Arc::ptr_eq(&attempt.session, &slip.session) {
                return Err(expired());
            }
            match slip.read(&*attempt.raw).await {
                Ok(read) => {
                    let read = read.as_ref().map(|read| (&read.data[..], &read.stat));
                    return Ok(slip.judge(number, read));
                }
                Err(RawError::SessionExpired { .. } | RawError::AuthFailed { .. }) => return Err(expired()),
                Err(error) if passes(&target.error(error.clone())) => {}
                Err(_) => return Err(lost.clone()),
            }
            let pause = budget.time_left().map_or(LOOK_AGAIN, |left| left.min(LOOK_AGAIN));
            tokio::time::sleep(pause).await;
        }
    }
}

/// Whether a read of the receipt that failed with this error may succeed later.
fn passes(error: &Error) -> bool {
    error.is_transient() || error.code() == Some(ErrorCode::Throttled)
}

/// Why the proof was refused, if that is why; the operations before it are `own`.
const fn refused(error: &RawError, own: usize) -> Option<ErrorCode> {
    match error {
        RawError::TransactionFailed { index, code } if *index >= own => Some(*code),
        _ => None,
    }
}

impl IntoFuture for CertainTransaction {
    type Output = Result<Applied>;
    type IntoFuture = OpFuture<Applied>;

    fn into_future(self) -> Self::IntoFuture {
        let target = &self.transaction.target;
        let (zk, operation, path) = (target.zk.clone(), target.operation, target.path.clone());
        OpFuture::new(&zk, operation, &path, self.run())
    }
}
