//! [`Member`]: one server as far as it is its own: tree, watches and connections. What servers of an ensemble share
//! is in [`crate::state`]. No I/O and no waiting; answers and events go into the outboxes of the connections.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;

use zk_curator_proto::records::{
    EventType, KeeperState, MultiResult, Permissions, ReplyHeader, WatcherEvent,
};
use zk_curator_proto::{Encoder, ErrorCode, OpCode, Record, Request, Response, XID_NOTIFICATION, XID_PING};

use crate::ZooKeeperVersion;
use crate::access::{self, Identity};
use crate::builder::Config;
use crate::clock::Clock;
use crate::collections::Map;
use crate::four_letter;
use crate::log::{Action, Entry, Handshake, Origin, Reply};
use crate::outbox::Outbox;
use crate::tree::{Change, Tree, Txn};
use crate::watch::{ConnectionId, WatchTable};

/// Identifies a server within its ensemble, from zero.
pub(crate) type MemberId = usize;

/// A connection as the server sees it.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) outbox: Arc<Outbox>,
    /// The session, after the handshake.
    pub(crate) session: Option<i64>,
    /// The address of the client.
    pub(crate) peer: SocketAddr,
    pub(crate) traffic: Traffic,
    /// Who the connection is: the address, and what `auth` has added. Never credentials.
    pub(crate) identities: Arc<[Identity]>,
    /// What has to be answered first, because the server has not applied it yet, and what came after that.
    waiting: VecDeque<Waiting>,
}

/// What waits for its turn on a connection.
#[derive(Debug)]
enum Waiting {
    /// A transaction, which is in the log already.
    Transaction,
    /// What reads.
    Read { xid: i32, request: Request },
    /// What is refused.
    Failure { xid: i32, opcode: OpCode, code: ErrorCode },
}

/// What has gone over a connection since it was made or these numbers were reset.
#[derive(Debug, Clone)]
pub(crate) struct Traffic {
    pub(crate) received: u64,
    pub(crate) sent: u64,
    /// The last request, as the four-letter words name it.
    pub(crate) last_operation: &'static str,
    /// The last xid that was not negative.
    pub(crate) last_xid: i64,
    /// The zxid of the last answer.
    pub(crate) last_zxid: i64,
    /// When the last answer was given, in milliseconds since the server was made.
    pub(crate) last_response: u64,
    /// When the connection was made, in milliseconds since the Unix epoch.
    pub(crate) established: i64,
}

impl Traffic {
    pub(crate) const fn since(established: i64) -> Self {
        let last_operation = "NA";
        Self {
            received: 0,
            sent: 0,
            last_operation,
            last_xid: -1,
            last_zxid: -1,
            last_response: 0,
            established,
        }
    }
}

/// What has happened since the server was made.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counters {
    pub(crate) requests: Map<OpCode, u64>,
    pub(crate) notifications: u64,
    pub(crate) connections: u64,
    /// Packets, since the server was made or these two were reset.
    pub(crate) received: u64,
    pub(crate) sent: u64,
}

/// What a server is to the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// There are no others.
    Standalone,
    Leader,
    Follower,
    /// It has no leader.
    Looking,
}

/// A reason for a server not to apply what is committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lag {
    /// Which one it is.
    pub(crate) number: u64,
    /// How many milliseconds after the commit it applies; never while this is `None`.
    pub(crate) delay: Option<u64>,
}

/// What one server knows.
#[derive(Debug)]
pub(crate) struct Member {
    pub(super) config: Arc<Config>,
    pub(super) clock: Arc<Clock>,
    pub(super) tree: Tree,
    pub(super) watches: WatchTable,
    pub(super) connections: BTreeMap<ConnectionId, Connection>,
    pub(super) counters: Counters,
    /// What is traced, of which there is nothing here: set and told by four-letter words.
    pub(crate) trace_mask: i64,
    /// The last transaction it has applied.
    pub(super) zxid: i64,
    /// How many entries of the log it has applied.
    pub(super) applied: u64,
    /// How many entries of the log it has, applied or not.
    pub(super) logged: u64,
    /// What it is to the others.
    pub(super) role: Role,
    /// The epoch of the leader it is or follows.
    pub(super) epoch: i64,
    /// Whether it runs.
    pub(super) up: bool,
    /// Whether it does nothing, as if its process were suspended.
    pub(super) held: bool,
    /// Whether it was told to be read-only; in an ensemble it has no link to the others then.
    pub(super) is_apart: bool,
    /// The members it has links to have the same number here.
    pub(super) side: usize,
    /// What keeps it from applying what is committed.
    pub(super) lags: Vec<Lag>,
    /// Whether it has lost its quorum, and serves reads even so.
    pub(super) read_only: bool,
    /// The TCP port, if there is one.
    pub(super) port: Option<u16>,
    /// The TCP port with TLS, if there is one.
    pub(super) tls_port: Option<u16>,
    /// What the last transaction has done, where that is kept.
    pub(super) changes: Vec<Change>,
    next_connection: ConnectionId,
}

