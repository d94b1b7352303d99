use std::time::Duration;

use bytes::Bytes;
use zk_curator_client::{Acl, CreateMode, Op, Version};

use super::OpTarget;
use super::settings::{compression_settings, node_settings, version_setting};
use crate::error::{Error, ErrorKind, Result};
use crate::framework::CuratorFramework;
use crate::path::validate_create;
use crate::schema::Intent;
use crate::value::Failure;

/// One operation of a [`Transaction`](super::Transaction): a [`CreateOp`], [`SetDataOp`],
/// [`DeleteOp`] or [`CheckOp`].
#[derive(Debug, Clone)]
pub struct TransactionOp {
    /// The operation. Its path is within the namespace.
    op: Op,
    /// `true` if the create has the default data of the framework.
    default_data: bool,
    /// `true` if the create has the ACL of the provider.
    default_acl: bool,
    compressed: Option<bool>,
    /// The reason why the operation cannot be sent.
    refused: Option<(ErrorKind, Failure)>,
}

impl TransactionOp {
    /// Makes the transaction fail before it is sent.
    pub(crate) fn refused(mut self, kind: ErrorKind, why: Failure) -> Self {
        self.refused = Some((kind, why));
        self
    }

    /// Returns the path of the operation, within the namespace.
    #[must_use]
    pub fn path(&self) -> &str {
        self.op.path()
    }

    /// Returns `true` if the create has the default data of the framework.
    pub(crate) const fn has_default_data(&self) -> bool {
        self.default_data
    }

    /// Returns the operation with everything that this handle adds to it, before compression, and
    /// `true` if its data would be compressed.
    pub(crate) fn described(&self, zk: &CuratorFramework) -> (Op, bool) {
        let (core, namespace) = (zk.core(), zk.ns());
        let mut op = self.op.clone();
        let is_compressed =
            zk.compresses(self.compressed).unwrap_or_else(|| core.compression().enabled);
        let has_data = matches!(op, Op::Create { .. } | Op::SetData { .. });
        if let Op::Create { path, data, acl, mode, .. } = &mut op {
            *path = namespace.apply_create(path, mode.is_sequential());
            if self.default_data {
                *data = Some(core.default_data());
            }
            if self.default_acl {
                *acl = core.acl_of(path);
            }
        } else if let Op::Delete { path, .. } | Op::SetData { path, .. } | Op::Check { path, .. } =
            &mut op
        {
            *path = namespace.apply(path);
        }
        (op, has_data && is_compressed)
    }

    /// Returns the operation to send.
    pub(super) fn resolve<R>(self, target: &OpTarget<R>) -> Result<Op> {
        let Self { mut op, default_data, default_acl, compressed, refused } = self;
        if let Some((kind, why)) = refused {
            return Err(Error::new(kind, target.operation, op.path()).with_shared_source(why));
        }
        let (core, namespace) = (target.zk.core(), target.zk.ns());
        let sequential = matches!(op, Op::Create { mode, .. } if mode.is_sequential());
        validate_create(op.path(), sequential)
            .map_err(|why| Error::invalid_path(target.operation, op.path(), why))?;
        let server_path = namespace.apply_create(op.path(), sequential);
        if let Op::Create { data, acl, .. } = &mut op {
            if default_data {
                *data = Some(core.default_data());
            }
            if default_acl {
                *acl = core.acl_of(&server_path);
            }
        }
        let intent = match &op {
            Op::Create { mode, data, acl, .. } => {
                Some(Intent::Create { mode: *mode, data: seen(data), acl })
            }
            Op::SetData { data, .. } => Some(Intent::Write { data: Some(seen(data)), acl: &[] }),
            Op::Delete { .. } => Some(Intent::Delete),
            _ => None,
        };
        if let Some(intent) = intent {
            core.schemas().admit(target.operation, op.path(), intent)?;
        }
        if let Op::Create { path, data, .. } | Op::SetData { path, data, .. } = &mut op {
            let wanted = target.zk.compresses(compressed);
            let (compression, operation) = (core.compression(), target.operation);
            let compress = |plain: Bytes| {
                compression.compress_unless_none(operation, path, wanted, default_data, plain)
            };
            *data = data.take().map(compress).transpose()?;
        }
        if let Op::Create { path, .. }
        | Op::Delete { path, .. }
        | Op::SetData { path, .. }
        | Op::Check { path, .. } = &mut op
        {
            *path = server_path;
        }
        Ok(op)
    }
}

/// Returns the data that a validator sees: null data count as empty.
fn seen(data: &Option<Bytes>) -> &[u8] {
    data.as_deref().unwrap_or_default()
}

