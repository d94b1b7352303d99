use std::future::IntoFuture;
use std::sync::Arc;

use bytes::Bytes;
use zk_curator_client::{Acl, CreateMode, Error as RawError, ErrorCode, Op, OpResult};

use super::{OpFuture, Target};
use crate::error::{Error, ErrorKind, Result};
use crate::framework::{CuratorFramework, Session};
use crate::owned_node::Ownership;
use crate::path::validate_create;
use crate::retry::Budget;
use crate::schema::Intent;

/// Operations of which all are applied, or none.
///
/// ```no_run
/// # async fn run(zk: zk_curator::CuratorFramework) -> Result<(), zk_curator::Error> {
/// let results = zk.transaction().check("/cfg", Some(3)).set_data("/cfg", "v4").create("/log/e", "").commit().await?;
/// # Ok(()) }
/// ```
///
/// Fails with `TransactionFailed`, which names the operation at fault, and if it is
/// [fenced](crate::Ownership::fenced) with `OwnershipLost`. After an unknown outcome it is not
/// repeated, and fails with [`may_have_applied`](crate::Error::may_have_applied).
///
/// # Cancel safety
/// Once polled, it may be applied.
#[derive(Debug)]
#[must_use = "nothing is sent until it is committed and awaited"]
pub struct Transaction {
    target: Target,
    ops: Vec<Op>,
    /// What has to be ours for it to be applied.
    fences: Vec<Ownership>,
}

impl Transaction {
    pub(crate) const fn new(zk: CuratorFramework) -> Self {
        Self { target: Target::new(zk, "transaction", String::new()), ops: Vec::new(), fences: Vec::new() }
    }

    /// A transaction that is applied only while the owned node exists.
    pub(crate) fn fenced(zk: CuratorFramework, fence: Ownership) -> Self {
        Self { fences: vec![fence], ..Self::new(zk) }
    }

    /// Checks that a node exists and has this version; `None` for any.
    pub fn check(self, path: impl Into<String>, version: Option<i32>) -> Self {
        self.push(Op::Check { path: path.into(), version })
    }

    /// Creates a persistent node.
    pub fn create(self, path: impl Into<String>, data: impl Into<Bytes>) -> Self {
        self.create_with_mode(path, data, CreateMode::Persistent)
    }

    /// Creates a node of a kind without a time to live.
    pub fn create_with_mode(self, path: impl Into<String>, data: impl Into<Bytes>, mode: CreateMode) -> Self {
        let acl = Acl::open_unsafe();
        self.push(Op::Create { path: path.into(), data: data.into(), acl, mode, ttl: None })
    }

    /// Replaces the data of a node.
    pub fn set_data(self, path: impl Into<String>, data: impl Into<Bytes>) -> Self {
        self.push(Op::SetData { path: path.into(), data: data.into(), version: None })
    }

    /// Replaces the data of a node that must have this version.
    pub fn set_data_if(self, path: impl Into<String>, data: impl Into<Bytes>, version: i32) -> Self {
        self.push(Op::SetData { path: path.into(), data: data.into(), version: Some(version) })
    }

    /// Deletes a node.
    pub fn delete(self, path: impl Into<String>) -> Self {
        self.push(Op::Delete { path: path.into(), version: None })
    }

    /// Deletes a node that must have this version.
    pub fn delete_if(self, path: impl Into<String>, version: i32) -> Self {
        self.push(Op::Delete { path: path.into(), version: Some(version) })
    }

    /// Is only applied while another node of ours exists too, as with [`Ownership::fenced`]; else it fails with
    /// `OwnershipLost`.
    pub fn fenced_by(mut self, ownership: &Ownership) -> Self {
        self.fences.push(ownership.clone());
        self
    }

    /// Sends the transaction.
    ///
    /// **Awaiting returns** one [`OpResult`] for each operation, in order; its paths are within the
    /// namespace.
    pub fn commit(self) -> OpFuture<Vec<OpResult>> {
        self.into_future()
    }

    fn push(mut self, op: Op) -> Self {
        if self.target.path.is_empty() {
            op.path().clone_into(&mut self.target.path);
        }
        self.ops.push(op);
        self
    }

