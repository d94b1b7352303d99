//! The end of a lost session. Its ephemeral nodes block other clients until a server knows of the
//! end.

use crate::core::{Core, Session, tell};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use zk_curator_client::internal::sleep;
use zk_curator_client::{Error as RawError, ExpiredBy, SessionCredentials, SessionState};

const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(3);

/// Tells the servers of the end of a session, which ended in the state `over`.
///
/// The raw client tries for the close timeout. If no server has ended the session, it may still be
/// alive when the servers are back, even after a long outage. So its credentials are kept until
/// another session is connected, and the lost session is ended through that server.
pub(super) async fn farewell(core: &Core, session: Arc<Session>, over: SessionState) {
    let credentials = match over {
        // The session was ended by the local clock, refused because of its credentials, or left by
        // a client that ended early.
        SessionState::Expired(ExpiredBy::Clock)
        | SessionState::AuthFailed
        | SessionState::Closed => session.raw.credentials(),
        _ => None,
    };
    let Some(credentials) = credentials else {
        let closed = session.raw.close().await;
        // A server has ended this session itself, so it knows.
        if let (Err(error), false) =
            (closed, matches!(over, SessionState::Expired(ExpiredBy::Server)))
        {
            tell!(warn, core, core.status(), %error, "the lost session ends at its timeout");
        }
        return;
    };
    let epoch = session.epoch;
    // Servers that kept running have already expired the session.
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
        Ok(()) = closed => tell!(info, core, core.status(), lost = %credentials.id, "the server has ended a lost session"),
    }
}

async fn end_through_next(core: &Core, epoch: u64, credentials: &SessionCredentials) {
    let mut pause = FIRST_PAUSE;
    loop {
        let session = core.connected_after(epoch).await;
        match session.raw.end_session(credentials.clone()).await {
            Ok(()) => {
                return tell!(info, core, core.status(), lost = %credentials.id, "the server has ended a lost session");
            }
            Err(error @ RawError::Unsupported(_)) => {
                return tell!(warn, core, core.status(), %error, "the lost session ends at its timeout");
            }
            Err(error) => {
                tell!(debug, core, core.status(), %error, "the lost session has not ended yet");
            }
        }
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}
