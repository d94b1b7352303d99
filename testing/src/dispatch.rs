//! Requests to answers, on the state.

use std::net::Ipv4Addr;

use zk_curator_proto::records::{
    AuthPacket, Children2Response, DataResponse, EventType, GetChildrenRequest, MultiOp, MultiResult,
    ReplyHeader, SetWatches2,
};
use zk_curator_proto::{ErrorCode, OpCode, Record, Request, Response, XID_PING};

use crate::state::State;
use crate::tree::Node;
use crate::watch::{ConnectionId, WatchMode};

impl State {
    /// Applies a request and queues its answer, after the watch events it triggers.
    pub(crate) fn handle(&mut self, id: ConnectionId, xid: i32, request: Request) {
        let Some(session) = self.connections.get(&id).and_then(|connection| connection.session) else {
            return;
        };
        *self.counters.requests.entry(request.opcode()).or_default() += 1;
        if let Request::Auth(packet) = request {
            self.authenticate(id, xid, &packet);
            return;
        }
        self.sessions.touch(session, self.now());
        match request {
            Request::Ping => self.answer(id, XID_PING, Ok(&Response::Empty)),
            Request::CloseSession => {
                self.end_session(session);
                self.answer(id, xid, Ok(&Response::Empty));
                self.seal(id);
            }
            request => {
                let response = self.respond(id, session, request);
                self.answer(id, xid, response.as_ref().map_err(|code| *code));
            }
        }
    }

    /// Answers a request with an error, without applying it.
    pub(crate) fn refuse(&mut self, id: ConnectionId, xid: i32, request: &Request, code: ErrorCode) {
        *self.counters.requests.entry(request.opcode()).or_default() += 1;
        self.touch(id);
        self.answer(id, xid, Err(code));
    }

    /// Answers a request whose body cannot be read, as Apache ZooKeeper does: with an error, and goes on. A write
    /// takes a transaction number even so.
    pub(crate) fn malformed(&mut self, id: ConnectionId, xid: i32, opcode: OpCode) {
        self.touch(id);
        let writes = matches!(
            opcode,
            OpCode::Create
                | OpCode::Create2
                | OpCode::CreateContainer
                | OpCode::CreateTtl
                | OpCode::Delete
                | OpCode::SetData
                | OpCode::Multi
        );
        self.zxid += i64::from(writes);
        self.answer(id, xid, Err(ErrorCode::MarshallingError));
    }

    /// Answers a request with an opcode that nobody knows, and ends the connection, as Apache ZooKeeper does.
    pub(crate) fn unimplemented(&mut self, id: ConnectionId, xid: i32) {
        self.touch(id);
        self.send(id, ReplyHeader { xid, zxid: -1, err: 0 }, Err(ErrorCode::Unimplemented));
        self.seal(id);
    }

    fn touch(&mut self, id: ConnectionId) {
        if let Some(session) = self.connections.get(&id).and_then(|connection| connection.session) {
            self.sessions.touch(session, self.now());
        }
    }

    fn answer(&self, id: ConnectionId, xid: i32, response: Result<&Response, ErrorCode>) {
        self.send(id, ReplyHeader { xid, zxid: self.zxid, err: 0 }, response);
    }

    fn send(&self, id: ConnectionId, mut header: ReplyHeader, response: Result<&Response, ErrorCode>) {
        let Some(connection) = self.connections.get(&id) else {
            return;
        };
        if let Err(code) = response {
            header.err = code.code();
        }
        connection.outbox.push(|out| {
            header.encode(out);
            if let Ok(response) = response {
                response.encode_body(out);
            }
        });
    }

