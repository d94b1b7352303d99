use std::time::Duration;

use tokio::time::{Instant, timeout};
use zk_curator_client::internal::sleep;

use super::ledger::Ledger;
use crate::core::{Call, Core, tell};
use crate::error::{Error, ErrorKind};

/// The minimum pause between two checks for a connection, regardless of the policy.
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

    /// Returns the time left until the deadline, if there is one.
    pub(crate) fn time_left(&self) -> Option<Duration> {
        Some(self.call.deadline?.saturating_sub(self.started.elapsed()))
    }

    /// Waits until the operation may be retried, or returns the error.
    ///
    /// Call it only if a repetition is safe. If the session of `epoch` was lost, it waits for the
    /// next one.
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
            // An operation waits for a connection for one connection timeout. After that it only
            // checks for one after each pause of the policy, so a policy that counts retries does
            // not multiply the connection timeout.
            let only_looks =
                waited_in_vain && self.started.elapsed() >= self.core.connection_timeout();
            let delay = if only_looks { delay.max(SHORTEST_LOOK) } else { delay };
            let left = self.time_left().unwrap_or(Duration::MAX);
            if delay >= left {
                // No time is left for another attempt.
                return Err(error);
            }
            let core = self.core;
            tell!(debug, core, core.status(), %error, ?delay, "retrying");
            if let Some(operations) = core.operations.get() {
                operations.retried(error.operation());
            }
            let ready = async {
                sleep(delay).await;
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
            None => {
                self.own.spend(own.unwrap_or_else(|| self.core.retry_policy()), None, random, error)
            }
        }
    }
}
