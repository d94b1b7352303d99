//! [`Listener`]: the control port.

use std::collections::VecDeque;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::connection::{self, Room};
use super::service::Service;
use super::target::Target;
use super::token::Token;

/// The maximum number of open connections that have not said hello. Any program of this machine can
/// open them, so they take no room from the others. One more closes the oldest. A test suite may
/// open as many at once as it may have open, so the limit is above that.
const MAX_STRANGERS: usize = 128;
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
    #[expect(clippy::disallowed_methods, reason = "a pause before the next attempt")]
    pub async fn serve<T: Target>(&self, service: Arc<Service<T>>, token: Token) {
        let (token, room) = (Arc::new(token), Room::new());
        let mut connections = JoinSet::new();
        // Dropping a sender closes a connection, unless it has said hello.
        let mut strangers: VecDeque<oneshot::Sender<()>> = VecDeque::new();
        loop {
            tokio::select! {
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, _)) => {
                        // Responses are small, and each is awaited. Without the option they are
                        // only slower.
                        stream.set_nodelay(true).ok();
                        strangers.retain(|stranger| !stranger.is_closed());
                        if strangers.len() == MAX_STRANGERS {
                            strangers.pop_front();
                        }
                        let (stays, evicted) = oneshot::channel();
                        strangers.push_back(stays);
                        let (service, token, room) = (Arc::clone(&service), Arc::clone(&token), room.clone());
                        connections.spawn(async move {
                            connection::serve(stream, &service, &token, &room, evicted).await;
                        });
                    }
                    Err(_) => tokio::time::sleep(PAUSE).await,
                },
                Some(_) = connections.join_next() => {}
            }
        }
    }
}
