//! The end of a session that was given up: its ephemeral nodes are in the way of others until a server knows.

use crate::core::{Core, Session, tell};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use zk_curator_client::{Error as RawError, ExpiredBy, SessionCredentials, SessionState};

const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(3);

/// Sees to it that the servers learn of the end of a session, which ended in the state `over`.
///
/// The raw client tries for the close timeout. A session that no server has ended may be alive for the servers when these
/// are back, however long they were away: its credentials are kept until another session is connected, and it is ended through
/// that one's server.
pub(super) async fn farewell(core: &Core, session: Arc<Session>, over: SessionState) {
    let credentials = match over {
        // Ended by our clock, refused because of the credentials, or left by a client that has ended early.
        SessionState::Expired(ExpiredBy::Clock) | SessionState::AuthFailed | SessionState::Closed => {
            session.raw.credentials()
        }
        _ => None,
    };
    let Some(credentials) = credentials else {
        let closed = session.raw.close().await;
        // What a server has ended it knows.
        if let (Err(error), false) = (closed, matches!(over, SessionState::Expired(ExpiredBy::Server))) {
            tell!(warn, core, core.status(), %error, "the lost session ends at its timeout");
        }
        return;
    };
    let epoch = session.epoch;
    // Servers that were there all the time have expired it by then.
    let limit = match over {
        SessionState::Expired(_) => None,
        _ => session.raw.session().map(|session| session.timeout),
    };
    let closed = async {
        let closed = session.raw.close().await;
        drop(session);
        closed
    };
    let later = async {
        let later = end_through_next(core, epoch, &credentials);
        match limit {
            Some(limit) => drop(timeout(limit, later).await),
            None => later.await,
        }
    };
    tokio::select! {
        biased;
        () = later => {}
        Ok(()) = closed => tell!(info, core, core.status(), lost = %credentials.id, "the server was told of a lost session"),
    }
}

async fn end_through_next(core: &Core, epoch: u64, credentials: &SessionCredentials) {
    let mut pause = FIRST_PAUSE;
    loop {
        let session = core.connected_after(epoch).await;
        match session.raw.end_session(credentials.clone()).await {
            Ok(()) => {
                return tell!(info, core, core.status(), lost = %credentials.id, "the server was told of a lost session");
            }
            Err(error @ RawError::Unsupported(_)) => {
                return tell!(warn, core, core.status(), %error, "the lost session ends at its timeout");
            }
            Err(error) => {
                tell!(debug, core, core.status(), %error, "the server was not told of a lost session");
            }
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}
