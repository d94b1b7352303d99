use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use backoff::backoff::Backoff;

use super::RetryPolicy;
use crate::error::Error;

/// Any [`backoff::backoff::Backoff`] as a policy: each operation has one of its own, made when it fails for the
/// first time.
///
/// ```
/// use backoff::ExponentialBackoff;
/// use zk_curator::{CuratorFramework, retry::BackoffRetry};
///
/// let builder = CuratorFramework::builder().retry(BackoffRetry::new(ExponentialBackoff::default));
/// ```
///
/// Time limits of the `Backoff`, such as `max_elapsed_time`, count from that first failure, by a clock of its own
/// that does not know of tokio's paused one.
pub struct BackoffRetry<F>(F);

impl<F, B> BackoffRetry<F>
where
    F: Fn() -> B + Send + Sync + 'static,
    B: Backoff + Send + 'static,
{
    /// `make` makes the `Backoff` of one operation.
    pub const fn new(make: F) -> Self {
        Self(make)
    }
}

impl<F, B> RetryPolicy for BackoffRetry<F>
where
    F: Fn() -> B + Send + Sync + 'static,
    B: Backoff + Send + 'static,
{
    /// Returns the answer of a fresh `Backoff` after `retries` earlier ones.
    fn next_delay(&self, retries: u32, _: Duration, _: &Error) -> Option<Duration> {
        let mut backoff = (self.0)();
        for _ in 0..retries {
            backoff.next_backoff()?;
        }
        backoff.next_backoff()
    }

    fn begin(&self) -> Option<Box<dyn RetryPolicy>> {
        Some(Box::new(Running(Mutex::new((self.0)()))))
    }
}

impl<F> fmt::Debug for BackoffRetry<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BackoffRetry").finish_non_exhaustive()
    }
}

/// That of one operation.
struct Running<B>(Mutex<B>);

impl<B: Backoff + Send + 'static> RetryPolicy for Running<B> {
    fn next_delay(&self, _: u32, _: Duration, _: &Error) -> Option<Duration> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).next_backoff()
    }
}

impl<B> fmt::Debug for Running<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running").finish_non_exhaustive()
    }
}
