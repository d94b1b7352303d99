//! [`RuleRequest`]: the request that a rule decides about.

use zk_curator_proto::records::{MultiOp, ReadOp};
use zk_curator_proto::{OpCode, Request};

use super::glob;
use crate::tree;

/// A request, as passed to rules.
#[derive(Debug, Clone, Copy)]
pub struct RuleRequest<'a> {
    session_id: i64,
    request: &'a Request,
}

impl<'a> RuleRequest<'a> {
    pub(crate) const fn new(session_id: i64, request: &'a Request) -> Self {
        Self { session_id, request }
    }

    /// Returns the session of the connection.
    #[must_use]
    pub const fn session_id(&self) -> i64 {
        self.session_id
    }

    /// Returns the opcode in the header.
    #[must_use]
    pub const fn opcode(&self) -> OpCode {
        self.request.opcode()
    }

    /// Returns the decoded request.
    #[must_use]
    pub const fn request(&self) -> &'a Request {
        self.request
    }

    /// Returns the path of the request, or of the first operation of a multi. A create has no
    /// sequence number yet.
    #[must_use]
    pub fn path(&self) -> Option<&'a str> {
        self.paths().next()
    }

    /// Returns the paths of the request: one, or one per operation of a multi or multi read.
    /// Creates have no sequence number yet. Other requests name it: [`matches`](Self::matches) with
    /// `/locks/l-*` finds both.
    pub fn paths(&self) -> impl Iterator<Item = &'a str> {
        let reads = match self.request {
            Request::MultiRead(ops) => ops.as_slice(),
            _ => &[],
        };
        let ops = self.ops().iter().map(MultiOp::path).chain(reads.iter().map(ReadOp::path));
        self.request.path().into_iter().chain(ops)
    }

    /// Returns `true` if the request, or any operation of a multi, has this path.
    #[must_use]
    pub fn is_about(&self, path: &str) -> bool {
        self.paths().any(|about| about == path)
    }

    /// Returns `true` if the path of the request, or of any operation of a multi, matches this
    /// pattern: `*` matches any characters except slashes, `?` matches one, and a component `**`
    /// matches any number of components, including none.
    #[must_use]
    pub fn matches(&self, pattern: &str) -> bool {
        self.paths().any(|path| glob::matches(pattern, path))
    }

    /// Returns `true` if the request has this opcode. The operations of a multi do not count.
    #[must_use]
    pub fn is(&self, opcode: OpCode) -> bool {
        self.opcode() == opcode
    }

    /// Returns `true` if the request is a transaction (a multi that writes).
    #[must_use]
    pub fn is_transaction(&self) -> bool {
        self.is(OpCode::Multi)
    }

    /// Returns `true` if Apache ZooKeeper may respond to the request with `Throttled`
    /// (`zookeeper.throttled_op_wait_time`): all requests except pings, the end of the session, and
    /// authentication. A transaction is throttled as a whole. It is meant for rules of an
    /// overloaded server, together with [`Verdict::Refuse`](crate::Verdict::Refuse).
    #[must_use]
    pub fn is_throttlable(&self) -> bool {
        !matches!(self.opcode(), OpCode::Ping | OpCode::CloseSession | OpCode::Auth | OpCode::Sasl)
    }

    /// Returns `true` if the request, or any operation of a multi, creates a node, in any mode.
    #[must_use]
    pub fn is_create(&self) -> bool {
        self.creates().next().is_some()
    }

    /// Returns `true` if the request, or any operation of a multi, creates a child of `parent`.
    #[must_use]
    pub fn is_create_under(&self, parent: &str) -> bool {
        self.creates().any(|path| tree::parent(path) == parent)
    }

    /// Returns `true` if the request, or any operation of a multi, deletes a node.
    #[must_use]
    pub fn is_delete(&self) -> bool {
        self.is(OpCode::Delete) || self.ops().iter().any(|op| op.opcode() == OpCode::Delete)
    }

    fn ops(&self) -> &'a [MultiOp] {
        match self.request {
            Request::Multi(ops) => ops,
            _ => &[],
        }
    }

    fn creates(&self) -> impl Iterator<Item = &'a str> {
        let creates = |opcode| {
            matches!(
                opcode,
                OpCode::Create | OpCode::Create2 | OpCode::CreateContainer | OpCode::CreateTtl
            )
        };
        let itself = self.request.path().filter(|_| creates(self.opcode()));
        itself
            .into_iter()
            .chain(self.ops().iter().filter(move |op| creates(op.opcode())).map(MultiOp::path))
    }
}
