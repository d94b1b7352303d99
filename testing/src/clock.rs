//! The clock of a server: tokio's, from when the server was made, and what it was advanced by.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

/// Session time and the wall clock.
#[derive(Debug)]
pub(crate) struct Clock {
    /// The zero of session time.
    origin: Instant,
    /// The wall clock at `origin`, in milliseconds since the Unix epoch.
    epoch_millis: i64,
    /// Milliseconds by which it is ahead of tokio's.
    ahead: AtomicU64,
}

impl Clock {
    /// A clock that starts now, and shows this time of day.
    pub(crate) fn new(wall_clock: Option<SystemTime>) -> Self {
        let since_epoch =
            wall_clock.unwrap_or_else(SystemTime::now).duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            origin: Instant::now(),
            epoch_millis: millis(since_epoch).cast_signed(),
            ahead: AtomicU64::new(0),
        }
    }

    /// Milliseconds since the server was made.
    pub(crate) fn now(&self) -> u64 {
        millis(self.origin.elapsed()) + self.ahead.load(Ordering::Relaxed)
    }

    /// Milliseconds since the Unix epoch.
    pub(crate) fn time(&self) -> i64 {
        self.time_at(self.now())
    }

    /// Milliseconds since the Unix epoch at a time since the server was made.
    pub(crate) const fn time_at(&self, millis: u64) -> i64 {
        self.epoch_millis + millis.cast_signed()
    }

    /// When it will be this many milliseconds since the server was made. A time too far away is in a century.
    pub(crate) fn instant(&self, millis: u64) -> Instant {
        const CENTURY: u64 = 100 * 365 * 24 * 3600 * 1000;
        let from_origin = millis.saturating_sub(self.ahead.load(Ordering::Relaxed));
        self.origin + Duration::from_millis(from_origin.min(CENTURY))
    }

    /// Moves it forward.
    pub(crate) fn advance(&self, by: Duration) {
        self.ahead.fetch_add(millis(by), Ordering::Relaxed);
    }
}

/// Whole milliseconds.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
