//! [`Listener`]: the control port.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::connection;
use super::service::Service;
use super::target::Target;
use super::token::Token;

/// The maximum number of open connections.
const MAX_CONNECTIONS: usize = 64;
/// The pause after a connection that cannot be accepted, for example without file descriptors.
const PAUSE: Duration = Duration::from_millis(50);

/// The control port, on 127.0.0.1.
#[derive(Debug)]
pub struct Listener {
    listener: TcpListener,
    addr: SocketAddr,
}

impl Listener {
    /// Opens the port; 0 is any free one.
    ///
    /// # Errors
    /// Errors of binding the port, with its address in the text.
    pub async fn open(port: u16) -> io::Result<Self> {
        let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let open = async {
            let listener = TcpListener::bind(addr).await?;
            let addr = listener.local_addr()?;
            Ok(Self { listener, addr })
        };
        open.await.map_err(|error: io::Error| {
            io::Error::new(error.kind(), format!("cannot listen on {addr}: {error}"))
        })
    }

    /// Returns the address.
    #[must_use]
    pub const fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Serves connections.
    ///
    /// # Cancel safety
    /// Dropping the future ends all connections, and calls that run.
    pub async fn serve<T: Target>(&self, service: Arc<Service<T>>, token: Token) {
        let token = Arc::new(token);
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, _)) if connections.len() < MAX_CONNECTIONS => {
                        let (service, token) = (Arc::clone(&service), Arc::clone(&token));
                        connections.spawn(async move { serve(stream, &service, &token).await });
                    }
                    Ok((stream, _)) => {
                        connection::refuse(stream, MAX_CONNECTIONS).await.ok();
                    }
                    Err(_) => tokio::time::sleep(PAUSE).await,
                },
                Some(_) = connections.join_next() => {}
            }
        }
    }
}

async fn serve<T: Target>(stream: TcpStream, service: &Service<T>, token: &Token) {
    // Responses are small, and each is awaited. Without the option they are only slower.
    stream.set_nodelay(true).ok();
    connection::serve(stream, service, token).await;
}
