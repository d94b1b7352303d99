//! Decides which instances are down, from the failed calls of this provider. Pure: the caller
//! passes the time.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

/// The policy by which an instance counts as down
/// (`org.apache.curator.x.discovery.DownInstancePolicy`).
///
/// An instance whose calls have failed `errors` times within `timeout` is not picked for another
/// `timeout`. Failures belong to the node of the instance: an update of its record keeps them, and
/// a new registration begins without any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct DownInstancePolicy {
    /// The number of failed calls until the instance is down. Zero counts as 1. Default: 2.
    pub errors: u32,
    /// The time for which a failure counts, and for which the instance is then down. Zero: no
    /// instance is ever down. More than 100 years count as 100 years. Default: 30 seconds.
    pub timeout: Duration,
    /// `true` if all instances with the same address and ports are down together. Default: `false`.
    pub by_address: bool,
}

/// The longest time for which an instance can be down.
const CENTURY: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

impl Default for DownInstancePolicy {
    fn default() -> Self {
        Self { errors: 2, timeout: Duration::from_secs(30), by_address: false }
    }
}

impl DownInstancePolicy {
    /// A policy with this number of failed calls and this time.
    #[must_use]
    pub const fn new(errors: u32, timeout: Duration) -> Self {
        Self { errors, timeout, by_address: false }
    }

    /// Treats all instances with the same address, port and port for TLS as one.
    #[must_use]
    pub const fn by_address(mut self) -> Self {
        self.by_address = true;
        self
    }

    /// Returns the end of a timeout that begins now.
    fn ends(&self, now: Instant) -> Instant {
        now + self.timeout.min(CENTURY)
    }
}

/// The instance to which a mark belongs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum InstanceKey {
    Node(Box<str>, i64),
    /// With the port and the port for TLS.
    Address(Option<String>, Option<u16>, Option<u16>),
}

#[derive(Debug)]
struct Mark {
    errors: u32,
    /// The time of the first of these errors.
    since: Instant,
    /// The end of the time in which the instance is down.
    until: Option<Instant>,
}

/// The marks of all instances.
#[derive(Debug, Default)]
pub(super) struct Marks(BTreeMap<InstanceKey, Mark>);

impl Marks {
    /// Counts a failed call. Returns `true` if the instance is down from now on.
    pub(super) fn failed(
        &mut self,
        key: InstanceKey,
        policy: &DownInstancePolicy,
        now: Instant,
    ) -> bool {
        self.forget(policy, now);
        let mark = self.0.entry(key).or_insert(Mark { errors: 0, since: now, until: None });
        mark.errors = mark.errors.saturating_add(1);
        let is_new = mark.until.is_none() && mark.errors >= policy.errors.max(1);
        if is_new {
            mark.until = Some(policy.ends(now));
        }
        is_new
    }

    /// Clears the failures after a successful call. Returns `true` if the instance was down.
    pub(super) fn succeeded(&mut self, key: &InstanceKey, now: Instant) -> bool {
        let mark = self.0.remove(key);
        mark.and_then(|mark| mark.until).is_some_and(|until| until > now)
    }

    /// Returns the end of the time in which the instance is down, if it is.
    pub(super) fn down_until(&self, key: &InstanceKey, now: Instant) -> Option<Instant> {
        self.0.get(key).and_then(|mark| mark.until).filter(|until| *until > now)
    }

    fn forget(&mut self, policy: &DownInstancePolicy, now: Instant) {
        self.0.retain(|_, mark| mark.until.unwrap_or_else(|| policy.ends(mark.since)) > now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: DownInstancePolicy = DownInstancePolicy::new(2, Duration::from_secs(30));

    fn key(id: &str) -> InstanceKey {
        InstanceKey::Node(id.into(), 1)
    }

    #[tokio::test(start_paused = true)]
    async fn marks_end_exactly_at_their_timeout() {
        let (mut marks, start) = (Marks::default(), Instant::now());
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        assert!(!marks.failed(key("a"), &POLICY, at(0)));
        assert_eq!(marks.down_until(&key("a"), at(0)), None);
        assert!(marks.failed(key("a"), &POLICY, at(29)));
        // Further failures do not extend it.
        assert!(!marks.failed(key("a"), &POLICY, at(40)));
        assert_eq!(marks.down_until(&key("a"), at(58)), Some(at(59)));
        assert_eq!(marks.down_until(&key("a"), at(59)), None);
        assert_eq!(marks.down_until(&key("b"), at(30)), None);
    }

    #[tokio::test(start_paused = true)]
    async fn the_longest_timeout_lasts_for_a_century() {
        let policy = DownInstancePolicy::new(1, Duration::MAX);
        let (mut marks, now) = (Marks::default(), Instant::now());
        assert!(marks.failed(key("a"), &policy, now));
        assert!(!marks.failed(key("a"), &policy, now));
        assert_eq!(marks.down_until(&key("a"), now), Some(now + CENTURY));
    }

    #[tokio::test(start_paused = true)]
    async fn old_failures_do_not_count() {
        let (mut marks, start) = (Marks::default(), Instant::now());
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        assert!(!marks.failed(key("a"), &POLICY, at(0)));
        assert!(!marks.failed(key("a"), &POLICY, at(30)));
        assert!(marks.failed(key("a"), &POLICY, at(31)));
        assert!(marks.succeeded(&key("a"), at(32)));
        assert!(!marks.succeeded(&key("a"), at(32)));
        assert_eq!(marks.down_until(&key("a"), at(32)), None);
        assert!(!marks.failed(key("a"), &POLICY, at(33)), "it begins from zero");
    }
}
