//! Providers pick the instance for the next call.
//!
//! # Guarantees
//! * Only instances that are enabled and pass the filter are picked.
//! * An instance that is [down](DownInstancePolicy) is not picked, unless the
//!   [panic threshold](ProviderBuilder::panic_threshold) is reached.
//! * **Fail-static**: without a connection the last known instances are served.
//!   [`max_staleness`](ProviderBuilder::max_staleness) sets a limit, after which calls fail.

mod down;
mod strategy;
#[cfg(feature = "tower")]
mod tower;

use std::fmt;
use std::ops::Deref;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;
use tokio::sync::Notify;
use tokio::time::Instant;
use zk_curator::Error;
use zk_curator::internal::atomic::{AtomicUsize, Ordering};
use zk_curator::internal::{Locked, LockedGuard, sleep_until};
use zk_curator_recipes::cache::Freshness;

#[cfg(feature = "tower")]
pub use self::tower::{InstanceChanges, Reported};
pub use down::DownInstancePolicy;
pub use strategy::{
    Candidate, LeastLoaded, ProviderStrategy, Random, Rendezvous, RoundRobin, Sticky, Weighted,
    ZoneAware,
};

use self::down::{InstanceKey, Marks};
use crate::cache::ServiceCache;
use crate::discovery::ServiceDiscovery;
use crate::instance::ServiceInstance;
use crate::measure::Calls;

type ProviderFilter<P> = Arc<dyn Fn(&ServiceInstance<P>) -> bool + Send + Sync>;

/// The reason why no instance can be picked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unavailable {
    /// The first load is not complete.
    #[error("the instances of {path} are being loaded")]
    Loading {
        /// The path of the service.
        path: String,
    },
    /// No registered instance is enabled and passes the filter.
    #[error("{path} has no instance to be called")]
    NoInstances {
        /// The path of the service.
        path: String,
    },
    /// The instances have been stale for longer than
    /// [`max_staleness`](ProviderBuilder::max_staleness).
    #[error("the instances of {path} have been stale for {time:?}")]
    Stale {
        /// The path of the service.
        path: String,
        /// The time since the cache became stale.
        time: Duration,
    },
}

/// Builds a [`ServiceProvider`].
#[must_use = "nothing is done until it is started"]
pub struct ProviderBuilder<P> {
    cache: ServiceCache<P>,
    strategy: Box<dyn ProviderStrategy<P>>,
    policy: DownInstancePolicy,
    filter: Option<ProviderFilter<P>>,
    panic_threshold: f64,
    max_staleness: Option<Duration>,
    calls: Calls,
}

impl<P: DeserializeOwned + Send + Sync + 'static> ServiceDiscovery<P> {
    /// Builds a provider of the instances of a service. Its cache starts to load immediately.
    ///
    /// # Panics
    /// Outside a tokio runtime, if the framework has no spawner.
    #[doc(alias = "serviceProviderBuilder")]
    pub fn provider(&self, name: impl Into<String>) -> ProviderBuilder<P> {
        let cache = self.cache(name);
        let calls = Calls::begin(&self.zk, cache.path());
        ProviderBuilder {
            cache,
            strategy: Box::new(RoundRobin::new()),
            policy: DownInstancePolicy::default(),
            filter: None,
            panic_threshold: 0.0,
            max_staleness: None,
            calls,
        }
    }
}

impl<P> ProviderBuilder<P> {
    /// The strategy that picks the instance for each call. Default: [`RoundRobin`].
    pub fn strategy(mut self, strategy: impl ProviderStrategy<P>) -> Self {
        self.strategy = Box::new(strategy);
        self
    }

    /// The policy by which an instance counts as down. Default: after two failures, for 30 seconds.
    pub const fn down_policy(mut self, policy: DownInstancePolicy) -> Self {
        self.policy = policy;
        self
    }

