//! The rules of a server, and guards of them.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use zk_curator_client::internal::{Locked, LockedGuard, Signal, sleep};
use zk_curator_proto::Request;

use super::request::RuleRequest;
use super::verdict::Verdict;

type Decide = dyn Fn(&RuleRequest<'_>) -> Verdict + Send + Sync;

struct Rule {
    decide: Box<Decide>,
    /// The number of matching requests to pass before the rule fires.
    skip: AtomicU64,
    /// The maximum number of times that the rule fires.
    limit: AtomicU64,
    /// The number of verdicts given.
    taken: AtomicU64,
    /// The number of verdicts that have taken effect.
    hits: Signal<u64>,
    /// Cancelled by [`RuleGuard::end`]: no request waits any longer.
    ended: CancellationToken,
}

impl Rule {
    fn take_one(&self) -> bool {
        let one_less = |skip: u64| skip.checked_sub(1);
        if self.skip.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_less).is_ok() {
            return false;
        }
        let limit = self.limit.load(Ordering::Acquire);
        let more = |taken: u64| (taken < limit).then(|| taken + 1);
        self.taken.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).is_ok()
    }
}

/// The rules of a server.
#[derive(Default)]
pub(crate) struct Rules {
    installed: Locked<Arc<[Arc<Rule>]>>,
}

impl fmt::Debug for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rules").field("installed", &self.lock().len()).finish()
    }
}

impl Rules {
    /// Installs one rule in several places.
    pub(crate) fn install<'a>(
        places: impl IntoIterator<Item = &'a Arc<Self>>,
        decide: impl Fn(&RuleRequest<'_>) -> Verdict + Send + Sync + 'static,
    ) -> RuleGuard {
        let rule = Arc::new(Rule {
            decide: Box::new(decide),
            skip: AtomicU64::new(0),
            limit: AtomicU64::new(u64::MAX),
            taken: AtomicU64::new(0),
            hits: Signal::new(0),
            ended: CancellationToken::new(),
        });
        let add = |place: &'a Arc<Self>| {
            let mut installed = place.lock();
            *installed = installed.iter().chain([&rule]).cloned().collect();
            Arc::downgrade(place)
        };
        let places = places.into_iter().map(add).collect();
        RuleGuard { rule, places }
    }

    /// Returns the verdict about a request. The functions of the rules run without any lock held.
    pub(crate) fn judge(&self, session_id: i64, request: &Request) -> Judgement {
        let installed = Arc::clone(&self.lock());
        let request = RuleRequest::new(session_id, request);
        for rule in installed.iter() {
            let verdict = (rule.decide)(&request);
            if verdict != Verdict::Pass && rule.take_one() {
                return Judgement { verdict, rule: Some(Arc::clone(rule)) };
            }
        }
        Judgement { verdict: Verdict::Pass, rule: None }
    }

    fn remove(&self, rule: &Arc<Rule>) {
        let mut installed = self.lock();
        *installed = installed.iter().filter(|other| !Arc::ptr_eq(other, rule)).cloned().collect();
    }

    fn lock(&self) -> LockedGuard<'_, Arc<[Arc<Rule>]>> {
        self.installed.lock()
    }
}

/// A verdict, and the rule that counts its effect.
pub(crate) struct Judgement {
    pub(crate) verdict: Verdict,
    rule: Option<Arc<Rule>>,
}

impl Judgement {
    /// Counts the hit.
    pub(crate) fn has_taken_effect(&self) {
        if let Some(rule) = &self.rule {
            rule.hits.modify(|hits| *hits += 1);
        }
    }

    /// Waits for a [`Verdict::Delay`], or until the rule is ended.
    pub(crate) fn late(&self, delay: Duration) -> impl Future<Output = ()> + Send + 'static {
        let rule = self.rule.clone();
        async move {
            let ended = async {
                match &rule {
                    Some(rule) => rule.ended.cancelled().await,
                    None => std::future::pending().await,
                }
            };
            // The order is fixed, because a simulation must be repeatable.
            tokio::select! {
                biased;
                () = ended => {}
                () = sleep(delay) => {}
            }
        }
    }
}

/// An installed rule. Dropping it removes the rule; [`RuleGuard::forget`] keeps it. Requests that
/// the rule has delayed arrive after their delay, unless [`RuleGuard::end`] is called.
#[must_use = "dropping the guard removes the rule"]
pub struct RuleGuard {
    rule: Arc<Rule>,
    places: Vec<Weak<Rules>>,
}

impl fmt::Debug for RuleGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RuleGuard").field("hits", &self.hits()).finish_non_exhaustive()
    }
}

impl RuleGuard {
    /// Lets the first `n` matching requests pass. With `after(2).times(1)`, the rule fires only at
    /// the third one. Default: 0.
    pub fn after(self, n: u64) -> Self {
        self.rule.skip.store(n, Ordering::Release);
        self
    }

    /// Lets the rule fire at most `n` times in total. Default: no limit.
    pub fn times(self, n: u64) -> Self {
        self.rule.limit.store(n, Ordering::Release);
        self
    }

    /// Returns the number of times that the rule has fired. A hit counts once its effect is
    /// visible; a [`Verdict::Delay`] counts when the delay begins.
    #[must_use]
    pub fn hits(&self) -> u64 {
        self.rule.hits.look(|hits| *hits)
    }

    /// Waits until the rule has reached the limit set by [`RuleGuard::times`], or has fired once
    /// without a limit.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    pub async fn fired(&self) {
        let limit = self.rule.limit.load(Ordering::Acquire);
        self.fired_times(if limit == u64::MAX { 1 } else { limit }).await;
    }

    /// Waits until the rule has fired `n` times.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    pub async fn fired_times(&self, n: u64) {
        self.rule.hits.until(|hits| *hits >= n).await;
    }

    /// Removes the rule, and ends the [`Verdict::Delay`] of every request that waits for it: these
    /// requests arrive now. The hits stay readable. A second call has no effect.
    pub fn end(&self) {
        self.remove();
        self.rule.ended.cancel();
    }

    fn remove(&self) {
        for place in self.places.iter().filter_map(Weak::upgrade) {
            place.remove(&self.rule);
        }
    }

    /// Keeps the rule until the server ends.
    pub fn forget(mut self) {
        self.places.clear();
    }
}

impl Drop for RuleGuard {
    fn drop(&mut self) {
        self.remove();
    }
}
