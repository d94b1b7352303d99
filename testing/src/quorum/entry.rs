//! [`Entry`]: a committed transaction.
//!
//! An entry is a request, not its outcome: applied to equal trees it has equal effects, including
//! errors.

use std::sync::Arc;

use zk_curator_proto::records::{ConnectResponse, MultiOp, SetAclRequest};
use zk_curator_proto::{ErrorCode, OpCode};

use crate::access::Identity;
use crate::ids::Place;

/// A committed transaction.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) zxid: i64,
    /// The time of the commit, in milliseconds since the Unix epoch.
    pub(crate) time: i64,
    /// The session that writes; zero for the server itself.
    pub(crate) session: i64,
    /// The identities of its connection.
    pub(crate) identities: Arc<[Identity]>,
    pub(crate) action: Action,
    /// The connection that waits for the response.
    pub(crate) origin: Option<Origin>,
}

/// The effect of a transaction on the tree.
#[derive(Debug, Clone)]
pub(crate) enum Action {
    /// One operation.
    Write(MultiOp),
    /// All operations or none.
    Multi(Vec<MultiOp>),
    SetAcl(SetAclRequest),
    /// The request was refused, and only uses a zxid.
    Fail(ErrorCode),
    /// The session of the entry begins.
    OpenSession,
    /// The session of the entry ends, and its ephemeral nodes with it.
    CloseSession,
    /// A container or a node with a time to live is removed.
    Reap(Arc<str>),
    /// The data of a node get this version.
    SetVersion {
        path: String,
        version: i32,
    },
    /// The next sequential child of a node gets this number.
    SetSequence {
        path: String,
        next: i32,
    },
    /// A leader begins.
    Lead,
}

/// The connection that gets the response, and its form.
#[derive(Debug, Clone)]
pub(crate) struct Origin {
    pub(crate) place: Place,
    pub(crate) reply: Reply,
}

/// The form of a response.
#[derive(Debug, Clone)]
pub(crate) enum Reply {
    Request { xid: i32, opcode: OpCode },
    Handshake(Box<Handshake>),
}

/// The response to a handshake.
#[derive(Debug, Clone)]
pub(crate) struct Handshake {
    pub(crate) response: ConnectResponse,
    /// The client sent no read-only flag and receives none.
    pub(crate) legacy: bool,
}