    /// Picks only instances for which `filter` returns `true`. It runs under a lock: it must not
    /// block, nor use the provider. Default: all.
    #[doc(alias = "InstanceFilter")]
    pub fn filter(
        mut self,
        filter: impl Fn(&ServiceInstance<P>) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.filter = Some(Arc::new(filter));
        self
    }

    /// Also picks instances that are down, if at most this share of the instances is not down: then
    /// the network of this client is the more likely cause. Range: 0 to 1; values below count as 0,
    /// as does NaN. Default: 0, only if all instances are down.
    pub const fn panic_threshold(mut self, part: f64) -> Self {
        self.panic_threshold = if part > 0.0 { part } else { 0.0 };
        self
    }

    /// Fails with [`Unavailable::Stale`] once the instances have been stale for longer than this.
    /// Zero fails without any tolerance. Default: no limit, the last known instances are served.
    pub const fn max_staleness(mut self, most: Duration) -> Self {
        self.max_staleness = Some(most);
        self
    }

    /// Starts the provider.
    pub fn start(self) -> ServiceProvider<P> {
        let (state, marked) = (Locked::new(ProviderState::default()), Notify::new());
        ServiceProvider(Arc::new(ProviderInner { settings: self, state, marked }))
    }
}

impl<P> fmt::Debug for ProviderBuilder<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProviderBuilder").field("cache", &self.cache).finish_non_exhaustive()
    }
}

/// Picks instances of a service for calls. Cheap to clone. See the [module](self).
pub struct ServiceProvider<P>(Arc<ProviderInner<P>>);

struct ProviderInner<P> {
    settings: ProviderBuilder<P>,
    state: Locked<ProviderState<P>>,
    /// Notified when a mark has changed.
    marked: Notify,
}

struct ProviderState<P> {
    marks: Marks,
    choice: Arc<CandidateSet<P>>,
    /// True if a mark has changed since the choice was computed.
    is_outdated: bool,
}

/// The instances that may be picked. Valid until the cache or a mark changes.
struct CandidateSet<P> {
    /// The version of the cache; `None` before the first choice.
    version: Option<u64>,
    candidates: Vec<Arc<Candidate<P>>>,
    /// The registered instances, sorted by path. They keep the calls in flight while an instance is
    /// drained.
    all: Vec<Arc<Candidate<P>>>,
    /// The number of instances that are enabled, pass the filter and are not down.
    live: usize,
    /// The time when the first mark ends.
    until: Option<Instant>,
}

impl<P> Default for ProviderState<P> {
    fn default() -> Self {
        let (candidates, all) = (Vec::new(), Vec::new());
        let choice = CandidateSet { version: None, candidates, all, live: 0, until: None };
        Self { marks: Marks::default(), choice: Arc::new(choice), is_outdated: false }
    }
}

impl<P> CandidateSet<P> {
    fn holds(&self, version: u64) -> bool {
        self.version == Some(version) && self.until.is_none_or(|until| until > Instant::now())
    }
}

impl<P> ProviderInner<P> {
    fn key(&self, candidate: &Candidate<P>) -> InstanceKey {
        if self.settings.policy.by_address {
            let ServiceInstance { address, port, ssl_port, .. } = &*candidate.instance;
            InstanceKey::Address(address.clone(), *port, *ssl_port)
        } else {
            InstanceKey::Node(candidate.path.clone(), candidate.czxid)
        }
    }

    /// Returns the current choice.
    fn choice(&self) -> Arc<CandidateSet<P>> {
        let version = self.settings.cache.version();
        let mut state = self.state.lock();
        if state.is_outdated || !state.choice.holds(version) {
            state.choice = Arc::new(self.choose(&state));
            state.is_outdated = false;
        }
        Arc::clone(&state.choice)
    }

