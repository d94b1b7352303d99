//! The transactions of a log.

use std::fmt;

use zk_curator::SessionId;
use zk_curator_proto::{DecodeError, OpCode};

use super::error::Damage;
use super::lists::{AclList, Items, Paths};
use super::stat::Owner;
use super::wire::Cursor;

/// The length of a header, in bytes.
pub(super) const HEADER: usize = 32;
/// The length of a digest, in bytes.
const DIGEST: usize = 12;
/// The version of the digest that ZooKeeper 3.6 to 3.9 write.
pub(super) const DIGEST_VERSION: i32 = 2;

/// A transaction of a log. It borrows from the buffer of the reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Record<'a> {
    /// The header.
    pub header: TxnHeader,
    /// The change.
    pub txn: Txn<'a>,
    /// The digest of the tree after the transaction; `None` before ZooKeeper 3.6, and if the server
    /// was configured without digests.
    pub digest: Option<TreeDigest>,
}

impl<'a> Record<'a> {
    /// Reads a transaction: the bytes between the length and the end mark in a log.
    ///
    /// The version of the server is recognised by the length of the record: digests, the paths of
    /// `closeSession` and the `parentCVersion` of `create` may be missing.
    ///
    /// # Errors
    /// [`Damage::UnknownType`], [`Damage::Field`] or [`Damage::Trailing`].
    pub fn decode(bytes: &'a [u8]) -> Result<Self, Damage> {
        let mut input = Cursor::new(bytes);
        let header = TxnHeader::read(&mut input)?;
        let txn = match header.op {
            OpCode::CloseSession => Txn::CloseSession(close_session(&mut input)?),
            OpCode::Multi => Txn::Multi(MultiTxn::read(&mut input)?),
            op => Txn::read(op, &mut input)?,
        };
        let digest = match input.rest().len() {
            0 => None,
            // A later version may append fields. They are ignored, as ZooKeeper does.
            DIGEST.. => Some(TreeDigest::read(&mut input)?),
            bytes => return Err(Damage::Trailing { what: "the transaction", bytes }),
        };
        Ok(Self { header, txn, digest })
    }

    /// Returns the changes of the transaction, with their types: the transaction itself, or the
    /// parts of a multi; none if a multi failed.
    #[must_use]
    pub const fn applied(&self) -> Applied<'a> {
        match self.txn {
            Txn::Multi(multi) if multi.is_failed() => Applied { single: None, parts: None },
            Txn::Multi(multi) => Applied { single: None, parts: Some(multi.parts()) },
            txn => Applied { single: Some((self.header.op, txn)), parts: None },
        }
    }
}

/// An iterator over the changes of a transaction: see [`Record::applied`].
#[derive(Debug, Clone)]
pub struct Applied<'a> {
    single: Option<(OpCode, Txn<'a>)>,
    parts: Option<Parts<'a>>,
}

impl<'a> Iterator for Applied<'a> {
    type Item = (OpCode, Txn<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        self.single.take().or_else(|| self.parts.as_mut()?.next())
    }
}

/// The header of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct TxnHeader {
    /// The session that requested the transaction. Zero for deletions of containers and nodes with
    /// a time to live, which the leader requests.
    pub session: SessionId,
    /// The number of the request within the session. Zero for requests of a server, such as
    /// `createSession` and the end of an expired session.
    pub cxid: i32,
    /// The id of the transaction.
    pub zxid: i64,
    /// The time of the transaction, in milliseconds since 1970, by the clock of the leader of that
    /// time. It can go back when the leader changes.
    pub time_ms: i64,
    /// The type of the transaction.
    pub op: OpCode,
}

impl TxnHeader {
    fn read(input: &mut Cursor<'_>) -> Result<Self, Damage> {
        Ok(Self {
            session: SessionId::new(input.i64("TxnHeader.clientId")?),
            cxid: input.i32("TxnHeader.cxid")?,
            zxid: input.i64("TxnHeader.zxid")?,
            time_ms: input.i64("TxnHeader.time")?,
            op: op_code(input.i32("TxnHeader.type")?)?,
        })
    }
}

fn op_code(code: i32) -> Result<OpCode, Damage> {
    OpCode::try_from(code).map_err(|_| Damage::UnknownType { code })
}

/// The digest of the whole tree (`TxnDigest`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct TreeDigest {
    /// The version of the formula; 2 in all releases so far.
    pub version: i32,
    /// The sum, modulo 2^64, of the digests of all nodes.
    pub value: u64,
}

