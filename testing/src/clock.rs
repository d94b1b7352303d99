//! [`Clock`]: the clock of a server, which is tokio's plus the time it was advanced by.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;
use zk_curator_proto::bounded;

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
    /// Creates a clock that starts now, with this time of day.
    pub(crate) fn new(wall_clock: Option<SystemTime>) -> Self {
        let since_epoch = wall_clock
            .unwrap_or_else(SystemTime::now)
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Self {
            origin: Instant::now(),
            // Unlike waits, this has no limit: 1970 is more than 30 years ago.
            epoch_millis: zk_curator_proto::millis(since_epoch),
            ahead: AtomicU64::new(0),
        }
    }

    /// Returns the milliseconds since the creation of the server.
    pub(crate) fn now(&self) -> u64 {
        millis(self.origin.elapsed()) + self.ahead.load(Ordering::Relaxed)
    }

    /// Returns the milliseconds since the Unix epoch.
    pub(crate) fn time(&self) -> i64 {
        self.time_at(self.now())
    }

    /// Converts milliseconds since the creation of the server to milliseconds since the Unix epoch.
    pub(crate) const fn time_at(&self, millis: u64) -> i64 {
        self.epoch_millis + millis.cast_signed()
    }

    /// Converts milliseconds since the creation of the server to an instant, at most a century
    /// ahead.
    pub(crate) fn instant(&self, millis: u64) -> Instant {
        const CENTURY: u64 = 100 * 365 * 24 * 3600 * 1000;
        let from_origin = millis.saturating_sub(self.ahead.load(Ordering::Relaxed));
        self.origin + Duration::from_millis(from_origin.min(CENTURY))
    }

    /// Advances the clock.
    pub(crate) fn advance(&self, by: Duration) {
        self.ahead.fetch_add(millis(by), Ordering::Relaxed);
    }
}

/// Returns whole milliseconds, at most 30 years: they can be added to the clock.
pub(crate) const fn millis(duration: Duration) -> u64 {
    zk_curator_proto::millis(bounded(duration)).cast_unsigned()
}
