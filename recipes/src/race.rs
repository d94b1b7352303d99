//! Races of writers for the same nodes: the pauses after a write that another client was faster
//! with, and the lock after too many of them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::{Instant, timeout};
use zk_curator::internal::sleep;
pub(crate) use zk_curator::internal::{RACE_ROUNDS, is_conflict};
use zk_curator::{CuratorFramework, Error, ErrorKind, Result as ZkResult};

use crate::lock::{self, InterProcessMutex, MutexGuard};
use crate::random::fraction;

/// The pauses after a conflict.
const FIRST_PAUSE: Duration = Duration::from_micros(500);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);
/// The longest pause grows fourfold after this number of conflicts.
const MET_BY_FEW: u32 = 10;
/// After this number of conflicts the pauses are halved, so that who has lost often wins.
const UNLUCKY: u32 = 3;

/// The duration of the last write, limited by the longest pause.
#[derive(Debug, Default)]
pub(crate) struct LastWriteDuration {
    micros: AtomicU64,
}

impl LastWriteDuration {
    /// Notes a write that was sent then, and has succeeded now.
    pub(crate) fn ended(&self, sent: Instant) {
        let took = sent.elapsed().min(LONGEST_PAUSE).as_micros();
        self.micros.store(u64::try_from(took).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub(crate) fn last(&self) -> Duration {
        Duration::from_micros(self.micros.load(Ordering::Relaxed))
    }
}

/// The conflicts of an operation.
#[derive(Debug)]
pub(crate) struct RaceConflicts {
    met: u32,
    pause: Duration,
}

impl RaceConflicts {
    pub(crate) const fn new() -> Self {
        Self { met: 0, pause: FIRST_PAUSE }
    }

    /// Notes one. Returns their number.
    pub(crate) const fn note(&mut self) -> u32 {
        self.met = self.met.saturating_add(1);
        self.met
    }

    /// Waits before the next try.
    pub(crate) async fn pause(&mut self, zk: &CuratorFramework, flight: &LastWriteDuration) {
        sleep(self.next(flight.last(), fraction(zk))).await;
    }

    /// Returns the pause before the next try: decorrelated jitter between the duration of a write
    /// and three times the previous pause. `fraction` is a random number from 0 to 1.
    fn next(&mut self, flight: Duration, fraction: f64) -> Duration {
        // The more conflicts, the more competing writers.
        let longest = if self.met < MET_BY_FEW { LONGEST_PAUSE } else { LONGEST_PAUSE * 4 };
        let least = FIRST_PAUSE.max(flight);
        let most = (self.pause.max(least) * 3).min(longest);
        self.pause = least + most.saturating_sub(least).mul_f64(fraction);
        if self.met >= UNLUCKY { self.pause / 2 } else { self.pause }
    }
}

/// Returns `true` if a transaction was refused because another client was faster.
pub(crate) const fn is_race(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::TransactionFailed { code, .. } if is_conflict(code))
}

/// A lock that a counter or a [transaction](crate::stm::Transaction::then_lock) acquires after
/// several conflicts with other writers (`PromotedToLock`).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PromotedToLock {
    /// The path of the lock, an [`InterProcessMutex`](crate::lock::InterProcessMutex).
    pub path: String,
    /// The longest wait for the lock.
    pub timeout: Duration,
}

impl PromotedToLock {
    /// A lock at a path, and the longest wait for it.
    pub fn new(path: impl Into<String>, timeout: Duration) -> Self {
        Self { path: path.into(), timeout }
    }

    /// Acquires the lock for this recipe; `None` if it cannot be had in time.
    pub(crate) async fn acquire(
        &self,
        zk: &CuratorFramework,
        recipe: &'static str,
    ) -> ZkResult<Option<MutexGuard>> {
        let mutex = InterProcessMutex::within(zk, self.path.as_str(), recipe).shared_in_session();
        match timeout(self.timeout, mutex.acquire()).await {
            Ok(Ok(guard)) => Ok(Some(guard)),
            Ok(Err(lock::Error::Framework(error))) => Err(error),
            Ok(Err(_)) | Err(_) => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_a_limit() {
        let mut few = RaceConflicts::new();
        let pauses: Vec<_> = (0..6).map(|_| few.next(Duration::ZERO, 1.0)).collect();
        assert!(pauses.is_sorted());
        assert_eq!((pauses[0], pauses[5]), (FIRST_PAUSE * 3, LONGEST_PAUSE));
        assert_eq!(RaceConflicts::new().next(Duration::ZERO, 0.0), FIRST_PAUSE);
        let flight = Duration::from_millis(3);
        assert_eq!(RaceConflicts::new().next(flight, 0.0), flight);
    }

    #[test]
    fn a_frequent_loser_waits_half_as_long() {
        let mut many = RaceConflicts::new();
        for _ in 0..20 {
            many.note();
        }
        let pauses: Vec<_> = (0..8).map(|_| many.next(LONGEST_PAUSE, 1.0)).collect();
        assert_eq!(pauses[7], LONGEST_PAUSE * 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_flight_is_as_long_as_the_longest_pause_at_most() {
        let flight = LastWriteDuration::default();
        let sent = Instant::now();
        tokio::time::advance(Duration::from_millis(7)).await;
        flight.ended(sent);
        assert_eq!(flight.last(), Duration::from_millis(7));
        tokio::time::advance(Duration::from_secs(7)).await;
        flight.ended(sent);
        assert_eq!(flight.last(), LONGEST_PAUSE);
    }
}