impl Member {
    pub(crate) fn new(config: &Arc<Config>, clock: &Arc<Clock>, alone: bool) -> Self {
        Self {
            tree: Tree::new(config),
            watches: WatchTable::new(config.version),
            connections: BTreeMap::new(),
            counters: Counters::default(),
            trace_mask: four_letter::DEFAULT_TRACE_MASK,
            zxid: 0,
            applied: 0,
            logged: 0,
            role: if alone { Role::Standalone } else { Role::Looking },
            epoch: 0,
            up: false,
            held: false,
            is_apart: alone && config.read_only,
            side: 0,
            lags: Vec::new(),
            read_only: alone && config.read_only,
            port: None,
            tls_port: None,
            changes: Vec::new(),
            next_connection: 1,
            config: Arc::clone(config),
            clock: Arc::clone(clock),
        }
    }

    /// Registers a connection before its handshake; `None` when its address has too many.
    pub(crate) fn open(&mut self, outbox: Arc<Outbox>, peer: SocketAddr) -> Option<ConnectionId> {
        if let Some(limit) = self.config.max_client_connections {
            let same = self.connections.values().filter(|connection| connection.peer.ip() == peer.ip());
            if same.count() >= limit {
                tracing::info!(%peer, limit, "refused: too many connections");
                return None;
            }
        }
        let id = self.next_connection;
        self.next_connection += 1;
        self.counters.connections += 1;
        let identities = [Identity::of_peer(peer.ip())].into();
        let traffic = Traffic::since(self.clock.time());
        let waiting = VecDeque::new();
        self.connections.insert(id, Connection { outbox, session: None, peer, traffic, identities, waiting });
        Some(id)
    }

    /// Whether it answers clients.
    pub(super) fn serves(&self) -> bool {
        self.role != Role::Looking || self.read_only
    }

    /// Forgets a connection and its watches.
    pub(super) fn detach(&mut self, id: ConnectionId) -> Option<Connection> {
        let connection = self.connections.remove(&id)?;
        self.watches.forget(id);
        Some(connection)
    }

    /// The session of a connection, after the handshake.
    pub(super) fn session_of(&self, id: ConnectionId) -> Option<i64> {
        self.connections.get(&id)?.session
    }

    /// The connections of a session. There are several when it has moved away and back.
    pub(super) fn connections_of(&self, session: i64) -> Vec<ConnectionId> {
        let of = |(id, connection): (&ConnectionId, &Connection)| {
            (connection.session == Some(session)).then_some(*id)
        };
        self.connections.iter().filter_map(of).collect()
    }

    /// Who a connection is.
    pub(super) fn identities(&self, id: ConnectionId) -> Arc<[Identity]> {
        self.connections.get(&id).map_or_else(|| [].into(), |connection| Arc::clone(&connection.identities))
    }

    /// Does what a transaction does, and sends the watch events of it: before the answer to the write that made
    /// them.
    pub(super) fn apply(&mut self, entry: Entry) -> Result<Response, ErrorCode> {
        let Entry { zxid, time, session, identities, action, .. } = entry;
        self.zxid = zxid;
        let txn = Txn { session, identities: &identities, zxid, time };
        match action {
            Action::Write(op) => {
                let (result, changes) = self.tree.apply(op, txn)?;
                self.publish(changes);
                Ok(match result {
                    MultiResult::Create(path) => Response::Path(path),
                    MultiResult::Create2(body) => Response::Created(body),
                    MultiResult::SetData(stat) => Response::Stat(stat),
                    _ => Response::Empty,
                })
            }
            Action::Multi(ops) => {
                let (results, changes) = self.tree.apply_multi(ops, txn)?;
                self.publish(changes);
                Ok(Response::Multi(results))
            }
            Action::SetAcl(body) => self.tree.set_acl(body, txn).map(Response::Stat),
            Action::Fail(code) => Err(code),
            Action::CloseSession => {
                let changes = self.tree.close_session(session, zxid);
                self.publish(changes);
                Ok(Response::Empty)
            }
            Action::Reap(path) => {
                let changes = self.tree.reap(&path, zxid)?;
                self.publish(changes);
                Ok(Response::Empty)
            }
            Action::SetSequence { path, next } => {
                self.tree.set_sequence(&path, next).map(|()| Response::Empty)
            }
            Action::OpenSession | Action::Lead => Ok(Response::Empty),
        }
    }

    /// Answers whoever waits for a transaction that was just applied.
    pub(super) fn reply(&mut self, origin: &Origin, response: Result<&Response, ErrorCode>) {
        match &origin.reply {
            Reply::Request { xid, opcode } => self.answer(origin.connection, *xid, *opcode, response),
            Reply::Handshake(handshake) => self.shake_hands(origin.connection, handshake),
        }
    }

    fn shake_hands(&mut self, id: ConnectionId, handshake: &Handshake) {
        let (zxid, now) = (self.zxid, self.clock.now());
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        connection.traffic.last_operation = "SESS";
        connection.traffic.last_zxid = zxid;
        connection.traffic.last_response = now;
        let Handshake { response, legacy } = handshake;
        self.push(id, |out| {
            if *legacy {
                out.i32(response.protocol_version);
                out.i32(response.timeout);
                out.i64(response.session_id);
                out.buffer(response.password.as_deref());
            } else {
                response.encode(out);
            }
        });
    }

