//! The state of a server: everything behind its one lock. No I/O and no waiting; answers and events go into
//! the outboxes of the connections.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use tokio::time::Instant;
use zk_curator_proto::records::{
    ConnectRequest, ConnectResponse, EventType, KeeperState, PASSWORD_LEN, Permissions, ReplyHeader,
    WatcherEvent,
};
use zk_curator_proto::{Encoder, OpCode, Record, Request, XID_NOTIFICATION};

use crate::ZooKeeperVersion;
use crate::access::{self, Identity};
use crate::builder::Config;
use crate::collections::Map;
use crate::journal::{Fault, Journal};
use crate::outbox::Outbox;
use crate::rule::{RuleRequest, Verdict};
use crate::session::Sessions;
use crate::snapshot::Snapshot;
use crate::tree::{Change, Tree, Txn};
use crate::watch::{ConnectionId, WatchTable};

/// A connection as the state sees it.
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

/// Everything a server knows.
#[derive(Debug)]
pub(crate) struct State {
    pub(super) config: Config,
    pub(super) tree: Tree,
    pub(super) sessions: Sessions,
    pub(super) watches: WatchTable,
    pub(super) connections: BTreeMap<ConnectionId, Connection>,
    pub(super) counters: Counters,
    pub(super) journal: Journal,
    /// The last transaction.
    pub(super) zxid: i64,
    /// Whether the server has lost its quorum.
    pub(super) read_only: bool,
    /// The TCP port, if there is one.
    pub(super) port: Option<u16>,
    next_connection: ConnectionId,
    /// The zero of session time.
    origin: Instant,
    /// The wall clock at `origin`, in milliseconds since the Unix epoch.
    epoch_millis: i64,
    /// Since when the server is held, on the clock of sessions.
    held_since: Option<u64>,
}

impl State {
    pub(crate) fn new(config: Config, snapshot: Option<Snapshot>) -> Self {
        let mut state = Self::empty(config);
        if let Some(Snapshot { zxid, tree, sessions }) = snapshot {
            state.zxid = zxid;
            state.tree = tree.configured(&state.config);
            state.sessions = Sessions::restored(millis(state.config.tick_time), sessions, state.now());
            if state.read_only {
                state.sessions.suspend_global();
            }
        }
        state
    }

