//! Requests to answers, on the state: writes and what is about the session. Reads are in [`crate::reads`].

use zk_curator_proto::records::{AuthPacket, MultiOp, ReplyHeader, SaslToken};
use zk_curator_proto::{ErrorCode, OpCode, Request, Response};

use crate::ZooKeeperVersion;
use crate::access;
use crate::log::{Action, Origin, Reply};
use crate::member::{MemberId, needs_quorum};
use crate::session::Place;
use crate::state::State;
use crate::watch::ConnectionId;

impl State {
    /// Applies a request and queues its answer, after the watch events it triggers.
    pub(crate) fn handle(&mut self, at: MemberId, id: ConnectionId, xid: i32, request: Request) {
        let member = &mut self.members[at];
        let Some(session) = member.session_of(id) else {
            return;
        };
        let opcode = request.opcode();
        member.count_request(id, opcode);
        match &request {
            Request::Auth(packet) => return self.authenticate(at, id, xid, packet),
            Request::Sasl(token) => return self.exchange_token(at, id, xid, token),
            _ => {}
        }
        self.sessions.touch(session, self.clock.now());
        let member = &mut self.members[at];
        if member.read_only && needs_quorum(opcode) {
            return member.answer(id, xid, opcode, Err(ErrorCode::NotReadOnly));
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
            Request::Reconfig(_) if self.config.reconfig_enabled => Action::Fail(ErrorCode::Unimplemented),
            Request::Reconfig(_) => Action::Fail(ErrorCode::ReconfigDisabled),
            Request::CloseSession => Action::CloseSession,
            request => return self.read(at, id, session, xid, request),
        };
        let origin = Origin { member: at, connection: id, reply: Reply::Request { xid, opcode } };
        self.write(session, action, origin);
    }

    fn write(&mut self, session: i64, action: Action, origin: Origin) {
        let (at, id) = (origin.member, origin.connection);
        if let Action::CloseSession = action {
            return self.end_session(session, Some(origin));
        }
        let action = match self.objection(at, id, session) {
            Some(code) => Action::Fail(code),
            None => action,
        };
        let identities = self.members[at].identities(id);
        self.commit(session, identities, action, Some(origin));
    }

    /// Why the leader refuses a write that comes over this connection. Of a server alone, the connection would have
    /// ended.
    fn objection(&self, at: MemberId, id: ConnectionId, session: i64) -> Option<ErrorCode> {
        if self.is_alone() {
            return None;
        }
        let Some(session) = self.sessions.get(session) else {
            return Some(ErrorCode::SessionExpired);
        };
        let here = Place { member: at, connection: id };
        session.owner.is_some_and(|place| place != here).then_some(ErrorCode::SessionMoved)
    }

    fn read(&mut self, at: MemberId, id: ConnectionId, session: i64, xid: i32, request: Request) {
        if self.is_alone() {
            return self.members[at].answer_read(id, session, xid, request);
        }
        // Only the leader knows of the move.
        if self.leads(at) && self.objection(at, id, session) == Some(ErrorCode::SessionMoved) {
            return self.seal(at, id);
        }
        if request.opcode() == OpCode::Sync {
            self.catch_up_at_once(at);
        }
        self.members[at].read_in_turn(id, session, xid, request);
    }

    /// Answers a request with an error, without applying it.
    pub(crate) fn refuse(
        &mut self,
        at: MemberId,
        id: ConnectionId,
        xid: i32,
        request: &Request,
        code: ErrorCode,
    ) {
        self.members[at].count_request(id, request.opcode());
        self.touch(at, id);
        self.members[at].fail_in_turn(id, xid, request.opcode(), code);
    }

    /// Answers a request whose body cannot be read, as Apache ZooKeeper does: with an error, and goes on. In 3.8 a
    /// write takes a transaction number even so, in 3.9 only a multi does.
    pub(crate) fn malformed(&mut self, at: MemberId, id: ConnectionId, xid: i32, opcode: OpCode) {
        self.members[at].count_received(id);
        self.touch(at, id);
        if self.members[at].read_only && needs_quorum(opcode) {
            return self.members[at].answer(id, xid, opcode, Err(ErrorCode::NotReadOnly));
        }
        let writes = match self.config.version {
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
        if let Some(session) = self.members[at].session_of(id).filter(|_| writes) {
            let origin = Origin { member: at, connection: id, reply: Reply::Request { xid, opcode } };
            self.write(session, Action::Fail(ErrorCode::MarshallingError), origin);
        } else {
            self.members[at].fail_in_turn(id, xid, opcode, ErrorCode::MarshallingError);
        }
    }

    /// Answers a request with an opcode that nobody knows, and ends the connection, as Apache ZooKeeper does.
    pub(crate) fn unimplemented(&mut self, at: MemberId, id: ConnectionId, xid: i32) {
        let member = &mut self.members[at];
        member.count_received(id);
        member.send(id, ReplyHeader { xid, zxid: -1, err: 0 }, Err(ErrorCode::Unimplemented));
        self.touch(at, id);
        self.seal(at, id);
    }

    fn touch(&mut self, at: MemberId, id: ConnectionId) {
        if let Some(session) = self.members[at].session_of(id) {
            self.sessions.touch(session, self.clock.now());
        }
    }

    /// A server on which SASL is not configured answers every token with none, and proves nothing by it. A client
    /// that sends none ends its connection.
    fn exchange_token(&mut self, at: MemberId, id: ConnectionId, xid: i32, token: &SaslToken) {
        if token.token.is_none() {
            self.cut(at, id);
            return;
        }
        let answer = Response::Sasl(SaslToken { token: None });
        self.members[at].send(id, ReplyHeader { xid, zxid: 0, err: 0 }, Ok(&answer));
    }

    /// Adds an identity to the connection. The answer carries no zxid; an unknown scheme, or credentials that
    /// are none, end the connection after it.
    fn authenticate(&mut self, at: MemberId, id: ConnectionId, xid: i32, packet: &AuthPacket) {
        let header = ReplyHeader { xid, zxid: 0, err: 0 };
        let member = &mut self.members[at];
        let Some(connection) = member.connections.get_mut(&id) else {
            return;
        };
        let superuser = self.config.super_digest.as_deref();
        let Some(added) = access::authenticate(packet, connection.peer.ip(), superuser) else {
            member.send(id, header, Err(ErrorCode::AuthFailed));
            self.seal(at, id);
            return;
        };
        let mut identities = connection.identities.to_vec();
        for identity in added {
            if !identities.contains(&identity) {
                identities.push(identity);
            }
        }
        access::sort(&mut identities);
        connection.identities = identities.into();
        member.send(id, header, Ok(&Response::Empty));
    }
}
