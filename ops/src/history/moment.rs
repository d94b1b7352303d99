//! Moments, and their text.

use std::num::ParseIntError;
use std::str::FromStr;

use crate::node::parse_id;
use crate::past::{PastError, TimeOrAge};

/// A moment in the history of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum At {
    /// After the last transaction in the logs.
    Latest,
    /// After the last transaction whose id is not greater.
    Zxid(i64),
    /// Before the first transaction that is later than this time, in milliseconds since 1970, in
    /// the last log that begins at or before it. The time is that of the leader's clock.
    Time(i64),
}

/// The reason why a text is not a moment.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MomentError {
    /// The text begins with `0x`, and the rest is not the id of a transaction.
    #[error(transparent)]
    Zxid(#[from] ParseIntError),
    /// It is not a time.
    #[error(transparent)]
    Time(#[from] PastError),
}

/// Parses a transaction in hexadecimal with `0x`, a time in UTC, or the time since then, such as
/// `10m`.
impl FromStr for At {
    type Err = MomentError;

    fn from_str(text: &str) -> Result<Self, MomentError> {
        if text.starts_with("0x") {
            return Ok(Self::Zxid(parse_id(text)?));
        }
        Ok(Self::Time(text.parse::<TimeOrAge>()?.ms_since_1970()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_a_transaction_or_a_time() {
        assert_eq!("0x2f".parse::<At>(), Ok(At::Zxid(47)));
        assert_eq!("1970-01-01T00:00:02Z".parse::<At>(), Ok(At::Time(2_000)));
        assert!(matches!("0x".parse::<At>(), Err(MomentError::Zxid(_))));
        assert!(matches!("14:02".parse::<At>(), Err(MomentError::Time(_))));
    }
}
