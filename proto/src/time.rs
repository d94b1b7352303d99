use std::time::Duration;

/// The longest time: 30 years.
const LONGEST: Duration = Duration::from_secs(30 * 365 * 24 * 3600);

/// Limits a time to 30 years, so that it, or a small multiple of it, can be added to any current
/// instant.
///
/// Settings and arguments of this project accept times of any length; [`Duration::MAX`] means
/// "without a limit". A deadline is computed as `Instant::now() + bounded(time)`: without this
/// function the addition would panic.
///
/// ```
/// use std::time::{Duration, Instant};
/// use zk_curator_proto::bounded;
///
/// assert!(Instant::now() + bounded(Duration::MAX) > Instant::now() + Duration::from_secs(1_000_000));
/// assert_eq!(bounded(Duration::from_nanos(1)), Duration::from_nanos(1));
/// ```
#[must_use]
pub const fn bounded(time: Duration) -> Duration {
    if time.as_secs() < LONGEST.as_secs() { time } else { LONGEST }
}

/// Returns whole milliseconds, the unit of the servers' clocks and of the names of nodes;
/// [`i64::MAX`] for longer times.
#[must_use]
pub const fn millis(time: Duration) -> i64 {
    let millis = time.as_millis();
    if millis > i64::MAX as u128 { i64::MAX } else { millis as i64 }
}

#[cfg(test)]
mod tests {
    use std::time::{Instant, SystemTime};

    use super::*;

    #[test]
    fn longest_times_can_be_added_and_counted() {
        let long = bounded(Duration::MAX);
        assert!(Instant::now().checked_add(long * 4).is_some());
        assert!(SystemTime::now().checked_add(long * 4).is_some());
        assert_eq!(
            (bounded(long), bounded(long - Duration::from_nanos(1))),
            (long, long - Duration::from_nanos(1))
        );
        assert_eq!((millis(Duration::MAX), millis(Duration::from_millis(7))), (i64::MAX, 7));
        assert_eq!(millis(Duration::from_micros(999)), 0);
    }
}
