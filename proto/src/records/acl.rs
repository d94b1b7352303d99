use std::fmt;

use super::{Stat, record};
use crate::{DecodeError, Decoder, Encoder, Record};

/// A set of permissions on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Permissions(i32);

impl Permissions {
    /// May read the data and list the children.
    pub const READ: Self = Self(1);
    /// May replace the data.
    pub const WRITE: Self = Self(2);
    /// May create children.
    pub const CREATE: Self = Self(4);
    /// May delete children.
    pub const DELETE: Self = Self(8);
    /// May replace the ACL.
    pub const ADMIN: Self = Self(16);
    /// All permissions.
    pub const ALL: Self = Self(31);

    /// Returns the permissions with these bits, as on the wire.
    #[must_use]
    pub const fn from_bits(bits: i32) -> Self {
        Self(bits)
    }

    /// Returns the bits, as on the wire.
    #[must_use]
    pub const fn bits(self) -> i32 {
        self.0
    }

    /// Returns `true` if every permission of `other` is in `self`.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl std::ops::BitOr for Permissions {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// One entry of an access control list: an identity and its permissions.
#[derive(Clone, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_structs, reason = "the wire form is fixed by the protocol")]
pub struct Acl {
    /// The permissions.
    pub permissions: Permissions,
    /// The authentication scheme: `world`, `auth`, `digest`, `ip`, `x509`, `sasl`.
    pub scheme: String,
    /// The identity within the scheme.
    pub id: String,
}

impl Acl {
    /// Returns an entry.
    #[must_use]
    pub fn new(permissions: Permissions, scheme: impl Into<String>, id: impl Into<String>) -> Self {
        Self { permissions, scheme: scheme.into(), id: id.into() }
    }

    /// Returns the list with which every client may do everything (`OPEN_ACL_UNSAFE`).
    #[must_use]
    pub fn open_unsafe() -> Vec<Self> {
        vec![Self::new(Permissions::ALL, "world", "anyone")]
    }

    /// Returns the list with which every client may read (`READ_ACL_UNSAFE`).
    #[must_use]
    pub fn read_unsafe() -> Vec<Self> {
        vec![Self::new(Permissions::READ, "world", "anyone")]
    }

    /// Returns the list with which the creator, by every identity of its connection, may do
    /// everything (`CREATOR_ALL_ACL`).
    #[must_use]
    pub fn creator_all() -> Vec<Self> {
        vec![Self::new(Permissions::ALL, "auth", "")]
    }
}

/// Omits the identity: for the schemes `digest` and `auth` it is derived from a password.
impl fmt::Debug for Acl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{:#x}", self.scheme, self.permissions.0)
    }
}

impl Record for Acl {
    const MIN_SIZE: usize = 12;

    fn encode(&self, out: &mut Encoder) {
        out.i32(self.permissions.0);
        out.string(&self.scheme);
        out.string(&self.id);
    }

    fn decode(input: &mut Decoder, _what: &'static str) -> Result<Self, DecodeError> {
        Ok(Self {
            permissions: Permissions(input.i32("Acl.permissions")?),
            scheme: input.string("Acl.scheme")?,
            id: input.string("Acl.id")?,
        })
    }
}

record! {
    /// Body of `getACL`.
    GetAclRequest {
        /// The node.
        path: String,
    }
}

record! {
    /// The response to `getACL`.
    AclResponse {
        /// The list.
        acl: Vec<Acl>,
        /// The stat of the node.
        stat: Stat,
    }
}

record! {
    /// Body of `setACL`.
    SetAclRequest {
        /// The node.
        path: String,
        /// The new list; must not be empty.
        acl: Vec<Acl>,
        /// The ACL version (`aversion`) that the node must have, or -1 for any.
        version: i32,
    }
}
