use std::future::pending;

use futures_core::Stream;
use tokio::time::Instant;
use zk_curator_client::internal::{bounded, sleep_until};

use super::{ConnectionState, ConnectionStatus, StateWatch};
use crate::error::{Error, ErrorKind};
use crate::retry::RetryPolicy;

/// A [`StateWatch`] that suppresses rapid state changes on an unstable network
/// (`org.apache.curator.framework.state.CircuitBreakingConnectionStateListener`).
/// [`CuratorFrameworkBuilder::circuit_breaker`](crate::CuratorFrameworkBuilder::circuit_breaker)
/// does the same for a whole framework, recipes included.
///
/// The first SUSPENDED or LOST is reported, and opens the circuit. While the circuit is open, only
/// a LOST after a SUSPENDED and the end are reported. After each pause of the policy, the state is
/// checked again. Once the connection is back, or the policy gives up, the circuit closes, and the
/// state is reported if it differs from the last reported one.
#[derive(Debug)]
pub struct CircuitBreaker {
    states: StateWatch,
    circuit: Circuit,
}

/// Decides which states are reported.
#[derive(Debug)]
pub(super) struct Circuit {
    policy: Box<dyn RetryPolicy>,
    open: Option<OpenCircuit>,
}

/// The state of an open circuit.
#[derive(Debug)]
struct OpenCircuit {
    since: Instant,
    retries: u32,
    look_at: Instant,
    told: ConnectionStatus,
    latest: ConnectionStatus,
}

impl StateWatch {
    /// Suppresses rapid state changes: see [`CircuitBreaker`]. `policy` determines how long the
    /// circuit stays open.
    #[must_use]
    pub fn circuit_breaking(self, policy: impl RetryPolicy) -> CircuitBreaker {
        CircuitBreaker { states: self, circuit: Circuit::new(Box::new(policy)) }
    }
}

impl CircuitBreaker {
    /// Returns the next reported status; `None` after the end.
    ///
    /// # Cancel safety
    /// Dropping the future loses no status.
    pub async fn next(&mut self) -> Option<ConnectionStatus> {
        loop {
            let told = tokio::select! {
                biased;
                status = self.states.next() => self.circuit.take(status?),
                () = self.circuit.until_look() => self.circuit.look(),
            };
            if told.is_some() {
                return told;
            }
        }
    }

    /// Returns the states as a stream.
    pub fn into_stream(self) -> impl Stream<Item = ConnectionStatus> + Send + 'static {
        futures_util::stream::unfold(self, async |mut watch| {
            watch.next().await.map(|status| (status, watch))
        })
    }

    /// Returns `true` while states are suppressed.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        self.circuit.open.is_some()
    }
}

impl Circuit {
    pub(super) const fn new(policy: Box<dyn RetryPolicy>) -> Self {
        Self { policy, open: None }
    }

    /// Waits until the next [check](Self::look) is due: without end while the circuit is closed.
    pub(super) fn until_look(&self) -> impl Future<Output = ()> + use<> {
        let look_at = self.open.as_ref().map(|open| open.look_at);
        async move {
            match look_at {
                Some(at) => sleep_until(at).await,
                None => pending().await,
            }
        }
    }

    /// Takes a new status, and returns the status to report, if any.
    pub(super) fn take(&mut self, status: ConnectionStatus) -> Option<ConnectionStatus> {
        use ConnectionState as S;
        if status.state == S::Closed {
            self.open = None;
            return Some(status);
        }
        let Some(open) = &mut self.open else {
            if matches!(status.state, S::Suspended | S::Lost) {
                let since = Instant::now();
                let look_at = self.next_look(since, 0);
                let (told, latest) = (status.clone(), status.clone());
                self.open =
                    look_at.map(|look_at| OpenCircuit { since, retries: 1, look_at, told, latest });
            }
            return Some(status);
        };
        open.latest = status.clone();
        let worse = open.told.state == S::Suspended && status.state == S::Lost;
        if worse {
            open.told = status.clone();
        }
        worse.then_some(status)
    }

    /// Checks the state again after a pause.
    pub(super) fn look(&mut self) -> Option<ConnectionStatus> {
        let open = self.open.take()?;
        let next = self.next_look(open.since, open.retries);
        match next {
            Some(look_at) if !open.latest.state.is_connected() => {
                self.open =
                    Some(OpenCircuit { retries: open.retries.saturating_add(1), look_at, ..open });
                None
            }
            _ => (open.latest.state != open.told.state).then_some(open.latest),
        }
    }

    fn next_look(&self, since: Instant, retries: u32) -> Option<Instant> {
        let error = Error::new(ErrorKind::ConnectionLoss, "circuit_breaker", "");
        let delay = self.policy.next_delay(retries, since.elapsed(), &error)?;
        Some(Instant::now() + bounded(delay))
    }
}
