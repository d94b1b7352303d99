//! When to try again.
//!
//! A [`RetryPolicy`] is set for the framework
//! ([`CuratorFrameworkBuilder::retry`](crate::CuratorFrameworkBuilder::retry)), for a handle
//! ([`CuratorFramework::with_retry`](crate::CuratorFramework::with_retry)) or for one call (`retry` of every
//! builder). Each call has its own budget; calls that are made through a handle of a [`RetryScope`] share one.

#[cfg(feature = "backoff")]
mod backoff;
mod budget;
mod ledger;
mod policies;
mod scope;
mod session_failed;

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "backoff")]
pub use backoff::BackoffRetry;
pub(crate) use budget::Budget;
pub use policies::{
    BoundedExponentialBackoffRetry, ExponentialBackoffRetry, RetryForever, RetryNTimes, RetryOneTime,
    RetryUntilElapsed,
};
pub use scope::RetryScope;
pub use session_failed::SessionFailedRetryPolicy;

use crate::error::Error;

/// Decides whether and when a failed operation is tried again: a stateless function, shared by all operations.
///
/// It is asked only about errors that a retry can mend, and never when the outcome is unknown and the
/// operation cannot be repeated safely.
///
/// An operation waits for a connection for one
/// [connection timeout](crate::CuratorFrameworkBuilder::connection_timeout). After that the policy decides: at the end of
/// each pause, which counts as a retry, the operation is sent if there is a connection; if not, the policy is asked again.
pub trait RetryPolicy: Debug + Send + Sync + 'static {
    /// How long to wait before the next attempt; `None` gives up.
    ///
    /// `retries` counts the retries so far, from zero; `elapsed` is the time since the first attempt began.
    fn next_delay(&self, retries: u32, elapsed: Duration, error: &Error) -> Option<Duration>;

    /// A policy with a memory answers a fresh copy of itself, which is asked instead of it for the rest of one
    /// operation. Called when that has failed for the first time. Default: `None`, for a policy without one.
    fn begin(&self) -> Option<Box<dyn RetryPolicy>> {
        None
    }

    /// [`next_delay`](Self::next_delay) in a framework with a [seed](crate::CuratorFrameworkBuilder::seed): a policy with random pauses answers
    /// a copy of itself whose pauses are a function of `seed`. Default: [`begin`](Self::begin).
    fn begin_seeded(&self, seed: u64) -> Option<Box<dyn RetryPolicy>> {
        let _ = seed;
        self.begin()
    }
}

/// A pointer to a policy decides as the policy does.
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
