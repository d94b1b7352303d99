//! The requests about nodes.

use std::time::Duration;

use bytes::Bytes;
use zk_curator_proto::records::{
    Acl, CheckVersionRequest, CreateMode, CreateRequest, CreateTtlRequest, DeleteRequest, MultiOp,
    SetDataRequest, Stat,
};
use zk_curator_proto::{Encoder, OpCode, Request, Response, millis};

use crate::answer::{
    self, Pending, PendingWatched, children, data, nothing, stat, stat_of_response,
};
use crate::path::{validate, validate_sequential};
use crate::session::WatchPlan;
use crate::{Children, Created, Data, Error, Op, OpResult, Version, ZooKeeper};

/// The root, which no server deletes. A request to delete it is sent without the chroot, so the
/// server refuses it.
const ROOT: &str = "/";

impl ZooKeeper {
    /// Creates a node. Sends `create2`, or `createContainer` for [`CreateMode::Container`].
    ///
    /// # Errors
    /// `NodeExists`, `NoNode` (of the parent), `NoChildrenForEphemerals`, `InvalidAcl`.
    pub fn create(
        &self,
        path: &str,
        data: &[u8],
        acl: &[Acl],
        mode: CreateMode,
    ) -> Pending<Created> {
        self.send_create(&create_op(path, data, acl, mode, None))
    }

    /// Creates the node of an [`Op::Create`].
    ///
    /// # Errors
    /// Those of [`create`](Self::create), and [`Error::InvalidArgument`] for another operation.
    pub fn create_op(&self, op: &Op) -> Pending<Created> {
        match op {
            Op::Create { .. } => self.send_create(op),
            _ => Pending::failed(Error::InvalidArgument("not a create operation")),
        }
    }

    /// Creates a node that the server removes if it has no children and was not written for `ttl`,
    /// from 1 ms to 2^40 - 1 ms. The server must have `extendedTypesEnabled`.
    pub fn create_with_ttl(
        &self,
        path: &str,
        data: &[u8],
        acl: &[Acl],
        mode: CreateMode,
        ttl: Duration,
    ) -> Pending<Created> {
        self.send_create(&create_op(path, data, acl, mode, Some(ttl)))
    }

    fn send_create(&self, op: &Op) -> Pending<Created> {
        let request = match self.wire_op(op) {
            Ok(MultiOp::Create2(body)) => Request::Create2(body),
            Ok(MultiOp::CreateContainer(body)) => Request::CreateContainer(body),
            Ok(MultiOp::CreateTtl(body)) => Request::CreateTtl(body),
            Ok(_) => return Pending::failed(Error::UnexpectedResponse),
            Err(error) => return Pending::failed(error),
        };
        self.submit(&request, |response, chroot| match response {
            Response::Created(body) => Some(answer::created(body, chroot)),
            _ => None,
        })
    }

    /// Deletes a node without children, if its data version is `version`.
    ///
    /// # Errors
    /// `NoNode`, `BadVersion`, `NotEmpty`; `BadArguments` for `/`, which is never the node of the
    /// chroot.
    pub fn delete(&self, path: &str, version: impl Into<Version>) -> Pending<()> {
        match version.into().to_wire() {
            Ok(version) if path == ROOT => {
                let body = DeleteRequest { path: ROOT.to_owned(), version };
                self.submit(&Request::Delete(body), nothing)
            }
            Ok(version) => self.at(path, OpCode::Delete, nothing, |body| body.i32(version)),
            Err(error) => Pending::failed(error),
        }
    }

    /// Returns the stat of a node, or `None` if it does not exist.
    pub fn exists(&self, path: &str) -> Pending<Option<Stat>> {
        self.at(path, OpCode::Exists, stat, |body| body.bool(false)).absent_is_none()
    }

    /// Does the same as [`ZooKeeper::exists`], and sets a watch for creation, change of data and
    /// deletion.
    pub fn exists_watched(&self, path: &str) -> PendingWatched<Option<Stat>> {
        let mut pending = self.watched(path, OpCode::Exists, WatchPlan::Exists, stat);
        pending.answer = pending.answer.absent_is_none();
        pending
    }

    /// Returns data and stat of a node.
    ///
    /// # Errors
    /// `NoNode`.
    pub fn get_data(&self, path: &str) -> Pending<Data> {
        self.at(path, OpCode::GetData, data, |body| body.bool(false))
    }

    /// Does the same as [`ZooKeeper::get_data`], and sets a watch for change of data and deletion,
    /// if the node exists.
    pub fn get_data_watched(&self, path: &str) -> PendingWatched<Data> {
        self.watched(path, OpCode::GetData, WatchPlan::Data, data)
    }

