use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use zk_curator_proto::records::{Acl, CreateMode, Stat};

use crate::version::Version;

/// The id of a session, chosen by the server.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(i64);

impl SessionId {
    /// Returns the session id with this number.
    #[must_use]
    pub const fn new(id: i64) -> Self {
        Self(id)
    }

    /// Returns the number, as in [`Stat::ephemeral_owner`].
    #[must_use]
    pub const fn get(self) -> i64 {
        self.0
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SessionId({self})")
    }
}

/// A session as the server granted it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionInfo {
    /// The session.
    pub id: SessionId,
    /// The granted session timeout.
    pub timeout: Duration,
}

impl SessionInfo {
    /// Returns a value, for implementations of a raw client other than [`crate::ZooKeeper`].
    #[must_use]
    pub const fn new(id: SessionId, timeout: Duration) -> Self {
        Self { id, timeout }
    }
}

/// The credentials to resume a session with, in this process or another one.
///
/// With them, any client can act as the session and end it. Treat them like a password.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionCredentials {
    /// The session.
    pub id: SessionId,
    /// Its password, 16 bytes. `Debug` does not show it.
    pub password: Bytes,
    /// The last transaction that the client has seen; zero if unknown. The client does not use a
    /// server that is behind it.
    pub last_zxid: i64,
}

impl SessionCredentials {
    /// Returns credentials that were stored.
    #[must_use]
    pub const fn new(id: SessionId, password: Bytes, last_zxid: i64) -> Self {
        Self { id, password, last_zxid }
    }
}

impl fmt::Debug for SessionCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionCredentials")
            .field("id", &self.id)
            .field("last_zxid", &self.last_zxid)
            .finish_non_exhaustive()
    }
}

/// A node that was created.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Created {
    /// Its path, including the sequence number.
    pub path: String,
    /// Its stat.
    pub stat: Stat,
}

impl Created {
    /// Returns a value, for implementations of a raw client other than [`crate::ZooKeeper`].
    #[must_use]
    pub const fn new(path: String, stat: Stat) -> Self {
        Self { path, stat }
    }
}

/// The data of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Data {
    /// The bytes; empty if [`is_null`](Self::is_null).
    pub data: Bytes,
    /// `true` if the node has Java's `null` instead of data, which differs from empty data.
    pub is_null: bool,
    /// The stat.
    pub stat: Stat,
}

impl Data {
    /// Returns a value, for implementations of a raw client other than [`crate::ZooKeeper`].
    #[must_use]
    pub const fn new(data: Bytes, stat: Stat) -> Self {
        Self { data, is_null: false, stat }
    }
}

/// The children of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Children {
    /// Their names without the path, in no order.
    pub names: Vec<String>,
    /// The stat of the parent.
    pub stat: Stat,
}

impl Children {
    /// Returns a value, for implementations of a raw client other than [`crate::ZooKeeper`].
    #[must_use]
    pub const fn new(names: Vec<String>, stat: Stat) -> Self {
        Self { names, stat }
    }
}

/// One operation of a transaction.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    /// Creates a node.
    Create {
        /// The path, without the sequence number.
        path: String,
        /// The data; `None` is Java's `null`, which differs from empty data.
        data: Option<Bytes>,
        /// The ACL.
        acl: Vec<Acl>,
        /// The kind of the node.
        mode: CreateMode,
        /// The time to live, for the modes that have one.
        ttl: Option<Duration>,
    },
    /// Deletes a node.
    Delete {
        /// The node.
        path: String,
        /// The version that the node must have.
        version: Version,
    },
    /// Replaces the data of a node.
    SetData {
        /// The node.
        path: String,
        /// The new data; `None` is Java's `null`, which differs from empty data.
        data: Option<Bytes>,
        /// The version that the node must have.
        version: Version,
    },
    /// Checks that a node exists and has a version.
    Check {
        /// The node.
        path: String,
        /// The version that the node must have.
        version: Version,
    },
}

impl Op {
    /// Returns the path of the node that the operation concerns.
    #[must_use]
    pub fn path(&self) -> &str {
        match self {
            Self::Create { path, .. }
            | Self::Delete { path, .. }
            | Self::SetData { path, .. }
            | Self::Check { path, .. } => path,
        }
    }
}

/// The result of one operation of a transaction that was applied.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OpResult {
    /// The result of [`Op::Create`].
    Created {
        /// The path, including the sequence number.
        path: String,
        /// The stat, if the server returns it. ZooKeeper 3.8 does not inside a transaction.
        stat: Option<Stat>,
    },
    /// The result of [`Op::Delete`].
    Deleted,
    /// The result of [`Op::SetData`].
    DataSet(Stat),
    /// The result of [`Op::Check`].
    Checked,
}

impl OpResult {
    /// Returns the path of a created node, including the sequence number.
    #[must_use]
    pub fn created_path(&self) -> Option<&str> {
        match self {
            Self::Created { path, .. } => Some(path),
            _ => None,
        }
    }

    /// Returns the stat of a node that was created or whose data were replaced, if the server
    /// returned it.
    #[must_use]
    pub const fn stat(&self) -> Option<&Stat> {
        match self {
            Self::Created { stat, .. } => stat.as_ref(),
            Self::DataSet(stat) => Some(stat),
            Self::Deleted | Self::Checked => None,
        }
    }
}

/// The access control list of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AclOf {
    /// The list.
    pub acl: Vec<Acl>,
    /// The stat of the node.
    pub stat: Stat,
}

impl AclOf {
    /// Returns a value, for implementations of a raw client other than [`crate::ZooKeeper`].
    #[must_use]
    pub const fn new(acl: Vec<Acl>, stat: Stat) -> Self {
        Self { acl, stat }
    }
}

/// One read of [`crate::ZooKeeper::multi_read`].
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Read {
    /// Reads data and stat of a node.
    Data(String),
    /// Reads the names of a node's children.
    Children(String),
}

/// The response to a [`Read`].
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadResponse {
    /// The response to [`Read::Data`].
    Data(Data),
    /// The response to [`Read::Children`]: names, in no order and without a stat.
    Children(Vec<String>),
}

/// A change of the ensemble, for [`crate::ZooKeeper::reconfig`].
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reconfiguration {
    /// Adds or changes servers, and removes others.
    Incremental {
        /// The servers to add or change, as in a configuration file:
        /// `server.4=host:2888:3888;2181`.
        joining: Vec<String>,
        /// The ids of the servers to remove.
        leaving: Vec<String>,
        /// The version that the configuration must have.
        version: Version<i64>,
    },
    /// Replaces all members.
    Members {
        /// The servers, as in a configuration file: `server.4=host:2888:3888;2181`.
        members: Vec<String>,
        /// The version that the configuration must have.
        version: Version<i64>,
    },
}
