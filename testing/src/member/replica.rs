//! [`Member`]: a single server.

use std::sync::Arc;

use zk_curator_proto::records::{MultiResult, Permissions};
use zk_curator_proto::{ErrorCode, OpCode, Request, Response, XID_PING};

use super::connections::{Connection, Connections, Deferred};
use super::reads::Reader;
use crate::access;
use crate::clock::Clock;
use crate::config::Config;
use crate::ids::ConnectionId;
use crate::quorum::{Action, Entry, Origin, Reply};
use crate::tree::{Change, Tree, Txn};
use crate::version::{SequenceOverflow, ZooKeeperVersion};
use crate::watch::WatchTable;

/// Apache ZooKeeper's default trace mask: requests, packets between servers, sessions, warnings.
const DEFAULT_TRACE_MASK: i64 = 1 << 1 | 1 << 4 | 1 << 5 | 1 << 8;

/// A single server: the tree as of the last applied transaction, the watches and the connections.
/// Each watch belongs to an existing connection.
#[derive(Debug)]
pub(crate) struct Member {
    config: Arc<Config>,
    tree: Tree,
    zxid: i64,
    watches: WatchTable,
    connections: Connections,
    trace_mask: i64,
    port: Option<u16>,
    tls_port: Option<u16>,
    /// The changes of the last transaction, if changes are kept.
    changes: Vec<Change>,
}

impl Member {
    pub(crate) fn new(config: &Arc<Config>, clock: &Arc<Clock>) -> Self {
        Self {
            tree: Tree::new(config),
            zxid: 0,
            watches: WatchTable::new(config.version),
            connections: Connections::new(clock),
            trace_mask: DEFAULT_TRACE_MASK,
            port: None,
            tls_port: None,
            changes: Vec::new(),
            config: Arc::clone(config),
        }
    }

    /// Returns the tree, as of [`Member::zxid`].
    pub(crate) const fn tree(&self) -> &Tree {
        &self.tree
    }

    /// Returns the zxid of the last applied transaction.
    pub(crate) const fn zxid(&self) -> i64 {
        self.zxid
    }

    /// Replaces the tree, and the zxid that it is of.
    pub(crate) fn set_tree(&mut self, tree: Tree, zxid: i64) {
        (self.tree, self.zxid) = (tree, zxid);
    }

    pub(crate) const fn set_sequence_overflow(&mut self, overflow: SequenceOverflow) {
        self.tree.set_sequence_overflow(overflow);
    }

    /// Writes the list of members to `/zookeeper/config`.
    pub(crate) fn set_membership(&mut self, list: &str) {
        self.tree.set_membership(list);
    }

    pub(crate) const fn watches(&self) -> &WatchTable {
        &self.watches
    }

    pub(crate) const fn connections(&self) -> &Connections {
        &self.connections
    }

    pub(crate) const fn connections_mut(&mut self) -> &mut Connections {
        &mut self.connections
    }

    /// Returns the trace mask, which four-letter words set and read; nothing is traced.
    pub(crate) const fn trace_mask(&self) -> i64 {
        self.trace_mask
    }

    pub(crate) const fn set_trace_mask(&mut self, mask: i64) {
        self.trace_mask = mask;
    }

    /// Returns the TCP port, if any.
    pub(crate) const fn port(&self) -> Option<u16> {
        self.port
    }

    /// Returns the TCP port with TLS, if any.
    pub(crate) const fn tls_port(&self) -> Option<u16> {
        self.tls_port
    }

    pub(crate) const fn set_ports(&mut self, port: Option<u16>, tls_port: Option<u16>) {
        (self.port, self.tls_port) = (port, tls_port);
    }

    /// Removes a connection and its watches.
    pub(crate) fn detach(&mut self, id: ConnectionId) -> Option<Connection> {
        let connection = self.connections.remove(id)?;
        self.watches.forget(id);
        Some(connection)
    }

