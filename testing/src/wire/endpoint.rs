//! [`Endpoint`]: a TCP address of a server, with or without TLS.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio_util::sync::CancellationToken;

use super::connection;
use super::shared::Shared;
use crate::tls::ServerTls;

/// The pause after a failure to accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// The length of the queue of connections that are not accepted yet.
const BACKLOG: u32 = 1024;

/// A TCP address of a server, and its TLS configuration, if any. It outlives stops of the server.
#[derive(Debug)]
pub(crate) struct Endpoint {
    addr: SocketAddr,
    /// A socket that is bound to the address and never listens. While the server is stopped, connections to
    /// the address are refused, and the system gives the port to nobody else, not even to a client of the server
    /// as its own port. Only Linux lets a second socket listen at such an address.
    _reserved: Option<TcpSocket>,
    tls: Option<Mutex<ServerTls>>,
}

/// An endpoint with its listener.
pub(crate) type OpenEndpoint = (Arc<Endpoint>, TcpListener);

impl Endpoint {
    /// Listens at a new address.
    pub(crate) fn open(asked: SocketAddr, tls: Option<ServerTls>) -> io::Result<OpenEndpoint> {
        let open = || {
            let reserved = if cfg!(target_os = "linux") { Some(bind(asked)?) } else { None };
            let at = reserved.as_ref().map_or(Ok(asked), TcpSocket::local_addr)?;
            let listener = bind(at)?.listen(BACKLOG)?;
            Ok((reserved, listener))
        };
        let (reserved, listener) = open().map_err(|error: io::Error| {
            io::Error::new(error.kind(), format!("cannot listen on {asked}: {error}"))
        })?;
        let endpoint = Self { addr: listener.local_addr()?, _reserved: reserved, tls: tls.map(Mutex::new) };
        Ok((Arc::new(endpoint), listener))
    }

    /// Listens at the address again.
    pub(crate) fn reopen(self: &Arc<Self>) -> io::Result<OpenEndpoint> {
        Ok((Arc::clone(self), bind(self.addr)?.listen(BACKLOG)?))
    }

    /// Returns the address.
    pub(crate) const fn addr(&self) -> SocketAddr {
        self.addr
    }

    pub(crate) const fn has_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Replaces the TLS configuration, from the next connection on. Does nothing without TLS.
    #[cfg(feature = "tls")]
    pub(crate) fn set_tls(&self, tls: ServerTls) {
        if let Some(present) = &self.tls {
            *lock(present) = tls;
        }
    }

    /// Returns the address for clients on this machine.
    pub(crate) fn connect_string(&self) -> String {
        let ip = match self.addr.ip() {
            IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Ipv6Addr::LOCALHOST.into(),
            ip => ip,
        };
        SocketAddr::new(ip, self.addr.port()).to_string()
    }

    /// Accepts and serves connections until the run ends.
    pub(crate) async fn serve(
        self: Arc<Self>,
        shared: Arc<Shared>,
        listener: TcpListener,
        run: CancellationToken,
    ) {
        let accept = async {
            loop {
                let (stream, peer) = match listener.accept().await {
                    Ok(accepted) => accepted,
                    Err(error) => {
                        // Out of file descriptors, or the client is gone. Later attempts may
                        // succeed.
                        tracing::warn!(%error, "cannot accept a connection");
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                        continue;
                    }
                };
                if let Err(error) = stream.set_nodelay(true) {
                    tracing::debug!(%error, "cannot set TCP_NODELAY");
                }
                let (at, token) = (Arc::clone(&shared), run.child_token());
                match &self.tls {
                    None => {
                        let (reader, writer) = stream.into_split();
                        shared.spawn(connection::serve(at, token, peer, None, reader, writer));
                    }
                    Some(tls) => shared.spawn(serve_with_tls(at, token, peer, lock(tls).clone(), stream)),
                }
            }
        };
        run.run_until_cancelled(accept).await;
    }
}

/// Returns a socket that is bound to the address. On Unix, connections that were closed a moment ago, and
/// sockets that do not listen, are no obstacle.
fn bind(addr: SocketAddr) -> io::Result<TcpSocket> {
    let socket = if addr.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(cfg!(unix))?;
    socket.bind(addr)?;
    Ok(socket)
}

fn lock(tls: &Mutex<ServerTls>) -> MutexGuard<'_, ServerTls> {
    tls.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Serves a connection after the TLS handshake, which has the time limit for opening a session.
async fn serve_with_tls(
    shared: Arc<Shared>,
    token: CancellationToken,
    peer: SocketAddr,
    tls: ServerTls,
    stream: TcpStream,
) {
    let handshake = async {
        shared.gate(None).receives().await;
        tokio::time::timeout(shared.limits().session_within, tls.accept(stream)).await
    };
    match token.run_until_cancelled(handshake).await {
        Some(Ok(Ok(stream))) => {
            let (reader, writer) = tokio::io::split(stream);
            connection::serve(shared, token, peer, None, reader, writer).await;
        }
        Some(Ok(Err(error))) => tracing::info!(%peer, %error, "no TLS with the client"),
        Some(Err(_)) => tracing::info!(%peer, "closed: no TLS in time"),
        None => {}
    }
}
