//! Changes, as the index returns them.

use bytes::Bytes;
use zk_curator::SessionId;

use super::records::TxnHeader;
#[cfg(feature = "serde")]
use super::serial;
use super::stat::Owner;

/// A change of a node or of a session, with its author.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Change {
    /// The transaction and its time.
    pub at: Moment,
    /// The session that requested the change. Zero if the leader did: see [`DeletionCause`].
    #[cfg_attr(feature = "serde", serde(serialize_with = "serial::session"))]
    pub session: SessionId,
    /// The number of the request within the session.
    pub cxid: i32,
    /// The operation.
    pub operation: Operation,
    /// The node; `None` for sessions and failed requests.
    pub path: Option<String>,
    /// The place in a multi, if the change is a part of one.
    pub multi: Option<MultiPlace>,
    /// The node before the change; `None` if it did not exist.
    pub before: Option<NodeState>,
    /// The node after the change; `None` if it does not exist any more.
    pub after: Option<NodeState>,
    /// The reason of a deletion.
    pub deletion: Option<DeletionCause>,
    /// The end of a session.
    pub session_end: Option<SessionEnd>,
    /// The timeout of a new session, in milliseconds.
    pub session_timeout_ms: Option<i32>,
    /// The code of a failed request, as in [`zk_curator::ErrorCode`]. The log does not contain the
    /// request.
    pub error: Option<i32>,
}

impl Change {
    /// Returns `true` if both are the same change of a node, even if the state of the node is known
    /// for one of them only.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        (self.at.zxid, self.operation) == (other.at.zxid, other.operation)
            && self.path == other.path
    }
}

/// A transaction and its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Moment {
    /// The id of the transaction.
    #[cfg_attr(feature = "serde", serde(serialize_with = "serial::zxid"))]
    pub zxid: i64,
    /// Its time, in milliseconds since 1970, by the clock of the leader of that time.
    pub time_ms: i64,
}

impl Moment {
    pub(super) const fn of(header: &TxnHeader) -> Self {
        Self { zxid: header.zxid, time_ms: header.time_ms }
    }
}

/// The operation of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum Operation {
    /// A node was created.
    Create,
    /// A node was deleted.
    Delete,
    /// Data was written.
    SetData,
    /// An ACL was written.
    SetAcl,
    /// The ensemble was reconfigured: the data of `/zookeeper/config` was written.
    Reconfig,
    /// A session began. Local sessions are not in the logs.
    CreateSession,
    /// A session ended.
    CloseSession,
    /// A request failed, and changed nothing.
    Error,
}

/// The place of a change in a multi.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct MultiPlace {
    /// The position, from zero.
    pub index: usize,
    /// The number of operations of the multi.
    pub count: usize,
}

/// The state of a node. What the logs do not tell is `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct NodeState {
    /// The version of the data.
    pub version: Option<i32>,
    /// The version of the ACL.
    pub aversion: Option<i32>,
    /// The length of the data in bytes; zero for Java's `null`.
    pub size: Option<usize>,
    /// The data, if it was requested. Java's `null` is `None`.
    #[cfg_attr(feature = "serde", serde(serialize_with = "serial::bytes"))]
    pub data: Option<Bytes>,
    /// The owner, which tells the kind of the node.
    pub owner: Option<Owner>,
    /// `true` if its ACL lets every client read the data: see
    /// [`AclList::lets_anyone_read`](super::AclList::lets_anyone_read).
    pub anyone_reads: Option<bool>,
}

/// The reason why a node was deleted, as far as the log tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum DeletionCause {
    /// A client deleted it.
    Request,
    /// The node was ephemeral, and its session ended.
    SessionEnd(SessionEnd),
    /// The leader deleted a container that had no children any more.
    Container,
    /// The leader deleted a node whose time to live was over.
    Ttl,
    /// The leader deleted a container or a node with a time to live. The log does not tell which,
    /// and the node is not in the snapshot.
    Reaped,
}

/// The reason why a session ended, as far as the log tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum SessionEnd {
    /// A client closed it: the request has a number. The clients of Apache ZooKeeper and kazoo
    /// count requests from one, or from the time.
    Client,
    /// A server closed it: the request has the number zero. The session expired, or an operator
    /// ended it (by JMX). Both look the same in the log.
    Server,
}

impl SessionEnd {
    /// Returns the reason for the header of a `closeSession`.
    pub(super) const fn of(header: &TxnHeader) -> Self {
        if header.cxid == 0 { Self::Server } else { Self::Client }
    }
}
