//! The clock of a member, and its comparison with the servers' clock.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::Instant;
use tracing::{debug, warn};
use zk_curator::internal::sleep;
use zk_curator::{CuratorFramework, Error};

use super::plan::since_epoch;
use crate::server_clock::ServerClock;

/// A comparison is valid for this time.
const FRESH: Duration = Duration::from_secs(60);
/// A member whose clock is wrong compares it again after this time.
const AGAIN: Duration = Duration::from_secs(60);
/// A clock that deviates by more than this from another one was set, however much it may be off.
const LEAP: Duration = Duration::from_secs(30);
/// The most comparisons in a row, if the responses take too long for a precise result.
const TRIES: u32 = 3;

/// Returns the time.
#[derive(Clone)]
pub(super) struct ScheduleClock(Arc<dyn Fn() -> SystemTime + Send + Sync>);

impl ScheduleClock {
    pub(super) fn new(clock: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        Self(Arc::new(clock))
    }

    fn time(&self) -> SystemTime {
        (self.0)()
    }

    /// The time since the Unix epoch.
    pub(super) fn now(&self) -> Duration {
        since_epoch(self.time())
    }
}

impl Default for ScheduleClock {
    fn default() -> Self {
        Self::new(SystemTime::now)
    }
}

impl fmt::Debug for ScheduleClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScheduleClock").finish_non_exhaustive()
    }
}

/// The clock of a member, which is compared with the servers' clock from time to time.
pub(super) struct ComparedClock {
    zk: CuratorFramework,
    parent: String,
    servers: ServerClock,
    clock: ScheduleClock,
    tolerance: Duration,
    /// When the clock was found right, by itself and by the monotonic clock.
    right: Option<(SystemTime, Instant)>,
    /// `true` if it was already reported that the clock is wrong.
    is_told: bool,
}

impl ComparedClock {
    pub(super) fn new(
        zk: &CuratorFramework,
        parent: &str,
        id: &str,
        clock: ScheduleClock,
        tolerance: Duration,
    ) -> Self {
        let servers = ServerClock::new(zk, parent, id.to_owned().into());
        let (zk, parent) = (zk.clone(), parent.to_owned());
        Self { zk, parent, servers, clock, tolerance, right: None, is_told: false }
    }

    /// The time since the Unix epoch.
    pub(super) fn now(&self) -> Duration {
        self.clock.now()
    }

    /// Returns `true` if there is no need to compare before a slot is claimed.
    pub(super) fn is_fresh(&self) -> bool {
        self.is_right_for(FRESH)
    }

    /// Returns `true` if there is no need to compare ahead of a slot.
    pub(super) fn is_fresh_ahead(&self) -> bool {
        self.is_right_for(FRESH / 2)
    }

    fn is_right_for(&self, age: Duration) -> bool {
        self.right.is_some_and(|(_, since)| since.elapsed() < age) && !self.was_set()
    }

    /// Returns `true` if the clock was set since it was found right, or stood still with the
    /// machine.
    pub(super) fn was_set(&self) -> bool {
        let Some((wall, since)) = self.right else { return false };
        let expected = wall.checked_add(since.elapsed());
        let most = self.precision().min(LEAP);
        expected.is_none_or(|expected| distance(expected, self.clock.time()) > most)
    }

    /// The longest response time that makes a precise comparison.
    fn precision(&self) -> Duration {
        self.tolerance.max(Duration::from_secs(1))
    }

    /// Compares the clock with the servers' clock until it is right. Returns whether it was wrong
    /// since the last call that returned.
    pub(super) async fn until_right(&mut self) -> zk_curator::Result<bool> {
        loop {
            let off = self.compare().await?;
            if off <= self.tolerance {
                self.right = Some((self.clock.time(), Instant::now()));
                return Ok(std::mem::take(&mut self.is_told));
            }
            self.right = None;
            if !std::mem::replace(&mut self.is_told, true) {
                warn!(
                    path = self.parent,
                    ?off,
                    "the clock is wrong: slots are left to other members"
                );
                let why = "the clock differs from that of the servers by more than the tolerance";
                self.zk.report_background_error(Error::invalid_argument(
                    "run",
                    self.parent.as_str(),
                    why,
                ));
            }
            sleep(AGAIN).await;
        }
    }

    /// Returns the time by which the clock is off, at least.
    async fn compare(&mut self) -> zk_curator::Result<Duration> {
        let mut tries = 1;
        loop {
            let before = self.clock.time();
            let written = self.servers.now().await?;
            let after = self.clock.time();
            let took = distance(before, after);
            if took <= self.precision() || tries == TRIES {
                return Ok(off_by(before, after, written));
            }
            debug!(path = self.parent, ?took, "the response took too long to compare clocks");
            tries += 1;
        }
    }
}

/// Returns the difference between a time of the servers, in milliseconds since the Unix epoch, and
/// a span of ours that contains it if the clocks agree.
fn off_by(before: SystemTime, after: SystemTime, written: i64) -> Duration {
    let millis = Duration::from_millis(u64::try_from(written).unwrap_or(0));
    let (begin, end) = (since_epoch(before.min(after)), since_epoch(before.max(after)));
    // Servers leave out parts of milliseconds.
    begin.saturating_sub(millis + Duration::from_millis(1)).max(millis.saturating_sub(end))
}

fn distance(one: SystemTime, other: SystemTime) -> Duration {
    one.duration_since(other).unwrap_or_else(|error| error.duration())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_agree_if_the_write_was_between() {
        let at = |millis: u64| SystemTime::UNIX_EPOCH + Duration::from_millis(millis);
        let off = |before, after, written| off_by(at(before), at(after), written).as_millis();
        assert_eq!(off(1000, 1010, 1000), 0);
        assert_eq!(off(1000, 1010, 1010), 0);
        assert_eq!(off(1000, 1010, 999), 0);
        assert_eq!(off(1000, 1010, 990), 9);
        assert_eq!(off(1000, 1010, 2000), 990);
        // The clock was set back in between.
        assert_eq!(off(1010, 1000, 1005), 0);
        assert_eq!(off(5000, 5000, -1), 4999);
    }
}
