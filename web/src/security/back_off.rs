//! Attempts to sign in, with growing pauses after failures.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use tokio::time::Instant;
use zk_curator::internal::Locked;

use super::network::counted_network;

/// The maximum number of remembered addresses.
const MOST: usize = 4_096;
/// The first pause.
const FIRST: Duration = Duration::from_secs(1);
/// The longest pause.
const LONGEST: Duration = Duration::from_secs(60);
/// The time after which failures are forgotten.
const FORGOTTEN: Duration = Duration::from_secs(600);

/// Failed attempts by the address of the client. All clients whose addresses are unknown, or are
/// too many to remember, count as one.
#[derive(Debug)]
pub(crate) struct BackOff {
    /// The number of failures without a pause.
    free: u32,
    failures: Locked<BTreeMap<Option<IpAddr>, Failures>>,
}

#[derive(Debug, Clone, Copy)]
struct Failures {
    count: u32,
    last: Instant,
    /// The time before which no attempt is accepted.
    until: Instant,
}

impl BackOff {
    pub(crate) fn new(free: u32) -> Self {
        Self { free, failures: Locked::default() }
    }

    /// Returns the time for which no attempt from this address is accepted, if there is one.
    pub(crate) fn pause(&self, address: Option<IpAddr>) -> Option<Duration> {
        let failures = self.failures.lock();
        let known = failures.get(&address.map(counted_network)).or_else(|| failures.get(&None))?;
        let left = known.until.saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left)
    }

    pub(crate) fn failed(&self, address: Option<IpAddr>) {
        let now = Instant::now();
        let mut failures = self.failures.lock();
        failures.retain(|_, known| now.saturating_duration_since(known.last) < FORGOTTEN);
        let mut key = address.map(counted_network);
        if failures.len() >= MOST && !failures.contains_key(&key) {
            key = None;
        }
        let first = Failures { count: 0, last: now, until: now };
        let known = failures.entry(key).or_insert(first);
        known.count = known.count.saturating_add(1);
        let paused = known.count.saturating_sub(self.free);
        if paused > 0 {
            let doubled = FIRST.saturating_mul(1 << (paused - 1).min(16));
            known.until = now + doubled.min(LONGEST);
        }
        known.last = now;
    }

    pub(crate) fn succeeded(&self, address: Option<IpAddr>) {
        self.failures.lock().remove(&address.map(counted_network));
    }
}

#[cfg(test)]
mod tests {
    use zk_curator_testing::{paused, wait};

    use super::*;

    fn address(text: &str) -> Option<IpAddr> {
        Some(text.parse().unwrap())
    }

    #[test]
    fn pauses_grow_with_failures() {
        paused(async {
            let (back_off, ann) = (BackOff::new(2), address("10.0.0.1"));
            back_off.failed(ann);
            back_off.failed(ann);
            assert_eq!(back_off.pause(ann), None);
            for seconds in [1, 2, 4, 8, 16, 32, 60, 60] {
                back_off.failed(ann);
                assert_eq!(back_off.pause(ann), Some(Duration::from_secs(seconds)));
            }
            assert_eq!(back_off.pause(address("10.0.0.2")), None);
            wait::past(Duration::from_secs(61)).await;
            assert_eq!(back_off.pause(ann), None);
            back_off.succeeded(ann);
            back_off.failed(ann);
            assert_eq!(back_off.pause(ann), None);
        });
    }

    #[test]
    fn addresses_of_one_network_count_as_one() {
        paused(async {
            let back_off = BackOff::new(0);
            back_off.failed(address("2001:db8::1"));
            assert!(back_off.pause(address("2001:db8::2")).is_some());
            assert!(back_off.pause(address("2001:db8:0:1::2")).is_none());
        });
    }

    #[test]
    fn the_memory_is_bounded() {
        paused(async {
            let back_off = BackOff::new(0);
            for n in 0..10_000_u32 {
                back_off.failed(Some(IpAddr::from((0x0a00_0000 + n).to_be_bytes())));
            }
            assert!(back_off.failures.lock().len() <= MOST + 1);
            assert!(back_off.pause(address("11.0.0.1")).is_some());
        });
    }
}