    fn choose(&self, state: &ProviderState<P>) -> CandidateSet<P> {
        let now = Instant::now();
        let before = &state.choice.all;
        let (version, listed) = self.settings.cache.versioned();
        let all: Vec<_> = listed
            .iter()
            .map(|listed| {
                // Both are sorted by path.
                let same = before.binary_search_by(|other| other.path.cmp(&listed.path)).ok();
                let same = same.map(|at| &before[at]).filter(|at| at.czxid == listed.czxid);
                Arc::new(Candidate {
                    instance: Arc::clone(&listed.instance),
                    path: listed.path.clone(),
                    czxid: listed.czxid,
                    in_flight: same.map_or_else(Arc::default, |same| Arc::clone(&same.in_flight)),
                })
            })
            .collect();
        let passes = |candidate: &&Arc<Candidate<P>>| {
            candidate.instance.enabled
                && self.settings.filter.as_ref().is_none_or(|filter| filter(&candidate.instance))
        };
        let pool: Vec<_> = all.iter().filter(passes).cloned().collect();
        let mut until = None;
        let mut candidates = Vec::with_capacity(pool.len());
        for candidate in &pool {
            match state.marks.down_until(&self.key(candidate), now) {
                Some(end) => until = Some(until.map_or(end, |until: Instant| until.min(end))),
                None => candidates.push(Arc::clone(candidate)),
            }
        }
        let live = candidates.len();
        self.settings.calls.down.set_number(pool.len() - live);
        if live < pool.len() && is_panic(live, pool.len(), self.settings.panic_threshold) {
            candidates = pool;
        }
        CandidateSet { version: Some(version), candidates, all, live, until }
    }

    /// Waits until a choice satisfies `look`, which is called with the present one and after every
    /// change. Fails with `Closed` when nothing changes any more.
    async fn until<T>(
        &self,
        operation: &'static str,
        mut look: impl FnMut(&CandidateSet<P>) -> Option<T>,
    ) -> Result<T, Error> {
        loop {
            let mut marked = pin!(self.marked.notified());
            // From here on, before the look.
            marked.as_mut().enable();
            let choice = self.choice();
            if let Some(found) = look(&choice) {
                return Ok(found);
            }
            if self.settings.cache.has_ended() {
                return Err(Error::closed(operation, self.settings.cache.name()));
            }
            let until = async {
                match choice.until {
                    Some(until) => sleep_until(until).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = self.settings.cache.changed_since(choice.version.unwrap_or_default()) => {}
                () = marked => {}
                () = until => {}
            }
        }
    }

    /// Notes that a mark has changed.
    fn outdated(&self, mut state: LockedGuard<'_, ProviderState<P>>) {
        state.is_outdated = true;
        drop(state);
        self.marked.notify_waiters();
    }
}

#[expect(clippy::cast_precision_loss, reason = "a part of at most millions of instances")]
fn is_panic(live: usize, all: usize, threshold: f64) -> bool {
    live as f64 <= all as f64 * threshold
}

impl<P: 'static> ServiceProvider<P> {
    /// Picks an instance for a call. Report how the call ended, with [`Picked::ok`] or
    /// [`Picked::failed`].
    ///
    /// # Errors
    /// See [`Unavailable`].
    #[doc(alias = "getInstance")]
    pub fn get(&self) -> Result<Picked<P>, Unavailable> {
        self.pick(None)
    }

    /// Picks an instance for a call with this key, for a strategy that uses keys, such as
    /// [`Rendezvous`].
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn get_for(&self, key: impl AsRef<[u8]>) -> Result<Picked<P>, Unavailable> {
        self.pick(Some(key.as_ref()))
    }

    fn pick(&self, key: Option<&[u8]>) -> Result<Picked<P>, Unavailable> {
        let picked = self.try_pick(key);
        if picked.is_err() {
            self.0.settings.calls.unavailable.add(1);
        }
        picked
    }

    fn try_pick(&self, key: Option<&[u8]>) -> Result<Picked<P>, Unavailable> {
        self.check_staleness()?;
        let choice = self.0.choice();
        let Some(last) = choice.candidates.len().checked_sub(1) else {
            let path = self.0.settings.cache.path().to_owned();
            return Err(if self.0.settings.cache.is_loaded() {
                Unavailable::NoInstances { path }
            } else {
                Unavailable::Loading { path }
            });
        };
        let picked = self.0.settings.strategy.pick(&choice.candidates, key).min(last);
        Ok(Picked::new(Arc::clone(&choice.candidates[picked]), Arc::clone(&self.0)))
    }

