//! The handshake of connections.

use bytes::Bytes;
use zk_curator_proto::Response;
use zk_curator_proto::records::{ConnectRequest, ConnectResponse, PASSWORD_LEN};

use super::state::State;
use crate::clock::millis;
use crate::ids::{MemberId, Place};
use crate::quorum::{Action, Handshake, Origin, Reply};
use crate::session::Sessions;

/// Opens or resumes a session. Returns it, or `None` if the connection was ended.
///
/// `legacy` clients send no read-only flag and receive none.
pub(crate) fn connect(
    state: &mut State,
    here: Place,
    request: &ConnectRequest,
    legacy: bool,
) -> Option<i64> {
    let Place { member: at, connection: id } = here;
    state.members[at].connections_mut().count_received(id);
    if let Some(reason) = reason_to_refuse(state, at, request) {
        tracing::info!(
            seen = request.last_zxid_seen,
            last = state.members[at].zxid(),
            "refused: {reason}"
        );
        state.cut(here);
        return None;
    }
    let read_only = state.quorum.is_read_only(at);
    let timeout = timeout(state, request);
    let opens = request.session_id == 0;
    let session = if opens {
        Some(state.sessions.create(here, timeout, read_only, state.clock.now()))
    } else {
        take_up(state, here, request, timeout)
    };
    let password = session.and_then(|session| state.sessions.password(session));
    let response = ConnectResponse {
        protocol_version: 0,
        timeout: session.map_or(0, |_| i32::try_from(timeout).unwrap_or(i32::MAX)),
        session_id: session.unwrap_or(0),
        password: password.or_else(|| Some(Bytes::from_static(&[0; PASSWORD_LEN]))),
        read_only,
    };
    if !state.members[at].connections_mut().attach(id, session) {
        return None;
    }
    let reply = Reply::Handshake(Box::new(Handshake { response, legacy }));
    let origin = Origin { place: here, reply };
    match session {
        // No other server knows a session of a read-only server, so it takes no transaction.
        Some(session) if opens && !read_only => {
            state.commit(session, [].into(), Action::OpenSession, Some(origin));
        }
        Some(_) => state.members[at].reply(&origin, Ok(&Response::Empty)),
        None => {
            tracing::info!(session = format_args!("{:#x}", request.session_id), "no such session");
            state.members[at].reply(&origin, Ok(&Response::Empty));
            state.seal(here);
        }
    }
    session
}

fn reason_to_refuse(state: &State, at: MemberId, request: &ConnectRequest) -> Option<&'static str> {
    let read_only = state.quorum.is_read_only(at);
    if !state.quorum.serves(at) {
        return Some("the server has no quorum");
    }
    if read_only && !request.read_only {
        return Some("the server is read-only, which the client does not accept");
    }
    if request.last_zxid_seen > state.members[at].zxid() {
        return Some("the client is ahead");
    }
    let is_global =
        || state.sessions.get(request.session_id).is_some_and(|session| !session.is_local());
    (read_only && is_global()).then_some("the session cannot continue at a read-only server")
}

/// Returns the negotiated timeout in milliseconds: that of the request, within the limits of the
/// server.
fn timeout(state: &State, request: &ConnectRequest) -> u64 {
    let asked = u64::try_from(request.timeout).unwrap_or(0);
    let (shortest, longest) = state.config.session_timeouts();
    asked.max(millis(shortest)).min(millis(longest))
}

/// Resumes a session on this connection, if it exists, this member knows it, and the password is
/// right.
fn take_up(state: &mut State, here: Place, request: &ConnectRequest, timeout: u64) -> Option<i64> {
    let id = request.session_id;
    // Another member does not learn of the move. Its connection ends when it is used.
    let before = state.sessions.get(id).and_then(|session| session.connection());
    if let Some(before) = before.filter(|before| before.member == here.member) {
        state.cut(before);
    }
    let password = request.password.as_deref().unwrap_or_default();
    let now = state.clock.now();
    let lives =
        knows(state, here.member, id) && state.sessions.reattach(id, password, here, timeout, now);
    lives.then_some(id)
}

/// Returns `true` if a member knows a session. A local session is known to one read-only server
/// only.
fn knows(state: &State, at: MemberId, session: i64) -> bool {
    state.sessions.get(session).is_some_and(|found| {
        !found.is_local() || (state.quorum.is_read_only(at) && Sessions::home(session) == at)
    })
}
