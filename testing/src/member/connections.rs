//! [`Connections`]: the connections of a member, their queues of waiting requests, and their
//! counters.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;

use zk_curator_proto::records::{EventType, KeeperState, ReplyHeader, WatcherEvent};
use zk_curator_proto::{Encoder, ErrorCode, OpCode, Record, Request, Response, XID_NOTIFICATION};

use super::operations::{needs_quorum, short_name};
use super::outbox::Outbox;
use super::traffic::{Counters, Traffic};
use crate::access::{self, Identity};
use crate::clock::Clock;
use crate::ids::ConnectionId;
use crate::quorum::Handshake;

/// A connection. Only [`Connections`] changes it.
#[derive(Debug)]
pub(crate) struct Connection {
    outbox: Arc<Outbox>,
    session: Option<i64>,
    peer: SocketAddr,
    traffic: Traffic,
    identities: Arc<[Identity]>,
    /// Transactions that the member has not applied yet, and requests behind them. The first entry,
    /// if there is one, is a transaction.
    waiting: VecDeque<Waiting>,
}

/// An entry of the queue of a connection.
#[derive(Debug)]
enum Waiting {
    /// A transaction, which is in the log already.
    Transaction,
    Other(Deferred),
}

/// A request without a transaction. Its response comes after the transactions before it.
#[derive(Debug)]
pub(super) enum Deferred {
    Read {
        xid: i32,
        request: Request,
    },
    /// A refused request.
    Failure {
        xid: i32,
        opcode: OpCode,
        code: ErrorCode,
    },
}

impl Connection {
    /// The session, after the handshake.
    pub(crate) const fn session(&self) -> Option<i64> {
        self.session
    }

    /// The address of the client.
    pub(crate) const fn peer(&self) -> SocketAddr {
        self.peer
    }

    pub(crate) const fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    /// The identities of the connection: the address, and those added by `auth`. Never credentials.
    pub(crate) const fn identities(&self) -> &Arc<[Identity]> {
        &self.identities
    }

    /// The queue of outgoing frames.
    pub(crate) const fn outbox(&self) -> &Arc<Outbox> {
        &self.outbox
    }
}

/// The connections of a member, and their counters. Ids are never reused.
#[derive(Debug)]
pub(crate) struct Connections {
    by_id: BTreeMap<ConnectionId, Connection>,
    next_id: ConnectionId,
    counters: Counters,
    clock: Arc<Clock>,
}

impl Connections {
    pub(super) fn new(clock: &Arc<Clock>) -> Self {
        Self {
            by_id: BTreeMap::new(),
            next_id: 1,
            counters: Counters::default(),
            clock: Arc::clone(clock),
        }
    }

    /// Registers a connection before its handshake; `None` if its address already has `limit`
    /// connections.
    pub(crate) fn open(
        &mut self,
        outbox: Arc<Outbox>,
        peer: SocketAddr,
        limit: Option<usize>,
    ) -> Option<ConnectionId> {
        if let Some(limit) = limit {
            let same = self.by_id.values().filter(|connection| connection.peer.ip() == peer.ip());
            if same.count() >= limit {
                tracing::info!(%peer, limit, "refused: too many connections");
                return None;
            }
        }
        let id = self.next_id;
        self.next_id += 1;
        self.counters.connections += 1;
        let identities = [Identity::of_peer(peer.ip())].into();
        let traffic = Traffic::since(self.clock.time());
        let waiting = VecDeque::new();
        self.by_id
            .insert(id, Connection { outbox, session: None, peer, traffic, identities, waiting });
        Some(id)
    }

    pub(super) fn remove(&mut self, id: ConnectionId) -> Option<Connection> {
        self.by_id.remove(&id)
    }

    /// Sets the session of a connection after the handshake. Returns `true` if the connection still
    /// exists.
    pub(crate) fn attach(&mut self, id: ConnectionId, session: Option<i64>) -> bool {
        let connection = self.by_id.get_mut(&id);
        connection.map(|connection| connection.session = session).is_some()
    }

    pub(crate) fn get(&self, id: ConnectionId) -> Option<&Connection> {
        self.by_id.get(&id)
    }

