use std::future::IntoFuture;

use bytes::Bytes;
use tokio_util::sync::CancellationToken;
use zk_curator_client::{CreateMode, Error as RawError, ErrorCode, Op, OpResult, Version};

use super::parents::{Parents, create_parents};
use super::transaction_op::{CheckOp, CreateOp, DeleteOp, SetDataOp, TransactionOp};
use super::{AttemptClient, OpFuture, OpTarget, call_options};
use crate::core::RACE_ROUNDS;
use crate::error::{Error, ErrorKind, Result};
use crate::framework::CuratorFramework;
use crate::owned_node::Ownership;
use crate::path::split;
use crate::raw::RawClient;
use crate::retry::Budget;

impl CuratorFramework {
    /// Begins a transaction, which applies all of its operations or none.
    pub fn transaction(&self) -> Transaction {
        Transaction::new(self.clone())
    }
}

/// A transaction: all of its operations are applied, or none.
///
/// ```no_run
/// # async fn run(zk: zk_curator::CuratorFramework) -> Result<(), zk_curator::Error> {
/// let results = zk.transaction().check("/cfg", Some(3)).set_data("/cfg", "v4").create("/log/e", "").commit().await?;
/// # Ok(()) }
/// ```
///
/// A missing namespace is created before a node directly below it, as by
/// [`CreateBuilder`](super::CreateBuilder). Other parents have to exist.
///
/// Fails with `TransactionFailed`, which names the failed operation. A
/// [fenced](crate::Ownership::fenced) transaction may fail with `OwnershipLost`. After an unknown
/// outcome the transaction is not repeated, and fails with
/// [`may_have_applied`](crate::Error::may_have_applied), unless it is [`certain`](Self::certain).
///
/// # Cancel safety
/// Once the future was polled, the transaction may be applied.
#[derive(Debug)]
#[must_use = "nothing is sent until it is committed and awaited"]
pub struct Transaction {
    pub(crate) target: OpTarget,
    ops: Vec<TransactionOp>,
    /// The nodes that this client has to own for the transaction to be applied.
    fences: Vec<Ownership>,
    /// The single operation of a builder, whose errors are those of the operation.
    single: Option<Single>,
    withdrawal: Option<CancellationToken>,
}

/// The options that only the builder of a single operation has.
#[derive(Debug)]
struct Single {
    parents: Parents,
    /// The reason why its options exclude each other, if they do.
    conflict: Option<&'static str>,
}

impl Transaction {
    pub(crate) fn new(zk: CuratorFramework) -> Self {
        Self {
            target: OpTarget::new(zk, "transaction", String::new()),
            ops: Vec::new(),
            fences: Vec::new(),
            single: None,
            withdrawal: None,
        }
    }

    /// Returns the operation of a builder, or the reason why its options exclude each other.
    pub(super) fn single(
        target: OpTarget,
        op: impl Into<TransactionOp>,
        parents: Parents,
        conflict: Option<&'static str>,
    ) -> Self {
        let single = Some(Single { parents, conflict });
        Self { target, ops: vec![op.into()], fences: Vec::new(), single, withdrawal: None }
    }

    /// Returns a transaction that is applied only while the owned node exists.
    pub(crate) fn fenced(zk: CuratorFramework, fence: Ownership) -> Self {
        Self { fences: vec![fence], ..Self::new(zk) }
    }

    /// Adds an operation: a [`CreateOp`], [`SetDataOp`], [`DeleteOp`] or [`CheckOp`] with all its
    /// options. The methods below are shortcuts for operations without options.
    pub fn with(mut self, op: impl Into<TransactionOp>) -> Self {
        let op = op.into();
        if self.target.path.is_empty() {
            op.path().clone_into(&mut self.target.path);
        }
        self.ops.push(op);
        self
    }

    /// Checks that a node exists and has this version; `None` or -1 for any.
    pub fn check(self, path: impl Into<String>, version: impl Into<Version>) -> Self {
        self.with(CheckOp::new(path).version(version))
    }

    /// Creates a persistent node.
    pub fn create(self, path: impl Into<String>, data: impl Into<Bytes>) -> Self {
        self.with(CreateOp::new(path).data(data))
    }

    /// Creates a node of a kind without a time to live.
    pub fn create_with_mode(
        self,
        path: impl Into<String>,
        data: impl Into<Bytes>,
        mode: CreateMode,
    ) -> Self {
        self.with(CreateOp::new(path).data(data).mode(mode))
    }

    /// Replaces the data of a node.
    pub fn set_data(self, path: impl Into<String>, data: impl Into<Bytes>) -> Self {
        self.with(SetDataOp::new(path, data))
    }

    /// Replaces the data of a node that must have this version; -1 for any, as in Java.
    pub fn set_data_if(
        self,
        path: impl Into<String>,
        data: impl Into<Bytes>,
        version: impl Into<Version>,
    ) -> Self {
        self.with(SetDataOp::new(path, data).version(version))
    }

