use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::ledger::Ledger;
use crate::core::{Call, Core, metrics, tell};
use crate::error::{Error, ErrorKind};

/// The pause between two looks for a connection is no shorter, whatever the policy says.
const SHORTEST_LOOK: Duration = Duration::from_millis(1);

/// The retries and the time that one operation has spent.
pub(crate) struct Budget<'a> {
    core: &'a Core,
    call: &'a Call,
    own: Ledger,
    started: Instant,
}

impl<'a> Budget<'a> {
    pub(crate) fn new(core: &'a Core, call: &'a Call) -> Self {
        let started = Instant::now();
        Self { core, call, own: Ledger::new(started), started }
    }

    /// The time left until the deadline, if there is one.
    pub(crate) fn time_left(&self) -> Option<Duration> {
        Some(self.call.deadline?.saturating_sub(self.started.elapsed()))
    }

    /// Waits until the operation may be tried again, or returns the error for good.
    ///
    /// Call it only when a repetition is safe. After the loss of a session, which `epoch` tells, it waits for
    /// the next one.
    pub(crate) async fn spend(&mut self, error: Error, epoch: u64) -> Result<(), Error> {
        let waited_in_vain = error.kind() == ErrorKind::ConnectionLoss && !error.may_have_applied();
        let expired = error.kind() == ErrorKind::SessionExpired;
        let repeatable = error.is_retryable() || (expired && self.call.session_epoch.is_none());
        if !repeatable {
            return Err(error);
        }
        loop {
            let Some(delay) = self.next_delay(&error) else {
                return Err(error);
            };
            // An operation waits for a connection for one connection timeout. After that it only looks, after every pause
            // of the policy, whether there is one: a policy that counts does not multiply that time.
            let only_looks = waited_in_vain && self.started.elapsed() >= self.core.connection_timeout();
            let delay = if only_looks { delay.max(SHORTEST_LOOK) } else { delay };
            let left = self.time_left().unwrap_or(Duration::MAX);
            if delay >= left {
                // There will be no time for another attempt.
                return Err(error);
            }
            let core = self.core;
            tell!(debug, core, core.status(), %error, ?delay, "retrying");
            metrics::retried(error.operation());
            let ready = async {
                tokio::time::sleep(delay).await;
                if expired {
                    let patience = core.connection_timeout().min(left - delay);
                    timeout(patience, core.session_after(epoch)).await.is_ok()
                } else {
                    !only_looks || core.is_connected()
                }
            };
            tokio::select! {
                biased;
                () = core.shutdown.cancelled() => {
                    return Err(Error::new(ErrorKind::Closed, error.operation(), error.path()));
                }
                ready = ready => if ready { return Ok(()) },
            }
        }
    }

    fn next_delay(&mut self, error: &Error) -> Option<Duration> {
        let (own, random) = (self.call.retry.as_deref(), &self.core.random);
        match &self.call.scope {
            Some(scope) => {
                let own = own.map(|own| (own, &mut self.own.memory));
                scope.ledger().spend(scope.policy(), own, random, error)
            }
            None => self.own.spend(own.unwrap_or_else(|| self.core.retry_policy()), None, random, error),
        }
    }
}
