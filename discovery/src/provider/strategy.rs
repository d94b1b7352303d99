//! Strategies pick the instance for the next call.

use std::fmt;
use std::sync::Arc;

use fastrand::Rng;
use zk_curator::internal::Locked;
use zk_curator::internal::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::instance::ServiceInstance;

/// An instance that may be picked.
#[derive(Debug)]
pub struct Candidate<P> {
    pub(super) instance: Arc<ServiceInstance<P>>,
    pub(super) path: Box<str>,
    pub(super) czxid: i64,
    pub(super) in_flight: Arc<AtomicUsize>,
}

impl<P> Candidate<P> {
    /// Returns the instance.
    #[must_use]
    pub fn instance(&self) -> &ServiceInstance<P> {
        &self.instance
    }

    /// Returns the path of its node.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the number of calls by this provider that have not ended.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }
}

/// Picks the instance for the next call (`org.apache.curator.x.discovery.ProviderStrategy`).
pub trait ProviderStrategy<P>: Send + Sync + 'static {
    /// Returns the index of the picked candidate. `candidates` is not empty, and sorted by path.
    /// `key` is the key that the caller has passed to [`get_for`](super::ServiceProvider::get_for).
    /// An index beyond the end picks the last candidate.
    fn pick(&self, candidates: &[Arc<Candidate<P>>], key: Option<&[u8]>) -> usize;
}

impl<P: 'static> ProviderStrategy<P> for Box<dyn ProviderStrategy<P>> {
    fn pick(&self, candidates: &[Arc<Candidate<P>>], key: Option<&[u8]>) -> usize {
        (**self).pick(candidates, key)
    }
}

/// Picks the instances one after the other.
#[derive(Debug, Default)]
pub struct RoundRobin(AtomicU64);

impl RoundRobin {
    /// Begins with the first instance.
    #[must_use]
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Continues as if this number of calls had been made.
    #[must_use]
    pub const fn after(calls: u64) -> Self {
        Self(AtomicU64::new(calls))
    }
}

impl<P> ProviderStrategy<P> for RoundRobin {
    fn pick(&self, candidates: &[Arc<Candidate<P>>], _: Option<&[u8]>) -> usize {
        let calls = self.0.fetch_add(1, Ordering::Relaxed);
        index(calls, candidates.len())
    }
}

/// Returns the remainder of `number` divided by `len`.
fn index(number: u64, len: usize) -> usize {
    let len = u64::try_from(len).unwrap_or(u64::MAX).max(1);
    usize::try_from(number % len).unwrap_or(0)
}

/// Picks a random instance.
#[derive(Debug)]
pub struct Random(Locked<Rng>);

impl Random {
    /// Uses a random seed.
    #[must_use]
    pub fn new() -> Self {
        Self(Locked::new(Rng::new()))
    }

    /// Uses this seed.
    #[must_use]
    pub fn seed(seed: u64) -> Self {
        Self(Locked::new(Rng::with_seed(seed)))
    }
}

impl Default for Random {
    fn default() -> Self {
        Self::new()
    }
}

impl<P> ProviderStrategy<P> for Random {
    fn pick(&self, candidates: &[Arc<Candidate<P>>], _: Option<&[u8]>) -> usize {
        self.0.lock().usize(..candidates.len().max(1))
    }
}

/// Picks the same instance while it remains a candidate. Then another strategy picks the next one.
#[derive(Debug)]
pub struct Sticky<S> {
    inner: S,
    /// The node of the instance.
    chosen: Locked<Option<(Box<str>, i64)>>,
}

impl<S> Sticky<S> {
    /// Sticks to the instance that `inner` picks.
    pub const fn new(inner: S) -> Self {
        Self { inner, chosen: Locked::new(None) }
    }
}

impl<P, S: ProviderStrategy<P>> ProviderStrategy<P> for Sticky<S> {
    fn pick(&self, candidates: &[Arc<Candidate<P>>], key: Option<&[u8]>) -> usize {
        let mut chosen = self.chosen.lock();
        let again = chosen.as_ref().and_then(|(path, czxid)| {
            candidates.iter().position(|other| other.path == *path && other.czxid == *czxid)
        });
        let picked = again.unwrap_or_else(|| self.inner.pick(candidates, key));
        if again.is_none()
            && let Some(candidate) = candidates.get(picked)
        {
            *chosen = Some((candidate.path.clone(), candidate.czxid));
        }
        picked
    }
}

/// Picks, of two random instances, the one with fewer calls in flight by this provider.
#[derive(Debug)]
pub struct LeastLoaded(Locked<Rng>);

impl LeastLoaded {
    /// Uses a random seed.
    #[must_use]
    pub fn new() -> Self {
        Self(Locked::new(Rng::new()))
    }