    /// What a server starts with that was never there.
    fn empty(config: Config) -> Self {
        let epoch = config.wall_clock.unwrap_or_else(SystemTime::now);
        let since_epoch = epoch.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            tree: Tree::new(&config),
            sessions: Sessions::new(millis(config.tick_time)),
            watches: WatchTable::new(config.version),
            connections: BTreeMap::new(),
            counters: Counters::default(),
            journal: Journal::default(),
            zxid: 0,
            read_only: config.read_only,
            port: None,
            next_connection: 1,
            origin: Instant::now(),
            epoch_millis: millis(since_epoch).cast_signed(),
            held_since: None,
            config,
        }
    }

    /// What is to be kept of the server.
    pub(crate) fn snapshot(&self) -> Snapshot {
        Snapshot { zxid: self.zxid, tree: self.tree.clone(), sessions: self.sessions.saved() }
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
        let traffic = Traffic::since(self.time());
        self.connections.insert(id, Connection { outbox, session: None, peer, traffic, identities });
        Some(id)
    }

    /// Forgets a connection and its watches. Its session lives on.
    pub(crate) fn detach(&mut self, id: ConnectionId) -> Option<Connection> {
        let connection = self.connections.remove(&id)?;
        self.watches.forget(id);
        if let Some(session) = connection.session {
            self.sessions.detach(session, id);
        }
        Some(connection)
    }

    /// Ends a connection at once.
    pub(crate) fn cut(&mut self, id: ConnectionId) {
        if let Some(connection) = self.detach(id) {
            connection.outbox.cut();
        }
    }

    /// Ends a connection when what is queued for it has been sent.
    pub(crate) fn seal(&mut self, id: ConnectionId) {
        if let Some(connection) = self.detach(id) {
            connection.outbox.seal();
        }
    }

    /// Ends every connection at once.
    pub(crate) fn cut_all(&mut self) {
        for id in self.connections.keys().copied().collect::<Vec<_>>() {
            self.cut(id);
        }
    }

    /// The handshake. Returns the session, or `None` when the connection was ended.
    ///
    /// `legacy` clients sent no read-only flag and get none.
    pub(crate) fn connect(
        &mut self,
        id: ConnectionId,
        request: &ConnectRequest,
        legacy: bool,
    ) -> Option<i64> {
        self.count_received(id);
        if self.read_only && !request.read_only {
            tracing::info!("refused: the server is read-only and the client is not content with that");
            self.cut(id);
            return None;
        }
        if request.last_zxid_seen > self.zxid {
            tracing::info!(seen = request.last_zxid_seen, last = self.zxid, "refused: the client is ahead");
            self.cut(id);
            return None;
        }
        let asked = u64::try_from(request.timeout).unwrap_or(0);
        let (shortest, longest) = self.config.session_timeouts();
        let timeout = asked.max(millis(shortest)).min(millis(longest));
        let now = self.now();
        let session = if request.session_id == 0 {
            // A session of a read-only server is known to no other one, and takes no transaction.
            self.zxid += i64::from(!self.read_only);
            Some(self.sessions.create(id, timeout, self.read_only, now))
        } else if self.read_only
            && self.sessions.get(request.session_id).is_some_and(|session| !session.local)
        {
            tracing::info!("refused: the session cannot go on at a read-only server");
            self.cut(id);
            return None;
        } else {
            if let Some(before) = self.sessions.get(request.session_id).and_then(|session| session.connection)
            {
                self.cut(before);
            }
            let password = request.password.as_deref().unwrap_or_default();
            self.sessions
                .reattach(request.session_id, password, id, timeout, now)
                .then_some(request.session_id)
        };
        let response = ConnectResponse {
            protocol_version: 0,
            timeout: session.map_or(0, |_| i32::try_from(timeout).unwrap_or(i32::MAX)),
            session_id: session.unwrap_or(0),
            password: session
                .and_then(|session| self.sessions.password(session))
                .or_else(|| Some(Bytes::from_static(&[0; PASSWORD_LEN]))),
            read_only: self.read_only,
        };
        let (zxid, now) = (self.zxid, self.now());
        let connection = self.connections.get_mut(&id)?;
        connection.session = session;
        connection.traffic.last_operation = "SESS";
        connection.traffic.last_zxid = zxid;
        connection.traffic.last_response = now;
        self.push(id, |out| {
            if legacy {
                out.i32(response.protocol_version);
                out.i32(response.timeout);
                out.i64(response.session_id);
                out.buffer(response.password.as_deref());
            } else {
                response.encode(out);
            }
        });
        if session.is_none() {
            tracing::info!(session = format_args!("{:#x}", request.session_id), "no such session");
            self.seal(id);
        }
        session
    }

    /// Ends a session as if its timeout had passed; whether it lived.
    pub(crate) fn expire(&mut self, session: i64) -> bool {
        let Some(expired) = self.sessions.remove(session) else {
            return false;
        };
        tracing::info!(session = format_args!("{session:#x}"), "session expired");
        if let Some(id) = expired.connection {
            self.seal(id);
        }
        self.end_session(session, expired.local);
        true
    }

    /// Ends every session whose timeout has passed.
    pub(crate) fn expire_overdue(&mut self) -> bool {
        let overdue = self.sessions.overdue(self.now());
        for session in &overdue {
            self.expire(*session);
        }
        !overdue.is_empty()
    }

    /// The transaction that ends a session. A local one needs none.
    pub(super) fn end_session(&mut self, session: i64, local: bool) {
        self.sessions.remove(session);
        if local {
            return;
        }
        let zxid = self.next_zxid();
        let changes = self.tree.close_session(session, zxid);
        self.publish(&changes);
    }

    /// Removes containers and nodes with a time to live that are due; returns their paths.
    pub(crate) fn reap(&mut self) -> Vec<String> {
        let mut reaped = Vec::new();
        if self.read_only {
            return reaped;
        }
        for path in self.tree.reapable(self.time(), self.never_used_millis()) {
            let zxid = self.next_zxid();
            if let Ok(changes) = self.tree.reap(&path, zxid) {
                self.publish(&changes);
                reaped.push(path.to_string());
            }
        }
        reaped
    }

    /// Whether [`State::reap`] has anything to do.
    pub(crate) fn has_reapable(&self) -> bool {
        !self.read_only && !self.tree.reapable(self.time(), self.never_used_millis()).is_empty()
    }

    pub(crate) const fn container_check_interval(&self) -> Duration {
        self.config.container_check_interval
    }

    fn never_used_millis(&self) -> i64 {
        self.config.max_never_used_interval.map_or(0, |interval| millis(interval).cast_signed())
    }

    /// Stops the clock of sessions.
    pub(crate) fn hold(&mut self) {
        let now = self.now();
        self.held_since.get_or_insert(now);
    }

    /// Lets the clock of sessions go on from where it stood.
    pub(crate) fn release(&mut self) {
        if let Some(since) = self.held_since.take() {
            self.sessions.postpone(self.now() - since);
        }
    }

    /// Gives every session its whole timeout again, as a server does that starts.
    pub(crate) fn renew_sessions(&mut self) {
        let now = self.now();
        self.sessions.renew(self.read_only, now);
        self.held_since = self.held_since.map(|_| now);
    }

    /// Notes a fault.
    pub(crate) fn record(&mut self, fault: Fault) {
        let at = Duration::from_millis(self.now());
        self.journal.add(at, fault);
    }

    /// Notes what a rule has decided, if it is a fault.
    pub(crate) fn record_verdict(&mut self, session: i64, request: &Request, verdict: Verdict) {
        if verdict != Verdict::Pass {
            let path = RuleRequest::new(session, request).path().map(str::to_owned);
            let session = self.number_of(session);
            self.record(Fault::Rule { verdict, session, opcode: request.opcode(), path });
        }
    }

    /// The number of a session; zero of one that does not live.
    pub(crate) fn number_of(&self, session: i64) -> u64 {
        self.sessions.get(session).map_or(0, |session| session.number)
    }

    /// Loses or finds the quorum: a server that does ends every connection.
    pub(crate) fn set_read_only(&mut self, read_only: bool) {
        if self.read_only == read_only {
            return;
        }
        self.read_only = read_only;
        self.record(Fault::ReadOnly(read_only));
        self.cut_all();
        if read_only {
            self.sessions.suspend_global();
        } else {
            for session in self.sessions.ids(true) {
                self.sessions.remove(session);
            }
            self.renew_sessions();
        }
    }

    /// When the next session expires.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        Some(self.origin + Duration::from_millis(self.sessions.next_deadline()?))
    }

    /// The number of the next transaction. Every write takes one, a failed one too.
    pub(super) const fn next_zxid(&mut self) -> i64 {
        self.zxid += 1;
        self.zxid
    }

    /// A transaction of a session.
    pub(super) fn next_txn<'a>(&mut self, session: i64, identities: &'a [Identity]) -> Txn<'a> {
        Txn { session, identities, zxid: self.next_zxid(), time: self.time() }
    }

    /// Who a connection is.
    pub(super) fn identities(&self, id: ConnectionId) -> Arc<[Identity]> {
        self.connections.get(&id).map_or_else(|| [].into(), |connection| Arc::clone(&connection.identities))
    }

    /// Sends the watch events of changes. Called before the answer to the write that made them.
    pub(super) fn publish(&mut self, changes: &[Change]) {
        let zxid = match self.config.version {
            ZooKeeperVersion::V3_8 => -1,
            ZooKeeperVersion::V3_9 => self.zxid,
        };
        for change in changes {
            for notification in self.watches.trigger(change) {
                let Some(connection) = self.connections.get(&notification.watcher) else { continue };
                if access::check(&notification.acl, Permissions::READ, &connection.identities).is_ok() {
                    self.notify(notification.watcher, notification.event, &notification.path, zxid);
                }
            }
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
    pub(super) fn push(&mut self, id: ConnectionId, fill: impl FnOnce(&mut Encoder)) -> bool {
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

    /// Milliseconds since the server was made, on tokio's clock.
    pub(super) fn now(&self) -> u64 {
        millis(self.origin.elapsed())
    }

    /// Milliseconds since the Unix epoch, on tokio's clock.
    pub(super) fn time(&self) -> i64 {
        self.time_at(self.now())
    }

    /// Milliseconds since the Unix epoch at a time since the server was made.
    pub(super) const fn time_at(&self, millis: u64) -> i64 {
        self.epoch_millis + millis.cast_signed()
    }
}

/// Whole milliseconds.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