    /// Applies a transaction and sends its watch events, before the response to the write that
    /// caused them.
    pub(crate) fn apply(&mut self, entry: Entry) -> Result<Response, ErrorCode> {
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
            Action::SetVersion { path, version } => {
                self.tree.set_version(&path, version).map(|()| Response::Empty)
            }
            Action::SetSequence { path, next } => {
                self.tree.set_sequence(&path, next).map(|()| Response::Empty)
            }
            Action::OpenSession | Action::Lead => Ok(Response::Empty),
        }
    }

    /// Takes the changes of the last transaction, if changes are kept.
    pub(crate) fn take_changes(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.changes)
    }

    /// Responds to the request or handshake of a transaction that was just applied.
    pub(crate) fn reply(&mut self, origin: &Origin, response: Result<&Response, ErrorCode>) {
        let id = origin.place.connection;
        match &origin.reply {
            Reply::Request { xid, opcode } => self.answer(id, *xid, *opcode, response),
            Reply::Handshake(handshake) => self.connections.shake_hands(id, self.zxid, handshake),
        }
    }

    /// Responds to a request as of the last transaction.
    pub(crate) fn answer(
        &mut self,
        id: ConnectionId,
        xid: i32,
        opcode: OpCode,
        response: Result<&Response, ErrorCode>,
    ) {
        self.connections.answer(id, self.zxid, xid, opcode, response);
    }

    /// Makes later requests of a connection wait for a transaction in the log.
    pub(crate) fn wait_for_transaction(&mut self, id: ConnectionId) {
        self.connections.wait_for_transaction(id);
    }

    /// Responds to the requests behind a transaction that was applied.
    pub(crate) fn go_on(&mut self, id: ConnectionId) {
        self.connections.transaction_done(id);
        while let Some(request) = self.connections.next_deferred(id) {
            self.answer_deferred(id, request);
        }
    }

    /// Responds to a request without a transaction, after everything before it.
    pub(crate) fn read_in_turn(&mut self, id: ConnectionId, xid: i32, request: Request) {
        if let Some(request) = self.connections.defer(id, Deferred::Read { xid, request }) {
            self.answer_deferred(id, request);
        }
    }

    /// Responds with an error, after everything before it.
    pub(crate) fn fail_in_turn(
        &mut self,
        id: ConnectionId,
        xid: i32,
        opcode: OpCode,
        code: ErrorCode,
    ) {
        if let Some(request) = self.connections.defer(id, Deferred::Failure { xid, opcode, code }) {
            self.answer_deferred(id, request);
        }
    }

    fn answer_deferred(&mut self, id: ConnectionId, request: Deferred) {
        match request {
            Deferred::Read { xid, request } => self.answer_read(id, xid, request),
            Deferred::Failure { xid, opcode, code } => self.answer(id, xid, opcode, Err(code)),
        }
    }

    fn answer_read(&mut self, id: ConnectionId, xid: i32, request: Request) {
        let opcode = request.opcode();
        if opcode == OpCode::Ping {
            self.answer(id, XID_PING, opcode, Ok(&Response::Empty));
            return;
        }
        let reader = Reader {
            config: &self.config,
            tree: &self.tree,
            watches: &mut self.watches,
            session: self.connections.session_of(id).unwrap_or_default(),
            who: &self.connections.identities(id),
            connections: &mut self.connections,
            id,
        };
        let response = reader.read(request);
        self.answer(id, xid, opcode, response.as_ref().map_err(|code| *code));
    }

    /// Sends the watch events of changes.
    fn publish(&mut self, changes: Vec<Change>) {
        let zxid = match self.config.version {
            ZooKeeperVersion::V3_8 => -1,
            ZooKeeperVersion::V3_9 => self.zxid,
        };
        for change in &changes {
            for notification in self.watches.trigger(change) {
                let Some(connection) = self.connections.get(notification.watcher) else { continue };
                if access::check(&notification.acl, Permissions::READ, connection.identities())
                    .is_ok()
                {
                    let (event, path) = (notification.event, &notification.path);
                    self.connections.notify(notification.watcher, event, path, zxid);
                }
            }
        }
        if self.config.keep_writes {
            self.changes = changes;
        }
    }
}
