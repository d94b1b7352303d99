//! The timers of the libraries of this workspace. `clippy.toml` forbids those of tokio elsewhere,
//! so that each wait of a test has its reason in its name.
#![expect(clippy::disallowed_methods, reason = "the timers of the libraries are made here")]

use std::time::Duration;

use tokio::time::{Instant, Sleep};

/// Waits for a time on tokio's clock.
pub fn sleep(time: Duration) -> Sleep {
    tokio::time::sleep(time)
}

/// Waits until a time on tokio's clock.
pub fn sleep_until(time: Instant) -> Sleep {
    tokio::time::sleep_until(time)
}
