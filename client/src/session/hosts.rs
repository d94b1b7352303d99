use std::time::Duration;

use tokio::time::Instant;

use crate::HostPort;

/// The first pause between two attempts; doubled after every round over all hosts.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(3);

/// Which host to try next, and when: shuffled once, then in turn, with a growing, jittered pause.
///
/// The pause counts from the start of the attempt before, so that the first attempt after a long-lived
/// connection is immediate, and a server that accepts and cuts at once is not hammered.
#[derive(Debug)]
pub(super) struct HostRing {
    hosts: Vec<HostPort>,
    next: usize,
    failures: u32,
    last_attempt: Option<Instant>,
    rng: fastrand::Rng,
}

impl HostRing {
    pub(super) fn new(mut hosts: Vec<HostPort>, seed: Option<u64>) -> Self {
        let mut rng = seed.map_or_else(fastrand::Rng::new, fastrand::Rng::with_seed);
        rng.shuffle(&mut hosts);
        Self { hosts, next: 0, failures: 0, last_attempt: None, rng }
    }

    pub(super) const fn len(&self) -> usize {
        self.hosts.len()
    }

    /// When the next attempt may start.
    pub(super) fn not_before(&mut self, now: Instant) -> Instant {
        let Some(last) = self.last_attempt else {
            return now;
        };
        // The other hosts of a round are tried without a pause: one of them is likely to be well.
        let round = self.failures / u32::try_from(self.hosts.len()).unwrap_or(u32::MAX).max(1);
        if self.failures > 0 && round == 0 {
            return now;
        }
        let ceiling = FIRST_PAUSE.saturating_mul(1 << round.min(16)).min(LONGEST_PAUSE);
        // Half of it is random, so that clients that lost the same server do not return together.
        let pause = ceiling.mul_f64(0.5 + self.rng.f64() / 2.0);
        (last + pause).max(now)
    }

    /// The host to try now.
    pub(super) fn attempt(&mut self, now: Instant) -> HostPort {
        let host = self.hosts[self.next % self.hosts.len()].clone();
        self.next = (self.next + 1) % self.hosts.len();
        self.last_attempt = Some(now);
        self.failures = self.failures.saturating_add(1);
        host
    }

    /// A server accepted the session: the next disconnect begins anew.
    pub(super) const fn succeeded(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(hosts: usize) -> HostRing {
        let hosts = (0..hosts).map(|n| HostPort { host: format!("h{n}"), port: 1 }).collect();
        HostRing::new(hosts, Some(1))
    }

    #[test]
    fn an_outage_costs_few_attempts() {
        let mut ring = ring(1);
        let start = Instant::now();
        let mut now = start;
        let mut attempts = 0;
        while now < start + Duration::from_secs(12) {
            now = ring.not_before(now);
            ring.attempt(now);
            attempts += 1;
        }
        assert!((5..25).contains(&attempts), "{attempts} attempts in 12 s");
    }

    #[test]
    fn the_hosts_of_a_round_are_tried_without_a_pause_and_each_once() {
        let mut ring = ring(3);
        let now = Instant::now();
        let mut tried = Vec::new();
        for _ in 0..3 {
            assert_eq!(ring.not_before(now), now);
            tried.push(ring.attempt(now).host);
        }
        tried.sort();
        assert_eq!(tried, ["h0", "h1", "h2"]);
        assert!(ring.not_before(now) > now);
    }

    #[test]
    fn a_server_that_accepts_and_cuts_is_not_hammered() {
        let mut ring = ring(1);
        let now = Instant::now();
        ring.attempt(now);
        ring.succeeded();
        assert!(ring.not_before(now) >= now + FIRST_PAUSE / 2);
        let later = now + Duration::from_secs(60);
        assert_eq!(ring.not_before(later), later);
    }
}
