use std::convert::Infallible;
use std::future::{pending, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::OptionFuture;
use futures_util::stream::FuturesUnordered;
use tokio::time::{Instant, timeout_at};
use zk_curator_client::internal::{sleep, sleep_until};
use zk_curator_client::{Error as RawError, ExpiredBy, SessionState};

use super::circuit_breaker::Circuit;
use super::farewell::farewell;
use super::{ConnectionStatus, StateInput, StateMachine};
use crate::core::metrics::SESSIONS_LOST;
use crate::core::{Core, Session, Setbacks, tell};
use crate::ensemble;
use crate::error::{Error, ErrorKind, Result};
use crate::janitor;

/// The pause after a session could not be opened for a reason that passes by itself.
const REOPEN_PAUSE: Duration = Duration::from_secs(1);

/// The age of a session whose end says nothing about the attempts to open it.
const SETTLED: Duration = Duration::from_secs(60);

const ENDED_EARLY: &str = "its runtime ended, or its task panicked, before the session was closed";

/// The single task of a framework. Opens a session whenever there is none, publishes its states,
/// performs the janitor's cleanups, and closes the last session after these are done.
pub(crate) fn supervise(core: Arc<Core>) -> impl Future<Output = ()> + Send {
    // Created here, because a runtime that shuts down drops tasks it has never polled.
    run(FrameworkEnd { core, machine: StateMachine::new(), session: None, result: None })
}

async fn run(mut end: FrameworkEnd) {
    let core = Arc::clone(&end.core);
    let mut drained = pin!(drained(&core));
    // Sessions that could not be opened, or were refused for another reason than expiry.
    let (mut setbacks, mut pause) = (Setbacks::default(), Duration::ZERO);
    let mut farewells = FuturesUnordered::new();
    let mut circuit = core.circuit_policy().map(Circuit::new);
    let mut epoch = 0;
    let mut is_tried = false;
    let deadline = loop {
        epoch += 1;
        let session = tokio::select! {
            biased;
            deadline = &mut drained => break deadline,
            session = open(&core, epoch, pause, &mut setbacks) => end.session.insert(session),
        };
        let opened = Instant::now();
        end.machine.step(StateInput::Opened);
        core.install(session);
        let over = tokio::select! {
            biased;
            deadline = &mut drained => break deadline,
            over = follow(&core, &mut end.machine, &mut circuit, session) => over,
            never = all(&mut farewells) => match never {},
            never = ensemble::track(&core, session), if core.tracks_ensemble() => match never {},
        };
        core.has_ended(session, session.raw.session().is_some(), &over);
        // Guards learn of the loss no later than listeners.
        session.lost.cancel();
        SESSIONS_LOST.series(core.meter(), []).add(1);
        is_tried = over == SessionState::Expired(ExpiredBy::Clock);
        let is_expired = matches!(over, SessionState::Expired(_));
        if is_expired || opened.elapsed() >= SETTLED {
            setbacks.over();
        }
        let refused = over.end().filter(|_| !is_expired);
        pause = refused.map_or(Duration::ZERO, |why| report(&core, why, &mut setbacks));
        tell_of(&core, &mut circuit, end.machine.status());
        farewells.push(farewell(&core, Arc::clone(session), over));
    };

    // Without a connection, the client of the lost session searches for a server by itself.
    if core.is_connected() || is_tried {
        let said = async { while farewells.next().await.is_some() {} };
        drop(timeout_at(deadline - for_session(&core), said).await);
    }
    let is_untold = !farewells.is_empty();
    if is_untold {
        tell!(
            warn,
            core,
            core.status(),
            "closed before the servers learned of a lost session; it ends at its timeout"
        );
    }
    let closed = match close(&core, end.session.as_deref(), deadline).await {
        Ok(()) if is_untold => Err(RawError::ConnectionLoss { sent: false }),
        closed => closed,
    };
    if let Err(error) = &closed {
        tell!(warn, core, core.status(), %error, "the session could not be closed; it will expire");
    }
    end.result = Some(closed);
}

/// Ends the last session.
async fn close(core: &Core, session: Option<&Session>, deadline: Instant) -> Result<(), RawError> {
    let Some(session) = session else { return Ok(()) };
    // A guard must learn of its loss before another client can acquire the same resource.
    session.lost.cancel();
    core.handover.end(session, deadline.saturating_duration_since(Instant::now())).await
}

/// Returns the part of the close timeout that is kept for the session.
fn for_session(core: &Core) -> Duration {
    core.close_timeout() / 4
}

/// Performs cleanups until the framework is closing and none is left, or the time is up. Returns
/// the time at which the close timeout ends.
async fn drained(core: &Core) -> Instant {
    let late = async {
        core.shutdown.cancelled().await;
        let deadline = Instant::now() + core.close_timeout();
        sleep_until(deadline - for_session(core)).await;
        deadline
    };
    tokio::select! {
        biased;
        closing = janitor::run(core) => closing + core.close_timeout(),
        deadline = late => deadline,
    }
}

/// Continues to end sessions while it is polled.
async fn all(farewells: &mut FuturesUnordered<impl Future<Output = ()>>) -> Infallible {
    while farewells.next().await.is_some() {}
    pending().await
}

/// Publishes the states of a session until it is over, and returns its last state.
async fn follow(
    core: &Core,
    machine: &mut StateMachine,
    circuit: &mut Option<Circuit>,
    session: &Session,
) -> SessionState {
    let mut states = session.raw.states();
    let mut told = false;
    loop {
        let look = OptionFuture::from(circuit.as_ref().map(Circuit::until_look));
        let state = tokio::select! {
            biased;
            state = poll_fn(|cx| states.as_mut().poll_next(cx)) => state.unwrap_or(SessionState::Closed),
            Some(()) = look => {
                if let Some(status) = circuit.as_mut().and_then(Circuit::look) {
                    core.publish(status);
                }
                continue;
            }
        };
        let before = machine.status();
        let changed = machine.step(StateInput::Raw(state));
        if state.end().is_some() {
            tell!(info, core, before, ?state, "session over");
            return state;
        }
        if let Some(zxid) =
            session.raw.lost_history().filter(|_| !std::mem::replace(&mut told, true))
        {
            core.report_lost_history(zxid);
        }
        machine.served_by(session.raw.server());
        if changed || machine.status().server != before.server {
            tell_of(core, circuit, machine.status());
        }
    }
}

/// Publishes a status, unless the circuit breaker of the framework holds it back.
fn tell_of(core: &Core, circuit: &mut Option<Circuit>, status: ConnectionStatus) {
    core.note(&status);
    let told = match circuit {
        Some(circuit) => circuit.take(status.clone()),
        None => Some(status.clone()),
    };
    match told {
        Some(status) => core.publish(status),
        None => {
            tell!(debug, core, status, state = ?status.state, "held back by the circuit breaker");
        }
    }
}

async fn open(
    core: &Core,
    epoch: u64,
    mut pause: Duration,
    setbacks: &mut Setbacks,
) -> Arc<Session> {
    loop {
        if !pause.is_zero() {
            sleep(pause).await;
        }
        match core.open_session(epoch).await {
            Ok(session) => return session,
            Err(error) => pause = report(core, error, setbacks),
        }
    }
}

/// Reports a session that could not be opened, or was refused. Returns the pause before the next.
fn report(core: &Core, why: RawError, setbacks: &mut Setbacks) -> Duration {
    let error = Error::raw("session", "", why);
    setbacks.report_of(core, &error);
    if error.is_transient() { REOPEN_PAUSE } else { setbacks.pause_of(core) }
}

/// Ends the framework with the task, even if its runtime ends or a raw client panics, so that no
/// caller waits for it any longer.
struct FrameworkEnd {
    core: Arc<Core>,
    machine: StateMachine,
    session: Option<Arc<Session>>,
    /// The result of closing the session; `None` if the session was not closed yet.
    result: Option<Result<(), RawError>>,
}

impl FrameworkEnd {
    /// Returns the result for callers of `close`. If something is left, it is also reported in the
    /// background.
    fn answer(&mut self) -> Result<()> {
        let core = &self.core;
        let result = match self.result.take() {
            None => {
                let early = Error::new(ErrorKind::Closed, "close", "").with_source(ENDED_EARLY);
                core.report_background_error(early.clone());
                Err(early)
            }
            Some(Ok(())) => Ok(()),
            Some(Err(error)) => Err(core.error("close", "", error)),
        };
        let mut left = core.resources.left();
        if left.nodes() == 0 {
            return result;
        }
        left.session = result.err().map(Box::new);
        let error = Error::of_left_behind(left);
        core.report_background_error(error.clone());
        Err(error)
    }
}

impl Drop for FrameworkEnd {
    fn drop(&mut self) {
        if let Some(session) = &self.session {
            session.lost.cancel();
        }
        self.machine.step(StateInput::Closed);
        self.core.note(&self.machine.status());
        self.core.publish(self.machine.status());
        let answer = self.answer();
        self.core.stopped(answer);
    }
}
