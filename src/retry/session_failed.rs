use std::time::Duration;

use super::RetryPolicy;
use crate::error::{Error, ErrorKind};

/// Wraps a policy, so that an operation whose session has expired fails instead of continuing in
/// the next session.
///
/// To run several operations in one session, see
/// [`CuratorFramework::bound_to_session`](crate::CuratorFramework::bound_to_session).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionFailedRetryPolicy<P>(P);

impl<P: RetryPolicy> SessionFailedRetryPolicy<P> {
    /// Creates a policy. `delegate` decides about every other error.
    #[must_use]
    pub const fn new(delegate: P) -> Self {
        Self(delegate)
    }
}

impl<P: RetryPolicy> RetryPolicy for SessionFailedRetryPolicy<P> {
    fn next_delay(&self, retries: u32, elapsed: Duration, error: &Error) -> Option<Duration> {
        if error.kind() == ErrorKind::SessionExpired {
            return None;
        }
        self.0.next_delay(retries, elapsed, error)
    }

    fn begin(&self) -> Option<Box<dyn RetryPolicy>> {
        self.0.begin().map(boxed)
    }

    fn begin_seeded(&self, seed: u64) -> Option<Box<dyn RetryPolicy>> {
        self.0.begin_seeded(seed).map(boxed)
    }
}

fn boxed(fresh: Box<dyn RetryPolicy>) -> Box<dyn RetryPolicy> {
    Box::new(SessionFailedRetryPolicy(fresh))
}
