//! [`TestServer`]: the handle to an embedded server.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use zk_curator_proto::ErrorCode;

use crate::builder::{Config, TestServerBuilder};
use crate::door::{Door, OpenDoor};
use crate::journal::{Fault, Journal};
use crate::member::MemberId;
use crate::network::MemoryConnector;
use crate::probe::Probe;
use crate::rule::{RuleGuard, RuleRequest, Rules, Verdict};
use crate::shared::{Ensemble, Shared};
use crate::snapshot::Snapshot;
use crate::state::State;
use crate::{NodeWrite, SequenceOverflow};

/// A ZooKeeper server inside this process.
///
/// Cheap to clone: clones are handles to the same server. When the last one is dropped the server ends, its
/// connections with it; [`RuleGuard`]s and connectors do not keep it running.
///
/// Everything a handle does takes effect before the method returns, or its future completes. Clients notice
/// when the bytes reach them.
#[derive(Debug, Clone)]
pub struct TestServer {
    running: Arc<Running>,
}

#[derive(Debug)]
struct Running {
    shared: Arc<Shared>,
    /// Where it listens on TCP.
    doors: Vec<Arc<Door>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.shared.update(|state| state.stopped(self.shared.member()));
        self.shared.end();
    }
}

impl TestServer {
    /// Starts a server on a free TCP port of 127.0.0.1, with every setting at its default.
    ///
    /// # Panics
    /// Outside a tokio runtime, or when no port can be bound; [`TestServerBuilder::start`] returns that error.
    ///
    /// # Cancel safety
    /// Dropping the future starts nothing.
    pub async fn start() -> Self {
        match Self::builder().start().await {
            Ok(server) => server,
            Err(error) => panic!("cannot listen on 127.0.0.1: {error}"),
        }
    }

    /// Starts a server that is reached through [`TestServer::connector`] only. Such a server works under a
    /// paused clock; TCP does not, because the clock runs ahead while bytes are in the kernel.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    ///
    /// # Cancel safety
    /// Dropping the future starts nothing.
    pub async fn in_memory() -> Self {
        match Self::builder().tcp(false).start().await {
            Ok(server) => server,
            Err(error) => panic!("cannot start: {error}"),
        }
    }

    /// A server with other settings.
    pub const fn builder() -> TestServerBuilder {
        TestServerBuilder::new()
    }

    pub(crate) async fn with_config(config: Config, snapshot: Option<Snapshot>) -> io::Result<Self> {
        let open = Self::listen(&config).await?;
        let ensemble = Arc::new(Ensemble::new(config, 1, snapshot));
        let server = Self::of_ensemble(&ensemble, 0, &open);
        server.run(open);
        Ok(server)
    }

    pub(crate) async fn listen(config: &Config) -> io::Result<Vec<OpenDoor>> {
        let mut open = Vec::new();
        if config.tcp {
            open.push(Door::open(SocketAddr::new(config.host, config.port), None).await?);
        }
        if let Some((port, tls)) = config.tls.clone() {
            open.push(Door::open(SocketAddr::new(config.host, port), Some(tls)).await?);
        }
        Ok(open)
    }

    /// A member that does not run yet.
    pub(crate) fn of_ensemble(ensemble: &Arc<Ensemble>, member: MemberId, open: &[OpenDoor]) -> Self {
        let doors = open.iter().map(|(door, _)| Arc::clone(door)).collect();
        let shared = Arc::new(Shared::new(Arc::clone(ensemble), member));
        let server = Self { running: Arc::new(Running { shared, doors }) };
        server.update(|state, at| {
            let port = |tls| server.door(tls).map(|door| door.addr.port());
            (state.members[at].port, state.members[at].tls_port) = (port(false), port(true));
        });
        server
    }

    /// The TCP address; `None` of a server in memory only. It stays the same across restarts.
    #[must_use]
    pub fn addr(&self) -> Option<SocketAddr> {
        self.door(false).map(|door| door.addr)
    }

    /// The connect string of this server for clients on this machine, such as `127.0.0.1:port`; or `memory:2181` of
    /// a server in memory only, whose connector ignores it, and `zk1:2181` and so on of a member of an ensemble.
    #[must_use]
    pub fn connect_string(&self) -> String {
        let Some(door) = self.door(false) else {
            let is_one = self.shared().ensemble().is_one();
            return if is_one {
                "memory:2181".to_owned()
            } else {
                format!("zk{}:2181", self.shared().member() + 1)
            };
        };
        door.connect_string()
    }

    /// The TCP address at which the server speaks TLS; `None` without [`TestServerBuilder::tls`].
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls_addr(&self) -> Option<SocketAddr> {
        self.door(true).map(|door| door.addr)
    }

