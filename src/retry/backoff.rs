use std::fmt;
use std::time::Duration;

use backoff::backoff::Backoff;
use zk_curator_client::internal::Locked;

use super::RetryPolicy;
use crate::error::Error;

/// Uses any [`backoff::backoff::Backoff`] as a policy. Each operation has a `Backoff` of its own,
/// created when it fails for the first time.
///
/// ```
/// use backoff::ExponentialBackoff;
/// use zk_curator::{CuratorFramework, retry::BackoffRetry};
///
/// let builder = CuratorFramework::builder().retry(BackoffRetry::new(ExponentialBackoff::default));
/// ```
///
/// Time limits of the `Backoff`, such as `max_elapsed_time`, count from that first failure, by its
/// own clock, which ignores tokio's paused clock.
pub struct BackoffRetry<F>(F);

impl<F, B> BackoffRetry<F>
where
    F: Fn() -> B + Send + Sync + 'static,
    B: Backoff + Send + 'static,
{
    /// Creates a policy. `make` creates the `Backoff` of one operation.
    pub const fn new(make: F) -> Self {
        Self(make)
    }
}

impl<F, B> RetryPolicy for BackoffRetry<F>
where
    F: Fn() -> B + Send + Sync + 'static,
    B: Backoff + Send + 'static,
{
    /// Returns the delay of a fresh `Backoff` after `retries` earlier ones.
    fn next_delay(&self, retries: u32, _: Duration, _: &Error) -> Option<Duration> {
        let mut backoff = (self.0)();
        for _ in 0..retries {
            backoff.next_backoff()?;
        }
        backoff.next_backoff()
    }

    fn begin(&self) -> Option<Box<dyn RetryPolicy>> {
        Some(Box::new(RunningBackoff(Locked::new((self.0)()))))
    }
}

impl<F> fmt::Debug for BackoffRetry<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BackoffRetry").finish_non_exhaustive()
    }
}

/// The state of one operation.
struct RunningBackoff<B>(Locked<B>);

impl<B: Backoff + Send + 'static> RetryPolicy for RunningBackoff<B> {
    fn next_delay(&self, _: u32, _: Duration, _: &Error) -> Option<Duration> {
        self.0.lock().next_backoff()
    }
}

impl<B> fmt::Debug for RunningBackoff<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunningBackoff").finish_non_exhaustive()
    }
}
