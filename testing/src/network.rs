//! The in-memory network: connections to servers without sockets, for tests under a paused clock.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;
use zk_curator_client::{Connector, Signal, Transport};

use crate::connection;
use crate::pipe::{Distance, pipe};
use crate::shared::Shared;

/// Bytes on the way in either direction, as in a socket's buffers.
const BUFFER: usize = 256 << 10;

/// How many sessions are remembered of a host and a member.
const REMEMBERED: usize = 100;

/// Where clients in memory seem to be.
const PEER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// Which way bytes do not get through, see [`MemoryConnector::cut`].
#[expect(clippy::exhaustive_enums, reason = "bytes go two ways")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Way {
    /// Neither way.
    Both,
    /// Not from the client to the server: it sees what the server sends, but its requests do not arrive.
    ToServer,
    /// Not from the server to the client: requests arrive and are carried out, but it hears nothing.
    ToClient,
}

/// The link between a client and a server.
#[derive(Debug, Default)]
pub(crate) struct Link {
    /// What is cut of it.
    pub(crate) cut: Signal<Option<Way>>,
    /// How long bytes are on the way.
    latency: Mutex<Option<(RangeInclusive<u64>, fastrand::Rng)>>,
    /// The last sessions that were opened or taken up over it.
    sessions: Mutex<Vec<i64>>,
}

impl Link {
    /// Notes a session that was opened or taken up.
    pub(crate) fn has_session(&self, session: i64) {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.retain(|other| *other != session);
        if sessions.len() == REMEMBERED {
            sessions.remove(0);
        }
        sessions.push(session);
    }

    /// How long bytes are on the way that leave now.
    fn latency(&self) -> Option<Duration> {
        let mut latency = self.latency.lock().unwrap_or_else(PoisonError::into_inner);
        let (range, rng) = latency.as_mut()?;
        Some(Duration::from_micros(rng.u64(range.clone())))
    }
}

impl Distance for Link {
    fn arrival(&self) -> Option<Instant> {
        self.latency().map(|latency| Instant::now() + latency)
    }
}

/// Connects to a server, or to the members of an ensemble, through memory; see [`crate::TestServer::connector`] and
/// [`crate::TestCluster::connector`].
///
/// That of one server leads there whatever the host and port. That of an ensemble knows its members as `zk1`, `zk2`
/// and so on, whatever the port, and those that listen on TCP by their ports as well.
///
/// It does not keep servers running. Connecting fails with [`io::ErrorKind::ConnectionRefused`] while the
/// server is stopped or gone, and waits while the network is partitioned, as a TCP handshake does whose
/// packets are lost.
///
/// Every connector is a host of its own: what is cut of its links is nothing to others. Clones are the same host.
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

    /// Lets no bytes through between this host and a member, counted from zero; a server alone is member 0. They
    /// arrive after [`MemoryConnector::mend`], and so does the end of a connection. New connections hang. There is
    /// no effect when there is no such member.
    pub fn cut(&self, member: usize, way: Way) {
        self.set(member, Some(way));
    }

    /// Ends [`MemoryConnector::cut`].
    pub fn mend(&self, member: usize) {
        self.set(member, None);
    }

    fn set(&self, member: usize, way: Option<Way>) {
        if let Some(route) = self.routes.get(member) {
            route.link.cut.modify(|cut| *cut = way);
        }
    }

    /// Makes bytes between this host and a member be on the way for a time from this range, in whole microseconds, from
    /// now on; what is on the way already is not affected, and on one connection nothing overtakes anything. Opening a
    /// connection takes one way. Default: no time at all. There is no effect when there is no such member.
    ///
    /// The times are those of a generator with this seed: the same in every run, if what is sent is the same.
    pub fn set_latency(&self, member: usize, range: RangeInclusive<Duration>, seed: u64) {
        let micros = |time: &Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let (least, most) = (micros(range.start()), micros(range.end()));
        if let Some(route) = self.routes.get(member) {
            let latency = (least..=most.max(least), fastrand::Rng::with_seed(seed));
            *route.link.latency.lock().unwrap_or_else(PoisonError::into_inner) = Some(latency);
        }
    }

    /// The last sessions, a hundred at most, that were opened or taken up from this host at each member. They may be over
    /// by now.
    #[must_use]
    pub fn sessions(&self) -> Vec<i64> {
        let of_route =
            |route: &Route| route.link.sessions.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut sessions: Vec<_> = self.routes.iter().flat_map(of_route).collect();
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
            route
                .shared
                .upgrade()
                .is_some_and(|shared| shared.look(|state| state.members[shared.member()].port == Some(port)))
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
        let unknown =
            || io::Error::new(io::ErrorKind::NotFound, format!("no server is called {host}:{port}"));
        let route = self.route(host, port).ok_or_else(unknown)?;
        if let Some(latency) = route.link.latency() {
            tokio::time::sleep(latency).await;
        }
        route.link.cut.until(Option::is_none).await;
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
