use std::fmt;
use std::future::IntoFuture;
use std::sync::Arc;

use zk_curator_client::internal::sleep;
use zk_curator_client::{Created, Error as RawError, ErrorCode, OpResult, Stat};

use super::receipt::{Receipt, ReceiptNode, ReceiptOutcome, ReceiptState, append};
use crate::core::{RACE_ROUNDS, Session};
use crate::error::{Error, Result};
use crate::framework::CuratorFramework;
use crate::op::{OpFuture, Transaction};
use crate::owned_node::OwnedNode;
use crate::retry::Budget;

/// The result of a transaction that was applied once.
#[derive(Clone)]
#[non_exhaustive]
pub struct Applied {
    zxid: i64,
    results: Option<Vec<OpResult>>,
    session: Arc<Session>,
    proof: CommitProof,
}

/// The node of a [receipt](Receipt), as a transaction has written it. See
/// [`CertainTransaction::while_there`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitProof {
    /// The path on the server. No two receipts have the same.
    path: Arc<str>,
}

impl Applied {
    /// Returns the node of the receipt that proves the transaction.
    #[must_use]
    pub const fn proof(&self) -> &CommitProof {
        &self.proof
    }

    /// Returns its transaction id. This is the `czxid` of the nodes that it created, and the
    /// `mzxid` of the nodes that it wrote, until they are written again.
    #[must_use]
    pub const fn zxid(&self) -> i64 {
        self.zxid
    }

    /// Returns one [`OpResult`] for each operation, in order, with paths within the namespace.
    /// Returns `None` if the response was lost and the receipt has proven the transaction instead:
    /// the sequence numbers and stats are then unknown.
    #[must_use]
    pub fn results(&self) -> Option<&[OpResult]> {
        self.results.as_deref()
    }

    /// Returns the guard of a node that this transaction created, whose name other clients may use
    /// too. `stat` is the result of a later read of the path. Returns `None` if it belongs to
    /// another node.
    #[must_use = "the node has no guard otherwise"]
    pub fn own(
        &self,
        zk: &CuratorFramework,
        path: impl Into<String>,
        stat: Stat,
    ) -> Option<OwnedNode> {
        if stat.czxid != self.zxid {
            return None;
        }
        let created = Created::new(zk.ns().apply(&path.into()), stat);
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
        f.debug_struct("Applied")
            .field("zxid", zxid)
            .field("results", results)
            .finish_non_exhaustive()
    }
}

impl Transaction {
    /// Settles a lost response. An additional operation writes a number to the [receipt](Receipt),
    /// which is read after an unknown outcome. Set the options of the transaction first. See
    /// [`certain`](super).
    ///
    /// **Awaiting returns** [`Applied`].
    pub fn certain(self, receipt: &Receipt) -> CertainTransaction {
        CertainTransaction::new(self, receipt.clone())
    }
}

/// A [certain](Transaction::certain) transaction, or a single certain operation, of
/// [`CreateBuilder::certain`](crate::op::CreateBuilder::certain),
/// [`SetDataBuilder::certain`](crate::op::SetDataBuilder::certain) or
/// [`DeleteBuilder::certain`](crate::op::DeleteBuilder::certain). See the [module](super) for its
/// protocol.
///
/// **Awaiting returns** [`Applied`]. **Nothing is sent until it is awaited.**
///
/// # Errors
/// * The errors of a [`Transaction`]; `TransactionFailed` counts the operations of the caller. For
///   a single operation, its own errors: `NoNode`, `NodeExists`, `BadVersion`, `NotEmpty`.
///   `InvalidArgument` if its options select another way to settle a lost response; nothing was
///   sent.
/// * Without `may_have_applied`, the transaction was not applied. With it, the receipt could not be
///   read: the session ended (`SessionExpired`), the deadline passed (`OperationTimeout`), the
///   framework was closed (`Closed`), or another client deleted or wrote the receipt (the error of
///   the lost response).
/// * `NoNode`, `NoAuth`, `NoChildrenForEphemerals` with the path of the receipt, which is below its
///   parent: the receipt cannot be created or written. Nothing was applied.
/// * `Unsupported` with a raw client without transactions.
/// * `InvalidArgument` if the receipt belongs to another framework.
///
/// # Cancel safety
/// Once the future was polled, the transaction may be applied. The receipt can be used for the next
/// one.
#[derive(Debug)]
#[must_use = "nothing is sent until it is committed and awaited"]
pub struct CertainTransaction {
    transaction: Transaction,
    receipt: Receipt,
    /// The node of a receipt that has to exist.
    proof: Option<CommitProof>,
}

impl CertainTransaction {
    pub(crate) fn new(mut transaction: Transaction, receipt: Receipt) -> Self {
        if transaction.target.path.is_empty() {
            receipt.parent().clone_into(&mut transaction.target.path);
        }
        Self { transaction, receipt, proof: None }
    }

    /// Applies the transaction only while this node of the receipt exists: it was not deleted, and
    /// its session has not ended. Otherwise it fails with `NoNode` and the path of the receipt, and
    /// nothing was applied.
    ///
    /// A node with children cannot be deleted. So the parent of the receipt is still the node from
    /// the time of the proof, and so are the results of later reads: the version in a conditional
    /// write cannot match another node that was created in its place.
    pub fn while_there(mut self, proof: &CommitProof) -> Self {
        self.proof = Some(proof.clone());
        self
    }

    /// Does the same as [`Transaction::check_size`], with the receipt.
    ///
    /// # Errors
    /// As [`Transaction::check_size`].
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

