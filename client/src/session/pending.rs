use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bytes::BytesMut;
use tokio::sync::oneshot;
use zk_curator_proto::records::{AuthPacket, WatcherType};
use zk_curator_proto::{OpCode, Response};

use crate::watch::{Sink, WatchKind};
use crate::{Error, HostPort};

pub(crate) type Reply = oneshot::Sender<Result<Response, Error>>;

/// What a handle asks of the driver, in the order of the calls.
#[derive(Debug)]
pub(crate) enum Command {
    Request(Submission),
    AddAuth { packet: AuthPacket, reply: Reply },
    ForgetWatch { path: Arc<str> },
    Close { done: oneshot::Sender<Result<(), Error>> },
    Detach { done: oneshot::Sender<Result<(), Error>> },
    ReplaceHosts { hosts: Vec<HostPort> },
}

/// A request, encoded but for its header.
#[derive(Debug)]
pub(crate) struct Submission {
    pub(crate) opcode: OpCode,
    pub(crate) body: BytesMut,
    pub(crate) reply: Reply,
    pub(crate) watch: Option<WatchEffect>,
    pub(crate) permit: Permit,
    /// Set when it is sent, for a caller that gives up at a deadline and has to know.
    pub(crate) sent: Option<Arc<AtomicBool>>,
}

impl Submission {
    /// Answers the request.
    pub(crate) fn finish(self, result: Result<Response, Error>) {
        drop(self.permit);
        // A failure means that the caller no longer waits.
        drop(self.reply.send(result));
    }
}

/// What a request does to the watches on a path of the server, if it succeeds.
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

/// Bounds what waits for answers.
#[derive(Debug)]
pub(crate) struct Gate {
    requests: AtomicUsize,
    bytes: AtomicUsize,
    max_requests: usize,
    max_bytes: usize,
}

impl Gate {
    pub(crate) const fn new(max_requests: usize, max_bytes: usize) -> Self {
        Self { requests: AtomicUsize::new(0), bytes: AtomicUsize::new(0), max_requests, max_bytes }
    }

    pub(crate) fn enter(self: &Arc<Self>, length: usize) -> Result<Permit, Error> {
        let requests = self.requests.fetch_add(1, Ordering::Relaxed);
        let bytes = self.bytes.fetch_add(length, Ordering::Relaxed);
        let permit = Permit { gate: Arc::clone(self), length };
        if requests >= self.max_requests || bytes.saturating_add(length) > self.max_bytes {
            return Err(Error::QueueFull { requests, bytes });
        }
        Ok(permit)
    }
}

/// A place in the queue, given back on drop.
#[derive(Debug)]
pub(crate) struct Permit {
    gate: Arc<Gate>,
    length: usize,
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.gate.requests.fetch_sub(1, Ordering::Relaxed);
        self.gate.bytes.fetch_sub(self.length, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gate_refuses_above_either_limit_and_recovers() {
        let gate = Arc::new(Gate::new(2, 100));
        let first = gate.enter(60).unwrap();
        assert_eq!(gate.enter(60).unwrap_err(), Error::QueueFull { requests: 1, bytes: 60 });
        let second = gate.enter(40).unwrap();
        assert_eq!(gate.enter(0).unwrap_err(), Error::QueueFull { requests: 2, bytes: 100 });
        drop((first, second));
        assert!(gate.enter(100).is_ok());
    }
}
