//! The time of sessions: tokio's clock plus the time for which the machine was suspended.

use std::fmt::Debug;
use std::time::{Duration, Instant};

use crate::locked::Locked;

/// Smaller differences between the two clocks of the system are frequency corrections and are
/// ignored.
const NOISE: Duration = Duration::from_millis(50);
/// A pair of readings that takes longer was interrupted, and is discarded.
const LONGEST_READING: Duration = Duration::from_millis(5);

/// Reports for how long the machine was suspended.
///
/// On Linux and macOS `tokio::time` stands still while the machine sleeps, but the servers' clocks
/// continue. The client adds the suspended time to tokio's clock before it judges a session.
/// [`SystemClock`] is the default. Simulations, whose time is independent of the machine's, use
/// [`NeverSuspended`] or a clock of their own.
pub trait Clock: Debug + Send + Sync + 'static {
    /// Returns the time for which the machine was suspended, counted from any fixed point in time.
    /// It never decreases.
    fn suspended(&self) -> Duration;

    /// Returns the interval at which an idle client reads [`suspended`](Self::suspended). Default:
    /// `None`, which means only when a request, the server or a timer wakes the client.
    fn look_every(&self) -> Option<Duration> {
        None
    }
}

/// A clock without suspension: its time is tokio's.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, Default)]
pub struct NeverSuspended;

impl Clock for NeverSuspended {
    fn suspended(&self) -> Duration {
        Duration::ZERO
    }
}

/// The clock of the operating system.
///
/// Compares a clock that counts suspension (`CLOCK_BOOTTIME` on Linux and Android,
/// `CLOCK_MONOTONIC` on macOS and iOS) with [`Instant`], which does not. It reads them once per
/// second. On other systems suspensions are not noticed, except on Windows, where `Instant` counts
/// them itself. A virtual machine that its host pauses may not count the pause on either clock.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn suspended(&self) -> Duration {
        static MEASURED: Locked<SuspendedTime> =
            Locked::new(SuspendedTime { last: None, suspended: Duration::ZERO });
        let mut measured = MEASURED.lock();
        let before = Instant::now();
        if let Some(counting) = counting() {
            measured.look(before, counting, Instant::now());
        }
        measured.suspended
    }

    fn look_every(&self) -> Option<Duration> {
        counting().map(|_| Duration::from_secs(1))
    }
}

/// Returns the time of a clock that also counts suspension, if the system has one.
fn counting() -> Option<Duration> {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    const COUNTING: rustix::time::ClockId = rustix::time::ClockId::Boottime;
    #[cfg(target_vendor = "apple")]
    const COUNTING: rustix::time::ClockId = rustix::time::ClockId::Monotonic;
    #[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
    {
        let time = rustix::time::clock_gettime(COUNTING);
        Some(Duration::new(u64::try_from(time.tv_sec).ok()?, u32::try_from(time.tv_nsec).ok()?))
    }
    #[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
    None
}

/// The suspended time, summed over pairs of readings of both clocks.
#[derive(Debug)]
struct SuspendedTime {
    last: Option<(Instant, Duration)>,
    suspended: Duration,
}

impl SuspendedTime {
    /// Takes a reading: the clock that counts suspension showed `counting`, between `before` and
    /// `after` on the clock that does not.
    fn look(&mut self, before: Instant, counting: Duration, after: Instant) {
        if after.duration_since(before) > LONGEST_READING {
            return;
        }
        if let Some((then, counted)) = self.last {
            let missed =
                counting.saturating_sub(counted).saturating_sub(after.duration_since(then));
            if missed > NOISE {
                self.suspended += missed;
            }
        }
        self.last = Some((after, counting));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Takes readings as (awake, asleep, duration of the reading) in milliseconds since the
    /// previous one, and returns the suspended time after each.
    fn measure(readings: &[(u32, u32, u32)]) -> Vec<u128> {
        let (mut at, mut counting) = (Instant::now(), Duration::from_secs(1));
        let mut measured = SuspendedTime { last: None, suspended: Duration::ZERO };
        let look = |&(awake, asleep, took): &(u32, u32, u32)| {
            at += MS * awake;
            counting += MS * (awake + asleep);
            let before = at;
            at += MS * took;
            measured.look(before, counting, at);
            counting += MS * took;
            measured.suspended.as_millis()
        };
        readings.iter().map(look).collect()
    }

    #[test]
    fn suspended_time_is_summed_up() {
        assert_eq!(
            measure(&[(0, 0, 0), (10, 0, 0), (10, 5_000, 0), (10, 0, 0), (0, 70, 0)]),
            [0, 0, 5_000, 5_000, 5_070]
        );
    }

    #[test]
    fn corrections_of_the_frequency_do_not_add_up() {
        let drifting: Vec<_> = (0..1_000).map(|_| (1_000, 1, 0)).collect();
        assert_eq!(measure(&drifting).last(), Some(&0));
    }

    /// The thread was not running between the two readings.
    #[test]
    fn an_interrupted_reading_is_ignored() {
        assert_eq!(measure(&[(0, 0, 0), (10, 0, 900), (10, 0, 0)]), [0, 0, 0]);
        assert_eq!(measure(&[(0, 0, 900), (10, 0, 0), (10, 0, 0)]), [0, 0, 0]);
        // The next reading finds the time that this one missed.
        assert_eq!(measure(&[(0, 0, 0), (10, 3_000, 900), (10, 0, 0)]), [0, 0, 3_000]);
    }

    #[test]
    fn a_system_that_does_not_sleep_is_not_suspended() {
        let clock = SystemClock;
        let first = clock.suspended();
        assert!((0..1_000).all(|_| clock.suspended() == first));
    }
}
