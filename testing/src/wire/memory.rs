//! The in-memory network: connections to servers without sockets, for tests under a paused clock.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use zk_curator_client::internal::sleep;
use zk_curator_client::{Connector, Transport};

use super::connection;
use super::link::{Direction, Link};
use super::pipe::pipe;
use super::shared::Shared;

/// The number of bytes in flight in either direction, as in a socket's buffers.
const BUFFER: usize = 256 << 10;

/// The address of clients in memory.
const PEER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// Connects to a server, or to the members of an ensemble, through memory; see
/// [`crate::TestServer::connector`] and [`crate::TestCluster::connector`].
///
/// The connector of a single server ignores host and port. The connector of an ensemble finds
/// members by the host names `zk1`, `zk2` and so on with any port, and members that listen on TCP
/// also by their ports.
///
/// A connector does not keep servers running. Connecting fails with
/// [`io::ErrorKind::ConnectionRefused`] while the server is stopped or gone, and blocks while the
/// network is partitioned, like a TCP handshake with lost packets.
///
/// Each connector is a separate host with its own links. Clones share the host.
#[derive(Debug, Clone)]
pub struct MemoryConnector {
    routes: Arc<[Route]>,
}

#[derive(Debug)]
struct Route {
    shared: Weak<Shared>,
    link: Arc<Link>,
}

impl MemoryConnector {
    pub(crate) fn new<'a>(servers: impl IntoIterator<Item = &'a Arc<Shared>>) -> Self {
        let route = |server| Route { shared: Arc::downgrade(server), link: Arc::default() };
        Self { routes: servers.into_iter().map(route).collect() }
    }

    /// Stops bytes between this host and a member, counted from zero; a single server is member 0.
    /// The bytes, and the end of a connection, arrive after [`MemoryConnector::mend`]. New
    /// connections hang. Unknown members are ignored.
    pub fn cut(&self, member: usize, direction: Direction) {
        self.set(member, Some(direction));
    }

    /// Ends [`MemoryConnector::cut`].
    pub fn mend(&self, member: usize) {
        self.set(member, None);
    }

    fn set(&self, member: usize, direction: Option<Direction>) {
        if let Some(route) = self.routes.get(member) {
            route.link.cut().modify(|cut| *cut = direction);
        }
    }

    /// Sets the one-way latency between this host and a member to random values from this range, in
    /// whole microseconds. Bytes already in flight are not affected, and bytes of one connection
    /// keep their order. Opening a connection takes one latency. Default: zero. Unknown members are
    /// ignored.
    ///
    /// The values come from a generator with this seed: equal traffic gives equal latencies in
    /// every run.
    pub fn set_latency(&self, member: usize, range: RangeInclusive<Duration>, seed: u64) {
        let micros = |time: &Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let (least, most) = (micros(range.start()), micros(range.end()));
        if let Some(route) = self.routes.get(member) {
            route.link.set_latency(least..=most.max(least), seed);
        }
    }

    /// Returns the last sessions, at most 100 per member, that were opened or resumed from this
    /// host. They may have ended.
    #[must_use]
    pub fn sessions(&self) -> Vec<i64> {
        let mut sessions: Vec<_> =
            self.routes.iter().flat_map(|route| route.link.sessions()).collect();
        sessions.sort_unstable();
        sessions.dedup();
        sessions
    }

    fn route(&self, host: &str, port: u16) -> Option<&Route> {
        if let [only] = &*self.routes {
            return Some(only);
        }
        let of_name = |name: &str| name.strip_prefix("zk")?.parse::<usize>().ok()?.checked_sub(1);
        let listens = |route: &&Route| {
            route.shared.upgrade().is_some_and(|shared| {
                shared.look(|state| state.member(shared.member()).port() == Some(port))
            })
        };
        match of_name(host) {
            Some(member) => self.routes.get(member),
            None => self.routes.iter().find(listens),
        }
    }
}

#[async_trait]
impl Connector for MemoryConnector {
    async fn connect(&self, host: &str, port: u16) -> io::Result<Box<dyn Transport>> {
        let unknown = || {
            io::Error::new(io::ErrorKind::NotFound, format!("no server is called {host}:{port}"))
        };
        let route = self.route(host, port).ok_or_else(unknown)?;
        if let Some(latency) = route.link.latency() {
            sleep(latency).await;
        }
        route.link.cut().until(Option::is_none).await;
        let shared = route.shared.upgrade().ok_or(io::ErrorKind::ConnectionRefused)?;
        shared.gate(None).connected().await;
        let token = shared.connection_token().ok_or(io::ErrorKind::ConnectionRefused)?;
        let (to_server, reader) = pipe(BUFFER, Arc::clone(&route.link));
        let (writer, from_server) = pipe(BUFFER, Arc::clone(&route.link));
        let link = Some(Arc::clone(&route.link));
        shared.spawn(connection::serve(Arc::clone(&shared), token, PEER, link, reader, writer));
        Ok(Box::new(tokio::io::join(from_server, to_server)))
    }
}
