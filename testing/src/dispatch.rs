//! Requests to answers, on the state: writes and what is about the session. Reads are in [`crate::reads`].

use zk_curator_proto::records::{AuthPacket, MultiOp, MultiResult, ReplyHeader, SaslToken};
use zk_curator_proto::{ErrorCode, OpCode, Record, Request, Response, XID_PING};

use crate::ZooKeeperVersion;
use crate::access::{self, Identity};
use crate::four_letter;
use crate::state::State;
use crate::watch::ConnectionId;

impl State {
    /// Applies a request and queues its answer, after the watch events it triggers.
    pub(crate) fn handle(&mut self, id: ConnectionId, xid: i32, request: Request) {
        let Some(session) = self.connections.get(&id).and_then(|connection| connection.session) else {
            return;
        };
        *self.counters.requests.entry(request.opcode()).or_default() += 1;
        self.count_received(id);
        match &request {
            Request::Auth(packet) => return self.authenticate(id, xid, packet),
            Request::Sasl(token) => return self.exchange_token(id, xid, token),
            _ => {}
        }
        self.sessions.touch(session, self.now());
        let opcode = request.opcode();
        match request {
            Request::Ping => self.answer(id, XID_PING, opcode, Ok(&Response::Empty)),
            Request::CloseSession => {
                let local = self.sessions.get(session).is_some_and(|session| session.local);
                self.end_session(session, local);
                self.answer(id, xid, opcode, Ok(&Response::Empty));
                self.seal(id);
            }
            _ if self.read_only && needs_quorum(opcode) => {
                self.answer(id, xid, opcode, Err(ErrorCode::NotReadOnly));
            }
            request => {
                let response = self.respond(id, session, request);
                self.answer(id, xid, opcode, response.as_ref().map_err(|code| *code));
            }
        }
    }

    /// Answers a request with an error, without applying it.
    pub(crate) fn refuse(&mut self, id: ConnectionId, xid: i32, request: &Request, code: ErrorCode) {
        *self.counters.requests.entry(request.opcode()).or_default() += 1;
        self.count_received(id);
        self.touch(id);
        self.answer(id, xid, request.opcode(), Err(code));
    }

