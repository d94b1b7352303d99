//! Identifiers of members and connections.

/// Identifies a server within its ensemble, from zero.
pub(crate) type MemberId = usize;

/// Identifies a connection of a member; never reused.
pub(crate) type ConnectionId = u64;

/// A connection of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) member: MemberId,
    pub(crate) connection: ConnectionId,
}
