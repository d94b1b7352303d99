use super::record;
use crate::DecodeError;

record! {
    /// Re-arms one-shot watches after a reconnect. What has changed since `relative_zxid` fires at once.
    SetWatches {
        /// The last transaction the client has seen.
        relative_zxid: i64,
        /// Paths with data watches.
        data_watches: Vec<String>,
        /// Paths with watches for creation.
        exist_watches: Vec<String>,
        /// Paths with child watches.
        child_watches: Vec<String>,
    }
}

record! {
    /// [`SetWatches`] with persistent watches too, since ZooKeeper 3.6.
    SetWatches2 {
        /// The last transaction the client has seen.
        relative_zxid: i64,
        /// Paths with data watches.
        data_watches: Vec<String>,
        /// Paths with watches for creation.
        exist_watches: Vec<String>,
        /// Paths with child watches.
        child_watches: Vec<String>,
        /// Paths with persistent watches.
        persistent_watches: Vec<String>,
        /// Paths with persistent recursive watches.
        persistent_recursive_watches: Vec<String>,
    }
}

record! {
    /// Body of a watch notification.
    WatcherEvent {
        /// An [`EventType`] as a number.
        event_type: i32,
        /// A [`KeeperState`] as a number.
        state: i32,
        /// The node.
        path: String,
    }
}

/// What happened to a node (`org.apache.zookeeper.Watcher.Event.EventType`).
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum EventType {
    /// Nothing: the event is about the connection.
    None = -1,
    /// The node was created.
    NodeCreated = 1,
    /// The node was deleted.
    NodeDeleted = 2,
    /// The data of the node were set.
    NodeDataChanged = 3,
    /// A child was created or deleted.
    NodeChildrenChanged = 4,
}

impl TryFrom<i32> for EventType {
    type Error = DecodeError;

    fn try_from(value: i32) -> Result<Self, DecodeError> {
        Ok(match value {
            -1 => Self::None,
            1 => Self::NodeCreated,
            2 => Self::NodeDeleted,
            3 => Self::NodeDataChanged,
            4 => Self::NodeChildrenChanged,
            value => return Err(DecodeError::InvalidValue { what: "event type", value }),
        })
    }
}

/// The state of the connection in a notification (`org.apache.zookeeper.Watcher.Event.KeeperState`).
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum KeeperState {
    /// Not connected.
    Disconnected = 0,
    /// Connected to a server that is part of a quorum.
    SyncConnected = 3,
    /// Authentication failed.
    AuthFailed = 4,
    /// Connected to a read-only server.
    ConnectedReadOnly = 5,
    /// Authenticated through SASL.
    SaslAuthenticated = 6,
    /// The session has expired.
    Expired = -112,
    /// The client was closed.
    Closed = 7,
}

impl KeeperState {
    /// The number on the wire.
    #[must_use]
    pub const fn code(self) -> i32 {
        self as i32
    }
}
