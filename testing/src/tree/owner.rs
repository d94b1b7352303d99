//! The owner field of a node: a session, or the marks of containers and of nodes with a time to
//! live.

use zk_curator_proto::ErrorCode;

/// Longest time to live, in milliseconds (2^40 - 1, about 34 years).
const MAX_TTL: i64 = 0xff_ffff_ffff;
const CONTAINER: i64 = i64::MIN;
const TTL_MARK: i64 = 0xff << 56;

/// The dependency of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    /// Nothing: the node stays until it is deleted.
    None,
    /// The session that created it.
    Session(i64),
    /// Its children: the reaper removes it after the last of them.
    Container,
    /// A time to live in milliseconds, after which the reaper removes it.
    Ttl(i64),
}

impl Owner {
    /// Returns an owner with this time to live.
    pub(super) fn ttl(millis: i64) -> Result<Self, ErrorCode> {
        if (1..=MAX_TTL).contains(&millis) {
            Ok(Self::Ttl(millis))
        } else {
            Err(ErrorCode::BadArguments)
        }
    }

    /// Returns the number in ZooKeeper's own records.
    pub(crate) const fn encoded(self) -> i64 {
        match self {
            Self::None => 0,
            Self::Session(id) => id,
            Self::Container => CONTAINER,
            Self::Ttl(millis) => TTL_MARK | millis,
        }
    }

    /// Returns the owner with this number in ZooKeeper's own records.
    pub(super) const fn decode(number: i64) -> Option<Self> {
        match number {
            0 => Some(Self::None),
            CONTAINER => Some(Self::Container),
            id if id & TTL_MARK != TTL_MARK => Some(Self::Session(id)),
            ttl if ttl ^ TTL_MARK > 0 && ttl ^ TTL_MARK <= MAX_TTL => {
                Some(Self::Ttl(ttl ^ TTL_MARK))
            }
            _ => None,
        }
    }

    /// Returns the number that a client sees. The marks of containers and times to live stay inside
    /// the server.
    pub(super) const fn shown(self) -> i64 {
        match self {
            Self::Session(id) => id,
            Self::None | Self::Container | Self::Ttl(_) => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use zk_curator_proto::records::Stat;

    use super::*;

    #[test]
    fn marks_are_those_of_apache_zookeeper() {
        assert_eq!(Owner::Container.encoded(), i64::MIN);
        assert_eq!(Owner::ttl(5).map(Owner::encoded), Ok(0xff00_0000_0000_0005_u64.cast_signed()));
        assert_eq!(Owner::Session(7).shown(), 7);
        assert_eq!(Owner::Container.shown(), 0);
        for owner in
            [Owner::None, Owner::Container, Owner::Session(7), Owner::Ttl(1), Owner::Ttl(MAX_TTL)]
        {
            assert_eq!(Owner::decode(owner.encoded()), Some(owner));
        }
        let seen = |owner: Owner| {
            Stat { ephemeral_owner: owner.encoded(), ..Stat::default() }.is_ephemeral()
        };
        for owner in [Owner::None, Owner::Container, Owner::Ttl(1), Owner::Ttl(MAX_TTL)] {
            assert!(!seen(owner), "{owner:?}");
        }
        for session in [7, i64::MIN | 7, 0xfe << 56] {
            assert!(seen(Owner::Session(session)), "{session:#x}");
            assert_eq!(Owner::decode(session), Some(Owner::Session(session)));
        }
        for foreign in [TTL_MARK, TTL_MARK | (MAX_TTL + 1), -1] {
            assert_eq!(Owner::decode(foreign), None);
        }
    }

    #[test]
    fn a_time_to_live_is_between_one_and_two_to_the_forty() {
        for invalid in [i64::MIN, -1, 0, 1 << 40] {
            assert_eq!(Owner::ttl(invalid), Err(ErrorCode::BadArguments));
        }
        assert_eq!(Owner::ttl(1), Ok(Owner::Ttl(1)));
        assert_eq!(Owner::ttl((1 << 40) - 1), Ok(Owner::Ttl((1 << 40) - 1)));
    }
}
