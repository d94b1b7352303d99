//! The number of requests of a user.

use std::collections::BTreeMap;

use tokio::time::Instant;
use zk_curator::internal::Locked;

/// The maximum number of remembered users or addresses.
const MOST: usize = 4_096;

/// A bucket of requests for each user, or for each address without users. It holds `burst`
/// requests, and is filled with `per_second`.
#[derive(Debug)]
pub(crate) struct RequestRates {
    per_second: f64,
    burst: f64,
    buckets: Locked<BTreeMap<String, Bucket>>,
}

#[derive(Debug, Clone, Copy)]
struct Bucket {
    left: f64,
    at: Instant,
}

impl RequestRates {
    pub(crate) fn new(per_second: u32, burst: u32) -> Self {
        Self {
            per_second: f64::from(per_second.max(1)),
            burst: f64::from(burst.max(1)),
            buckets: Locked::default(),
        }
    }

    /// Takes a request out of a bucket. Returns `false` if it is empty.
    pub(crate) fn accept(&self, who: &str) -> bool {
        let now = Instant::now();
        let mut buckets = self.buckets.lock();
        if buckets.len() >= MOST {
            // A full bucket is like a new one.
            buckets.retain(|_, bucket| self.left(*bucket, now) < self.burst);
        }
        // Users beyond the limit share a bucket.
        let who = if buckets.len() >= MOST && !buckets.contains_key(who) { "" } else { who };
        let full = Bucket { left: self.burst, at: now };
        let bucket = buckets.entry(who.to_owned()).or_insert(full);
        let left = self.left(*bucket, now);
        let is_accepted = left >= 1.0;
        *bucket = Bucket { left: if is_accepted { left - 1.0 } else { left }, at: now };
        is_accepted
    }

    fn left(&self, bucket: Bucket, now: Instant) -> f64 {
        let filled = now.saturating_duration_since(bucket.at).as_secs_f64() * self.per_second;
        (bucket.left + filled).min(self.burst)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use zk_curator_testing::{paused, wait};

    use super::*;

    #[test]
    fn a_bucket_is_filled_again() {
        paused(async {
            let rates = RequestRates::new(10, 3);
            let accepted = |who: &str| (0..5).filter(|_| rates.accept(who)).count();
            assert_eq!(accepted("ann"), 3);
            assert_eq!(accepted("bob"), 3);
            wait::past(Duration::from_millis(205)).await;
            assert_eq!(accepted("ann"), 2);
            wait::past(Duration::from_secs(60)).await;
            assert_eq!(accepted("ann"), 3);
        });
    }

    #[test]
    fn the_memory_is_bounded() {
        paused(async {
            let rates = RequestRates::new(1, 1);
            for user in 0..10_000 {
                rates.accept(&user.to_string());
            }
            assert!(rates.buckets.lock().len() <= MOST + 1);
        });
    }
}
