//! The decisions about a lease, by the clock of the leader: pure functions.

use std::time::Duration;

use super::record::LeaseRecord;
use crate::schedule::plan;

/// The state of a lease for one client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LeaseStanding {
    /// The client holds it.
    Ours,
    /// The client held it last. A guard of an earlier take can still renew it.
    Lapsed,
    /// No client holds it.
    Free,
    /// Another client holds it, or held it less than the margin ago.
    Held,
}

/// Judges a lease at a time of the leader, in milliseconds since the Unix epoch.
///
/// `margin` bounds the difference between the clocks of two leaders. The holder measures its time
/// from the clock of one leader; the next one may be ahead.
pub(super) fn judge(
    record: Option<&LeaseRecord>,
    id: &str,
    now: i64,
    margin: Duration,
) -> LeaseStanding {
    let Some(record) = record else { return LeaseStanding::Free };
    let is_over = now >= millis_of(record.end).saturating_add(millis(margin));
    match (record.holder == id, is_over) {
        (true, true) => LeaseStanding::Lapsed,
        (true, false) => LeaseStanding::Ours,
        (false, true) => LeaseStanding::Free,
        (false, false) => LeaseStanding::Held,
    }
}

/// Chooses the lease to take: one that the client holds, or else one that it held last, or else a
/// free one; the first of each kind.
pub(super) fn choose(standings: &[LeaseStanding]) -> Option<usize> {
    let first = |wanted| standings.iter().position(|standing| *standing == wanted);
    [LeaseStanding::Ours, LeaseStanding::Lapsed, LeaseStanding::Free].into_iter().find_map(first)
}

/// Returns the other leases that the client holds or held last: it would hold two if it renewed
/// them.
pub(super) fn surplus(standings: &[LeaseStanding], chosen: usize) -> impl Iterator<Item = usize> {
    let ours =
        |standing: &LeaseStanding| matches!(standing, LeaseStanding::Ours | LeaseStanding::Lapsed);
    let others = standings
        .iter()
        .enumerate()
        .filter(move |(index, standing)| *index != chosen && ours(standing));
    others.map(|(index, _)| index)
}

/// The end of a lease that begins now, in seconds since the Unix epoch: rounded up, because kazoo
/// stores whole seconds, and the holder has at least the time that it asked for. At most the last
/// second of the year 9999.
pub(super) fn end(now: i64, duration: Duration) -> i64 {
    let end = now.saturating_add(millis(duration));
    (end.saturating_add(999).div_euclid(1000)).clamp(0, plan::LAST)
}

/// The time from now until the end of a lease; zero if it is over.
pub(super) const fn left(now: i64, end: i64) -> Duration {
    let left = millis_of(end).saturating_sub(now);
    Duration::from_millis(if left > 0 { left.unsigned_abs() } else { 0 })
}

const fn millis_of(second: i64) -> i64 {
    second.saturating_mul(1000)
}

/// Whole milliseconds, rounded up.
fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn standing(holder: &str, now: i64, margin: Duration) -> LeaseStanding {
        judge(Some(&LeaseRecord { holder: holder.into(), end: 100 }), "me", now, margin)
    }

    #[test]
    fn a_lease_is_free_after_its_end_and_the_margin() {
        assert_eq!(judge(None, "me", 0, SECOND), LeaseStanding::Free);
        assert_eq!(standing("other", 100_000, SECOND), LeaseStanding::Held);
        assert_eq!(standing("other", 100_999, SECOND), LeaseStanding::Held);
        assert_eq!(standing("other", 101_000, SECOND), LeaseStanding::Free);
        assert_eq!(standing("other", 100_000, Duration::ZERO), LeaseStanding::Free);
        assert_eq!(standing("other", i64::MAX - 1, Duration::MAX), LeaseStanding::Held);
        assert_eq!(standing("me", 100_999, SECOND), LeaseStanding::Ours);
        assert_eq!(standing("me", 101_000, SECOND), LeaseStanding::Lapsed);
    }

    #[test]
    fn the_own_lease_comes_before_a_free_one() {
        use LeaseStanding::{Free, Held, Lapsed, Ours};
        assert_eq!(choose(&[Held, Free, Lapsed, Ours]), Some(3));
        assert_eq!(choose(&[Held, Free, Lapsed, Lapsed]), Some(2));
        assert_eq!(choose(&[Held, Free, Free]), Some(1));
        assert_eq!(choose(&[Held, Held]), None);
        assert_eq!(choose(&[]), None);
    }

    #[test]
    fn all_other_own_leases_are_surplus() {
        use LeaseStanding::{Free, Held, Lapsed, Ours};
        let standings = [Held, Ours, Lapsed, Free, Ours];
        assert_eq!(surplus(&standings, 1).collect::<Vec<_>>(), [2, 4]);
        assert_eq!(surplus(&[Held, Free], 1).count(), 0);
    }

    #[test]
    fn ends_are_whole_seconds_and_within_the_calendar() {
        assert_eq!(end(5_000, SECOND), 6);
        assert_eq!(end(5_001, SECOND), 7);
        assert_eq!(end(5_000, Duration::from_nanos(1)), 6);
        assert_eq!(end(5_000, Duration::MAX), plan::LAST);
        assert_eq!(left(5_001, 7), Duration::from_millis(1999));
        assert_eq!(left(7_001, 7), Duration::ZERO);
    }

    proptest! {
        /// By one clock, no other client may take the lease before its holder has noticed its end.
        #[test]
        fn holders_exclude_each_other(now in 0..10_000_000_i64, lasts in 1..1_000_000_u64, later in 0..2_000_000_i64) {
            let end = end(now, Duration::from_millis(lasts));
            let left = left(now, end);
            prop_assert!(left >= Duration::from_millis(lasts));
            let record = LeaseRecord { holder: "other".into(), end };
            let standing = judge(Some(&record), "me", now + later, Duration::ZERO);
            let is_over = Duration::from_millis(later.unsigned_abs()) >= left;
            prop_assert_eq!(standing == LeaseStanding::Free, is_over);
        }
    }
}
