//! The order of transaction ids. Their upper 32 bits are the epoch of the leader, their lower ones
//! a counter, which begins at 1 in each epoch and has no holes.

use std::fmt;
use std::path::PathBuf;

#[cfg(feature = "serde")]
use super::serial;

/// Transactions that are missing in the logs.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Gap {
    /// The last transaction before the gap.
    #[cfg_attr(feature = "serde", serde(serialize_with = "serial::zxid"))]
    pub after: i64,
    /// The first transaction after the gap.
    #[cfg_attr(feature = "serde", serde(serialize_with = "serial::zxid"))]
    pub next: i64,
    /// The log that contains the first transaction after the gap.
    pub path: PathBuf,
}

impl Gap {
    /// Returns `true` if a snapshot that contains all transactions up to `zxid` makes up for the
    /// missing ones.
    #[must_use]
    pub const fn is_bridged_by(&self, zxid: i64) -> bool {
        zxid >= self.after && zxid < self.next && follows(zxid, self.next)
    }
}

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} continues with {:#x}", self.path.display(), self.next)
    }
}

/// Returns `true` if no transaction is missing between two transactions, as far as their ids tell.
///
/// The number of transactions of an epoch is unknown. Therefore transactions that are missing at
/// the end of an epoch are not noticed.
pub(super) const fn follows(before: i64, next: i64) -> bool {
    next == before.wrapping_add(1) || (epoch(next) > epoch(before) && counter(next) == 1)
}

/// Returns `true` if logs up to `last` contain the transaction `zxid`. A leader begins its epoch
/// with the counter 0, which no transaction has.
pub(super) const fn reaches(last: i64, zxid: i64) -> bool {
    last >= zxid || counter(zxid) == 0
}

/// Returns `true` for the first transaction of an ensemble or of a standalone server.
///
/// The first epoch with a transaction may be a later one, if elections failed.
pub(super) const fn is_first(zxid: i64) -> bool {
    zxid == 1 || (epoch(zxid) == 1 && counter(zxid) == 1)
}

/// Returns the epoch of a transaction.
pub(super) const fn epoch(zxid: i64) -> i64 {
    zxid >> 32
}

const fn counter(zxid: i64) -> i64 {
    zxid & 0xffff_ffff
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_begins_before_its_first_transaction() {
        assert!(reaches(7, 7) && reaches(8, 7) && !reaches(6, 7));
        assert!(reaches(6, 1 << 32) && !reaches(6, (1 << 32) | 1));
    }

    #[test]
    fn counters_have_no_holes_and_restart_with_an_epoch() {
        let zxid = |epoch: i64, counter: i64| (epoch << 32) | counter;
        assert!(follows(zxid(3, 7), zxid(3, 8)));
        assert!(follows(zxid(3, 7), zxid(5, 1)));
        assert!(follows(zxid(3, 0), zxid(3, 1)));
        assert!(!follows(zxid(3, 7), zxid(3, 9)));
        assert!(!follows(zxid(3, 7), zxid(4, 2)));
        assert!(!follows(zxid(3, 7), zxid(2, 1)));
        assert!(!follows(zxid(3, 7), zxid(3, 7)));
        assert!(is_first(1) && is_first(zxid(1, 1)) && !is_first(zxid(2, 1)) && !is_first(2));
    }
}
