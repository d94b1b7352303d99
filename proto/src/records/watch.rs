use super::record;
use crate::DecodeError;

record! {
    /// Re-arms one-shot watches after a reconnect. Watches of nodes that have changed since
    /// `relative_zxid` fire immediately.
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
    /// [`SetWatches`] with persistent watches; needs ZooKeeper 3.6.
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
    /// Body of `addWatch`; needs ZooKeeper 3.6.
    AddWatchRequest {
        /// The node.
        path: String,
        /// An [`AddWatchMode`] as a number.
        mode: i32,
    }
}

record! {
    /// Body of `removeWatches` and `checkWatches`.
    WatchesRequest {
        /// The node.
        path: String,
        /// A [`WatcherType`] as a number.
        watcher_type: i32,
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

/// The event of a node (`org.apache.zookeeper.Watcher.Event.EventType`).
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum EventType {
    /// No event of a node: the notification concerns the connection.
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

/// The state of the connection in a notification
/// (`org.apache.zookeeper.Watcher.Event.KeeperState`).
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum KeeperState {
    /// There is no connection.
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

/// The behaviour of a watch of `addWatch` (`org.apache.zookeeper.AddWatchMode`).
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum AddWatchMode {
    /// Stays after it has fired. Reports creation, deletion and changes of the node, and its
    /// children.
    Persistent = 0,
    /// Stays after it has fired. Reports creation, deletion and changes of the node and of all
    /// nodes below it, but not `NodeChildrenChanged`.
    PersistentRecursive = 1,
}

/// The watches to remove or to check (`org.apache.zookeeper.Watcher.WatcherType`).
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum WatcherType {
    /// One-shot watches for children.
    Children = 1,
    /// One-shot watches for data and existence.
    Data = 2,
    /// Every kind.
    Any = 3,
    /// Persistent watches; since ZooKeeper 3.9.
    Persistent = 4,
    /// Persistent recursive watches; since ZooKeeper 3.9.
    PersistentRecursive = 5,
}

macro_rules! numbered {
    ($name:ident, $what:literal, $($variant:ident),*) => {
        impl $name {
            /// Returns the number on the wire.
            #[must_use]
            pub const fn code(self) -> i32 {
                self as i32
            }
        }

        impl TryFrom<i32> for $name {
            type Error = DecodeError;

            fn try_from(value: i32) -> Result<Self, DecodeError> {
                match value {
                    $(value if value == Self::$variant as i32 => Ok(Self::$variant),)*
                    value => Err(DecodeError::InvalidValue { what: $what, value }),
                }
            }
        }
    };
}

numbered!(AddWatchMode, "watch mode", Persistent, PersistentRecursive);
numbered!(WatcherType, "watcher type", Children, Data, Any, Persistent, PersistentRecursive);
numbered!(
    EventType,
    "event type",
    None,
    NodeCreated,
    NodeDeleted,
    NodeDataChanged,
    NodeChildrenChanged
);
numbered!(
    KeeperState,
    "keeper state",
    Disconnected,
    SyncConnected,
    AuthFailed,
    ConnectedReadOnly,
    SaslAuthenticated,
    Expired,
    Closed
);