    fn check_staleness(&self) -> Result<(), Unavailable> {
        let Some(most) = self.0.settings.max_staleness else { return Ok(()) };
        match self.0.settings.cache.freshness() {
            Freshness::Stale { since, .. } if since.elapsed() > most => {
                let path = self.0.settings.cache.path().to_owned();
                Err(Unavailable::Stale { path, time: since.elapsed() })
            }
            _ => Ok(()),
        }
    }

    /// Returns all instances that may be picked now.
    #[doc(alias = "getAllInstances")]
    #[must_use]
    pub fn all(&self) -> Vec<Arc<ServiceInstance<P>>> {
        let choice = self.0.choice();
        choice.candidates.iter().map(|candidate| Arc::clone(&candidate.instance)).collect()
    }

    /// Returns the cache of the instances.
    pub fn cache(&self) -> &ServiceCache<P> {
        &self.0.settings.cache
    }

    /// Returns how fresh the instances are.
    #[must_use]
    pub fn freshness(&self) -> Freshness {
        self.0.settings.cache.freshness()
    }

    /// Waits until at least this number of instances is enabled, passes the filter and is not down.
    ///
    /// # Errors
    /// Those of [`ServiceCache::loaded`]. `Closed` if the framework is closed during the wait.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn wait_ready(&self, least: usize) -> Result<(), Error> {
        self.0.settings.cache.loaded().await?;
        self.0.until("wait_ready", |choice| (choice.live >= least).then_some(())).await
    }
}

impl<P> Clone for ServiceProvider<P> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<P> fmt::Debug for ServiceProvider<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceProvider")
            .field("cache", &self.0.settings.cache)
            .finish_non_exhaustive()
    }
}

/// An instance that was picked for a call. Dereferences to the instance.
///
/// If it is dropped without a report, the call counts neither as a success nor as a failure.
#[must_use = "report how the call ended"]
pub struct Picked<P> {
    candidate: Arc<Candidate<P>>,
    provider: Arc<ProviderInner<P>>,
}

impl<P> Picked<P> {
    fn new(candidate: Arc<Candidate<P>>, provider: Arc<ProviderInner<P>>) -> Self {
        candidate.in_flight.fetch_add(1, Ordering::Relaxed);
        Self { candidate, provider }
    }

    /// Reports that the call has succeeded, which clears earlier failures.
    pub fn ok(self) {
        self.provider.settings.calls.ok.add(1);
        let key = self.provider.key(&self.candidate);
        let mut state = self.provider.state.lock();
        if state.marks.succeeded(&key, Instant::now()) {
            self.provider.outdated(state);
        }
    }

    /// Reports that the call has failed. The [policy](DownInstancePolicy) decides when the instance
    /// is down.
    #[doc(alias = "noteError")]
    pub fn failed(self) {
        self.provider.settings.calls.failed.add(1);
        let key = self.provider.key(&self.candidate);
        let mut state = self.provider.state.lock();
        if state.marks.failed(key, &self.provider.settings.policy, Instant::now()) {
            self.provider.outdated(state);
        }
    }

    /// Returns `true` if the cache is stale now: the instance may have changed or ended.
    #[must_use]
    pub fn is_stale(&self) -> bool {
        !self.provider.settings.cache.freshness().is_fresh()
    }
}

impl<P> Deref for Picked<P> {
    type Target = ServiceInstance<P>;

    fn deref(&self) -> &ServiceInstance<P> {
        &self.candidate.instance
    }
}

impl<P> Drop for Picked<P> {
    fn drop(&mut self) {
        let in_flight: &AtomicUsize = &self.candidate.in_flight;
        in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<P> fmt::Debug for Picked<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Picked").field("path", &self.candidate.path).finish_non_exhaustive()
    }
}
