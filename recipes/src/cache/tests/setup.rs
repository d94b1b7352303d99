//! The cases of the model: a cache with its server, and the steps of both.

use super::server::Write;

#[derive(Debug, Clone)]
pub(super) enum Step {
    /// Writes of other clients, in one transaction or each in its own.
    Write(Vec<Write>, bool),
    CreateAll(usize, bool),
    DeleteAll(usize, bool),
    Replace(usize),
    /// A write of a node that the cache does not follow.
    WriteElsewhere,
    /// The client sends a request.
    Send,
    /// The server responds to the next request. One read of it may fail, or have no response.
    Serve(Option<(usize, Fault)>),
    /// This many of the sent messages arrive.
    Receive(usize),
    /// The cache takes this many of the events that have arrived.
    Hear(usize),
    /// The cache takes the next response, and before that all events that have arrived.
    Answer,
    /// The cache takes the response to a request without reads.
    TakeOutcome,
    /// The server shows its last transaction in the response to a ping.
    Ping,
    /// The connection is lost; requests are sent again after the reconnect, or fail.
    Cut(bool),
    Reconnect,
    /// The session is lost.
    Lose,
    Sweep,
    Audit,
    /// A caller wants the path with this number, and everything below it, to be read again.
    Refresh(usize),
    /// Nodes that could not be read are tried again.
    Retry,
    /// Checkpoints begin, and are published.
    Turn,
    /// A caller of `synced`.
    Sync,
    /// A caller of `reflects`.
    Check,
    /// One of the callers gives up.
    GiveUp(usize),
    /// Callers wait for an exact state, or none does.
    Prove(bool),
    /// Everything comes to rest.
    Rest,
}

/// Why a read has no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// It has no response.
    Lost,
    /// The server refuses to read anything.
    Refused,
    /// The node must not be read.
    NoAuth,
    /// The node cannot be read, for a reason that may pass.
    Broken,
}

/// A rule of the wire or of the cache that is broken, to see that it is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flaw {
    None,
    /// Responses come before the events that they show.
    LateEvents,
    /// Nothing is read again after an outage.
    NoSweep,
    /// Nothing is read again because of a deletion.
    LostDeletions,
    /// A checkpoint wrongly counts as reached immediately.
    EarlyCheckpoint,
    /// A barrier wrongly counts as reached immediately.
    EarlyBarrier,
    /// A refresh is taken for done when it was asked for.
    EarlyRefresh,
    /// Refused reads are taken for done.
    RefusedIsRead,
    /// The checkpoints do not know the events.
    UncountedEvents,
    /// The checkpoints do not know that changes may have been missed.
    UntoldOutage,
    /// Events of watches that were not known when a checkpoint began do not belong to it.
    LateWatches,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Setup {
    pub(super) root: &'static str,
    pub(super) max_depth: Option<usize>,
    pub(super) is_filtered: bool,
    /// `true` if some nodes are covered and not kept.
    pub(super) is_kept_in_part: bool,
    /// The most bytes that are asked for at a time.
    pub(super) most_bytes: usize,
    /// The number of places that are visited under one lock.
    pub(super) at_a_time: usize,
    pub(super) tells_zxids: bool,
    /// `true` if there are persistent watches, or one-shot watches on every node.
    pub(super) is_persistent: bool,
    /// `true` if a reconnect asks a quorum when events came after the last response.
    pub(super) asks_quorum: bool,
    /// `true` if a reconnect shows that nothing has happened.
    pub(super) tells_unchanged: bool,
    /// The size of each node, which determines the number of reads in a request.
    pub(super) size: i32,
    pub(super) flaw: Flaw,
}

impl Setup {
    /// Returns `true` if a path is in the scope.
    pub(super) fn covers(&self, path: &str) -> bool {
        let below = path.strip_prefix(self.root.trim_end_matches('/')).unwrap();
        let mut names = below.split('/').filter(|name| !name.is_empty());
        self.max_depth.is_none_or(|most| names.clone().count() <= most)
            && !(self.is_filtered && names.any(|name| name == "b"))
    }

    /// Returns `true` if users see a node.
    pub(super) fn keeps(&self, path: &str) -> bool {
        !self.is_kept_in_part || is_kept(path)
    }
}

pub(super) fn is_kept(path: &str) -> bool {
    !path.ends_with("/a")
}