impl TreeDigest {
    fn read(input: &mut Cursor<'_>) -> Result<Self, DecodeError> {
        let version = input.i32("TxnDigest.version")?;
        let value = input.i64("TxnDigest.treeDigest")?.cast_unsigned();
        Ok(Self { version, value })
    }
}

/// The change of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Txn<'a> {
    /// `create`, `create2`, `createContainer` and `createTTL`.
    Create(CreateTxn<'a>),
    /// `delete` and `deleteContainer`.
    Delete {
        /// The node.
        path: &'a str,
    },
    /// `setData` and `reconfig`, which sets the data of `/zookeeper/config`.
    SetData(SetDataTxn<'a>),
    /// `setACL`.
    SetAcl(SetAclTxn<'a>),
    /// `check`: a condition of a multi, which held.
    Check {
        /// The node.
        path: &'a str,
        /// The version that it had.
        version: i32,
    },
    /// `multi`: several changes or none.
    Multi(MultiTxn<'a>),
    /// `createSession`.
    CreateSession {
        /// The session timeout, in milliseconds.
        timeout_ms: i32,
    },
    /// `closeSession`, with the paths of the ephemeral nodes that it deletes. `None` before
    /// ZooKeeper 3.6, and if the server was configured without them.
    CloseSession(Option<Paths<'a>>),
    /// A request that failed.
    Error {
        /// The error code, as in [`zk_curator::ErrorCode`].
        code: i32,
    },
}

impl<'a> Txn<'a> {
    /// Returns the path of the node; `None` for `multi`, sessions and errors.
    #[must_use]
    pub const fn path(&self) -> Option<&'a str> {
        match self {
            Self::Create(create) => Some(create.path),
            Self::SetData(set) => Some(set.path),
            Self::SetAcl(set) => Some(set.path),
            Self::Delete { path } | Self::Check { path, .. } => Some(*path),
            Self::Multi(_)
            | Self::CreateSession { .. }
            | Self::CloseSession(_)
            | Self::Error { .. } => None,
        }
    }

    /// Reads a transaction that can be part of a multi, or `createSession`.
    fn read(op: OpCode, input: &mut Cursor<'a>) -> Result<Self, Damage> {
        Ok(match op {
            OpCode::Create | OpCode::Create2 | OpCode::CreateContainer | OpCode::CreateTtl => {
                Self::Create(CreateTxn::read(op, input)?)
            }
            OpCode::Delete | OpCode::DeleteContainer => {
                Self::Delete { path: input.str("DeleteTxn.path")? }
            }
            OpCode::SetData | OpCode::Reconfig => Self::SetData(SetDataTxn {
                path: input.str("SetDataTxn.path")?,
                data: input.buffer("SetDataTxn.data")?,
                version: input.i32("SetDataTxn.version")?,
            }),
            OpCode::SetAcl => Self::SetAcl(SetAclTxn {
                path: input.str("SetACLTxn.path")?,
                acl: AclList::read(input)?,
                version: input.i32("SetACLTxn.version")?,
            }),
            OpCode::Check => Self::Check {
                path: input.str("CheckVersionTxn.path")?,
                version: input.i32("CheckVersionTxn.version")?,
            },
            OpCode::CreateSession => {
                Self::CreateSession { timeout_ms: input.i32("CreateSessionTxn.timeOut")? }
            }
            OpCode::Error => Self::Error { code: input.i32("ErrorTxn.err")? },
            other => return Err(Damage::UnknownType { code: other.code() }),
        })
    }
}

/// The creation of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct CreateTxn<'a> {
    /// The node.
    pub path: &'a str,
    /// Its data; `None` is Java's `null`.
    pub data: Option<&'a [u8]>,
    /// Its ACL.
    pub acl: AclList<'a>,
    /// The kind of the node.
    pub kind: CreateKind,
    /// The `cversion` of the parent after the creation, in its stored form. It is -1 in records of
    /// ZooKeeper 3.3 and earlier, which means one more than before.
    pub parent_cversion: i32,
}

impl<'a> CreateTxn<'a> {
    fn read(op: OpCode, input: &mut Cursor<'a>) -> Result<Self, DecodeError> {
        let path = input.str("CreateTxn.path")?;
        let data = input.buffer("CreateTxn.data")?;
        let acl = AclList::read(input)?;
        let mut kind = match op {
            OpCode::CreateContainer => CreateKind::Container,
            OpCode::CreateTtl => CreateKind::Ttl { ttl_ms: 0 },
            _ => match input.bool("CreateTxn.ephemeral")? {
                true => CreateKind::Ephemeral,
                false => CreateKind::Persistent,
            },
        };
        let parent_cversion = match op {
            // A record of ZooKeeper 3.3 ends here.
            OpCode::Create if input.rest().is_empty() => -1,
            _ => input.i32("CreateTxn.parentCVersion")?,
        };
        if let CreateKind::Ttl { ttl_ms } = &mut kind {
            *ttl_ms = input.i64("CreateTTLTxn.ttl")?;
        }
        Ok(Self { path, data, acl, kind, parent_cversion })
    }

    /// Returns the owner of the new node, which `session` creates.
    #[must_use]
    pub const fn owner(&self, session: SessionId) -> Owner {
        match self.kind {
            CreateKind::Persistent => Owner::None,
            CreateKind::Ephemeral => Owner::Session(session),
            CreateKind::Container => Owner::Container,
            CreateKind::Ttl { ttl_ms } => Owner::Ttl { ttl_ms },
        }
    }
}

/// The kind of a new node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CreateKind {
    /// A persistent node.
    Persistent,
    /// A node of the session of the header.
    Ephemeral,
    /// A container.
    Container,
    /// A node with a time to live.
    Ttl {
        /// The time to live, in milliseconds.
        ttl_ms: i64,
    },
}

/// A change of the data of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SetDataTxn<'a> {
    /// The node.
    pub path: &'a str,
    /// The new data; `None` is Java's `null`.
    pub data: Option<&'a [u8]>,
    /// The version after the change.
    pub version: i32,
}

