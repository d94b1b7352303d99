use tokio::sync::oneshot;
use zk_curator_proto::ErrorCode;
use zk_curator_proto::records::EventType;

/// Something happened to a watched node.
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
    /// An event of an unknown transaction. For implementations of a raw client other than [`crate::ZooKeeper`].
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

    /// The transaction that caused the event. Servers tell it since ZooKeeper 3.9; `None` with older servers, and for
    /// a change that happened while the client was disconnected.
    #[must_use]
    pub const fn zxid(&self) -> Option<i64> {
        self.zxid
    }
}

/// The watch ended before it fired: read the node again.
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
    /// The server refused to arm the watch again after a reconnect: a lasting one, as a server before ZooKeeper 3.6 does, or a
    /// one-shot watch on four connections in a row.
    #[error("the server refused to arm the watch again: {0}")]
    Refused(ErrorCode),
}

/// An event of a known node, and the transaction if the server tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fired {
    pub(crate) event_type: EventType,
    pub(crate) zxid: Option<i64>,
}

/// The end of a watch. In a box, because most watches are idle and pay for the place.
pub(crate) type Outcome = Box<Result<Fired, WatchEnded>>;

pub(crate) type WatchSender = oneshot::Sender<Outcome>;

/// A report of a [`PersistentWatch`](crate::PersistentWatch).
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PersistentEvent {
    /// Something has happened to the node, or below it.
    Changed(WatchedEvent),
    /// The connection is lost: nothing is reported until [`Rearmed`](Self::Rearmed).
    Disarmed,
    /// The connection was lost, and the watch is armed again. ZooKeeper does not tell what happened meanwhile:
    /// read again, unless nothing has changed.
    Rearmed {
        /// Whether the ensemble applied no transaction between the last answer on the previous connection, to a request
        /// or to a ping, and the re-arming: the watch has missed nothing.
        ///
        /// Transactions on any node count, and those that open and close sessions: `false` says only that something
        /// may have been missed. It is `false` after every election, whose epoch is part of the zxid, and if the last
        /// answer is older than the last event.
        unchanged: bool,
    },
    /// The watch is over. Nothing follows.
    Ended(WatchEnded),
}
