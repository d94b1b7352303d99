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

/// Failed attempts by the address of the client. All clients whose addresses are unknown count as
/// one. If there are too many to remember, the oldest failures are forgotten: a pause that all
/// other clients share would let an attacker with many addresses keep everybody from signing in.
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
        let known = failures.get(&address.map(counted_network))?;
        let left = known.until.saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left)
    }

    pub(crate) fn failed(&self, address: Option<IpAddr>) {
        let now = Instant::now();
        let mut failures = self.failures.lock();
        failures.retain(|_, known| now.saturating_duration_since(known.last) < FORGOTTEN);
        let key = address.map(counted_network);
        if failures.len() >= MOST && !failures.contains_key(&key) {
            let oldest = failures.iter().min_by_key(|(_, known)| known.last);
            if let Some(oldest) = oldest.map(|(oldest, _)| *oldest) {
                failures.remove(&oldest);
            }
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
            let attacker = |n: u32| Some(IpAddr::from((0x0a00_0000 + n).to_be_bytes()));
            back_off.failed(attacker(0));
            wait::past(Duration::from_millis(100)).await;
            for n in 1..10_000 {
                back_off.failed(attacker(n));
            }
            back_off.failed(None);
            assert_eq!(back_off.failures.lock().len(), MOST);
            assert!(back_off.pause(attacker(0)).is_none(), "the oldest one is forgotten");
            assert!(back_off.pause(attacker(9_999)).is_some() && back_off.pause(None).is_some());
            assert!(back_off.pause(address("11.0.0.1")).is_none(), "others can sign in");
        });
    }
}
