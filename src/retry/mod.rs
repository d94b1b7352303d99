//! Retry policies.
//!
//! A [`RetryPolicy`] is set for the framework
//! ([`CuratorFrameworkBuilder::retry`](crate::CuratorFrameworkBuilder::retry)), for a handle
//! ([`CuratorFramework::with_retry`](crate::CuratorFramework::with_retry)) or for one call (`retry`
//! of every builder). Each call has its own budget. Calls through a handle with a [`RetryScope`]
//! share one.

#[cfg(feature = "backoff")]
mod backoff;
mod budget;
mod ledger;
mod policies;
mod retry_loop;
mod scope;
mod session_failed;

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "backoff")]
pub use backoff::BackoffRetry;
pub(crate) use budget::Budget;
pub use policies::{
    BoundedExponentialBackoffRetry, ExponentialBackoffRetry, RetryForever, RetryNTimes,
    RetryOneTime, RetryUntilElapsed,
};
pub(crate) use retry_loop::RetryLoop;
pub use scope::RetryScope;
pub use session_failed::SessionFailedRetryPolicy;

use crate::error::Error;

/// Decides if and when a failed operation is retried. It is a stateless function, which all
/// operations share.
///
/// It is called only for errors that a retry can fix, and never if the outcome is unknown and a
/// repetition is not safe.
///
/// An operation waits for a connection for one [connection
/// timeout](crate::CuratorFrameworkBuilder::connection_timeout). After that the policy decides. At
/// the end of each pause, which counts as a retry, the operation is sent if there is a connection.
/// If not, the policy is called again.
pub trait RetryPolicy: Debug + Send + Sync + 'static {
    /// Returns the time to wait before the next attempt; `None` to give up.
    ///
    /// `retries` counts the retries so far, from zero; `elapsed` is the time since the first
    /// attempt began.
    fn next_delay(&self, retries: u32, elapsed: Duration, error: &Error) -> Option<Duration>;

    /// Returns a fresh copy of a stateful policy, which replaces it for the rest of one operation.
    /// Called when the operation has failed for the first time. Default: `None`, for a stateless
    /// policy.
    fn begin(&self) -> Option<Box<dyn RetryPolicy>> {
        None
    }

    /// Returns the copy for one operation in a framework with a
    /// [seed](crate::CuratorFrameworkBuilder::seed). A policy with random pauses returns a copy
    /// whose pauses are a function of `seed`. Default: [`begin`](Self::begin).
    fn begin_seeded(&self, seed: u64) -> Option<Box<dyn RetryPolicy>> {
        let _ = seed;
        self.begin()
    }
}

/// Implements a policy for pointers to a policy.
macro_rules! delegates {
    ($($pointer:ident)*) => {$(
        impl RetryPolicy for $pointer<dyn RetryPolicy> {
            fn next_delay(&self, retries: u32, elapsed: Duration, error: &Error) -> Option<Duration> {
                (**self).next_delay(retries, elapsed, error)
            }

            fn begin(&self) -> Option<Box<dyn RetryPolicy>> {
                (**self).begin()
            }

            fn begin_seeded(&self, seed: u64) -> Option<Box<dyn RetryPolicy>> {
                (**self).begin_seeded(seed)
            }
        }
    )*};
}

delegates!(Arc Box);
