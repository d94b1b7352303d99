//! The decision points of a run.

use std::fmt;
use std::time::Duration;

use zk_curator_proto::OpCode;

/// A moment of a run at which a fault can change what happens next.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct DecisionPoint {
    /// The time since the start of the run.
    pub at: Duration,
    /// The number of the client, from zero.
    pub client: u32,
    /// What the client is about to do.
    pub kind: PointKind,
}

/// What a client, or a server for it, is about to do at a [`DecisionPoint`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PointKind {
    /// A server is about to handle a request.
    Request {
        /// The operation.
        opcode: OpCode,
        /// The path of the request, or of its first operation.
        path: Option<String>,
        /// `true` if an overloaded server may refuse the request.
        throttlable: bool,
        /// The number of nodes that an operator may delete at this moment.
        operable: usize,
        /// The clients with an open session.
        open: Vec<u32>,
    },
    /// The process is about to run: a message has arrived, or a timer is due.
    Wake,
    /// A task of the process is about to run, after another one at this time.
    Turn {
        /// The number of the task among those that the process has started.
        task: u64,
    },
    /// A future that the client may drop is about to be polled.
    Poll {
        /// The number of the future among those of the client.
        future: u64,
        /// The number of earlier polls.
        polls: u32,
    },
}

impl DecisionPoint {
    /// Returns `true` if the client does more than to tell the server that it is alive.
    pub(super) fn is_activity(&self) -> bool {
        match self.kind {
            PointKind::Request { opcode, .. } => opcode != OpCode::Ping,
            PointKind::Poll { .. } => true,
            PointKind::Wake | PointKind::Turn { .. } => false,
        }
    }
}

impl fmt::Display for DecisionPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, client, kind } = self;
        write!(f, "{:>3}.{:06} c{client}", at.as_secs(), at.subsec_micros())?;
        match kind {
            PointKind::Request { opcode, path: Some(path), .. } => write!(f, " {opcode:?} {path}"),
            PointKind::Request { opcode, path: None, .. } => write!(f, " {opcode:?}"),
            PointKind::Wake => f.write_str(" wakes up"),
            PointKind::Turn { task } => write!(f, " runs its task {task}"),
            PointKind::Poll { future, polls } => write!(f, " polls future {future}, poll {polls}"),
        }
    }
}
