use zk_curator_proto::ErrorCode;
use zk_curator_proto::records::EventType;

/// An event of a watched node.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct WatchedEvent {
    /// The kind of the event.
    pub event_type: EventType,
    /// The node.
    pub path: String,
    pub(super) zxid: Option<i64>,
}

impl WatchedEvent {
    /// Returns an event of an unknown transaction, for implementations of a raw client other than
    /// [`crate::ZooKeeper`].
    #[must_use]
    pub const fn new(event_type: EventType, path: String) -> Self {
        Self { event_type, path, zxid: None }
    }

    /// Returns the event with the transaction that caused it.
    #[must_use]
    pub const fn with_zxid(mut self, zxid: Option<i64>) -> Self {
        self.zxid = zxid;
        self
    }

    /// Returns the transaction that caused the event. Servers send it since ZooKeeper 3.9. It is
    /// `None` with older servers, and for a change that happened while the client was disconnected.
    #[must_use]
    pub const fn zxid(&self) -> Option<i64> {
        self.zxid
    }
}

/// The reason why a watch ended before it fired. Read the node again.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WatchEnded {
    /// The session expired or its authentication failed.
    #[error("the session ended before the watch fired")]
    SessionLost,
    /// The client was closed.
    #[error("the client was closed before the watch fired")]
    Closed,
    /// The watch was removed by [`crate::ZooKeeper::remove_watches`].
    #[error("the watch was removed")]
    Removed,
    /// The server refused to re-arm the watch after a reconnect: a persistent watch on a server
    /// before ZooKeeper 3.6, or a one-shot watch on four consecutive connections.
    #[error("the server refused to arm the watch again: {0}")]
    Refused(ErrorCode),
}

/// An event of a known node, and its transaction if the server sends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FiredWatch {
    pub(crate) event_type: EventType,
    pub(crate) zxid: Option<i64>,
}

/// The end of a watch. Boxed, because most watches are idle and would pay for the space.
pub(crate) type WatchOutcome = Box<Result<FiredWatch, WatchEnded>>;

/// A report of a [`PersistentWatch`](crate::PersistentWatch).
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PersistentEvent {
    /// The node, or a node below it, has changed.
    Changed(WatchedEvent),
    /// The connection is lost: nothing is reported until [`Rearmed`](Self::Rearmed).
    Disarmed,
    /// The connection was lost, and the watch is armed again. ZooKeeper does not report what
    /// happened in between. Read again, unless nothing has changed.
    Rearmed {
        /// `true` if the watch has missed nothing: the ensemble applied no transaction between the
        /// last response on the previous connection, to a request or to a ping, and the re-arming.
        ///
        /// Transactions on all nodes count, and those that open and close sessions. So `false`
        /// means only that something may have been missed. It is `false` after every election,
        /// because the epoch is part of the zxid, and if the last response is older than the last
        /// event.
        unchanged: bool,
    },
    /// The watch is over. Nothing follows.
    Ended(WatchEnded),
}