    fn respond(&mut self, id: ConnectionId, session: i64, request: Request) -> Result<Response, ErrorCode> {
        match request {
            Request::Create(body) => self.write(session, MultiOp::Create(body)),
            Request::Create2(body) => self.write(session, MultiOp::Create2(body)),
            Request::CreateContainer(body) => self.write(session, MultiOp::CreateContainer(body)),
            Request::CreateTtl(body) => self.write(session, MultiOp::CreateTtl(body)),
            Request::Delete(body) => self.write(session, MultiOp::Delete(body)),
            Request::SetData(body) => self.write(session, MultiOp::SetData(body)),
            Request::Multi(ops) => {
                let txn = self.next_txn(session);
                let (results, changes) = self.tree.apply_multi(ops, txn);
                self.publish(&changes);
                Ok(Response::Multi(results))
            }
            Request::Sync(body) => Ok(Response::Path(body.path)),
            Request::Exists(body) => {
                if body.path.contains('\0') {
                    return Err(ErrorCode::BadArguments);
                }
                if body.watch {
                    self.watches.watch_data(&body.path, id);
                }
                self.node(&body.path).map(|node| Response::Stat(node.stat()))
            }
            Request::GetData(body) => {
                let node = self.node(&body.path)?;
                let response = DataResponse { data: node.data().cloned(), stat: node.stat() };
                if body.watch {
                    self.watches.watch_data(&body.path, id);
                }
                Ok(Response::Data(response))
            }
            Request::GetChildren(body) => self.list(&body, id).map(|list| Response::Children(list.children)),
            Request::GetChildren2(body) => self.list(&body, id).map(Response::Children2),
            Request::SetWatches(body) => {
                let body = SetWatches2 {
                    relative_zxid: body.relative_zxid,
                    data_watches: body.data_watches,
                    exist_watches: body.exist_watches,
                    child_watches: body.child_watches,
                    ..SetWatches2::default()
                };
                self.set_watches(id, body);
                Ok(Response::Empty)
            }
            Request::SetWatches2(body) => {
                self.set_watches(id, body);
                Ok(Response::Empty)
            }
            _ => Err(ErrorCode::Unimplemented),
        }
    }

    /// Every write takes a transaction number, a failed one too.
    fn write(&mut self, session: i64, op: MultiOp) -> Result<Response, ErrorCode> {
        let txn = self.next_txn(session);
        let (result, changes) = self.tree.apply(op, txn)?;
        self.publish(&changes);
        Ok(match result {
            MultiResult::Create(path) => Response::Path(path),
            MultiResult::Create2(body) => Response::Created(body),
            MultiResult::SetData(stat) => Response::Stat(stat),
            _ => Response::Empty,
        })
    }

    fn list(&mut self, body: &GetChildrenRequest, id: ConnectionId) -> Result<Children2Response, ErrorCode> {
        let node = self.node(&body.path)?;
        let children = node.child_names().map(ToString::to_string).collect();
        let response = Children2Response { children, stat: node.stat() };
        if body.watch {
            self.watches.watch_children(&body.path, id);
        }
        Ok(response)
    }

    /// Sets watches again after a reconnect. What has changed since the client last looked fires at once.
    fn set_watches(&mut self, id: ConnectionId, body: SetWatches2) {
        let missed = body.relative_zxid;
        for path in body.data_watches {
            match self.tree.get(&path) {
                None => self.notify(id, EventType::NodeDeleted, &path),
                Some(node) if node.mzxid() > missed => self.notify(id, EventType::NodeDataChanged, &path),
                Some(_) => self.watches.watch_data(&path, id),
            }
        }
        for path in body.exist_watches {
            match self.tree.get(&path) {
                None => self.watches.watch_data(&path, id),
                Some(_) => self.notify(id, EventType::NodeCreated, &path),
            }
        }
        for path in body.child_watches {
            match self.tree.get(&path) {
                None => self.notify(id, EventType::NodeDeleted, &path),
                Some(node) if node.pzxid() > missed => self.notify(id, EventType::NodeChildrenChanged, &path),
                Some(_) => self.watches.watch_children(&path, id),
            }
        }
        for path in body.persistent_watches {
            self.watches.watch_persistently(&path, id, WatchMode::Persistent);
        }
        for path in body.persistent_recursive_watches {
            self.watches.watch_persistently(&path, id, WatchMode::Recursive);
        }
    }

    /// Adds an identity to the connection. The answer carries no zxid; an unknown scheme, or credentials that
    /// are none, end the connection after it.
    fn authenticate(&mut self, id: ConnectionId, xid: i32, packet: &AuthPacket) {
        let header = ReplyHeader { xid, zxid: 0, err: 0 };
        let Some(identity) = identity(packet) else {
            self.send(id, header, Err(ErrorCode::AuthFailed));
            self.seal(id);
            return;
        };
        if let Some(connection) = self.connections.get_mut(&id)
            && !connection.identities.contains(&identity)
        {
            connection.identities.push(identity);
        }
        self.send(id, header, Ok(&Response::Empty));
    }

    fn node(&self, path: &str) -> Result<&Node, ErrorCode> {
        self.tree.get(path).ok_or(ErrorCode::NoNode)
    }
}

/// Scheme and public name of an identity.
fn identity(packet: &AuthPacket) -> Option<(String, String)> {
    let name = match packet.scheme.as_str() {
        "digest" => {
            let credentials = std::str::from_utf8(packet.auth.as_deref()?).ok()?;
            credentials.split(':').next()?.to_owned()
        }
        "ip" => Ipv4Addr::LOCALHOST.to_string(),
        "world" => "anyone".to_owned(),
        _ => return None,
    };
    Some((packet.scheme.clone(), name))
}
