//! When to try again.

mod policies;

use std::fmt::Debug;
use std::time::Duration;

use tokio::time::{Instant, timeout};

pub use policies::{
    BoundedExponentialBackoffRetry, ExponentialBackoffRetry, RetryForever, RetryNTimes, RetryOneTime,
    RetryUntilElapsed,
};

use crate::error::{Error, ErrorKind};
use crate::framework::Core;

/// Decides whether and when a failed operation is tried again: a stateless function, shared by all operations.
///
/// It is asked only about errors that a retry can mend, and never when the outcome is unknown and the
/// operation cannot be repeated safely. Nor is it asked about an operation that has waited in vain for a
/// connection, for the whole [connection timeout](crate::CuratorFrameworkBuilder::connection_timeout): that
/// one fails, whatever the policy.
pub trait RetryPolicy: Debug + Send + Sync + 'static {
    /// How long to wait before the next attempt; `None` gives up.
    ///
    /// `retries` counts the retries so far, from zero; `elapsed` is the time since the first attempt began.
    fn next_delay(&self, retries: u32, elapsed: Duration, error: &Error) -> Option<Duration>;
}

/// What one operation has used up of its policy.
pub(crate) struct Budget<'a> {
    core: &'a Core,
    retries: u32,
    started: Instant,
}

impl<'a> Budget<'a> {
    pub(crate) fn new(core: &'a Core) -> Self {
        Self { core, retries: 0, started: Instant::now() }
    }

    /// Waits until the operation may be tried again, or returns the error for good.
    ///
    /// Call it only when a repetition is safe. After the loss of a session, which `epoch` tells, it waits for
    /// the next one.
    pub(crate) async fn spend(&mut self, error: Error, epoch: u64) -> Result<(), Error> {
        // A request that has waited for the whole connection timeout does not wait for another one.
        let waited_in_vain = error.kind() == ErrorKind::ConnectionLoss && !error.may_have_applied();
        let repeatable = error.is_retryable() || error.kind() == ErrorKind::SessionExpired;
        if !repeatable || (waited_in_vain && self.started.elapsed() >= self.core.connection_timeout()) {
            return Err(error);
        }
        let Some(delay) = self.core.retry_policy().next_delay(self.retries, self.started.elapsed(), &error)
        else {
            return Err(error);
        };
        tracing::debug!(%error, retries = self.retries, ?delay, "retrying");
        self.retries = self.retries.saturating_add(1);
        let passed = async {
            tokio::time::sleep(delay).await;
            error.kind() != ErrorKind::SessionExpired
                || timeout(self.core.connection_timeout(), self.core.session_after(epoch)).await.is_ok()
        };
        tokio::select! {
            biased;
            () = self.core.shutdown.cancelled() => {
                Err(Error::new(ErrorKind::Closed, error.operation(), error.path()))
            }
            passed = passed => if passed { Ok(()) } else { Err(error) },
        }
    }
}
