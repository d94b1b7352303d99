use std::future::pending;

use futures_core::Stream;
use tokio::time::{Instant, sleep_until};

use super::{ConnectionState, ConnectionStatus, StateWatch};
use crate::error::{Error, ErrorKind};
use crate::retry::RetryPolicy;

/// A [`StateWatch`] for those who must not flap with a bad network
/// (`org.apache.curator.framework.state.CircuitBreakingConnectionStateListener`).
///
/// The first SUSPENDED or LOST is told, and opens the circuit. While it is open, nothing is told but a
/// LOST after a SUSPENDED, and the end. After each pause of the policy it looks again: once the connection is back, or
/// the policy gives up, the circuit closes, and the state is told if it is another one than was told last.
#[derive(Debug)]
pub struct CircuitBreaker {
    states: StateWatch,
    policy: Box<dyn RetryPolicy>,
    circuit: Option<Open>,
}

/// The circuit is open.
#[derive(Debug)]
struct Open {
    since: Instant,
    retries: u32,
    look_at: Instant,
    told: ConnectionStatus,
    latest: ConnectionStatus,
}

impl CircuitBreaker {
    pub(super) fn new(states: StateWatch, policy: impl RetryPolicy) -> Self {
        Self { states, policy: Box::new(policy), circuit: None }
    }

    /// The next status that is told; `None` after the end.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn next(&mut self) -> Option<ConnectionStatus> {
        loop {
            let look_at = self.circuit.as_ref().map(|open| open.look_at);
            let told = tokio::select! {
                biased;
                status = self.states.next() => self.take(status?),
                () = async { match look_at {
                    Some(at) => sleep_until(at).await,
                    None => pending().await,
                } } => self.look(),
            };
            if told.is_some() {
                return told;
            }
        }
    }

    /// The same as a stream.
    pub fn into_stream(self) -> impl Stream<Item = ConnectionStatus> + Send + 'static {
        futures_util::stream::unfold(self, async |mut watch| watch.next().await.map(|status| (status, watch)))
    }

    /// Whether states are held back.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        self.circuit.is_some()
    }

    /// A status has come; what of it is told.
    fn take(&mut self, status: ConnectionStatus) -> Option<ConnectionStatus> {
        use ConnectionState as S;
        if status.state == S::Closed {
            self.circuit = None;
            return Some(status);
        }
        let Some(open) = &mut self.circuit else {
            if matches!(status.state, S::Suspended | S::Lost) {
                let since = Instant::now();
                let look_at = self.next_look(since, 0);
                let (told, latest) = (status.clone(), status.clone());
                self.circuit = look_at.map(|look_at| Open { since, retries: 1, look_at, told, latest });
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

    /// It is time to look again.
    fn look(&mut self) -> Option<ConnectionStatus> {
        let open = self.circuit.take()?;
        let next = self.next_look(open.since, open.retries);
        match next {
            Some(look_at) if !open.latest.state.is_connected() => {
                self.circuit = Some(Open { retries: open.retries.saturating_add(1), look_at, ..open });
                None
            }
            _ => (open.latest.state != open.told.state).then_some(open.latest),
        }
    }

    fn next_look(&self, since: Instant, retries: u32) -> Option<Instant> {
        let error = Error::new(ErrorKind::ConnectionLoss, "circuit_breaker", "");
        let delay = self.policy.next_delay(retries, since.elapsed(), &error)?;
        Instant::now().checked_add(delay)
    }
}