    /// Deletes a node.
    pub fn delete(self, path: impl Into<String>) -> Self {
        self.with(DeleteOp::new(path))
    }

    /// Deletes a node that must have this version; -1 for any, as in Java.
    pub fn delete_if(self, path: impl Into<String>, version: impl Into<Version>) -> Self {
        self.with(DeleteOp::new(path).version(version))
    }

    /// Applies the transaction only while another owned node exists too, as with
    /// [`Ownership::fenced`]. Otherwise it fails with `OwnershipLost`.
    pub fn fenced_by(mut self, ownership: &Ownership) -> Self {
        self.fences.push(ownership.clone());
        self
    }

    /// See [`internal::withdrawn_by`](crate::internal::withdrawn_by).
    pub(crate) fn withdrawn_by(mut self, token: CancellationToken) -> Self {
        self.withdrawal = Some(token);
        self
    }

    /// Stores data unchanged, even if the framework compresses, unless an operation asks for
    /// compression: as [`CuratorFramework::uncompressed`].
    pub fn uncompressed(mut self) -> Self {
        self.target.zk = self.target.zk.uncompressed();
        self
    }

    /// Checks if servers accept the size of the transaction, for callers that have to do something
    /// else first. Sends nothing.
    ///
    /// # Errors
    /// The errors of a [`commit`](Self::commit) that sends nothing: `TooLarge`, `InvalidPath`,
    /// `SchemaViolation`, `NotStarted`, `Closed`.
    pub fn check_size(&self) -> Result<()> {
        self.check_size_of(&self.resolve()?)
    }

    pub(crate) fn check_size_of(&self, ops: &[Op]) -> Result<()> {
        let OpTarget { zk, operation, path, .. } = &self.target;
        let session = match zk.core().session(operation, path) {
            Ok(session) => session,
            // The framework has just started. The request is checked again when it is sent.
            Err(error) if error.kind() == ErrorKind::NotStarted && zk.core().is_started() => {
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        session.raw.check_size(ops).map_err(|error| self.error(ops, error))
    }

    /// Returns the operations to send: a check of each fence, and then those of the caller.
    pub(crate) fn resolve(&self) -> Result<Vec<Op>> {
        if let Some(why) = self.single.as_ref().and_then(|single| single.conflict) {
            return Err(self.target.error(RawError::InvalidArgument(why)));
        }
        let checks = self
            .fences
            .iter()
            .map(|fence| Op::Check { path: fence.server_path(), version: Version::Any });
        checks.map(Ok).chain(self.ops.iter().map(|op| op.clone().resolve(&self.target))).collect()
    }

    /// Sends the transaction.
    ///
    /// **Awaiting returns** one [`OpResult`] for each operation, in order; its paths are within the
    /// namespace.
    pub fn commit(self) -> OpFuture<Vec<OpResult>> {
        self.into_future()
    }

    async fn run(self) -> Result<Vec<OpResult>> {
        let ops = self.resolve()?;
        let mut budget = self.target.budget();
        let mut rounds = 0..RACE_ROUNDS;
        let results = loop {
            let attempt = self.attempt(&budget).await?;
            match self.send(&*attempt.raw, &ops).await? {
                Ok(results) => {
                    // ZooKeeper 3.8 does not return the transaction id.
                    let stat = results.iter().find_map(OpResult::stat);
                    let seen = || attempt.session.raw.last_zxid_seen();
                    self.note_created(&ops, stat.map_or_else(seen, |stat| stat.mzxid));
                    break results;
                }
                Err(error) => {
                    if let Some(parent) = self.missing_parent(&ops, &error)
                        && rounds.next().is_some()
                    {
                        self.create_parents(&mut budget, parent).await?;
                        continue;
                    }
                    let error = self.error(&ops, error);
                    if error.may_have_applied() {
                        return Err(error);
                    }
                    budget.spend(error, attempt.session.epoch).await?;
                }
            }
        };
        Ok(self.visible(results))
    }

    /// Records that the transaction was applied, at `zxid` at the latest, so the nodes that it
    /// created belong to no other create.
    pub(crate) fn note_created(&self, ops: &[Op], zxid: i64) {
        for op in ops {
            if let Op::Create { path, .. } = op {
                self.target.zk.core().authors.created(path, zxid);
            }
        }
    }

    /// Sends the operations once, and returns the response.
    ///
    /// # Errors
    /// `Withdrawn`, `OwnershipLost`: the operations were not sent.
    pub(crate) async fn send(
        &self,
        raw: &dyn RawClient,
        ops: &[Op],
    ) -> Result<Result<Vec<OpResult>, RawError>> {
        let Some(token) = &self.withdrawal else {
            let answer = self.while_owned(|| raw.multi(ops))?;
            return Ok(answer.await);
        };
        let withdrawn =
            || Error::new(ErrorKind::Withdrawn, self.target.operation, self.target.path.as_str());
        if token.is_cancelled() {
            return Err(withdrawn());
        }
        let mut answer = self.while_owned(|| raw.multi_revocable(ops))?;
        tokio::select! {
            biased;
            answer = &mut answer => return Ok(answer),
            () = token.cancelled() => {}
        }
        if answer.as_mut().withdraw() {
            return Err(withdrawn());
        }
        Ok(answer.await)
    }

    /// Sends, unless a fence is over. Another thread that [passes its
    /// node on](crate::OwnedNode::renew_ownership) waits until this has sent.
    fn while_owned<T>(&self, send: impl FnOnce() -> T) -> Result<T> {
        if self.fences.is_empty() {
            return Ok(send());
        }
        let lost = || self.fences.iter().find(|fence| fence.is_over());
        let sends = &self.target.zk.core().fenced_sends;
        sends.send_unless(lost, send).map_err(|fence| self.ownership_lost(fence))
    }

    /// Returns the missing parent that caused the refusal of a create in the transaction, if it has
    /// to be created. The namespace always has to be created, the chroot if the framework creates
    /// it, and other parents only if the builder of the operation requests it.
    pub(crate) fn missing_parent<'a>(&self, ops: &'a [Op], error: &RawError) -> Option<&'a str> {
        let RawError::TransactionFailed { index, code: ErrorCode::NoNode } = error else {
            return None;
        };
        let Some(Op::Create { path, .. }) = ops.get(*index) else { return None };
        let parent = split(path).0;
        let wanted = self.single.as_ref().is_some_and(|single| single.parents.are_wanted())
            || (parent == "/" && self.target.zk.core().restores_chroot());
        (wanted || self.target.zk.ns().node() == Some(parent)).then_some(parent)
    }

