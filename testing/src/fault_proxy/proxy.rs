//! [`FaultProxy`].

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use zk_curator_client::SessionCredentials;

use super::shared::{Flow, ProxyCounts, Route, Shared};
use super::traffic::{Live, ProxyTraffic};
use crate::rule::{RuleGuard, RuleRequest, Rules, Verdict};
use crate::server::HasSession;

/// A proxy between clients and their servers, with one address per server. It applies fault rules
/// to requests, as a [`TestServer`](crate::TestServer) does, in front of any server: for example
/// Apache ZooKeeper in a staging environment. It also cuts connections, and stalls, delays or
/// discards the bytes of either direction.
///
/// Faults affect all connections of the proxy; those of a [`ProxiedServer`] affect the connections
/// to one server. Dropping the proxy cuts all connections.
///
/// ```
/// # async fn test(server: zk_curator_testing::TestServer) -> std::io::Result<()> {
/// use zk_curator_testing::{FaultProxy, Flow, Verdict};
///
/// let proxy = FaultProxy::start(server.addr().as_slice()).await?;
/// // … connect a client to proxy.connect_string() …
/// let lost = proxy
///     .rule(|request| if request.is_create() { Verdict::LoseReply } else { Verdict::Pass })
///     .times(1);
/// lost.fired().await; // the server has created the node, the client does not know
/// proxy.replies(Flow::Stalled); // requests arrive, the client hears nothing
/// proxy.replies(Flow::Open);
/// proxy.cut();
/// # Ok(()) }
/// ```
///
/// # What rules see
/// Rules see each request of a session that the proxy can decode, but not the handshake. Everything
/// else passes unchanged, and network faults still apply to it:
///
/// * requests with an unknown opcode, an undecodable body, or more bytes than
///   [`FaultProxyBuilder::frame_limit`](crate::FaultProxyBuilder::frame_limit);
/// * four-letter words;
/// * connections with TLS, which the proxy does not terminate: connect the client without TLS.
///
/// The proxy holds at most one incomplete request per connection in memory, and allocates only for
/// bytes that have arrived. Each server has at most
/// [`FaultProxyBuilder::connection_limit`](crate::FaultProxyBuilder::connection_limit) open
/// connections. Replies are never collected. Requests wait while a client does not read
/// 1 MiB of replies, or 10,000 refusals wait for earlier replies.
///
/// # Verdicts in front of a server
/// Verdicts have the effects that [`Verdict`] describes, with these differences to rules of a
/// [`TestServer`](crate::TestServer):
///
/// * [`Verdict::Refuse`]: the server does not see the request. The error takes its place among the
///   replies, with the zxid of the last one.
/// * [`Verdict::LoseReply`]: the connection ends once the server has replied. Events that arrive
///   while no earlier request waits for a reply are lost. If the server ends the connection instead
///   of replying, or the client does not wait, the request may not have been applied.
/// * [`Verdict::Delay`]: a request is forwarded after the delay. A session that has moved to
///   another connection is not noticed by the proxy, but by the server.
#[derive(Debug)]
pub struct FaultProxy {
    routes: Vec<Arc<Route>>,
    shared: Arc<Shared>,
    /// Ends the listeners and the connections.
    end: CancellationToken,
}

/// The connections of a [`FaultProxy`] to one server, for faults of these only.
#[derive(Debug, Clone, Copy)]
pub struct ProxiedServer<'a> {
    route: &'a Arc<Route>,
    proxy: &'a FaultProxy,
}

impl<'a> ProxiedServer<'a> {
    /// Returns the server, `host:port`.
    #[must_use]
    pub fn server(&self) -> &'a str {
        &self.route.server
    }

    /// Returns the address on which the proxy listens for clients of this server.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.route.address
    }

    /// Returns [`address`](Self::address) as a connect string for clients on this machine.
    #[must_use]
    pub fn connect_string(&self) -> String {
        let ip = match self.route.address.ip() {
            IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Ipv6Addr::LOCALHOST.into(),
            ip => ip,
        };
        SocketAddr::new(ip, self.route.address.port()).to_string()
    }

    /// Does the same as [`FaultProxy::rule`], for requests to this server.
    pub fn rule(
        &self,
        decide: impl Fn(&RuleRequest<'_>) -> Verdict + Send + Sync + 'static,
    ) -> RuleGuard {
        Rules::install([&self.route.rules], decide)
    }

    /// Cuts every connection to this server. Returns their number.
    pub fn cut(&self) -> usize {
        let number = self.route.number;
        let connections = self.proxy.shared.traffic.look(|live| live.connections(number));
        Route::cut([self.route]);
        connections
    }

    /// Does the same as [`FaultProxy::down`], for this server.
    pub fn down(&self) {
        self.route.change(|now| now.down = true);
        Route::cut([self.route]);
    }

    /// Ends [`down`](Self::down).
    pub fn up(&self) {
        self.route.change(|now| now.down = false);
    }

    /// Returns `true` if the proxy closes connections to this server immediately.
    #[must_use]
    pub fn is_down(&self) -> bool {
        self.route.conditions.look(|now| now.down)
    }

    /// Sets the treatment of bytes for this server.
    pub fn requests(&self, flow: Flow) {
        self.route.change(|now| now.requests = flow);
    }

    /// Sets the treatment of bytes from this server, and of refusals by rules.
    pub fn replies(&self, flow: Flow) {
        self.route.change(|now| now.replies = flow);
    }
}

