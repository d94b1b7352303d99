use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use tracing::{info, warn};

use super::{Input, StateMachine};
use crate::framework::{Core, Session};
use crate::janitor;
use crate::raw::RawStates;

/// The pause after a session that could not be opened, or whose credentials were refused.
const REOPEN_PAUSE: Duration = Duration::from_secs(1);

/// The one task that owns the session: publishes its states, opens the next one when it is lost, and closes
/// the last one.
pub(crate) async fn supervise(core: Arc<Core>, mut machine: StateMachine, first: Arc<Session>) {
    let janitor = tokio::spawn(janitor::run(Arc::clone(&core)));
    let mut session = first;
    loop {
        machine.step(Input::Opened);
        core.install(&session);
        tokio::select! {
            biased;
            () = core.shutdown.cancelled() => break,
            () = follow(&core, &mut machine, session.raw.states()) => {}
        }
        // Guards learn of it no later than listeners.
        session.lost.cancel();
        let refused = session.raw.session().is_none();
        core.publish(machine.status());
        tokio::select! {
            biased;
            () = core.shutdown.cancelled() => break,
            next = open_next(&core, session.epoch + 1, refused) => session = next,
        }
    }

    // What is still owed needs the session; whatever cannot be done in time ends with it, or stays.
    core.drain.cancel();
    if timeout(core.close_timeout(), janitor).await.is_err() {
        warn!("closing with cleanup still owed");
    }
    let result = session.raw.close().await;
    if let Err(error) = &result {
        warn!(%error, "the session could not be closed; it will expire");
    }
    session.lost.cancel();
    machine.step(Input::Closed);
    core.publish(machine.status());
    core.stopped(result);
}

/// Publishes the states of a session until it is over.
async fn follow(core: &Core, machine: &mut StateMachine, mut states: RawStates) {
    while let Some(state) = poll_fn(|cx| states.as_mut().poll_next(cx)).await {
        let over = state.end().is_some();
        if machine.step(Input::Raw(state)) && !over {
            info!(state = ?machine.status().state, "connection state");
            core.publish(machine.status());
        }
        if over {
            info!(?state, "session over");
            return;
        }
    }
}

async fn open_next(core: &Core, epoch: u64, mut pause: bool) -> Arc<Session> {
    loop {
        if pause {
            tokio::time::sleep(REOPEN_PAUSE).await;
        }
        match core.open_session(epoch).await {
            Ok(session) => return session,
            Err(error) => {
                warn!(%error, "no session could be opened");
                pause = true;
            }
        }
    }
}
