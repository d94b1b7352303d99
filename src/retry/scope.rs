use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use super::RetryPolicy;
use super::ledger::Ledger;

/// One budget for several operations: what they retry counts together, and the time that a policy is told runs
/// since the scope began (Curator's nested retry loops, CURATOR-559). Cheap to clone; clones are the same scope.
///
/// ```
/// # async fn run(zk: zk_curator::CuratorFramework) -> Result<(), zk_curator::Error> {
/// # use std::time::Duration;
/// use zk_curator::retry::{RetryNTimes, RetryScope};
///
/// let scope = RetryScope::new(RetryNTimes::new(3, Duration::from_millis(100)));
/// let zk = zk.with_retry_scope(&scope);
/// let config = zk.get_data("/config").await?;
/// zk.set_data("/seen", config).await?; // has what the first one has left of three retries
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct RetryScope {
    policy: Arc<dyn RetryPolicy>,
    ledger: Arc<Mutex<Ledger>>,
}

impl RetryScope {
    /// Begins a scope, with the whole budget of a policy. Its time begins now.
    #[must_use]
    pub fn new(policy: impl RetryPolicy) -> Self {
        let ledger = Arc::new(Mutex::new(Ledger::new(Instant::now())));
        Self { policy: Arc::new(policy), ledger }
    }

    /// The number of retries so far.
    #[must_use]
    pub fn retries(&self) -> u32 {
        self.ledger().retries
    }

    pub(super) fn policy(&self) -> &dyn RetryPolicy {
        &*self.policy
    }

    pub(super) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        // A policy that panics leaves the numbers whole.
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for RetryScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetryScope")
            .field("policy", &self.policy)
            .field("retries", &self.retries())
            .finish_non_exhaustive()
    }
}
