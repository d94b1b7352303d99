//! [`TestServer`]: the handle to an embedded server.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use zk_curator_proto::ErrorCode;
use zk_curator_proto::records::Stat;

use super::has_session::HasSession;
use super::probe::Probe;
use crate::config::Config;
use crate::ensemble::{Ensemble, Fault, Journal, NodeWrite, Snapshot, State, faults};
use crate::ids::MemberId;
use crate::rule::{RuleGuard, RuleRequest, Rules, Verdict};
use crate::version::SequenceOverflow;
use crate::wire::{Endpoint, MemoryConnector, OpenEndpoint, Shared};

/// A ZooKeeper server inside this process.
///
/// Cheap to clone: clones are handles to the same server. When the last handle is dropped, the
/// server and its connections end. [`RuleGuard`]s and connectors do not keep it running.
///
/// Changes take effect before the method returns or its future completes. Clients notice when bytes
/// reach them.
#[derive(Debug, Clone)]
pub struct TestServer {
    running: Arc<Running>,
}

#[derive(Debug)]
struct Running {
    shared: Arc<Shared>,
    /// The TCP addresses, with and without TLS.
    endpoints: Vec<Arc<Endpoint>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.shared.update(|state| faults::stopped(state, self.shared.member()));
        self.shared.end();
    }
}

impl TestServer {
    pub(crate) async fn with_config(
        config: Config,
        snapshot: Option<Snapshot>,
    ) -> io::Result<Self> {
        let open = Self::listen(&config)?;
        let ensemble = Arc::new(Ensemble::new(config, 1, snapshot));
        let server = Self::of_ensemble(&ensemble, 0, &open);
        server.run(open);
        Ok(server)
    }

    pub(crate) fn listen(config: &Config) -> io::Result<Vec<OpenEndpoint>> {
        let mut open = Vec::new();
        if config.tcp {
            open.push(Endpoint::open(SocketAddr::new(config.host, config.port), None)?);
        }
        if let Some((port, tls)) = config.tls.clone() {
            open.push(Endpoint::open(SocketAddr::new(config.host, port), Some(tls))?);
        }
        Ok(open)
    }

    /// Creates a member that does not run yet.
    pub(crate) fn of_ensemble(
        ensemble: &Arc<Ensemble>,
        member: MemberId,
        open: &[OpenEndpoint],
    ) -> Self {
        let endpoints = open.iter().map(|(endpoint, _)| Arc::clone(endpoint)).collect();
        let shared = Arc::new(Shared::new(Arc::clone(ensemble), member));
        let server = Self { running: Arc::new(Running { shared, endpoints }) };
        server.update(|state, at| {
            let port = |tls| server.endpoint(tls).map(|endpoint| endpoint.addr().port());
            state.member_mut(at).set_ports(port(false), port(true));
        });
        server
    }

    /// Returns the TCP address, which stays the same across restarts; `None` for a server in memory
    /// only.
    #[must_use]
    pub fn addr(&self) -> Option<SocketAddr> {
        self.endpoint(false).map(|endpoint| endpoint.addr())
    }

    /// Returns the connect string for clients on this machine, such as `127.0.0.1:port`. A single
    /// server that is only in memory returns `memory:2181`, which its connector ignores. A member
    /// of an ensemble returns `zk1:2181` and so on.
    #[must_use]
    pub fn connect_string(&self) -> String {
        let Some(endpoint) = self.endpoint(false) else {
            let is_one = self.shared().ensemble().is_one();
            return if is_one {
                "memory:2181".to_owned()
            } else {
                format!("zk{}:2181", self.shared().member() + 1)
            };
        };
        endpoint.connect_string()
    }

    /// Returns the TCP address with TLS; `None` without
    /// [`TestServerBuilder::tls`](crate::TestServerBuilder::tls).
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls_addr(&self) -> Option<SocketAddr> {
        self.endpoint(true).map(|endpoint| endpoint.addr())
    }

    /// Returns the connect string for TLS clients on this machine; `None` without
    /// [`TestServerBuilder::tls`](crate::TestServerBuilder::tls).
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls_connect_string(&self) -> Option<String> {
        self.endpoint(true).map(|endpoint| endpoint.connect_string())
    }

    /// Replaces the certificates, from the next connection on. Does nothing without
    /// [`TestServerBuilder::tls`](crate::TestServerBuilder::tls).
    #[cfg(feature = "tls")]
    pub fn set_tls(&self, tls: crate::tls::ServerTls) {
        if let Some(endpoint) = self.endpoint(true) {
            endpoint.set_tls(tls);
        }
    }

    /// Returns a connector that reaches this server through memory, regardless of the connect
    /// string.
    #[must_use]
    pub fn connector(&self) -> MemoryConnector {
        MemoryConnector::new([self.shared()])
    }

