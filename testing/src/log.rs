//! What servers agree on: committed transactions, in one order.
//!
//! An entry is what was asked for, not what came of it: applied to the same tree it does the same, errors included.
//! A server alone applies its entries at once and keeps none.

use std::collections::VecDeque;
use std::sync::Arc;

use zk_curator_proto::records::{ConnectResponse, MultiOp, SetAclRequest};
use zk_curator_proto::{ErrorCode, OpCode};

use crate::access::Identity;
use crate::member::MemberId;
use crate::watch::ConnectionId;

/// A committed transaction.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) zxid: i64,
    /// When it was committed, in milliseconds since the Unix epoch.
    pub(crate) time: i64,
    /// The session that writes; zero of the server itself.
    pub(crate) session: i64,
    /// Who its connection is.
    pub(crate) identities: Arc<[Identity]>,
    pub(crate) action: Action,
    /// Who waits for it.
    pub(crate) origin: Option<Origin>,
}

/// What a transaction does to the tree.
#[derive(Debug, Clone)]
pub(crate) enum Action {
    /// One operation.
    Write(MultiOp),
    /// All operations or none.
    Multi(Vec<MultiOp>),
    SetAcl(SetAclRequest),
    /// Nothing but to take a number: what was asked for was refused.
    Fail(ErrorCode),
    /// The session of the entry begins.
    OpenSession,
    /// The session of the entry ends, and its ephemeral nodes with it.
    CloseSession,
    /// A container or a node with a time to live is removed.
    Reap(Arc<str>),
    /// The next sequential child of a node gets this number.
    SetSequence {
        path: String,
        next: i32,
    },
    /// A leader begins.
    Lead,
}

/// Whom to answer, and what.
#[derive(Debug, Clone)]
pub(crate) struct Origin {
    pub(crate) member: MemberId,
    pub(crate) connection: ConnectionId,
    pub(crate) reply: Reply,
}

/// What the answer looks like.
#[derive(Debug, Clone)]
pub(crate) enum Reply {
    Request { xid: i32, opcode: OpCode },
    Handshake(Box<Handshake>),
}

/// The answer to a handshake.
#[derive(Debug, Clone)]
pub(crate) struct Handshake {
    pub(crate) response: ConnectResponse,
    /// The client sent no read-only flag and gets none.
    pub(crate) legacy: bool,
}

/// The entries that some server has not applied yet.
#[derive(Debug, Default)]
pub(crate) struct Log {
    entries: VecDeque<Kept>,
    /// How many entries came before those.
    forgotten: u64,
}

/// An entry, and when it was committed on the clock of sessions.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) entry: Entry,
    pub(crate) at: u64,
}

impl Log {
    pub(crate) fn push(&mut self, entry: Entry, at: u64) {
        self.entries.push_back(Kept { entry, at });
    }

    /// How many entries there are, those forgotten included.
    pub(crate) fn len(&self) -> u64 {
        self.forgotten + self.entries.len() as u64
    }

    /// The entry after the first `applied` ones.
    pub(crate) fn get(&self, applied: u64) -> Option<&Kept> {
        self.entries.get(usize::try_from(applied.checked_sub(self.forgotten)?).ok()?)
    }

    /// Forgets the first `applied` entries.
    pub(crate) fn forget(&mut self, applied: u64) {
        while self.forgotten < applied && self.entries.pop_front().is_some() {
            self.forgotten += 1;
        }
    }
}
