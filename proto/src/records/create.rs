use bytes::Bytes;

use super::{Acl, Stat, record};
use crate::DecodeError;

/// The kind of a created node (`org.apache.zookeeper.CreateMode`).
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(i32)]
pub enum CreateMode {
    /// Stays until it is deleted.
    #[default]
    Persistent = 0,
    /// Deleted when the session that created it ends. Has no children.
    Ephemeral = 1,
    /// Persistent, with the parent's counter appended to its name.
    PersistentSequential = 2,
    /// Ephemeral, with the parent's counter appended to its name.
    EphemeralSequential = 3,
    /// Removed by the server some time after its last child is deleted.
    Container = 4,
    /// Removed by the server if it has not been written for its time to live and has no children.
    PersistentWithTtl = 5,
    /// [`CreateMode::PersistentWithTtl`], with the parent's counter appended to its name.
    PersistentSequentialWithTtl = 6,
}

impl CreateMode {
    /// Returns the number on the wire.
    #[must_use]
    pub const fn flags(self) -> i32 {
        self as i32
    }

    /// Returns `true` if the node belongs to a session.
    #[must_use]
    pub const fn is_ephemeral(self) -> bool {
        matches!(self, Self::Ephemeral | Self::EphemeralSequential)
    }

    /// Returns `true` if the server appends a number to the name.
    #[must_use]
    pub const fn is_sequential(self) -> bool {
        matches!(
            self,
            Self::PersistentSequential
                | Self::EphemeralSequential
                | Self::PersistentSequentialWithTtl
        )
    }

    /// Returns `true` if the node has a time to live.
    #[must_use]
    pub const fn is_ttl(self) -> bool {
        matches!(self, Self::PersistentWithTtl | Self::PersistentSequentialWithTtl)
    }
}

impl TryFrom<i32> for CreateMode {
    type Error = DecodeError;

    fn try_from(flags: i32) -> Result<Self, DecodeError> {
        Ok(match flags {
            0 => Self::Persistent,
            1 => Self::Ephemeral,
            2 => Self::PersistentSequential,
            3 => Self::EphemeralSequential,
            4 => Self::Container,
            5 => Self::PersistentWithTtl,
            6 => Self::PersistentSequentialWithTtl,
            value => return Err(DecodeError::InvalidValue { what: "create mode", value }),
        })
    }
}

record! {
    /// Body of `create`, `create2` and `createContainer`.
    CreateRequest {
        /// The path, without the sequence number.
        path: String,
        /// The data.
        data: Option<Bytes>,
        /// The ACL; must not be empty.
        acl: Vec<Acl>,
        /// A [`CreateMode`] as a number. A server must respond to an invalid one instead of failing
        /// to decode it.
        flags: i32,
    }
}

record! {
    /// Body of `createTTL`.
    CreateTtlRequest {
        /// The path, without the sequence number.
        path: String,
        /// The data.
        data: Option<Bytes>,
        /// The ACL; must not be empty.
        acl: Vec<Acl>,
        /// A [`CreateMode`] as a number.
        flags: i32,
        /// Time to live in milliseconds, from 1 to 2^40 - 1.
        ttl: i64,
    }
}

record! {
    /// The response to `create2`, `createContainer` and `createTTL`.
    Create2Response {
        /// The path, with the sequence number.
        path: String,
        /// The stat of the new node.
        stat: Stat,
    }
}
