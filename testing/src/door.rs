//! Where clients come in over TCP, with TLS or without.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use crate::connection;
use crate::shared::Shared;
use crate::tls::ServerTls;

/// How long the listener waits after a failure to accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// An address of a server, and as who it speaks TLS there, if it does. It outlives the runs of the server.
#[derive(Debug)]
pub(crate) struct Door {
    pub(crate) addr: SocketAddr,
    tls: Option<Mutex<ServerTls>>,
}

/// One at which somebody listens.
pub(crate) type OpenDoor = (Arc<Door>, TcpListener);

impl Door {
    /// Opens a door at a new address.
    pub(crate) async fn open(asked: SocketAddr, tls: Option<ServerTls>) -> io::Result<OpenDoor> {
        let listener = TcpListener::bind(asked)
            .await
            .map_err(|error| io::Error::new(error.kind(), format!("cannot listen on {asked}: {error}")))?;
        let door = Self { addr: listener.local_addr()?, tls: tls.map(Mutex::new) };
        Ok((Arc::new(door), listener))
    }

    /// Opens it again.
    pub(crate) async fn reopen(self: &Arc<Self>) -> io::Result<OpenDoor> {
        Ok((Arc::clone(self), TcpListener::bind(self.addr).await?))
    }

    pub(crate) const fn has_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Who the server is from the next connection on. Does nothing without TLS.
    #[cfg(feature = "tls")]
    pub(crate) fn set_tls(&self, tls: ServerTls) {
        if let Some(present) = &self.tls {
            *lock(present) = tls;
        }
    }

    /// The address as clients on this machine reach it.
    pub(crate) fn connect_string(&self) -> String {
        let ip = match self.addr.ip() {
            IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Ipv6Addr::LOCALHOST.into(),
            ip => ip,
        };
        SocketAddr::new(ip, self.addr.port()).to_string()
    }

    /// Serves those who come in until the run ends.
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
                        // Out of file descriptors, or the client is gone already. Others may still come.
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

fn lock(tls: &Mutex<ServerTls>) -> MutexGuard<'_, ServerTls> {
    tls.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The handshake of TLS, which may take as long as any client may be without a session, and then the connection.
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