    #[expect(clippy::too_many_lines, reason = "the outcomes of a commit, each with its next step")]
    async fn run(self) -> Result<Applied> {
        let Self { transaction, receipt, proof } = &self;
        let target = &transaction.target;
        self.check_receipt()?;
        let mut ops = transaction.resolve()?;
        let own = ops.len();
        let mut budget = target.budget();
        let mut state = receipt.lock(&budget).await.map_err(|error| target.error(error))?;
        let number = state.next_number();
        let mut rounds = 0..RACE_ROUNDS;
        loop {
            let attempt = transaction.attempt(&budget).await?;
            let mut node =
                state.take(&attempt.session).unwrap_or_else(|| receipt.new_node(&attempt.session));
            if let Some(proof) = proof
                && (node.version.is_none() || *node.path != *proof.path)
            {
                state.put(node);
                let gone = RawError::Refused(ErrorCode::NoNode);
                return Err(Error::raw(target.operation, target.zk.ns().strip(&proof.path), gone));
            }
            ops.truncate(own);
            node.prove(number, &mut ops);
            // If the future is dropped during the wait, the receipt deletes its node, and the next
            // transaction creates a new one.
            let answer = match transaction.send(&*attempt.raw, &ops).await {
                Ok(answer) => answer,
                Err(withdrawn) => {
                    node.unwritten();
                    state.put(node);
                    return Err(withdrawn);
                }
            };
            let error = match answer {
                Ok(mut results) => {
                    let stat = results.split_off(own).last().and_then(OpResult::stat).copied();
                    let Some(stat) = stat else {
                        return Err(target.error(RawError::UnexpectedResponse));
                    };
                    transaction.note_created(&ops, stat.mzxid);
                    let proof = proven(&mut state, node, stat.mzxid, stat.version);
                    let results = Some(transaction.visible(results));
                    let (zxid, session) = (stat.mzxid, attempt.session);
                    return Ok(Applied { zxid, results, session, proof });
                }
                Err(error) => error,
            };
            let refused = refused(&error, own);
            let suspect = matches!(refused, Some(ErrorCode::BadVersion | ErrorCode::NodeExists));
            if error.may_have_applied() || suspect {
                let lost = transaction.error(&ops, error.clone());
                match self.check_outcome(&budget, &node, number, &lost).await? {
                    ReceiptOutcome::Applied { zxid, version } => {
                        transaction.note_created(&ops, zxid);
                        let proof = proven(&mut state, node, zxid, version);
                        return Ok(Applied {
                            zxid,
                            results: None,
                            session: attempt.session,
                            proof,
                        });
                    }
                    ReceiptOutcome::NotApplied if !suspect => node.unwritten(),
                    ReceiptOutcome::Unreadable if !suspect => return Err(lost),
                    // Another client caused the refusal. A node that this client has not created is
                    // not its receipt.
                    _ if rounds.next().is_some() => {
                        node.unwritten();
                        continue;
                    }
                    _ => return Err(self.refusal(&node, error)),
                }
                state.put(node);
                budget.spend(lost, attempt.session.epoch).await.map_err(Error::not_applied)?;
                continue;
            }
            if let Some(parent) = transaction.missing_parent(&ops, &error)
                && rounds.next().is_some()
            {
                node.unwritten();
                state.put(node);
                transaction.create_parents(&mut budget, parent).await?;
                continue;
            }
            match refused {
                // Another client deleted the receipt.
                Some(ErrorCode::NoNode) if node.version.is_some() && rounds.next().is_some() => {
                    node.gone();
                }
                Some(code) => {
                    node.unwritten();
                    return Err(self.refusal(&node, RawError::Refused(code)));
                }
                None => {
                    node.unwritten();
                    state.put(node);
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

    fn refusal(&self, node: &ReceiptNode, error: RawError) -> Error {
        let target = &self.transaction.target;
        let error = match error {
            RawError::TransactionFailed { code, .. } => RawError::Refused(code),
            error => error,
        };
        Error::raw(target.operation, target.zk.ns().strip(&node.path), error)
    }

    /// Finds out the outcome of the transaction, regardless of the length of an outage, because the
    /// session decides. Fails if the session is over, with the deadline of the call, or if the
    /// receipt cannot be read.
    async fn check_outcome(
        &self,
        budget: &Budget<'_>,
        node: &ReceiptNode,
        number: u64,
        lost: &Error,
    ) -> Result<ReceiptOutcome> {
        let target = &self.transaction.target;
        let expired = || target.error(RawError::SessionExpired { sent: true });
        loop {
            let attempt = target.attempt(budget).await.map_err(Error::of_unknown_outcome)?;
            if !Arc::ptr_eq(&attempt.session, &node.session) {
                return Err(expired());
            }
            match node.read(&*attempt.raw).await {
                Ok(read) => {
                    let read = read.as_ref().map(|read| (&read.data[..], &read.stat));
                    return Ok(node.judge(number, read));
                }
                Err(RawError::SessionExpired { .. } | RawError::AuthFailed { .. }) => {
                    return Err(expired());
                }
                Err(error) => {
                    let error = target.error(error);
                    if !error.is_transient() {
                        return Err(lost.clone());
                    }
                    let pause = target.zk.pause_after(&error);
                    sleep(pause.min(budget.time_left().unwrap_or(pause))).await;
                }
            }
        }
    }
}

/// Returns the proof of a receipt that a transaction has written, and makes the receipt available
/// again.
fn proven(state: &mut ReceiptState, mut node: ReceiptNode, zxid: i64, version: i32) -> CommitProof {
    node.written(zxid, version);
    let proof = CommitProof { path: node.path.as_str().into() };
    state.put(node);
    proof
}

/// Returns the code if the proof was refused. There are `own` operations before it.
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
