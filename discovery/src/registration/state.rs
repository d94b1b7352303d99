//! The states of a registration, and its policies.

use zk_curator::{Error, SessionId};

/// The policy for an id that another process has already registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum OnConflict {
    /// The other instance is replaced, once. Its registration ends as
    /// [superseded](RegistrationState::Superseded).
    #[default]
    Replace,
    /// The registration waits until the other instance is gone.
    Wait,
    /// The registration fails with `Refused`.
    Fail,
}

/// The policy for a node that another client deletes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum OnDeleted {
    /// The node is created again, after a pause of 1 to 30 seconds. The registration of a static or
    /// permanent instance ends instead.
    #[default]
    Recreate,
    /// The registration ends.
    End,
}

/// The position of the gate of a registration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Gate {
    #[default]
    Open,
    /// The instance is kept out of traffic. `wanted` is its `enabled` without the gate.
    Closed { wanted: bool },
}

/// The process whose instance has the id of a registration.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rival {
    /// The address in its record.
    pub address: Option<String>,
}

/// The state of a [`Registration`](super::Registration).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum RegistrationState {
    /// The instance has not been registered yet.
    Connecting,
    /// The node exists, and belongs to this session. The node of a static or permanent instance
    /// outlives the session.
    Registered {
        /// The session.
        session: SessionId,
    },
    /// The registration waits until the node of another process is gone ([`OnConflict::Wait`]).
    Waiting {
        /// The other process.
        by: Rival,
    },
    /// The connection is lost. The node exists as long as the session lives.
    Suspended,
    /// The session has ended, and the node with it. The node is created again in the next session.
    Lost,
    /// Another client has deleted the node. With [`OnDeleted::Recreate`] it is created again.
    Deleted,
    /// An operation failed with a permanent error, such as `NoAuth`. It is still retried, after
    /// pauses that grow from half a second to 30 seconds. `NodeExists` with [`OnConflict::Wait`]:
    /// the node of a dynamic instance is persistent, so no session will ever remove it.
    Failed(Error),
    /// Another process has registered an instance with the same id. This registration has ended.
    Superseded {
        /// The other process.
        by: Rival,
    },
    /// Another process had registered the id before ([`OnConflict::Fail`]). This registration has
    /// ended.
    Refused {
        /// The other process.
        by: Rival,
    },
    /// The registration or the framework has ended.
    Ended,
}

impl RegistrationState {
    pub(super) const fn is_final(&self) -> bool {
        matches!(self, Self::Superseded { .. } | Self::Refused { .. } | Self::Ended)
    }

    pub(super) fn is_alike(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Registered { session }, Self::Registered { session: other }) => session == other,
            (Self::Failed(error), Self::Failed(other)) => error.kind() == other.kind(),
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }
}
