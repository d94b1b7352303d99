use std::time::Duration;

use tokio::time::Instant;

use crate::HostPort;

/// The first pause between two attempts; it doubles after every round over all hosts.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// The longest pause, as that of Apache ZooKeeper's own client: a fleet is back about a second
/// after an outage.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// A connection that is lost within this time after the attempt began counts as a failure, even if
/// the server has responded.
const YOUNG: Duration = Duration::from_secs(1);
/// The number of rounds up to which such failures let the pause grow: to 200 ms.
const YOUNG_ROUNDS: u32 = 2;

/// The contact with the last host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Contact {
    /// None any more.
    None,
    /// An attempt to connect.
    Attempt,
    /// A connection.
    Connection,
}

/// The next host to try, and the time for it. Hosts are shuffled once, then tried in turn, with a
/// growing, jittered pause.
///
/// The pause counts from the start of the previous attempt. So the first attempt after a long-lived
/// connection is immediate, and a server that accepts and closes connections immediately is not
/// overloaded.
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

    /// Returns the earliest time of the next attempt.
    pub(super) fn not_before(&mut self, now: Instant) -> Instant {
        let Some(last) = self.last_attempt else {
            return now;
        };
        // The other hosts of a round are tried without a pause, because one of them is likely to
        // work.
        let round = self.failures / u32::try_from(self.hosts.len()).unwrap_or(u32::MAX).max(1);
        if self.failures > 0 && round == 0 {
            return now;
        }
        let ceiling = FIRST_PAUSE.saturating_mul(1 << round.min(16)).min(LONGEST_PAUSE);
        // Half of the pause is random, so that clients that lost the same server do not return
        // together.
        let pause = ceiling.mul_f64(0.5 + self.rng.f64() / 2.0);
        (last + pause).max(now)
    }

    /// Returns the host to try now, which is none of the `busy` ones; `None` if all are busy.
    pub(super) fn attempt(
        &mut self,
        now: Instant,
        busy: impl Fn(&HostPort) -> bool,
    ) -> Option<HostPort> {
        let count = self.hosts.len();
        let place = (self.next..self.next + count)
            .map(|place| place % count)
            .find(|place| !busy(&self.hosts[*place]))?;
        self.next = (place + 1) % count;
        self.last_attempt = Some(now);
        self.failures = self.failures.saturating_add(1);
        Some(self.hosts[place].clone())
    }

    /// Returns the number of rounds over all hosts that failed before the last attempt.
    pub(super) fn failed_rounds(&self) -> u32 {
        self.failures.saturating_sub(1) / u32::try_from(self.hosts.len()).unwrap_or(u32::MAX).max(1)
    }

    /// Makes this host the current one: of several attempts, it was connected first.
    pub(super) fn reached(&mut self, host: &HostPort) {
        if let Some(place) = self.hosts.iter().position(|other| other == host) {
            self.next = (place + 1) % self.hosts.len();
        }
    }

    /// Returns `true` if this is one of the hosts.
    pub(super) fn contains(&self, host: &HostPort) -> bool {
        self.hosts.contains(host)
    }

    /// Returns the host of the last attempt, or the host that was reached.
    fn current(&self) -> Option<&HostPort> {
        self.last_attempt?;
        self.hosts.get((self.next + self.hosts.len() - 1) % self.hosts.len())
    }

    /// Returns another host than the current one, to ask if it is writable; the next one at every
    /// call.
    pub(super) fn other(&self, looks: u32) -> HostPort {
        let others = u32::try_from(self.hosts.len().saturating_sub(1)).unwrap_or(u32::MAX).max(1);
        // `next` is the host after the current one.
        let offset = usize::try_from(looks % others).unwrap_or(0);
        self.hosts[(self.next + offset) % self.hosts.len()].clone()
    }

    /// Makes a host the next one to try, without a pause.
    pub(super) fn prefer(&mut self, host: &HostPort) {
        if let Some(place) = self.hosts.iter().position(|other| other == host) {
            self.next = place;
            self.last_attempt = None;
            self.failures = 0;
        }
    }

    /// Replaces the hosts. Returns `true` if a connected client should move so that the load is
    /// even again. As in ZooKeeper's own clients, this is random, with probabilities that depend on
    /// the old and the new number of hosts. An attempt is given up only if its host is not listed
    /// any more. The hosts to move to come first.
    pub(super) fn replace(&mut self, mut hosts: Vec<HostPort>, contact: Contact) -> bool {
        let current = if contact == Contact::None { None } else { self.current().cloned() };
        let (kept, added): (Vec<_>, Vec<_>) = {
            self.rng.shuffle(&mut hosts);
            hosts.into_iter().partition(|host| self.hosts.contains(host))
        };
        let (before, after) = (self.hosts.len(), kept.len() + added.len());
        let is_kept = current.as_ref().is_some_and(|host| kept.contains(host));
        #[expect(clippy::cast_precision_loss, reason = "hosts are few")]
        let (moves, to_kept) = if current.is_none() {
            (false, 0.5)
        } else if contact == Contact::Attempt && is_kept {
            (false, 0.0)
        } else if after > before {
            // The ensemble grew: each client whose host stays moves to a new host with probability
            // 1 − before/after.
            (!is_kept || self.rng.f64() <= 1.0 - before as f64 / after as f64, 0.0)
        } else if is_kept {
            (false, 0.0)
        } else {
            // The ensemble shrank: clients that must move are spread so that the kept hosts, which
            // already have clients, get fewer.
            let (kept, before, after) = (kept.len() as f64, before as f64, after as f64);
            (
                true,
                if before > kept {
                    kept * (before - after) / (after * (before - kept))
                } else {
                    1.0
                },
            )
        };
        let stay = if moves { None } else { current };
        // The pause between two attempts protects the old hosts; new hosts need none.
        let at_once = moves || (contact == Contact::None && !added.is_empty());
        let kept_first = self.rng.f64() < to_kept;
        let (first, second) = if kept_first { (kept, added) } else { (added, kept) };
        self.hosts = first.into_iter().chain(second).collect();
        self.next = match stay.and_then(|host| self.hosts.iter().position(|other| *other == host)) {
            Some(place) => (place + 1) % self.hosts.len(),
            None => 0,
        };
        if at_once {
            self.last_attempt = None;
            self.failures = 0;
        }
        moves
    }

    /// Notes a response of a server. The next disconnect starts with a short pause again, unless
    /// the connection is young. Some connections are lost as soon as they are made, for example
    /// those of two clients that resume the same session in turns.
    pub(super) fn succeeded(&mut self, now: Instant) {
        let is_young = self.last_attempt.is_some_and(|attempt| now < attempt + YOUNG);
        let hosts = u32::try_from(self.hosts.len()).unwrap_or(u32::MAX);
        self.failures =
            if is_young { self.failures.min(hosts.saturating_mul(YOUNG_ROUNDS)) } else { 0 };
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
            ring.attempt(now, |_| false);
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
            tried.push(ring.attempt(now, |_| false).unwrap().host);
        }
        tried.sort();
        assert_eq!(tried, ["h0", "h1", "h2"]);
        assert!(ring.not_before(now) > now);
    }

    fn named(names: &[u32]) -> Vec<HostPort> {
        names.iter().map(|n| HostPort { host: format!("h{n}"), port: 1 }).collect()
    }

    /// Returns the share of clients on each host after the change, if the clients were evenly
    /// spread before.
    fn shares(before: &[u32], after: &[u32]) -> Vec<f64> {
        const CLIENTS: u32 = 30_000;
        let mut counts = vec![0_u32; after.len()];
        for seed in 0..u64::from(CLIENTS) {
            let mut ring = HostRing::new(named(before), Some(seed));
            let now = Instant::now();
            let mut host = ring.attempt(now, |_| false).unwrap();
            if ring.replace(named(after), Contact::Connection) {
                host = ring.attempt(now, |_| false).unwrap();
            }
            let place =
                named(after).iter().position(|other| *other == host).expect("a client on no host");
            counts[place] += 1;
        }
        counts.into_iter().map(|count| f64::from(count) / f64::from(CLIENTS)).collect()
    }

    #[test]
    fn clients_are_even_after_every_change_of_the_hosts() {
        for (before, after) in [
            (&[1, 2, 3][..], &[1, 2, 3, 4, 5][..]),
            (&[1, 2, 3, 4, 5], &[1, 2, 3]),
            (&[1, 2, 3], &[4, 5, 6]),
            (&[1, 2, 3, 4], &[3, 4, 5]),
            (&[1, 2], &[1, 2]),
            (&[1], &[1, 2, 3]),
        ] {
            let even = 1.0 / f64::from(u32::try_from(after.len()).unwrap());
            for share in shares(before, after) {
                assert!(
                    (share - even).abs() < 0.02,
                    "{before:?} -> {after:?}: {share} instead of {even}"
                );
            }
        }
    }

    #[test]
    fn a_staying_client_tries_all_other_hosts_before_its_own() {
        let mut ring = ring(3);
        let now = Instant::now();
        let host = ring.attempt(now, |_| false).unwrap();
        assert!(!ring.replace(named(&[0, 1, 2]), Contact::Connection));
        assert_eq!(ring.current(), Some(&host));
        let others = [ring.other(0), ring.other(1)];
        assert!(!others.contains(&host) && others[0] != others[1], "{others:?}");
        assert_eq!(ring.attempt(now, |_| false).as_ref(), Some(&others[0]));
    }

    #[test]
    fn a_host_that_is_busy_is_passed_over() {
        let mut ring = ring(3);
        let now = Instant::now();
        let first = ring.attempt(now, |_| false).unwrap();
        let second = ring.attempt(now, |host| *host == first).unwrap();
        let third = ring.attempt(now, |host| [&first, &second].contains(&host)).unwrap();
        assert_eq!(ring.attempt(now, |_| true), None);
        assert_eq!(ring.attempt(now, |host| *host != third), Some(third));
        // The host that was reached is the current one, and the others come first.
        ring.reached(&first);
        assert_eq!(ring.current(), Some(&first));
        assert_eq!(ring.attempt(now, |_| false), Some(second));
    }

    #[test]
    fn a_server_that_accepts_and_cuts_is_not_hammered() {
        let mut ring = ring(1);
        let start = Instant::now();
        let mut now = start;
        let mut attempts = 0;
        while now < start + Duration::from_secs(12) {
            now = ring.not_before(now);
            ring.attempt(now, |_| false);
            now += Duration::from_millis(5);
            ring.succeeded(now);
            attempts += 1;
        }
        assert!((70..130).contains(&attempts), "{attempts} connections in 12 s");
        assert!(ring.not_before(now) >= now + FIRST_PAUSE);

        now += YOUNG;
        ring.succeeded(now);
        assert_eq!(ring.not_before(now), now);
        ring.attempt(now, |_| false);
        ring.succeeded(now);
        assert!(ring.not_before(now) <= now + FIRST_PAUSE * 2);
    }
}
