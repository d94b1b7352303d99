use std::ops::Range;
use std::sync::Arc;

use tokio::sync::oneshot;
use zk_curator_proto::OpCode;
use zk_curator_proto::records::{AuthPacket, WatcherType};

use crate::watch::{Sink, WatchKind};
use crate::{Error, HostPort};

/// A command of a handle to the driver, in the order of the calls.
#[derive(Debug)]
pub(crate) enum Command {
    /// `body` is where its body is in the [`super::Batch`]. The caller of one that is `hurried` may give up before
    /// it is sent, and has to know.
    Request {
        submission: Submission,
        body: Range<usize>,
        hurried: bool,
    },
    AddAuth {
        packet: Box<AuthPacket>,
        reply: Reply,
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

/// The right, and the duty, to answer a request.
#[derive(Debug)]
pub(crate) struct Reply(pub(super) usize);

/// A request, but for its body.
#[derive(Debug)]
pub(crate) struct Submission {
    pub(crate) opcode: OpCode,
    pub(crate) reply: Reply,
    pub(crate) watch: Option<Box<WatchEffect>>,
}

/// The effect of a successful request on the watches of a path of the server.
#[derive(Debug)]
pub(crate) enum WatchEffect {
    /// It leaves one.
    Arm(WatchPlan, Arc<str>, Sink),
    /// It takes all of a kind away.
    Remove(WatcherType, Arc<str>),
}

/// Which watch a request leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WatchPlan {
    /// Data watch if the node exists, none otherwise.
    Data,
    /// Child watch if the node exists, none otherwise.
    Child,
    /// Data watch if the node exists, else a watch for its creation.
    Exists,
    /// A lasting watch, whether the node exists or not.
    Lasting(WatchKind),
}