    /// Returns all connections, in the order of their creation.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Connection> {
        self.by_id.values()
    }

    /// Returns all ids, in the order of creation.
    pub(crate) fn ids(&self) -> Vec<ConnectionId> {
        self.by_id.keys().copied().collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Returns the session of a connection, after the handshake.
    pub(crate) fn session_of(&self, id: ConnectionId) -> Option<i64> {
        self.by_id.get(&id)?.session
    }

    /// Returns the connections of a session. There are several if it has moved away and back.
    pub(crate) fn of_session(&self, session: i64) -> Vec<ConnectionId> {
        let of = |(id, connection): (&ConnectionId, &Connection)| {
            (connection.session == Some(session)).then_some(*id)
        };
        self.by_id.iter().filter_map(of).collect()
    }

    /// Returns the identities of a connection.
    pub(crate) fn identities(&self, id: ConnectionId) -> Arc<[Identity]> {
        self.by_id
            .get(&id)
            .map_or_else(|| [].into(), |connection| Arc::clone(&connection.identities))
    }

    /// Adds proven identities to a connection.
    pub(crate) fn add_identities(&mut self, id: ConnectionId, proven: Vec<Identity>) {
        let Some(connection) = self.by_id.get_mut(&id) else { return };
        let mut identities = connection.identities.to_vec();
        for identity in proven {
            if !identities.contains(&identity) {
                identities.push(identity);
            }
        }
        access::sort(&mut identities);
        connection.identities = identities.into();
    }

    /// Returns the counters of the member.
    pub(crate) const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Counts a received packet.
    pub(crate) fn count_received(&mut self, id: ConnectionId) {
        self.counters.received += 1;
        if let Some(connection) = self.by_id.get_mut(&id) {
            connection.traffic.received += 1;
        }
    }

    /// Counts a request.
    pub(crate) fn count_request(&mut self, id: ConnectionId, opcode: OpCode) {
        *self.counters.requests.entry(opcode).or_default() += 1;
        self.count_received(id);
    }

    /// Resets the packet counters of the member.
    pub(crate) const fn reset_counters(&mut self) {
        (self.counters.received, self.counters.sent) = (0, 0);
    }

    /// Resets the counters of each connection.
    pub(crate) fn reset_traffic(&mut self) {
        for connection in self.by_id.values_mut() {
            connection.traffic = Traffic::since(connection.traffic.established);
        }
    }

    /// Queues a transaction that is in the log.
    pub(super) fn wait_for_transaction(&mut self, id: ConnectionId) {
        if let Some(connection) = self.by_id.get_mut(&id) {
            connection.waiting.push_back(Waiting::Transaction);
        }
    }

    /// Removes the first transaction from the queue: it was applied, and the response is sent.
    pub(super) fn transaction_done(&mut self, id: ConnectionId) {
        if let Some(connection) = self.by_id.get_mut(&id) {
            connection.waiting.pop_front();
        }
    }

    /// Returns the number of queued requests of a connection.
    pub(crate) fn waiting(&self, id: ConnectionId) -> usize {
        self.by_id.get(&id).map_or(0, |connection| connection.waiting.len())
    }

    /// Queues a request behind waiting transactions; returns it if there are none.
    pub(super) fn defer(&mut self, id: ConnectionId, request: Deferred) -> Option<Deferred> {
        match self.by_id.get_mut(&id) {
            Some(connection) if !connection.waiting.is_empty() => {
                connection.waiting.push_back(Waiting::Other(request));
                None
            }
            _ => Some(request),
        }
    }

    /// Takes the next request, unless a transaction is before it.
    pub(super) fn next_deferred(&mut self, id: ConnectionId) -> Option<Deferred> {
        let waiting = &mut self.by_id.get_mut(&id)?.waiting;
        match waiting.pop_front()? {
            Waiting::Other(request) => Some(request),
            Waiting::Transaction => {
                waiting.push_front(Waiting::Transaction);
                None
            }
        }
    }

    /// Responds to a handshake as of a transaction.
    pub(super) fn shake_hands(&mut self, id: ConnectionId, zxid: i64, handshake: &Handshake) {
        let now = self.clock.now();
        let Some(connection) = self.by_id.get_mut(&id) else { return };
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

    /// Responds to a request as of a transaction.
    pub(super) fn answer(
        &mut self,
        id: ConnectionId,
        zxid: i64,
        xid: i32,
        opcode: OpCode,
        response: Result<&Response, ErrorCode>,
    ) {
        let now = self.clock.now();
        if let Some(connection) = self.by_id.get_mut(&id) {
            let traffic = &mut connection.traffic;
            traffic.last_operation = match response {
                Err(_) if needs_quorum(opcode) => "NA",
                _ => short_name(opcode),
            };
            if xid >= 0 {
                traffic.last_xid = xid.into();
            }
            (traffic.last_zxid, traffic.last_response) = (zxid, now);
        }
        self.send(id, ReplyHeader { xid, zxid, err: 0 }, response);
    }

    /// Sends a response with this header, which receives the code of an error.
    pub(crate) fn send(
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

    /// Sends a watch event.
    pub(super) fn notify(
        &mut self,
        watcher: ConnectionId,
        event: EventType,
        path: &str,
        zxid: i64,
    ) {
        let sent = self.push(watcher, |out| {
            ReplyHeader { xid: XID_NOTIFICATION, zxid, err: 0 }.encode(out);
            let state = KeeperState::SyncConnected.code();
            WatcherEvent { event_type: event as i32, state, path: path.to_owned() }.encode(out);
        });
        self.counters.notifications += u64::from(sent);
    }

    /// Queues a frame; returns `true` if the connection accepted it.
    fn push(&mut self, id: ConnectionId, fill: impl FnOnce(&mut Encoder)) -> bool {
        let Some(connection) = self.by_id.get_mut(&id) else {
            return false;
        };
        let sent = connection.outbox.push(fill);
        connection.traffic.sent += u64::from(sent);
        self.counters.sent += u64::from(sent);
        sent
    }
}