    /// Uses this seed.
    #[must_use]
    pub fn seed(seed: u64) -> Self {
        Self(Locked::new(Rng::with_seed(seed)))
    }
}

impl Default for LeastLoaded {
    fn default() -> Self {
        Self::new()
    }
}

impl<P> ProviderStrategy<P> for LeastLoaded {
    fn pick(&self, candidates: &[Arc<Candidate<P>>], _: Option<&[u8]>) -> usize {
        if candidates.len() < 2 {
            return 0;
        }
        let (one, other) = {
            let mut rng = self.0.lock();
            let one = rng.usize(..candidates.len());
            let other = rng.usize(..candidates.len() - 1);
            (one, if other >= one { other + 1 } else { other })
        };
        let load = |index: usize| candidates[index].in_flight();
        if load(other) < load(one) { other } else { one }
    }
}

/// Picks a random instance, in proportion to the weights. Instances of weight 0 are picked only if
/// all have weight 0.
pub struct Weighted<F> {
    weight: F,
    rng: Locked<Rng>,
}

impl<F> Weighted<F> {
    /// Takes the function that returns the weight of an instance. Uses a random seed.
    pub fn new(weight: F) -> Self {
        Self { weight, rng: Locked::new(Rng::new()) }
    }

    /// Uses this seed.
    #[must_use]
    pub fn seed(self, seed: u64) -> Self {
        Self { rng: Locked::new(Rng::with_seed(seed)), ..self }
    }
}

impl<P, F> ProviderStrategy<P> for Weighted<F>
where
    F: Fn(&ServiceInstance<P>) -> u32 + Send + Sync + 'static,
{
    fn pick(&self, candidates: &[Arc<Candidate<P>>], _: Option<&[u8]>) -> usize {
        let weight = |candidate: &Arc<Candidate<P>>| u64::from((self.weight)(&candidate.instance));
        let total: u64 = candidates.iter().map(weight).sum();
        let mut rng = self.rng.lock();
        if total == 0 {
            return rng.usize(..candidates.len().max(1));
        }
        let mut left = rng.u64(..total);
        let found = candidates.iter().position(|candidate| {
            let weight = weight(candidate);
            if left < weight {
                return true;
            }
            left -= weight;
            false
        });
        found.unwrap_or(0)
    }
}

impl<F> fmt::Debug for Weighted<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Weighted").finish_non_exhaustive()
    }
}

/// Picks the same instance for the same key (rendezvous hashing). When an instance is added or
/// removed, only the keys of that instance move. Calls without a key go round robin.
///
/// The names of the nodes decide, so clients with different namespaces and chroots agree.
#[derive(Debug, Default)]
pub struct Rendezvous(RoundRobin);

impl Rendezvous {
    /// Returns the strategy, which has no settings.
    #[must_use]
    pub const fn new() -> Self {
        Self(RoundRobin::new())
    }
}

impl<P> ProviderStrategy<P> for Rendezvous {
    fn pick(&self, candidates: &[Arc<Candidate<P>>], key: Option<&[u8]>) -> usize {
        let Some(key) = key else { return self.0.pick(candidates, key) };
        let score =
            |candidate: &Arc<Candidate<P>>| mix(hash(key, hash(name(&candidate.path), FNV)));
        let best = candidates.iter().enumerate().max_by_key(|(_, candidate)| score(candidate));
        best.map_or(0, |(index, _)| index)
    }
}

/// Returns the name of a node.
fn name(path: &str) -> &[u8] {
    path.rsplit('/').next().unwrap_or_default().as_bytes()
}

/// The initial value of FNV-1a.
const FNV: u64 = 0xcbf2_9ce4_8422_2325;