    /// Replaces the data of a node, if its version is `version`.
    ///
    /// # Errors
    /// `NoNode`, `BadVersion`.
    pub fn set_data(&self, path: &str, data: &[u8], version: impl Into<Version>) -> Pending<Stat> {
        match version.into().to_wire() {
            Ok(version) => self.at(path, OpCode::SetData, stat_of_response, |body| {
                body.buffer(Some(data));
                body.i32(version);
            }),
            Err(error) => Pending::failed(error),
        }
    }

    /// Returns the names of a node's children, in no order, and its stat.
    ///
    /// # Errors
    /// `NoNode`.
    pub fn get_children(&self, path: &str) -> Pending<Children> {
        self.at(path, OpCode::GetChildren2, children, |body| body.bool(false))
    }

    /// Does the same as [`ZooKeeper::get_children`], and sets a watch for children and deletion, if
    /// the node exists.
    pub fn get_children_watched(&self, path: &str) -> PendingWatched<Children> {
        self.watched(path, OpCode::GetChildren2, WatchPlan::Child, children)
    }

    /// Brings the server up to date with the leader. Reads that are issued after it see everything
    /// that was committed before it.
    pub fn sync(&self, path: &str) -> Pending<()> {
        self.at(path, OpCode::Sync, nothing, |_| {})
    }

    /// Applies all operations or none.
    ///
    /// # Errors
    /// [`Error::TransactionFailed`], which names the failed operation.
    pub fn multi(&self, ops: &[Op]) -> Pending<Vec<OpResult>> {
        match ops.iter().map(|op| self.wire_op(op)).collect::<Result<Vec<_>, _>>() {
            Ok(ops) => self.submit(&Request::Multi(ops), answer::multi_results),
            Err(error) => Pending::failed(error),
        }
    }

    /// Checks that servers accept a transaction of this size. Sends nothing.
    ///
    /// # Errors
    /// [`Error::TooLarge`], and those of the arguments, as for [`multi`](Self::multi).
    pub fn check_size(&self, ops: &[Op]) -> Result<(), Error> {
        let ops = ops.iter().map(|op| self.wire_op(op)).collect::<Result<Vec<_>, _>>()?;
        let mut body = Encoder::new();
        Request::Multi(ops).encode_body(&mut body);
        self.queue().admit(body.len())
    }

    fn wire_op(&self, op: &Op) -> Result<MultiOp, Error> {
        Ok(match op {
            Op::Create { path, data, acl, mode, ttl } => {
                if mode.is_sequential() {
                    validate_sequential(path)?;
                } else {
                    validate(path)?;
                }
                let path = match path.as_str() {
                    // A child of the chroot, and not a sibling whose name begins with the name of
                    // the chroot.
                    "/" if mode.is_sequential() => format!("{}/", self.queue().chroot),
                    path => self.below_chroot(path),
                };
                let (data, acl, flags) = (data.clone(), acl.clone(), mode.flags());
                match (mode, ttl) {
                    (mode, Some(ttl)) if mode.is_ttl() => {
                        let ttl = millis(*ttl);
                        MultiOp::CreateTtl(CreateTtlRequest { path, data, acl, flags, ttl })
                    }
                    (mode, ttl) if mode.is_ttl() || ttl.is_some() => {
                        return Err(Error::InvalidArgument(
                            "time to live and kind of node do not fit",
                        ));
                    }
                    (CreateMode::Container, _) => {
                        MultiOp::CreateContainer(CreateRequest { path, data, acl, flags })
                    }
                    _ => MultiOp::Create2(CreateRequest { path, data, acl, flags }),
                }
            }
            Op::Delete { path, version } => {
                let path = if path == ROOT { path.clone() } else { self.absolute(path)? };
                MultiOp::Delete(DeleteRequest { path, version: version.to_wire()? })
            }
            Op::SetData { path, data, version } => MultiOp::SetData(SetDataRequest {
                path: self.absolute(path)?,
                data: data.clone(),
                version: version.to_wire()?,
            }),
            Op::Check { path, version } => MultiOp::Check(CheckVersionRequest {
                path: self.absolute(path)?,
                version: version.to_wire()?,
            }),
        })
    }
}

fn create_op(path: &str, data: &[u8], acl: &[Acl], mode: CreateMode, ttl: Option<Duration>) -> Op {
    let (path, data, acl) = (path.to_owned(), Some(Bytes::copy_from_slice(data)), acl.to_vec());
    Op::Create { path, data, acl, mode, ttl }
}
