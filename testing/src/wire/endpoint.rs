//! [`Endpoint`]: a TCP address of a server, with or without TLS.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio_util::sync::CancellationToken;
use zk_curator_client::internal::{Locked, sleep};

use super::connection;
use super::shared::Shared;
use crate::tls::ServerTls;

/// The pause after a failure to accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// The attempts to listen again, and the pause after each.
const ATTEMPTS: u32 = 100;
const ATTEMPT_PAUSE: Duration = Duration::from_millis(10);

/// The length of the queue of connections that are not accepted yet.
const BACKLOG: u32 = 1024;

/// A TCP address of a server, and its TLS configuration, if any. It outlives stops of the server.
#[derive(Debug)]
pub(crate) struct Endpoint {
    addr: SocketAddr,
    /// A socket that is bound to the address and never listens. While the server is stopped,
    /// connections to the address are refused, and the system gives the port to no other socket,
    /// not even to a client of the server as its local port. Only Linux allows a second socket to
    /// listen at this address, if both sockets permit it.
    reserved: Option<TcpSocket>,
    tls: Option<Locked<ServerTls>>,
}

/// An endpoint with its listener.
pub(crate) type OpenEndpoint = (Arc<Endpoint>, TcpListener);

impl Endpoint {
    /// Listens at a new address.
    pub(crate) fn open(asked: SocketAddr, tls: Option<ServerTls>) -> io::Result<OpenEndpoint> {
        let open = || {
            let reserved = if cfg!(target_os = "linux") { Some(reserve(asked)?) } else { None };
            let at = reserved.as_ref().map_or(Ok(asked), TcpSocket::local_addr)?;
            let listener = listen(at, reserved.as_ref())?;
            Ok((reserved, listener))
        };
        let (reserved, listener) = open().map_err(|error: io::Error| {
            io::Error::new(error.kind(), format!("cannot listen on {asked}: {error}"))
        })?;
        let endpoint = Self { addr: listener.local_addr()?, reserved, tls: tls.map(Locked::new) };
        Ok((Arc::new(endpoint), listener))
    }

    /// Listens at the address again. The port is reserved, so it is taken only while a program that
    /// this process is starting has a copy of the last listener, until it runs.
    pub(crate) async fn reopen(self: &Arc<Self>) -> io::Result<OpenEndpoint> {
        let mut attempts = 0..ATTEMPTS;
        loop {
            match listen(self.addr, self.reserved.as_ref()) {
                Err(error)
                    if error.kind() == io::ErrorKind::AddrInUse && attempts.next().is_some() =>
                {
                    sleep(ATTEMPT_PAUSE).await;
                }
                listener => return Ok((Arc::clone(self), listener?)),
            }
        }
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
            *present.lock() = tls;
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
                        // The process has no file descriptors left, or the client is gone. Later
                        // attempts may succeed.
                        tracing::warn!(%error, "cannot accept a connection");
                        sleep(ACCEPT_PAUSE).await;
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
                    Some(tls) => {
                        shared.spawn(serve_with_tls(at, token, peer, tls.lock().clone(), stream));
                    }
                }
            }
        };
        run.run_until_cancelled(accept).await;
    }
}

/// Binds a socket that never listens. It does not share a port that the system chooses: a socket
/// that allows sharing could be given the port of a stopped server.
fn reserve(addr: SocketAddr) -> io::Result<TcpSocket> {
    let reserved = if addr.port() == 0 { socket(addr)? } else { bind(addr)? };
    if addr.port() == 0 {
        reserved.bind(addr)?;
    }
    reserved.set_reuseaddr(false)?;
    Ok(reserved)
}

/// Listens at an address, which the reserved socket shares only while this binds to it.
fn listen(addr: SocketAddr, reserved: Option<&TcpSocket>) -> io::Result<TcpListener> {
    let Some(reserved) = reserved else { return bind(addr)?.listen(BACKLOG) };
    reserved.set_reuseaddr(true)?;
    let listener = bind(addr).and_then(|socket| socket.listen(BACKLOG));
    reserved.set_reuseaddr(false)?;
    listener
}

/// Returns a socket that is bound to the address. On Unix, recently closed connections and sockets
/// that do not listen do not prevent that.
fn bind(addr: SocketAddr) -> io::Result<TcpSocket> {
    let socket = socket(addr)?;
    socket.set_reuseaddr(cfg!(unix))?;
    socket.bind(addr)?;
    Ok(socket)
}

fn socket(addr: SocketAddr) -> io::Result<TcpSocket> {
    if addr.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }
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