impl From<Op> for TransactionOp {
    /// Takes the operation with a path within the namespace.
    fn from(op: Op) -> Self {
        let (default_data, default_acl) = (false, false);
        Self { op, default_data, default_acl, compressed: None, refused: None }
    }
}

/// Creates a node. [`OpResult::Created`](crate::OpResult::Created) is its result.
#[derive(Debug, Clone)]
#[must_use]
pub struct CreateOp {
    pub(super) path: String,
    /// `None` for the default data, `Some(None)` for null data.
    pub(super) data: Option<Option<Bytes>>,
    pub(super) acl: Option<Vec<Acl>>,
    pub(super) mode: CreateMode,
    pub(super) ttl: Option<Duration>,
    pub(super) compressed: Option<bool>,
}

impl CreateOp {
    /// Creates a persistent node.
    pub fn new(path: impl Into<String>) -> Self {
        let mode = CreateMode::Persistent;
        Self { path: path.into(), data: None, acl: None, mode, ttl: None, compressed: None }
    }

    /// Sets the data. Default: the framework's [default
    /// data](crate::CuratorFrameworkBuilder::default_data).
    pub fn data(mut self, data: impl Into<Bytes>) -> Self {
        self.data = Some(Some(data.into()));
        self
    }

    /// Sets Java's `null` instead of data, which differs from empty data. It is neither encoded nor
    /// compressed, and a [validator](crate::schema::Validator) sees empty data. Readers of the data
    /// read it as empty, except for [`ReadResult::Data`](super::ReadResult::Data).
    ///
    /// The transaction fails with `Unsupported` with a raw client that cannot write it.
    pub fn null_data(mut self) -> Self {
        self.data = Some(None);
        self
    }

    node_settings!();

    compression_settings!();
}

impl From<CreateOp> for TransactionOp {
    fn from(create: CreateOp) -> Self {
        let CreateOp { path, data, acl, mode, ttl, compressed } = create;
        let (default_data, default_acl) = (data.is_none(), acl.is_none());
        let (data, acl) = (data.unwrap_or_default(), acl.unwrap_or_default());
        Self {
            op: Op::Create { path, data, acl, mode, ttl },
            default_data,
            default_acl,
            compressed,
            refused: None,
        }
    }
}

/// Replaces the data of a node. [`OpResult::DataSet`](crate::OpResult::DataSet) is its result.
#[derive(Debug, Clone)]
#[must_use]
pub struct SetDataOp {
    pub(super) path: String,
    /// `None` for null data.
    pub(super) data: Option<Bytes>,
    pub(super) version: Version,
    pub(super) compressed: Option<bool>,
}

impl SetDataOp {
    /// Replaces the data of any version.
    pub fn new(path: impl Into<String>, data: impl Into<Bytes>) -> Self {
        let data = Some(data.into());
        Self { path: path.into(), data, version: Version::Any, compressed: None }
    }

    /// Replaces the data of any version with Java's `null`: see
    /// [`CreateOp::null_data`](CreateOp::null_data).
    pub fn null(path: impl Into<String>) -> Self {
        Self { path: path.into(), data: None, version: Version::Any, compressed: None }
    }

    version_setting!();

    compression_settings!();
}

impl From<SetDataOp> for TransactionOp {
    fn from(SetDataOp { path, data, version, compressed }: SetDataOp) -> Self {
        Self { compressed, ..Op::SetData { path, data, version }.into() }
    }
}

/// Deletes a node. [`OpResult::Deleted`](crate::OpResult::Deleted) is its result.
#[derive(Debug, Clone)]
#[must_use]
pub struct DeleteOp {
    path: String,
    version: Version,
}

impl DeleteOp {
    /// Deletes the node at any version.
    pub fn new(path: impl Into<String>) -> Self {
        Self { path: path.into(), version: Version::Any }
    }

    version_setting!();
}

impl From<DeleteOp> for TransactionOp {
    fn from(DeleteOp { path, version }: DeleteOp) -> Self {
        Op::Delete { path, version }.into()
    }
}

/// Checks that a node exists. [`OpResult::Checked`](crate::OpResult::Checked) is its result.
#[derive(Debug, Clone)]
#[must_use]
pub struct CheckOp {
    path: String,
    version: Version,
}

impl CheckOp {
    /// Checks the node at any version.
    pub fn new(path: impl Into<String>) -> Self {
        Self { path: path.into(), version: Version::Any }
    }

    version_setting!();
}

impl From<CheckOp> for TransactionOp {
    fn from(CheckOp { path, version }: CheckOp) -> Self {
        Op::Check { path, version }.into()
    }
}
