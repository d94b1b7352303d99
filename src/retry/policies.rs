use std::time::Duration;

use super::RetryPolicy;
use crate::error::Error;

/// The maximum exponent: a pause is at most 2^30 times the base.
const MAX_EXPONENT: u32 = 30;

/// Retries once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryOneTime {
    pause: Duration,
}

impl RetryOneTime {
    /// Creates a policy that waits `pause` before the retry.
    #[must_use]
    pub const fn new(pause: Duration) -> Self {
        Self { pause }
    }
}

impl RetryPolicy for RetryOneTime {
    fn next_delay(&self, retries: u32, _: Duration, _: &Error) -> Option<Duration> {
        (retries == 0).then_some(self.pause)
    }
}

/// Retries a number of times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryNTimes {
    times: u32,
    pause: Duration,
}

impl RetryNTimes {
    /// Creates a policy that waits `pause` before each of `times` retries. With zero `times` it
    /// never retries.
    #[must_use]
    pub const fn new(times: u32, pause: Duration) -> Self {
        Self { times, pause }
    }
}

impl RetryPolicy for RetryNTimes {
    fn next_delay(&self, retries: u32, _: Duration, _: &Error) -> Option<Duration> {
        (retries < self.times).then_some(self.pause)
    }
}

/// Retries until some time has passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryUntilElapsed {
    limit: Duration,
    pause: Duration,
}

impl RetryUntilElapsed {
    /// Creates a policy that waits `pause` before each retry until `limit` has passed since the
    /// first attempt. As in Curator, the last pause may end after the limit.
    #[must_use]
    pub const fn new(limit: Duration, pause: Duration) -> Self {
        Self { limit, pause }
    }
}

impl RetryPolicy for RetryUntilElapsed {
    fn next_delay(&self, _: u32, elapsed: Duration, _: &Error) -> Option<Duration> {
        (elapsed < self.limit).then_some(self.pause)
    }
}

/// Retries forever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryForever {
    pause: Duration,
}

impl RetryForever {
    /// Creates a policy that waits `pause`, at least 1 ms, before each retry.
    #[must_use]
    pub fn new(pause: Duration) -> Self {
        Self { pause: pause.max(Duration::from_millis(1)) }
    }
}

impl RetryPolicy for RetryForever {
    fn next_delay(&self, _: u32, _: Duration, _: &Error) -> Option<Duration> {
        Some(self.pause)
    }
}

/// Retries a number of times with growing, random pauses: before retry *n*, counted from zero,
/// `base * max(1, random(0 .. 2^(n+1)))`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExponentialBackoffRetry {
    base: Duration,
    times: u32,
    longest: Duration,
    seed: Option<u64>,
}

impl ExponentialBackoffRetry {
    /// Creates a policy with `times` retries. As in Curator, at most 29; higher values are reduced.
    #[must_use]
    pub fn new(base: Duration, times: u32) -> Self {
        Self { base, times: times.min(29), longest: Duration::MAX, seed: None }
    }

    /// Makes the jitter a function of `seed` and the number of the retry, for repeatable runs.
    #[must_use]
    pub const fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }
}

impl RetryPolicy for ExponentialBackoffRetry {
    fn next_delay(&self, retries: u32, _: Duration, _: &Error) -> Option<Duration> {
        if retries >= self.times {
            return None;
        }
        let ceiling = 1_u32 << (retries + 1).min(MAX_EXPONENT);
        let factor = match self.seed {
            None => fastrand::u32(0..ceiling),
            Some(seed) => {
                fastrand::Rng::with_seed(seed.wrapping_add(u64::from(retries))).u32(0..ceiling)
            }
        };
        // The cap comes after the jitter: no pause is ever longer.
        Some(self.base.saturating_mul(factor.max(1)).min(self.longest))
    }

    fn begin_seeded(&self, seed: u64) -> Option<Box<dyn RetryPolicy>> {
        self.seed.is_none().then(|| Box::new(self.seed(seed)) as Box<dyn RetryPolicy>)
    }
}

/// An [`ExponentialBackoffRetry`] with a maximum pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BoundedExponentialBackoffRetry(ExponentialBackoffRetry);

impl BoundedExponentialBackoffRetry {
    /// Creates a policy with `times` retries, at most 29, with pauses of at most `longest`.
    #[must_use]
    pub fn new(base: Duration, longest: Duration, times: u32) -> Self {
        Self(ExponentialBackoffRetry { longest, ..ExponentialBackoffRetry::new(base, times) })
    }

    /// Makes the jitter a function of `seed` and the number of the retry, for repeatable runs.
    #[must_use]
    pub const fn seed(self, seed: u64) -> Self {
        Self(self.0.seed(seed))
    }
}

impl RetryPolicy for BoundedExponentialBackoffRetry {
    fn next_delay(&self, retries: u32, elapsed: Duration, error: &Error) -> Option<Duration> {
        self.0.next_delay(retries, elapsed, error)
    }

    fn begin_seeded(&self, seed: u64) -> Option<Box<dyn RetryPolicy>> {
        self.0.begin_seeded(seed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    const MS: Duration = Duration::from_millis(1);

    fn delays(policy: &dyn RetryPolicy, elapsed: Duration) -> Vec<Duration> {
        let error = Error::new(ErrorKind::ConnectionLoss, "test", "");
        (0..100).map_while(|retries| policy.next_delay(retries, elapsed, &error)).collect()
    }

    #[test]
    fn counted_policies_stop_where_curator_stops() {
        assert_eq!(delays(&RetryOneTime::new(MS), Duration::ZERO), [MS]);
        assert_eq!(delays(&RetryNTimes::new(3, MS), Duration::ZERO), [MS; 3]);
        assert_eq!(delays(&RetryNTimes::new(0, MS), Duration::ZERO), []);
        assert_eq!(delays(&RetryForever::new(Duration::ZERO), Duration::MAX), [MS; 100]);
    }

    #[test]
    fn retry_until_elapsed_stops_at_the_limit() {
        let policy = RetryUntilElapsed::new(10 * MS, MS);
        assert_eq!(delays(&policy, 9 * MS).len(), 100);
        assert_eq!(delays(&policy, 10 * MS), []);
    }

    #[test]
    fn exponential_backoff_stays_within_curators_formula() {
        for seed in 0..50 {
            let delays = delays(&ExponentialBackoffRetry::new(MS, 100).seed(seed), Duration::ZERO);
            assert_eq!(delays.len(), 29, "Curator allows 29 retries");
            for (n, delay) in (0_u32..).zip(delays) {
                assert!((MS..MS * 2_u32.pow(n + 1)).contains(&delay), "retry {n}: {delay:?}");
            }
        }
    }

    /// CURATOR-262: the shift overflowed and the pause became negative. The cap also holds after
    /// the jitter.
    #[test]
    fn curator_262_no_pause_overflows_or_is_above_the_bound() {
        let policy =
            BoundedExponentialBackoffRetry::new(Duration::from_secs(u64::MAX / 4), 7 * MS, 29);
        assert!(delays(&policy, Duration::ZERO).iter().all(|delay| *delay == 7 * MS));
        let policy = ExponentialBackoffRetry::new(Duration::MAX, 29);
        assert!(delays(&policy, Duration::ZERO).iter().all(|delay| *delay == Duration::MAX));
    }

    #[test]
    fn the_same_seed_gives_the_same_pauses() {
        let policy =
            |seed| delays(&ExponentialBackoffRetry::new(MS, 20).seed(seed), Duration::ZERO);
        assert_eq!(policy(7), policy(7));
        assert_ne!(policy(7), policy(8));
    }
}
