//! Requests of clients. Writes and session requests are handled here, reads by the member.

use zk_curator_proto::records::{AuthPacket, MultiOp, ReplyHeader, SaslToken};
use zk_curator_proto::{ErrorCode, OpCode, Request, Response};

use super::journal::Fault;
use super::state::State;
use crate::access;
use crate::ids::Place;
use crate::member::{Connection, needs_quorum};
use crate::quorum::{Action, Origin, Reply};
use crate::rule::{RuleRequest, Verdict};
use crate::version::ZooKeeperVersion;

/// Applies a request and queues its response, after the watch events it triggers.
pub(crate) fn handle(state: &mut State, here: Place, xid: i32, request: Request) {
    let Place { member: at, connection: id } = here;
    let member = &mut state.members[at];
    let Some(session) = member.connections().session_of(id) else {
        return;
    };
    let opcode = request.opcode();
    member.connections_mut().count_request(id, opcode);
    match &request {
        Request::Auth(packet) => return authenticate(state, here, xid, packet),
        Request::Sasl(token) => return exchange_token(state, here, xid, token),
        _ => {}
    }
    state.touch(session);
    if state.quorum.is_read_only(at) && needs_quorum(opcode) {
        return state.members[at].answer(id, xid, opcode, Err(ErrorCode::NotReadOnly));
    }
    let action = match request {
        Request::Create(body) => Action::Write(MultiOp::Create(body)),
        Request::Create2(body) => Action::Write(MultiOp::Create2(body)),
        Request::CreateContainer(body) => Action::Write(MultiOp::CreateContainer(body)),
        Request::CreateTtl(body) => Action::Write(MultiOp::CreateTtl(body)),
        Request::Delete(body) => Action::Write(MultiOp::Delete(body)),
        Request::SetData(body) => Action::Write(MultiOp::SetData(body)),
        Request::Multi(ops) => Action::Multi(ops),
        Request::SetAcl(body) => Action::SetAcl(body),
        Request::Reconfig(_) if state.config.reconfig_enabled => {
            Action::Fail(ErrorCode::Unimplemented)
        }
        Request::Reconfig(_) => Action::Fail(ErrorCode::ReconfigDisabled),
        Request::CloseSession => Action::CloseSession,
        request => return read(state, here, session, xid, request),
    };
    write(state, session, action, Origin { place: here, reply: Reply::Request { xid, opcode } });
}

fn write(state: &mut State, session: i64, action: Action, origin: Origin) {
    if let Action::CloseSession = action {
        return state.end_session(session, Some(origin));
    }
    let Place { member, connection } = origin.place;
    let action = match objection(state, origin.place, session) {
        Some(code) => Action::Fail(code),
        None => action,
    };
    let identities = state.members[member].connections().identities(connection);
    state.commit(session, identities, action, Some(origin));
}

/// Returns the reason for the leader to refuse a write from this connection. A single server has
/// ended such a connection already.
fn objection(state: &State, here: Place, session: i64) -> Option<ErrorCode> {
    if state.is_alone() {
        return None;
    }
    let Some(session) = state.sessions.get(session) else {
        return Some(ErrorCode::SessionExpired);
    };
    session.owner().is_some_and(|place| place != here).then_some(ErrorCode::SessionMoved)
}

fn read(state: &mut State, here: Place, session: i64, xid: i32, request: Request) {
    let Place { member: at, connection: id } = here;
    // Only the leader knows of the move.
    if state.quorum.leads(at) && objection(state, here, session) == Some(ErrorCode::SessionMoved) {
        return state.seal(here);
    }
    if request.opcode() == OpCode::Sync {
        state.catch_up_at_once(at);
    }
    state.members[at].read_in_turn(id, xid, request);
}

/// Responds to a request with an error, without applying it.
pub(crate) fn refuse(state: &mut State, here: Place, xid: i32, request: &Request, code: ErrorCode) {
    let member = &mut state.members[here.member];
    member.connections_mut().count_request(here.connection, request.opcode());
    touch(state, here);
    state.members[here.member].fail_in_turn(here.connection, xid, request.opcode(), code);
}