impl FaultProxy {
    pub(super) const fn new(
        routes: Vec<Arc<Route>>,
        shared: Arc<Shared>,
        end: CancellationToken,
    ) -> Self {
        Self { routes, shared, end }
    }

    /// Returns the servers, in the order of the builder.
    pub fn servers(&self) -> impl ExactSizeIterator<Item = ProxiedServer<'_>> {
        self.routes.iter().map(|route| ProxiedServer { route, proxy: self })
    }

    /// Returns the addresses as a connect string for clients on this machine, in the order of the
    /// servers.
    #[must_use]
    pub fn connect_string(&self) -> String {
        self.servers().map(|server| server.connect_string()).collect::<Vec<_>>().join(",")
    }

    /// Installs a fault rule that sees requests until the guard is dropped; [which
    /// ones](FaultProxy#what-rules-see). The function runs on the tasks of the proxy and must not
    /// block.
    pub fn rule(
        &self,
        decide: impl Fn(&RuleRequest<'_>) -> Verdict + Send + Sync + 'static,
    ) -> RuleGuard {
        Rules::install(self.routes.iter().map(|route| &route.rules), decide)
    }

    /// Cuts every connection. New connections are accepted.
    pub fn cut(&self) {
        Route::cut(&self.routes);
    }

    /// Cuts the connection of a session. The session stays open. Returns `true` if it had a
    /// connection.
    pub fn disconnect(&self, of: impl HasSession) -> bool {
        let Some(id) = of.session_id() else { return false };
        self.shared.traffic.look(|live| live.cut(|_, session| session == Some(id))) > 0
    }

    /// Cuts the connections from this address; those from any port for port 0. Returns `true` if
    /// there were any.
    pub fn disconnect_peer(&self, peer: SocketAddr) -> bool {
        let matches = |from: SocketAddr| {
            from.ip() == peer.ip() && (peer.port() == 0 || from.port() == peer.port())
        };
        self.shared.traffic.look(|live| live.cut(|from, _| matches(from))) > 0
    }

    /// Cuts every connection, and closes new ones immediately until [`FaultProxy::up`].
    pub fn down(&self) {
        self.routes.iter().for_each(|route| route.change(|now| now.down = true));
        self.cut();
    }

    /// Ends [`FaultProxy::down`].
    pub fn up(&self) {
        self.servers().for_each(|server| server.up());
    }

    /// Sets the treatment of bytes from clients.
    pub fn requests(&self, flow: Flow) {
        self.servers().for_each(|server| server.requests(flow));
    }

    /// Sets the treatment of bytes from servers, and of refusals by rules.
    pub fn replies(&self, flow: Flow) {
        self.servers().for_each(|server| server.replies(flow));
    }

    /// Sets the delay in either direction. Bytes close behind others take up to twice as long.
    /// Default: zero.
    pub fn delay(&self, delay: Duration) {
        self.routes.iter().for_each(|route| route.change(|now| now.delay = delay));
    }

    /// Returns the counts so far.
    #[must_use]
    pub fn counts(&self) -> ProxyCounts {
        self.shared.counts.look(|counts| *counts)
    }

    /// Returns the requests and sessions so far. Takes time proportional to the number of paths
    /// and sessions.
    #[must_use]
    pub fn traffic(&self) -> ProxyTraffic {
        self.shared.traffic.look(|live| live.traffic.clone())
    }

    /// Waits until a condition holds, and returns the traffic that satisfies it. The condition is
    /// checked immediately and after changes. It must not block, nor use the proxy. Waits without a
    /// limit: compose it with [`tokio::time::timeout`].
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    pub async fn until(&self, condition: impl Fn(&ProxyTraffic) -> bool) -> ProxyTraffic {
        let found = |live: &Live| condition(&live.traffic).then(|| live.traffic.clone());
        self.shared.traffic.find(found).await
    }

    /// Waits until this many frames have been forwarded to servers.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    pub async fn passed(&self, requests: u64) {
        self.shared.counts.until(|counts| counts.requests >= requests).await;
    }

    /// Waits until this many frames have been received from clients, forwarded or not.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    pub async fn received(&self, requests: u64) {
        self.shared.counts.until(|counts| counts.received >= requests).await;
    }

    /// Returns the credentials of the session that a server granted last. They allow acting as that
    /// client, and ending its session.
    #[must_use]
    pub fn session(&self) -> Option<SessionCredentials> {
        self.shared.granted.lock().clone()
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.end.cancel();
    }
}