/// A change of the ACL of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SetAclTxn<'a> {
    /// The node.
    pub path: &'a str,
    /// The new ACL.
    pub acl: AclList<'a>,
    /// The `aversion` after the change.
    pub version: i32,
}

/// The transactions of a multi.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct MultiTxn<'a> {
    parts: Items<'a>,
    failed: bool,
}

impl<'a> MultiTxn<'a> {
    /// The minimum length of a part, in bytes: its type and the length of its record.
    const MIN_PART: usize = 8;

    fn read(input: &mut Cursor<'a>) -> Result<Self, Damage> {
        let mut failed = false;
        let parts = Items::read(input, Self::MIN_PART, "MultiTxn.txns", |input| {
            part(input).map(|(_, txn)| failed |= matches!(txn, Txn::Error { .. }))
        })?;
        Ok(Self { parts, failed })
    }

    /// Returns the number of parts.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.parts.len()
    }

    /// Returns `true` for a multi without parts.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns `true` if the multi failed, so that it changed nothing. A server then logs an error
    /// in place of the part that failed and of each part after it.
    #[must_use]
    pub const fn is_failed(&self) -> bool {
        self.failed
    }

    /// Returns the parts, with their types.
    #[must_use]
    pub const fn parts(&self) -> Parts<'a> {
        Parts { parts: self.parts }
    }
}

impl fmt::Debug for MultiTxn<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.parts()).finish()
    }
}

/// An iterator over the parts of a multi: see [`MultiTxn::parts`].
#[derive(Debug, Clone)]
pub struct Parts<'a> {
    parts: Items<'a>,
}

impl<'a> Iterator for Parts<'a> {
    type Item = (OpCode, Txn<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        self.parts.next(part)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.parts.len(), Some(self.parts.len()))
    }
}

impl ExactSizeIterator for Parts<'_> {}

fn part<'a>(input: &mut Cursor<'a>) -> Result<(OpCode, Txn<'a>), Damage> {
    let op = op_code(input.i32("Txn.type")?)?;
    let bytes = input.buffer("Txn.data")?.unwrap_or_default();
    if op == OpCode::CreateSession {
        return Err(Damage::UnknownType { code: op.code() });
    }
    Ok((op, Txn::read(op, &mut Cursor::new(bytes))?))
}

/// Reads the body of `closeSession`, which may be missing, and leaves the digest, which may be
/// missing as well.
///
/// A body of 12 bytes is either one path of four bytes or a digest. The first four bytes decide:
/// they are the number of paths, 1, or the version of the digest, 2.
fn close_session<'a>(input: &mut Cursor<'a>) -> Result<Option<Paths<'a>>, DecodeError> {
    if input.rest().is_empty() {
        return Ok(None);
    }
    let mut ahead = *input;
    match Paths::read(&mut ahead) {
        Ok(paths)
            if matches!(ahead.rest().len(), 0 | DIGEST)
                && paths.iter().all(|path| path.starts_with('/')) =>
        {
            *input = ahead;
            Ok(Some(paths))
        }
        _ if input.rest().len() == DIGEST => Ok(None),
        // A later version may append fields.
        Ok(paths) => {
            *input = ahead;
            Ok(Some(paths))
        }
        Err(error) => Err(error),
    }
}