    /// Notes that a transaction of a connection is in the log.
    pub(super) fn wait_for_transaction(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.waiting.push_back(Waiting::Transaction);
        }
    }

    /// How many requests of a connection wait.
    pub(super) fn waiting(&self, id: ConnectionId) -> usize {
        self.connections.get(&id).map_or(0, |connection| connection.waiting.len())
    }

    /// Answers what takes no transaction, when everything before it has been answered.
    pub(super) fn read_in_turn(&mut self, id: ConnectionId, session: i64, xid: i32, request: Request) {
        match self.connections.get_mut(&id) {
            Some(connection) if !connection.waiting.is_empty() => {
                connection.waiting.push_back(Waiting::Read { xid, request });
            }
            _ => self.answer_read(id, session, xid, request),
        }
    }

    /// Answers with an error when everything before has been answered.
    pub(super) fn fail_in_turn(&mut self, id: ConnectionId, xid: i32, opcode: OpCode, code: ErrorCode) {
        match self.connections.get_mut(&id) {
            Some(connection) if !connection.waiting.is_empty() => {
                connection.waiting.push_back(Waiting::Failure { xid, opcode, code });
            }
            _ => self.answer(id, xid, opcode, Err(code)),
        }
    }

    /// Goes on after the transaction that was waited for.
    pub(super) fn go_on(&mut self, id: ConnectionId) {
        let mut is_first = true;
        while let Some(connection) = self.connections.get_mut(&id) {
            if !is_first && matches!(connection.waiting.front(), Some(Waiting::Transaction)) {
                return;
            }
            is_first = false;
            match connection.waiting.pop_front() {
                Some(Waiting::Transaction) => {}
                Some(Waiting::Read { xid, request }) => {
                    let session = connection.session.unwrap_or_default();
                    self.answer_read(id, session, xid, request);
                }
                Some(Waiting::Failure { xid, opcode, code }) => self.answer(id, xid, opcode, Err(code)),
                None => return,
            }
        }
    }

    /// Answers what takes no transaction.
    pub(super) fn answer_read(&mut self, id: ConnectionId, session: i64, xid: i32, request: Request) {
        let opcode = request.opcode();
        if opcode == OpCode::Ping {
            self.answer(id, XID_PING, opcode, Ok(&Response::Empty));
            return;
        }
        let identities = self.identities(id);
        let response = self.read(id, session, &identities, request);
        self.answer(id, xid, opcode, response.as_ref().map_err(|code| *code));
    }

    pub(super) fn answer(
        &mut self,
        id: ConnectionId,
        xid: i32,
        opcode: OpCode,
        response: Result<&Response, ErrorCode>,
    ) {
        let (zxid, now) = (self.zxid, self.clock.now());
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

    pub(super) fn send(
        &mut self,
        id: ConnectionId,
        mut header: ReplyHeader,
        response: Result<&Response, ErrorCode>,
    ) {
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

    /// Sends the watch events of changes.
    fn publish(&mut self, changes: Vec<Change>) {
        let zxid = match self.config.version {
            ZooKeeperVersion::V3_8 => -1,
            ZooKeeperVersion::V3_9 => self.zxid,
        };
        for change in &changes {
            for notification in self.watches.trigger(change) {
                let Some(connection) = self.connections.get(&notification.watcher) else { continue };
                if access::check(&notification.acl, Permissions::READ, &connection.identities).is_ok() {
                    self.notify(notification.watcher, notification.event, &notification.path, zxid);
                }
            }
        }
        if self.config.keep_writes {
            self.changes = changes;
        }
    }

    pub(super) fn notify(&mut self, watcher: ConnectionId, event: EventType, path: &str, zxid: i64) {
        let sent = self.push(watcher, |out| {
            ReplyHeader { xid: XID_NOTIFICATION, zxid, err: 0 }.encode(out);
            let state = KeeperState::SyncConnected.code();
            WatcherEvent { event_type: event as i32, state, path: path.to_owned() }.encode(out);
        });
        self.counters.notifications += u64::from(sent);
    }

    /// Queues a frame; whether the connection still takes any.
    fn push(&mut self, id: ConnectionId, fill: impl FnOnce(&mut Encoder)) -> bool {
        let Some(connection) = self.connections.get_mut(&id) else {
            return false;
        };
        let sent = connection.outbox.push(fill);
        connection.traffic.sent += u64::from(sent);
        self.counters.sent += u64::from(sent);
        sent
    }

    pub(super) fn count_received(&mut self, id: ConnectionId) {
        self.counters.received += 1;
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.traffic.received += 1;
        }
    }

    /// Counts a request.
    pub(super) fn count_request(&mut self, id: ConnectionId, opcode: OpCode) {
        *self.counters.requests.entry(opcode).or_default() += 1;
        self.count_received(id);
    }
}

/// Whether a read-only server cannot do it.
pub(super) const fn needs_quorum(opcode: OpCode) -> bool {
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
