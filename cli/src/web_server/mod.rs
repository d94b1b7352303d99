//! An HTTP server for the web explorer: HTTP/1.1 on one listener, with limits against slow clients.

mod audit;
mod places;
mod service;
#[cfg(feature = "tls")]
mod tls;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;
use zk_curator_client::internal::sleep;
use zk_curator_web::Network;

pub(crate) use audit::print_audit;
use places::AddressPlaces;
#[cfg(feature = "tls")]
pub(crate) use tls::ServerTls;

/// The maximum number of connections. Others wait to be accepted.
const CONNECTIONS: usize = 512;
/// The maximum number of connections from one address. Others are closed. Behind a proxy that is
/// not a trusted one, all clients have one address, so it is not less.
const CONNECTIONS_OF_ONE: usize = CONNECTIONS / 2;
/// The time after a failure to accept a connection, such as too many open files.
const PAUSE: Duration = Duration::from_secs(1);
/// The time for the handshake of TLS.
#[cfg(feature = "tls")]
const HANDSHAKE: Duration = Duration::from_secs(10);

/// A server that is not running yet.
pub(crate) struct WebServer {
    pub(crate) listener: TcpListener,
    pub(crate) router: Router,
    /// The networks of proxies, which have any number of connections.
    pub(crate) trusted_proxies: Vec<Network>,
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<ServerTls>,
}

/// The end of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServerEnd {
    /// All requests were finished.
    Finished,
    /// Some requests were not finished in time.
    Cut,
}

impl WebServer {
    /// Serves until `stop` resolves. Then streams end, and other requests have `grace` to finish,
    /// unless `hurry` resolves first.
    pub(crate) async fn run(
        self,
        stop: impl Future<Output = ()>,
        hurry: impl Future<Output = ()>,
        grace: Duration,
    ) -> ServerEnd {
        let (ending, ended) = watch::channel(false);
        let (graceful, mut tasks) = (GracefulShutdown::new(), JoinSet::new());
        let places = Arc::new(Semaphore::new(CONNECTIONS));
        let of_one = AddressPlaces::new(CONNECTIONS_OF_ONE, self.trusted_proxies.clone());
        let mut stop = std::pin::pin!(stop);
        loop {
            let accepted = async {
                let place = Arc::clone(&places).acquire_owned().await;
                (self.listener.accept().await, place)
            };
            tokio::select! {
                () = &mut stop => break,
                // Connections that have ended.
                Some(_) = tasks.join_next() => {}
                (accepted, place) = accepted => match accepted {
                    Ok((stream, peer)) => {
                        let Some(own_place) = of_one.take(peer.ip()) else { continue };
                        let (own, watcher) = (self.connection(), graceful.watcher());
                        let ended = ended.clone();
                        tasks.spawn(async move {
                            let _places = (place, own_place);
                            own.serve(stream, peer, watcher, ended).await;
                        });
                    }
                    Err(error) if is_of_client(&error) => {}
                    Err(_) => sleep(PAUSE).await,
                },
            }
        }
        drop(self.listener);
        // Nobody listens to it if there are no streams.
        ending.send_replace(true);
        tokio::select! {
            finished = timeout(grace, graceful.shutdown()) => match finished {
                Ok(()) => ServerEnd::Finished,
                Err(_) => ServerEnd::Cut,
            },
            () = hurry => ServerEnd::Cut,
        }
    }

    fn connection(&self) -> Connection {
        Connection {
            router: self.router.clone(),
            #[cfg(feature = "tls")]
            tls: self.tls.clone(),
        }
    }
}

/// The parts of a server that each connection needs.
struct Connection {
    router: Router,
    #[cfg(feature = "tls")]
    tls: Option<ServerTls>,
}

impl Connection {
    async fn serve(
        self,
        stream: TcpStream,
        peer: SocketAddr,
        watcher: hyper_util::server::graceful::Watcher,
        ended: watch::Receiver<bool>,
    ) {
        #[cfg(feature = "tls")]
        if let Some(tls) = self.tls {
            // A client without TLS, or a slow one.
            let Ok(Ok(stream)) = timeout(HANDSHAKE, tls.accept(stream)).await else { return };
            service::serve(stream, peer, self.router, watcher, ended).await;
            return;
        }
        service::serve(stream, peer, self.router, watcher, ended).await;
    }
}

/// Returns `true` for a connection that has failed before it was accepted.
fn is_of_client(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
    )
}