fn hash(bytes: &[u8], start: u64) -> u64 {
    bytes.iter().fold(start, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Mixes the bits of a hash (the finalizer of `MurmurHash3`).
const fn mix(mut hash: u64) -> u64 {
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

/// Lets a strategy pick among the instances of the caller's zone if there are enough of them, and
/// otherwise among all.
pub struct ZoneAware<S, F> {
    inner: S,
    is_near: F,
    least: usize,
}

impl<S, F> ZoneAware<S, F> {
    /// Lets `inner` pick among the instances for which `is_near` returns `true`, if there are at
    /// least `least` of them (at least one).
    pub const fn new(inner: S, least: usize, is_near: F) -> Self {
        Self { inner, is_near, least }
    }
}

impl<P, S, F> ProviderStrategy<P> for ZoneAware<S, F>
where
    P: Send + Sync + 'static,
    S: ProviderStrategy<P>,
    F: Fn(&ServiceInstance<P>) -> bool + Send + Sync + 'static,
{
    fn pick(&self, candidates: &[Arc<Candidate<P>>], key: Option<&[u8]>) -> usize {
        let is_near = |candidate: &Arc<Candidate<P>>| (self.is_near)(&candidate.instance);
        let near: Vec<_> = candidates.iter().filter(|other| is_near(other)).cloned().collect();
        if near.is_empty() || near.len() < self.least {
            return self.inner.pick(candidates, key);
        }
        let picked = self.inner.pick(&near, key).min(near.len() - 1);
        candidates.iter().position(|other| Arc::ptr_eq(other, &near[picked])).unwrap_or(0)
    }
}

impl<S: fmt::Debug, F> fmt::Debug for ZoneAware<S, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ZoneAware")
            .field("inner", &self.inner)
            .field("least", &self.least)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidates(ids: &[&str]) -> Vec<Arc<Candidate<u32>>> {
        let candidate = |id: &&str| {
            let weight = u32::try_from(id.len()).unwrap();
            let instance = ServiceInstance::builder("s").id(*id).payload(weight).build().unwrap();
            Arc::new(Candidate {
                instance: Arc::new(instance),
                path: (*id).into(),
                czxid: 1,
                in_flight: Arc::default(),
            })
        };
        ids.iter().map(candidate).collect()
    }

    fn counts(strategy: &impl ProviderStrategy<u32>, ids: &[&str], calls: usize) -> Vec<usize> {
        let candidates = candidates(ids);
        let mut counts = vec![0; ids.len()];
        for _ in 0..calls {
            counts[strategy.pick(&candidates, None)] += 1;
        }
        counts
    }

    /// A counter of 32 bits would overflow here, and the picks would no longer be fair.
    #[test]
    fn round_robin_after_2_32_calls() {
        for calls in [1_u64 << 31, 1 << 32, u64::from(u32::MAX), 1 << 63] {
            let counts = counts(&RoundRobin::after(calls - 5), &["a", "b", "c"], 10);
            assert!(counts.iter().all(|count| (3..=4).contains(count)), "{counts:?}");
        }
    }

    #[test]
    fn random_and_weighted_choices_are_fair() {
        let random = counts(&Random::seed(1), &["a", "b", "c"], 3000);
        assert!(random.iter().all(|count| (900..1100).contains(count)), "{random:?}");
        let weighted = Weighted::new(|instance: &ServiceInstance<u32>| instance.payload).seed(1);
        let weighted = counts(&weighted, &["", "a", "bbb"], 4000);
        assert_eq!(weighted[0], 0);
        assert!((900..1100).contains(&weighted[1]), "{weighted:?}");
        let none = Weighted::new(|_: &ServiceInstance<u32>| 0).seed(1);
        assert!(counts(&none, &["a", "b"], 100).iter().all(|count| *count > 30));
    }

    #[test]
    fn sticky_moves_only_when_it_has_to() {
        let sticky = Sticky::new(RoundRobin::after(1));
        let all = candidates(&["a", "b", "c"]);
        assert_eq!([sticky.pick(&all, None), sticky.pick(&all, None)], [1, 1]);
        assert_eq!(sticky.pick(&all[1..], None), 0);
        // Without the chosen instance, the inner strategy picks again.
        let rest = candidates(&["a", "c"]);
        assert_eq!([sticky.pick(&rest, None), sticky.pick(&all, None)], [0, 0]);
    }

    #[test]
    fn least_loaded_avoids_the_busy_one() {
        let all = candidates(&["a", "b"]);
        all[0].in_flight.store(5, Ordering::Relaxed);
        let strategy = LeastLoaded::seed(1);
        assert!((0..100).all(|_| strategy.pick(&all, None) == 1));
        assert_eq!(strategy.pick(&all[..1], None), 0);
    }

    #[test]
    fn rendezvous_moves_only_the_keys_of_the_lost_instance() {
        let strategy = Rendezvous::new();
        let (all, rest) = (candidates(&["a", "b", "c", "d"]), candidates(&["a", "b", "d"]));
        let mut counts = [0; 4];
        for key in 0..4000_u32 {
            let key = key.to_be_bytes();
            let before = strategy.pick(&all, Some(&key));
            counts[before] += 1;
            let after = &rest[strategy.pick(&rest, Some(&key))].path;
            assert!(before == 2 || *after == all[before].path);
        }
        assert!(counts.iter().all(|count| (850..1150).contains(count)), "{counts:?}");
    }

    #[test]
    fn all_zones_are_used_when_too_few_are_near() {
        let near = |instance: &ServiceInstance<u32>| instance.payload == 1;
        let zones = ZoneAware::new(RoundRobin::new(), 2, near);
        assert_eq!(counts(&zones, &["a", "bb", "c"], 10), [5, 0, 5]);
        let zones = ZoneAware::new(RoundRobin::new(), 3, near);
        assert_eq!(counts(&zones, &["a", "bb", "c"], 9), [3, 3, 3]);
    }
}