    /// Returns `true` if the server runs.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.shared().look(|state| state.quorum().is_up(self.shared().member()))
    }

    /// Stops the server: cuts every connection and refuses new ones. Keeps tree and sessions;
    /// sessions do not expire. Does nothing if the server is stopped.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the server stopped, but tasks may still be ending.
    pub async fn stop(&self) {
        self.update(|state, at| {
            state.record(Some(at), Fault::Stop);
            faults::stopped(state, at);
        });
        self.end().await;
    }

    /// Stops the server if it runs, and starts it again at the same address. Open sessions continue
    /// with their full timeout, as when Apache ZooKeeper starts.
    ///
    /// # Errors
    /// Errors of binding the TCP port. On Linux a stopped server keeps its port; elsewhere another
    /// process may have taken it. The server is stopped then.
    ///
    /// # Cancel safety
    /// Dropping the future may leave the server stopped.
    pub async fn restart(&self) -> io::Result<()> {
        self.update(faults::stopped);
        self.end().await;
        let mut open = Vec::new();
        for endpoint in &self.running.endpoints {
            open.push(endpoint.reopen().await?);
        }
        self.update(|state, at| state.record(Some(at), Fault::Restart));
        self.run(open);
        Ok(())
    }

    /// Expires a session immediately, for example that of a framework: deletes its ephemeral nodes
    /// in one transaction, fires watches, and ends its connection. Returns `true` if the session
    /// existed.
    ///
    /// # Cancel safety
    /// The future never waits.
    pub async fn expire(&self, of: impl HasSession) -> bool {
        let Some(session) = of.session_id() else { return false };
        self.shared().update(|state| faults::expire(state, session))
    }

    /// Cuts the connection of a session, for example that of a framework. The session stays open.
    /// Returns `true` if it had a connection.
    pub fn disconnect(&self, of: impl HasSession) -> bool {
        let Some(session) = of.session_id() else { return false };
        self.shared().update(|state| faults::disconnect(state, session))
    }

    /// Cuts every connection. Sessions stay open. Returns the number of connections.
    pub fn disconnect_all(&self) -> usize {
        self.update(faults::disconnect_all)
    }

    /// Suspends the server until [`TestServer::release`], as if its process were stopped: it
    /// accepts connections and bytes, but responds to nothing, and no session expires. The other
    /// members of a [`TestCluster`](crate::TestCluster) continue without a held member, and expire
    /// sessions. Requests in a [`Verdict::Delay`] wait as well. The methods of this handle still
    /// work.
    pub fn hold(&self) {
        self.update(faults::hold);
        self.shared().block(|blocked| blocked.held = true);
    }

    /// Ends [`TestServer::hold`]. Handles the received data in order. Sessions have as much time
    /// left as when the hold began.
    pub fn release(&self) {
        self.update(faults::release);
        self.shared().block(|blocked| blocked.held = false);
        self.shared().deadlines_changed();
    }

    /// Partitions the network silently: bytes and ends of connections do not arrive in either
    /// direction until [`TestServer::heal`]. The server continues and expires sessions. New
    /// connections hang: in memory inside `connect`, on TCP in the handshake, because the kernel
    /// accepts them.
    pub fn partition(&self) {
        self.update(|state, at| state.record(Some(at), Fault::Partition));
        self.shared().block(|blocked| blocked.partitioned = true);
    }

    /// Ends [`TestServer::partition`]: bytes in flight arrive.
    pub fn heal(&self) {
        self.update(|state, at| state.record(Some(at), Fault::Heal));
        self.shared().block(|blocked| blocked.partitioned = false);
    }

    /// Enters or leaves read-only mode, as a member of an ensemble does that loses or regains its
    /// quorum (`readonlymode.enabled`, with local sessions). Cuts every connection. A member of a
    /// [`TestCluster`](crate::TestCluster) also loses its links to the other members.
    ///
    /// A read-only server refuses clients that do not accept one ([`ConnectRequest::read_only`]),
    /// and older sessions. Older sessions do not expire in read-only mode, and have their full
    /// timeout afterwards. The server responds to writes and `sync` with
    /// [`ErrorCode::NotReadOnly`]. Its own sessions are local, and end with read-only mode.
    ///
    /// [`ConnectRequest::read_only`]: zk_curator_proto::records::ConnectRequest::read_only
    pub fn set_read_only(&self, read_only: bool) {
        self.update(|state, at| faults::set_read_only(state, at, read_only));
        self.shared().deadlines_changed();
    }

    /// Sets the version of the data of `path`, to test the overflow from `i32::MAX` to `i32::MIN`.
    /// This is not a write: no watch fires, and no time changes.
    ///
    /// # Errors
    /// [`ErrorCode::NoNode`] if the node does not exist.
    pub fn set_version(&self, path: &str, version: i32) -> Result<(), ErrorCode> {
        self.shared().update(|state| faults::set_version(state, path, version))
    }

    /// Sets the number of the next sequential child of `path`. For numbers after `i32::MAX` see
    /// [`TestServerBuilder::sequence_overflow`](crate::TestServerBuilder::sequence_overflow).
    ///
    /// # Errors
    /// [`ErrorCode::NoNode`] if the node does not exist.
    pub fn set_sequence(&self, path: &str, next: i32) -> Result<(), ErrorCode> {
        self.shared().update(|state| faults::set_sequence(state, path, next))
    }

    /// Changes
    /// [`TestServerBuilder::sequence_overflow`](crate::TestServerBuilder::sequence_overflow).
    pub fn set_sequence_overflow(&self, overflow: SequenceOverflow) {
        self.shared().update(|state| faults::set_sequence_overflow(state, overflow));
    }

    /// Moves the clock of the server forward, in whole milliseconds, also in real time. Expires
    /// overdue sessions, then removes due nodes as [`TestServer::reap_containers`] does. The wall
    /// clock, and so `ctime` and `mtime`, moves too.
    ///
    /// Clients do not notice: a connected idle client loses its session if the time exceeds its
    /// timeout.
    pub fn advance(&self, by: Duration) {
        self.shared().update(|state| faults::advance(state, by));
        self.shared().deadlines_changed();
    }

    /// Moves the wall clock of the server by this many milliseconds; back if negative. The clock of
    /// sessions stays as it is, so nothing expires. A transaction has the time of the wall clock of
    /// its leader, in `ctime` and `mtime`, so the members of a cluster may differ.
    pub fn shift_wall_clock(&self, millis: i64) {
        self.update(|state, at| faults::shift_wall_clock(state, at, millis));
    }

    /// Deletes a node and everything below it with all permissions, in one transaction per node.
    /// Returns the stats of the deleted nodes, starting with the node itself.
    ///
    /// # Errors
    /// [`ErrorCode::NoNode`] if the node does not exist or is the root; [`ErrorCode::NotReadOnly`]
    /// while no member accepts writes.
    pub fn remove(&self, path: &str) -> Result<Vec<Stat>, ErrorCode> {
        self.shared().update(|state| faults::remove(state, path))
    }

    /// Returns all changes of nodes since the start, in order; empty unless the server was built to
    /// [keep them](crate::TestServerBuilder::keep_writes).
    #[must_use]
    pub fn writes(&self) -> Vec<NodeWrite> {
        self.shared().look(|state| state.writes().list().to_vec())
    }

    /// Removes empty containers and nodes whose time to live has passed, as the server does
    /// periodically. Returns their paths. Containers that become empty by this are left for the
    /// next call.
    pub fn reap_containers(&self) -> Vec<String> {
        self.shared().update(State::reap)
    }

    /// Installs a fault rule that sees every request until the guard is dropped. The function runs
    /// on the tasks of the server and must not block.
    pub fn rule(
        &self,
        decide: impl Fn(&RuleRequest<'_>) -> Verdict + Send + Sync + 'static,
    ) -> RuleGuard {
        Rules::install([self.shared().rules()], decide)
    }

    /// Returns the faults injected by rules and by the methods of this handle, in order.
    #[must_use]
    pub fn journal(&self) -> Journal {
        self.shared().look(|state| state.journal().clone())
    }

    /// Returns the nodes and sessions of the server, to start other servers with
    /// ([`TestServerBuilder::snapshot`](crate::TestServerBuilder::snapshot)) or to save
    /// ([`Snapshot::save`]). Takes time and memory proportional to the number of nodes; data
    /// are shared.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.shared().look(State::snapshot)
    }

    /// Returns a snapshot for assertions. Takes time proportional to the number of sessions and
    /// watches. Nodes are shared with the server until they change.
    #[must_use]
    pub fn probe(&self) -> Probe {
        self.shared().look(|state| Probe::of(state, self.shared().member()))
    }

    /// Waits until a condition holds, and returns the probe that satisfies it. The condition is
    /// checked immediately and after changes; short-lived states may be missed. Waits without a
    /// limit: compose it with [`tokio::time::timeout`].
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

    /// Changes the state of this server.
    fn update<R>(&self, update: impl FnOnce(&mut State, MemberId) -> R) -> R {
        self.shared().update(|state| update(state, self.shared().member()))
    }

    /// The endpoint with TLS, or the one without.
    fn endpoint(&self, tls: bool) -> Option<&Arc<Endpoint>> {
        self.running.endpoints.iter().find(|endpoint| endpoint.has_tls() == tls)
    }

    pub(crate) fn run(&self, open: Vec<OpenEndpoint>) {
        self.update(faults::started);
        let run = self.shared().begin();
        for (endpoint, listener) in open {
            self.shared().spawn(endpoint.serve(Arc::clone(self.shared()), listener, run.clone()));
        }
    }
}