    /// Asks the schemas, and compresses what is written if the framework is to.
    fn prepare(&mut self) -> Result<()> {
        let core = Arc::clone(self.target.zk.core());
        for op in &mut self.ops {
            let intent = match &*op {
                Op::Create { mode, data, acl, .. } => Some(Intent::Create { mode: *mode, data, acl }),
                Op::SetData { data, .. } => Some(Intent::Write { data, acl: &[] }),
                Op::Delete { .. } => Some(Intent::Delete),
                _ => None,
            };
            if let Some(intent) = intent {
                core.schemas().admit(self.target.operation, op.path(), intent)?;
            }
            if let Op::Create { path, data, .. } | Op::SetData { path, data, .. } = op {
                let plain = std::mem::take(data);
                *data = core.compression().compress(self.target.operation, path, None, plain)?;
            }
        }
        Ok(())
    }

    async fn run(mut self) -> Result<Vec<OpResult>> {
        self.prepare()?;
        for op in &mut self.ops {
            let sequential = matches!(op, Op::Create { mode, .. } if mode.is_sequential());
            let (Op::Create { path, .. }
            | Op::Delete { path, .. }
            | Op::SetData { path, .. }
            | Op::Check { path, .. }) = op
            else {
                continue;
            };
            validate_create(path, sequential)
                .map_err(|why| Error::invalid_path(self.target.operation, path.as_str(), why))?;
            *path = self.target.zk.ns().apply_create(path, sequential);
        }
        // The first operations, which the caller does not see.
        let namespace = self.target.zk.ns().clone();
        let checks =
            self.fences.iter().map(|fence| Op::Check { path: namespace.apply(fence.path()), version: None });
        self.ops.splice(..0, checks);
        let fenced = self.fences.len();
        let mut budget = Budget::new(self.target.zk.core());
        let results = loop {
            let session = self.session()?;
            match session.raw.multi(&self.ops).await {
                Ok(results) => break results,
                Err(error) => {
                    let error = self.error(error);
                    if error.may_have_applied() {
                        return Err(error);
                    }
                    budget.spend(error, session.epoch).await?;
                }
            }
        };
        let namespace = self.target.zk.ns();
        let visible = |result| match result {
            OpResult::Created { path, stat } => {
                OpResult::Created { path: namespace.strip(&path).to_owned(), stat }
            }
            other => other,
        };
        Ok(results.into_iter().skip(fenced).map(visible).collect())
    }

    /// The session to send it in: what is fenced has to be applied in the session of the owned node.
    fn session(&self) -> Result<Arc<Session>> {
        let session = self.target.session()?;
        match self.fences.iter().find(|fence| !fence.is_of(&session)) {
            Some(fence) => Err(self.ownership_lost(fence)),
            None => Ok(session),
        }
    }

    /// The error as the caller is to see it, who does not know of the fences.
    fn error(&self, error: RawError) -> Error {
        let fenced = self.fences.len();
        match error {
            RawError::TransactionFailed { index, code } if index < fenced => {
                if code == ErrorCode::NoNode {
                    self.ownership_lost(&self.fences[index])
                } else {
                    self.target.error(RawError::Refused(code))
                }
            }
            RawError::TransactionFailed { index, code } => {
                let path = self.ops.get(index).map_or(self.target.path.as_str(), Op::path);
                let path = self.target.zk.ns().strip(path);
                let error = RawError::TransactionFailed { index: index - fenced, code };
                Error::raw(self.target.operation, path, error)
            }
            RawError::SessionExpired { sent: false } if fenced > 0 => self.ownership_lost(&self.fences[0]),
            error => self.target.error(error),
        }
    }

    fn ownership_lost(&self, fence: &Ownership) -> Error {
        Error::new(ErrorKind::OwnershipLost, self.target.operation, fence.path())
    }
}

impl IntoFuture for Transaction {
    type Output = Result<Vec<OpResult>>;
    type IntoFuture = OpFuture<Vec<OpResult>>;

    fn into_future(self) -> Self::IntoFuture {
        let (operation, path) = (self.target.operation, self.target.path.clone());
        OpFuture::new(operation, &path, self.run())
    }
}