/// Responds to a request with an undecodable body with an error, as Apache ZooKeeper does. The
/// connection continues. In 3.8 such a write uses a zxid, in 3.9 only a multi does.
pub(crate) fn malformed(state: &mut State, here: Place, xid: i32, opcode: OpCode) {
    let Place { member: at, connection: id } = here;
    state.members[at].connections_mut().count_received(id);
    touch(state, here);
    if state.quorum.is_read_only(at) && needs_quorum(opcode) {
        return state.members[at].answer(id, xid, opcode, Err(ErrorCode::NotReadOnly));
    }
    let writes = match state.config.version {
        ZooKeeperVersion::V3_8 => matches!(
            opcode,
            OpCode::Create
                | OpCode::Create2
                | OpCode::CreateContainer
                | OpCode::CreateTtl
                | OpCode::Delete
                | OpCode::SetData
                | OpCode::SetAcl
                | OpCode::Multi
        ),
        ZooKeeperVersion::V3_9 => opcode == OpCode::Multi,
    };
    if let Some(session) = state.members[at].connections().session_of(id).filter(|_| writes) {
        let origin = Origin { place: here, reply: Reply::Request { xid, opcode } };
        write(state, session, Action::Fail(ErrorCode::MarshallingError), origin);
    } else {
        state.members[at].fail_in_turn(id, xid, opcode, ErrorCode::MarshallingError);
    }
}

/// Responds to a request with an unknown opcode, and ends the connection, as Apache ZooKeeper does.
pub(crate) fn unimplemented(state: &mut State, here: Place, xid: i32) {
    let connections = state.members[here.member].connections_mut();
    connections.count_received(here.connection);
    let header = ReplyHeader { xid, zxid: -1, err: 0 };
    connections.send(here.connection, header, Err(ErrorCode::Unimplemented));
    touch(state, here);
    state.seal(here);
}

fn touch(state: &mut State, here: Place) {
    if let Some(session) = state.members[here.member].connections().session_of(here.connection) {
        state.touch(session);
    }
}

/// Responds to a SASL token without a token: SASL is not configured, and nothing is proven. A
/// request without a token ends the connection.
fn exchange_token(state: &mut State, here: Place, xid: i32, token: &SaslToken) {
    if token.token.is_none() {
        state.cut(here);
        return;
    }
    let answer = Response::Sasl(SaslToken { token: None });
    let header = ReplyHeader { xid, zxid: 0, err: 0 };
    state.members[here.member].connections_mut().send(here.connection, header, Ok(&answer));
}

/// Adds an identity to the connection. The response has no zxid. An unknown scheme or invalid
/// credentials end the connection after the response.
fn authenticate(state: &mut State, here: Place, xid: i32, packet: &AuthPacket) {
    let header = ReplyHeader { xid, zxid: 0, err: 0 };
    let connections = state.members[here.member].connections_mut();
    let Some(peer) = connections.get(here.connection).map(Connection::peer) else {
        return;
    };
    let superuser = state.config.super_digest.as_deref();
    if let Some(proven) = access::authenticate(packet, peer.ip(), superuser) {
        connections.add_identities(here.connection, proven);
        connections.send(here.connection, header, Ok(&Response::Empty));
    } else {
        connections.send(here.connection, header, Err(ErrorCode::AuthFailed));
        state.seal(here);
    }
}

/// Records the verdict of a rule, if it is a fault.
pub(crate) fn record_verdict(
    state: &mut State,
    here: Place,
    session: i64,
    request: &Request,
    verdict: Verdict,
) {
    if verdict != Verdict::Pass {
        let path = RuleRequest::new(session, request).path().map(str::to_owned);
        let session = state.sessions.number(session);
        let fault = Fault::Rule { verdict, session, opcode: request.opcode(), path };
        state.record(Some(here.member), fault);
    }
}
