use zk_curator::{SessionId, Stat};
use zk_curator_proto::DecodeError;

#[cfg(feature = "serde")]
use super::serial;
use super::wire::Cursor;

/// The metadata of a node as a server stores it (`StatPersisted`).
///
/// It differs from the [`Stat`] that clients see: `cversion` counts creations of children only, the
/// owner includes the markers of containers and of nodes with a time to live, and the sizes are
/// left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct StoredStat {
    /// The transaction that created the node.
    #[cfg_attr(feature = "serde", serde(serialize_with = "serial::zxid"))]
    pub czxid: i64,
    /// The transaction that last changed the data.
    #[cfg_attr(feature = "serde", serde(serialize_with = "serial::zxid"))]
    pub mzxid: i64,
    /// The transaction that last created or deleted a child.
    #[cfg_attr(feature = "serde", serde(serialize_with = "serial::zxid"))]
    pub pzxid: i64,
    /// The time of creation, in milliseconds since 1970, by the leader's clock.
    pub ctime: i64,
    /// The time of the last change of the data, in milliseconds since 1970, by the leader's clock.
    pub mtime: i64,
    /// The owner, with the markers: see [`Owner::of`].
    #[cfg_attr(feature = "serde", serde(serialize_with = "serial::zxid"))]
    pub ephemeral_owner: i64,
    /// The number of changes of the data. Wraps around.
    pub version: i32,
    /// The number of creations of children. Wraps around.
    pub cversion: i32,
    /// The number of changes of the ACL. Wraps around.
    pub aversion: i32,
}

impl StoredStat {
    /// The length of the stored form, in bytes.
    pub(super) const LENGTH: usize = 60;

    pub(super) fn read(input: &mut Cursor<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            czxid: input.i64("stat.czxid")?,
            mzxid: input.i64("stat.mzxid")?,
            ctime: input.i64("stat.ctime")?,
            mtime: input.i64("stat.mtime")?,
            version: input.i32("stat.version")?,
            cversion: input.i32("stat.cversion")?,
            aversion: input.i32("stat.aversion")?,
            ephemeral_owner: input.i64("stat.ephemeralOwner")?,
            pzxid: input.i64("stat.pzxid")?,
        })
    }

    /// Returns the metadata of a new node.
    pub(super) fn created(zxid: i64, time_ms: i64, owner: Owner) -> Self {
        Self {
            czxid: zxid,
            mzxid: zxid,
            pzxid: zxid,
            ctime: time_ms,
            mtime: time_ms,
            ephemeral_owner: owner.stored(),
            ..Self::default()
        }
    }

    /// Returns the owner of the node.
    #[must_use]
    pub const fn owner(&self) -> Owner {
        Owner::of(self.ephemeral_owner)
    }

    /// Returns the metadata as a client sees it.
    #[must_use]
    pub fn to_stat(self, data_length: usize, num_children: u32) -> Stat {
        let num_children = num_children.cast_signed();
        Stat {
            czxid: self.czxid,
            mzxid: self.mzxid,
            ctime: self.ctime,
            mtime: self.mtime,
            version: self.version,
            // Clients count deletions as well: one for each creation whose child is gone.
            cversion: self.cversion.wrapping_mul(2).wrapping_sub(num_children),
            aversion: self.aversion,
            ephemeral_owner: self.owner().session().map_or(0, SessionId::get),
            data_length: i32::try_from(data_length).unwrap_or(i32::MAX),
            num_children,
            pzxid: self.pzxid,
        }
    }
}

/// The owner of a node, which decides when a server deletes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum Owner {
    /// A persistent node.
    None,
    /// An ephemeral node: the server deletes it when the session ends.
    Session(#[cfg_attr(feature = "serde", serde(serialize_with = "serial::session"))] SessionId),
    /// A container: the server deletes it after its last child was deleted.
    Container,
    /// A node with a time to live: the server deletes it if it has no children and was not written
    /// for this time.
    Ttl {
        /// The time to live, in milliseconds.
        ttl_ms: i64,
    },
}

/// The highest byte of the owner of a node with a time to live.
const EXTENDED: i64 = 0xff << 56;
/// The bits of the number of the extended feature; zero is the time to live.
const FEATURE: i64 = 0xffff << 40;
/// The bits of the time to live.
const TTL: i64 = (1 << 40) - 1;

impl Owner {
    /// Returns the owner for the number in [`StoredStat::ephemeral_owner`], by ZooKeeper's
    /// `EphemeralType`.
    ///
    /// A server with the id 255 and without extended types gives its sessions ids with the same
    /// highest byte. They are told apart by the next two bytes, which are zero for a time to live.
    #[must_use]
    pub const fn of(ephemeral_owner: i64) -> Self {
        match ephemeral_owner {
            0 => Self::None,
            i64::MIN => Self::Container,
            owner if owner & EXTENDED == EXTENDED && owner & FEATURE == 0 => {
                Self::Ttl { ttl_ms: owner & TTL }
            }
            session => Self::Session(SessionId::new(session)),
        }
    }

    /// Returns the session of an ephemeral node.
    #[must_use]
    pub const fn session(self) -> Option<SessionId> {
        match self {
            Self::Session(session) => Some(session),
            _ => None,
        }
    }

    /// Returns the time to live in milliseconds, if the node has one.
    #[must_use]
    pub const fn ttl_ms(self) -> Option<i64> {
        match self {
            Self::Ttl { ttl_ms } => Some(ttl_ms),
            _ => None,
        }
    }

    /// Returns the number that a server stores.
    pub(super) const fn stored(self) -> i64 {
        match self {
            Self::None => 0,
            Self::Session(session) => session.get(),
            Self::Container => i64::MIN,
            Self::Ttl { ttl_ms } => EXTENDED | (ttl_ms & TTL),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_survive_their_stored_form() {
        let session = |id: u64| Owner::Session(SessionId::new(id.cast_signed()));
        for owner in [
            Owner::None,
            Owner::Container,
            Owner::Ttl { ttl_ms: 1 },
            Owner::Ttl { ttl_ms: TTL },
            session(1),
            session(0x8000_0000_0000_0001),
            session(0xff00_0100_0000_0001),
        ] {
            assert_eq!(Owner::of(owner.stored()), owner);
        }
    }

    #[test]
    fn clients_see_creations_and_deletions_of_children() {
        let stat = StoredStat { cversion: 5, ephemeral_owner: i64::MIN, ..StoredStat::default() };
        let seen = stat.to_stat(3, 2);
        assert_eq!((seen.cversion, seen.num_children, seen.data_length), (8, 2, 3));
        assert_eq!(seen.ephemeral_owner, 0);
    }
}
