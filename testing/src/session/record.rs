//! [`Session`], and its form in snapshots.

use bytes::Bytes;

use crate::ids::Place;

/// One session. Only [`Sessions`](super::Sessions) changes it.
#[derive(Debug)]
pub(crate) struct Session {
    pub(super) password: Bytes,
    pub(super) number: u64,
    pub(super) timeout: u64,
    pub(super) connection: Option<Place>,
    pub(super) owner: Option<Place>,
    pub(super) local: bool,
    /// The expiry time: a multiple of the tick, or never.
    pub(super) deadline: u64,
}

impl Session {
    /// Returns the number of the session, from 1 in the order of opening.
    pub(crate) const fn number(&self) -> u64 {
        self.number
    }

    /// Returns the timeout in milliseconds, negotiated by the last connection.
    pub(crate) const fn timeout(&self) -> u64 {
        self.timeout
    }

    /// Returns the connection that the session is attached to.
    pub(crate) const fn connection(&self) -> Option<Place> {
        self.connection
    }

    /// Returns the last connection, even if it has ended. Requests in flight on earlier connections
    /// are refused.
    pub(crate) const fn owner(&self) -> Option<Place> {
        self.owner
    }

    /// Returns `true` if the session is local to one server, and ends with its read-only mode.
    pub(crate) const fn is_local(&self) -> bool {
        self.local
    }
}

/// A session in a snapshot.
#[derive(Debug, Clone)]
pub(crate) struct SavedSession {
    pub(crate) id: i64,
    pub(crate) password: Bytes,
    /// Milliseconds.
    pub(crate) timeout: u64,
    pub(crate) number: u64,
}

/// The sessions in a snapshot.
#[derive(Debug, Clone)]
pub(crate) struct SavedSessions {
    pub(crate) next_id: i64,
    pub(crate) opened: u64,
    /// The sessions, in the order of ids.
    pub(crate) living: Vec<SavedSession>,
}