    /// Creates the parent that [`missing_parent`](Self::missing_parent) has found.
    pub(crate) async fn create_parents(&self, budget: &mut Budget<'_>, parent: &str) -> Result<()> {
        let none = Parents::default();
        let parents = self.single.as_ref().map_or(&none, |single| &single.parents);
        create_parents(&self.target, budget, parent, parents).await
    }

    /// Returns the results of the caller's operations, with paths within the namespace.
    pub(crate) fn visible(&self, results: Vec<OpResult>) -> Vec<OpResult> {
        let namespace = self.target.zk.ns();
        let visible = |result| match result {
            OpResult::Created { path, stat } => {
                OpResult::Created { path: namespace.strip(&path).to_owned(), stat }
            }
            other => other,
        };
        results.into_iter().skip(self.fences.len()).map(visible).collect()
    }

    /// Returns the session of the next attempt. A fenced transaction must be applied in the session
    /// of the owned node.
    pub(crate) async fn attempt(&self, budget: &Budget<'_>) -> Result<AttemptClient> {
        let attempt = self.target.attempt(budget).await?;
        match self.fences.iter().find(|fence| !fence.is_of(&attempt.session)) {
            Some(fence) => Err(self.ownership_lost(fence)),
            None => Ok(attempt),
        }
    }

    /// Translates the error for the caller, who does not know of the fences.
    pub(crate) fn error(&self, ops: &[Op], error: RawError) -> Error {
        let fenced = self.fences.len();
        match error {
            RawError::TransactionFailed { index, code } if index < fenced => {
                if code == ErrorCode::NoNode {
                    self.fences[index].give_up();
                    self.ownership_lost(&self.fences[index])
                } else {
                    self.target.error(RawError::Refused(code))
                }
            }
            RawError::TransactionFailed { code, .. } if self.single.is_some() => {
                self.target.error(RawError::Refused(code))
            }
            RawError::TransactionFailed { index, code } => {
                let path = ops.get(index).map_or(self.target.path.as_str(), Op::path);
                let path = self.target.zk.ns().strip(path);
                let error = RawError::TransactionFailed { index: index - fenced, code };
                Error::raw(self.target.operation, path, error)
            }
            RawError::SessionExpired { sent: false } if fenced > 0 => {
                self.ownership_lost(&self.fences[0])
            }
            error => self.target.error(error),
        }
    }

    fn ownership_lost(&self, fence: &Ownership) -> Error {
        Error::new(ErrorKind::OwnershipLost, self.target.operation, fence.path())
    }
}

call_options!(Transaction);

impl IntoFuture for Transaction {
    type Output = Result<Vec<OpResult>>;
    type IntoFuture = OpFuture<Vec<OpResult>>;

    fn into_future(self) -> Self::IntoFuture {
        let (zk, operation, path) =
            (self.target.zk.clone(), self.target.operation, self.target.path.clone());
        OpFuture::new(&zk, operation, &path, self.run())
    }
}

impl Ownership {
    /// Begins a transaction that is applied only while the node exists. Otherwise it fails with
    /// `OwnershipLost`. After the guard of the node was released or dropped, the transaction is not
    /// sent.
    ///
    /// Servers check only the path. If [other clients may use the
    /// name](crate::OwnedNode#shared-names), the check also passes with a foreign node, until this
    /// client knows that its own node is gone.
    pub fn fenced(&self) -> Transaction {
        Transaction::fenced(self.zk.clone(), self.clone())
    }
}
