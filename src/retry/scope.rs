use std::fmt;
use std::sync::Arc;

use tokio::time::Instant;
use zk_curator_client::internal::{Locked, LockedGuard};

use super::RetryPolicy;
use super::ledger::Ledger;

/// A common budget for several operations: their retries are counted together, and the elapsed time
/// of the policy runs from the beginning of the scope (Curator's nested retry loops, CURATOR-559).
/// Cheap to clone; clones are the same scope.
///
/// ```
/// # async fn run(zk: zk_curator::CuratorFramework) -> Result<(), zk_curator::Error> {
/// # use std::time::Duration;
/// use zk_curator::retry::{RetryNTimes, RetryScope};
///
/// let scope = RetryScope::new(RetryNTimes::new(3, Duration::from_millis(100)));
/// let zk = zk.with_retry_scope(&scope);
/// let config = zk.get_data("/config").await?;
/// zk.set_data("/seen", config).await?; // has the rest of the three retries
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct RetryScope {
    policy: Arc<dyn RetryPolicy>,
    ledger: Arc<Locked<Ledger>>,
}

impl RetryScope {
    /// Begins a scope with the whole budget of a policy. Its time begins now.
    #[must_use]
    pub fn new(policy: impl RetryPolicy) -> Self {
        let ledger = Arc::new(Locked::new(Ledger::new(Instant::now())));
        Self { policy: Arc::new(policy), ledger }
    }

    /// Returns the number of retries so far.
    #[must_use]
    pub fn retries(&self) -> u32 {
        self.ledger().retries
    }

    pub(super) fn policy(&self) -> &dyn RetryPolicy {
        &*self.policy
    }

    pub(super) fn ledger(&self) -> LockedGuard<'_, Ledger> {
        self.ledger.lock()
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