    /// The connect string of this server for clients on this machine that speak TLS; `None` without
    /// [`TestServerBuilder::tls`].
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls_connect_string(&self) -> Option<String> {
        self.door(true).map(|door| door.connect_string())
    }

    /// Replaces the certificates, from the next connection on. Does nothing without [`TestServerBuilder::tls`].
    #[cfg(feature = "tls")]
    pub fn set_tls(&self, tls: crate::ServerTls) {
        if let Some(door) = self.door(true) {
            door.set_tls(tls);
        }
    }

    /// Connects to this server through memory, whatever the connect string says.
    #[must_use]
    pub fn connector(&self) -> MemoryConnector {
        MemoryConnector::new([self.shared()])
    }

    /// Whether the server runs: it was not stopped.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.shared().look(|state| state.members[self.shared().member()].up)
    }

    /// Stops the server: every connection is cut, new ones are refused. Tree and sessions are kept; sessions
    /// do not expire. Does nothing to a stopped server.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the server stopped, but its last tasks may still be ending.
    pub async fn stop(&self) {
        self.update(|state, at| {
            state.record(Some(at), Fault::Stop);
            state.stopped(at);
        });
        self.end().await;
    }

    /// Stops the server if it runs, and starts it again at the same address. Sessions that clients have not
    /// closed are taken up again, each with its whole timeout from now on, as when Apache ZooKeeper starts.
    ///
    /// # Errors
    /// Those of binding the TCP port, which somebody else may have taken meanwhile. The server is stopped then.
    ///
    /// # Cancel safety
    /// Dropping the future may leave the server stopped.
    pub async fn restart(&self) -> io::Result<()> {
        self.update(State::stopped);
        self.end().await;
        let mut open = Vec::new();
        for door in &self.running.doors {
            open.push(door.reopen().await?);
        }
        self.update(|state, at| state.record(Some(at), Fault::Restart));
        self.run(open);
        Ok(())
    }

    /// Expires a session at once: its ephemeral nodes are deleted in one transaction, watches fire, and its
    /// connection ends. Returns whether the session lived.
    ///
    /// # Cancel safety
    /// Never waits.
    pub async fn expire(&self, session_id: i64) -> bool {
        self.shared().ensemble().expire(session_id)
    }

    /// Cuts the connection of a session, which lives on. Returns whether it had one.
    pub fn disconnect(&self, session_id: i64) -> bool {
        self.shared().ensemble().disconnect(session_id)
    }

    /// Cuts every connection. Sessions live on.
    pub fn disconnect_all(&self) {
        self.update(|state, at| {
            state.record(Some(at), Fault::DisconnectAll);
            state.cut_all(at);
        });
    }

    /// Makes the server do nothing until [`TestServer::release`], as if its process were suspended: it accepts
    /// connections and bytes, but answers nothing, and no session expires. For the others of a
    /// [`TestCluster`](crate::TestCluster) a member is gone meanwhile, and they expire sessions. What was in the middle of a
    /// [`Verdict::Delay`] waits as well. The methods of this handle work.
    pub fn hold(&self) {
        self.update(State::hold);
        self.shared().block(|blocked| blocked.held = true);
    }

    /// Ends [`TestServer::hold`]. What has arrived meanwhile is handled in its order, and sessions have as much
    /// time left as they had when the hold began.
    pub fn release(&self) {
        self.update(State::release);
        self.shared().block(|blocked| blocked.held = false);
        self.shared().deadlines_changed();
    }

    /// Cuts the network without a notice to either side: bytes of existing connections do not arrive until
    /// [`TestServer::heal`], in either direction, and neither does the end of a connection. The server goes on
    /// and expires sessions. New connections hang: in memory inside `connect`, on TCP, whose connections the
    /// kernel accepts, in the handshake.
    pub fn partition(&self) {
        self.update(|state, at| state.record(Some(at), Fault::Partition));
        self.shared().block(|blocked| blocked.partitioned = true);
    }

    /// Ends [`TestServer::partition`]: what was on the way arrives.
    pub fn heal(&self) {
        self.update(|state, at| state.record(Some(at), Fault::Heal));
        self.shared().block(|blocked| blocked.partitioned = false);
    }

    /// Makes the server read-only, as a member of an ensemble is that has lost the others and allows it
    /// (`readonlymode.enabled`, with local sessions), or ends that. Every connection is cut by it. A member of a
    /// [`TestCluster`](crate::TestCluster) loses the others by it.
    ///
    /// A read-only server refuses clients that are not content with one ([`ConnectRequest::read_only`]), and
    /// sessions from before: these do not expire meanwhile, and have their whole timeout again afterwards. It
    /// answers writes and `sync` with [`ErrorCode::NotReadOnly`]. Sessions it opens are known to it alone and
    /// end with the read-only mode.
    ///
    /// [`ConnectRequest::read_only`]: zk_curator_proto::records::ConnectRequest::read_only
    pub fn set_read_only(&self, read_only: bool) {
        self.update(|state, at| state.set_read_only(at, read_only));
        self.shared().deadlines_changed();
    }

    /// Makes `next` the number of the next sequential child of `path`. What comes after `i32::MAX` is
    /// [`TestServerBuilder::sequence_overflow`].
    ///
    /// # Errors
    /// [`ErrorCode::NoNode`] when there is no such node.
    pub fn set_sequence(&self, path: &str, next: i32) -> Result<(), ErrorCode> {
        self.shared().update(|state| state.set_sequence(path, next))
    }

    /// Changes [`TestServerBuilder::sequence_overflow`].
    pub fn set_sequence_overflow(&self, overflow: SequenceOverflow) {
        self.shared().update(|state| state.set_sequence_overflow(overflow));
    }

    /// Moves the clock of the server forward, in whole milliseconds, where time is real as well: sessions that
    /// show no sign of life meanwhile expire, and then what is due is reaped as by
    /// [`TestServer::reap_containers`]. The wall clock of the server, and so `ctime` and `mtime`, moves with it.
    ///
    /// Clients do not know of it: one that is connected and idle loses its session too when the time is longer
    /// than its timeout.
    pub fn advance(&self, by: Duration) {
        self.shared().update(|state| state.advance(by));
        self.shared().deadlines_changed();
    }

    /// Deletes a node and everything below it, as an administrator does who may do everything: at once, and in one
    /// transaction for each node. Returns the transactions that had created them, the first one that of the node itself.
    ///
    /// # Errors
    /// [`ErrorCode::NoNode`] when there is no such node, or it is the root; [`ErrorCode::NotReadOnly`] while nobody may
    /// write.
    pub fn remove(&self, path: &str) -> Result<Vec<i64>, ErrorCode> {
        self.shared().update(|state| state.remove(path))
    }

    /// What transactions have done to which nodes, in order, since the start; nothing unless the server was told to
    /// [keep it](TestServerBuilder::keep_writes).
    #[must_use]
    pub fn writes(&self) -> Vec<NodeWrite> {
        self.shared().look(|state| state.writes.list().to_vec())
    }

    /// Removes containers whose last child is gone and nodes whose time to live has passed, as the server
    /// does by itself from time to time. Returns their paths. A container that becomes empty by it is left for
    /// the next call.
    pub fn reap_containers(&self) -> Vec<String> {
        self.shared().update(State::reap)
    }

    /// Installs a fault rule, which is asked about every request until the guard is dropped. The function is
    /// called on the tasks of the server and must not block.
    pub fn rule(&self, decide: impl Fn(&RuleRequest<'_>) -> Verdict + Send + Sync + 'static) -> RuleGuard {
        Rules::install([self.shared().rules()], decide)
    }

    /// The faults that rules and the methods of this handle have injected, in order.
    #[must_use]
    pub fn journal(&self) -> Journal {
        self.shared().look(|state| state.journal.clone())
    }

    /// The nodes and sessions of the server, to start others with ([`TestServerBuilder::snapshot`]) or to save
    /// ([`Snapshot::save`]). Costs time and memory in the number of nodes, but data is shared.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.shared().look(State::snapshot)
    }

    /// What the server knows now. Costs time in the number of sessions and watches, however many nodes there are:
    /// these are shared with the server until either is dropped or a node changes.
    #[must_use]
    pub fn probe(&self) -> Probe {
        self.shared().look(|state| Probe::of(state, self.shared().member()))
    }

    /// Waits until a condition of the server holds, and returns the probe that shows it. The condition is asked
    /// at once and after changes; a state that lasts only for a moment may be missed. Waits for ever if need
    /// be: compose it with [`tokio::time::timeout`].
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    pub async fn until(&self, condition: impl FnMut(&Probe) -> bool) -> Probe {
        let member = self.shared().member();
        self.shared().ensemble().until(|state| Probe::of(state, member), condition).await
    }

    async fn end(&self) {
        self.shared().end();
        self.shared().ended().await;
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.running.shared
    }

    /// Changes what this server knows.
    fn update<R>(&self, update: impl FnOnce(&mut State, MemberId) -> R) -> R {
        self.shared().update(|state| update(state, self.shared().member()))
    }

    /// The door with TLS, or the one without.
    fn door(&self, tls: bool) -> Option<&Arc<Door>> {
        self.running.doors.iter().find(|door| door.has_tls() == tls)
    }

    pub(crate) fn run(&self, open: Vec<OpenDoor>) {
        self.update(State::started);
        let run = self.shared().begin();
        for (door, listener) in open {
            self.shared().spawn(door.serve(Arc::clone(self.shared()), listener, run.clone()));
        }
    }
}