    /// Answers a request whose body cannot be read, as Apache ZooKeeper does: with an error, and goes on. In 3.8 a
    /// write takes a transaction number even so, in 3.9 only a multi does.
    pub(crate) fn malformed(&mut self, id: ConnectionId, xid: i32, opcode: OpCode) {
        self.count_received(id);
        self.touch(id);
        if self.read_only && needs_quorum(opcode) {
            self.answer(id, xid, opcode, Err(ErrorCode::NotReadOnly));
            return;
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
        self.zxid += i64::from(writes);
        self.answer(id, xid, opcode, Err(ErrorCode::MarshallingError));
    }

    /// Answers a request with an opcode that nobody knows, and ends the connection, as Apache ZooKeeper does.
    pub(crate) fn unimplemented(&mut self, id: ConnectionId, xid: i32) {
        self.count_received(id);
        self.touch(id);
        self.send(id, ReplyHeader { xid, zxid: -1, err: 0 }, Err(ErrorCode::Unimplemented));
        self.seal(id);
    }

    fn touch(&mut self, id: ConnectionId) {
        if let Some(session) = self.connections.get(&id).and_then(|connection| connection.session) {
            self.sessions.touch(session, self.now());
        }
    }

    fn answer(&mut self, id: ConnectionId, xid: i32, opcode: OpCode, response: Result<&Response, ErrorCode>) {
        let (zxid, now) = (self.zxid, self.now());
        if let Some(connection) = self.connections.get_mut(&id) {
            let traffic = &mut connection.traffic;
            traffic.last_operation = match response {
                Err(_) if needs_quorum(opcode) => "NA",
                _ => four_letter::operation(opcode),
            };
            if xid >= 0 {
                traffic.last_xid = xid.into();
            }
            (traffic.last_zxid, traffic.last_response) = (zxid, now);
        }
        self.send(id, ReplyHeader { xid, zxid, err: 0 }, response);
    }

    fn send(&mut self, id: ConnectionId, mut header: ReplyHeader, response: Result<&Response, ErrorCode>) {
        if let Err(code) = response {
            header.err = code.code();
        }
        self.push(id, |out| {
            header.encode(out);
            if let Ok(response) = response {
                response.encode_body(out);
            }
        });
    }

    fn respond(&mut self, id: ConnectionId, session: i64, request: Request) -> Result<Response, ErrorCode> {
        let identities = self.identities(id);
        match request {
            Request::Create(body) => self.write(session, &identities, MultiOp::Create(body)),
            Request::Create2(body) => self.write(session, &identities, MultiOp::Create2(body)),
            Request::CreateContainer(body) => {
                self.write(session, &identities, MultiOp::CreateContainer(body))
            }
            Request::CreateTtl(body) => self.write(session, &identities, MultiOp::CreateTtl(body)),
            Request::Delete(body) => self.write(session, &identities, MultiOp::Delete(body)),
            Request::SetData(body) => self.write(session, &identities, MultiOp::SetData(body)),
            Request::Multi(ops) => {
                let txn = self.next_txn(session, &identities);
                let (results, changes) = self.tree.apply_multi(ops, txn)?;
                self.publish(&changes);
                Ok(Response::Multi(results))
            }
            Request::SetAcl(body) => {
                let txn = self.next_txn(session, &identities);
                self.tree.set_acl(body, txn).map(Response::Stat)
            }
            Request::Reconfig(_) => {
                self.next_zxid();
                Err(ErrorCode::ReconfigDisabled)
            }
            request => self.read(id, session, &identities, request),
        }
    }

    fn write(&mut self, session: i64, who: &[Identity], op: MultiOp) -> Result<Response, ErrorCode> {
        let txn = self.next_txn(session, who);
        let (result, changes) = self.tree.apply(op, txn)?;
        self.publish(&changes);
        Ok(match result {
            MultiResult::Create(path) => Response::Path(path),
            MultiResult::Create2(body) => Response::Created(body),
            MultiResult::SetData(stat) => Response::Stat(stat),
            _ => Response::Empty,
        })
    }

    /// A server on which SASL is not configured answers every token with none, and proves nothing by it. A client
    /// that sends none ends its connection.
    fn exchange_token(&mut self, id: ConnectionId, xid: i32, token: &SaslToken) {
        if token.token.is_none() {
            self.cut(id);
            return;
        }
        let answer = Response::Sasl(SaslToken { token: None });
        self.send(id, ReplyHeader { xid, zxid: 0, err: 0 }, Ok(&answer));
    }

    /// Adds an identity to the connection. The answer carries no zxid; an unknown scheme, or credentials that
    /// are none, end the connection after it.
    fn authenticate(&mut self, id: ConnectionId, xid: i32, packet: &AuthPacket) {
        let header = ReplyHeader { xid, zxid: 0, err: 0 };
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        let superuser = self.config.super_digest.as_deref();
        let Some(added) = access::authenticate(packet, connection.peer.ip(), superuser) else {
            self.send(id, header, Err(ErrorCode::AuthFailed));
            self.seal(id);
            return;
        };
        let mut identities = connection.identities.to_vec();
        for identity in added {
            if !identities.contains(&identity) {
                identities.push(identity);
            }
        }
        connection.identities = identities.into();
        self.send(id, header, Ok(&Response::Empty));
    }
}

/// Whether a read-only server cannot do it.
const fn needs_quorum(opcode: OpCode) -> bool {
    matches!(
        opcode,
        OpCode::Sync
            | OpCode::Create
            | OpCode::Create2
            | OpCode::CreateTtl
            | OpCode::CreateContainer
            | OpCode::Delete
            | OpCode::SetData
            | OpCode::Reconfig
            | OpCode::SetAcl
            | OpCode::Multi
    )
}
