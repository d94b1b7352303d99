use std::time::Duration;

use super::RetryPolicy;
use crate::error::{Error, ErrorKind};

/// Another policy, but an operation whose session has expired fails and does not go on in the next session.
///
/// To hold several operations together in one session, see
/// [`CuratorFramework::bound_to_session`](crate::CuratorFramework::bound_to_session).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionFailedRetryPolicy<P>(P);

impl<P: RetryPolicy> SessionFailedRetryPolicy<P> {
    /// `delegate` decides about every other error.
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
