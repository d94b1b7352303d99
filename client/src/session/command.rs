use std::ops::Range;
use std::sync::Arc;

use tokio::sync::oneshot;
use zk_curator_proto::OpCode;
use zk_curator_proto::records::{AuthPacket, WatcherType};

use crate::watch::{EventSink, WatchKind};
use crate::{Error, HostPort};

/// A command of a handle to the driver, in call order.
#[derive(Debug)]
pub(crate) enum SessionCommand {
    /// A request. `body` is the position of its body in the [`super::RequestBatch`]. With
    /// `has_deadline` the caller may give up before it is sent, and must learn if it was sent.
    Request {
        submission: RequestSubmission,
        body: Range<usize>,
        has_deadline: bool,
    },
    AddAuth {
        packet: Box<AuthPacket>,
        reply: ReplySlot,
    },
    ForgetWatch {
        path: Arc<str>,
    },
    Close {
        done: oneshot::Sender<Result<(), Error>>,
    },
    Detach {
        done: oneshot::Sender<Result<(), Error>>,
    },
    ReplaceHosts {
        hosts: Vec<HostPort>,
    },
}

/// The right and the duty to deliver the response to a request.
#[derive(Debug)]
pub(crate) struct ReplySlot(pub(super) usize);

/// A request without its body.
#[derive(Debug)]
pub(crate) struct RequestSubmission {
    pub(crate) opcode: OpCode,
    pub(crate) reply: ReplySlot,
    pub(crate) watch: Option<Box<WatchEffect>>,
}

/// The effect of a successful request on the watches of a path on the server.
#[derive(Debug)]
pub(crate) enum WatchEffect {
    /// It sets a watch.
    Arm(WatchPlan, Arc<str>, EventSink),
    /// It removes all watches of a kind.
    Remove(WatcherType, Arc<str>),
}

/// The watch that a request sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WatchPlan {
    /// A data watch if the node exists, otherwise none.
    Data,
    /// A child watch if the node exists, otherwise none.
    Child,
    /// A data watch if the node exists, otherwise a watch for its creation.
    Exists,
    /// A persistent watch, on a node that need not exist.
    Persistent(WatchKind),
}

impl WatchPlan {
    /// Returns the kind that the server arms, if it arms one. It stores watches of `exists` with
    /// the data watches.
    pub(crate) const fn kind(self) -> WatchKind {
        match self {
            Self::Data | Self::Exists => WatchKind::Data,
            Self::Child => WatchKind::Child,
            Self::Persistent(kind) => kind,
        }
    }
}
