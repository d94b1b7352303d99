//! [`FaultProxyBuilder`], and the constructors of [`FaultProxy`].

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::accept::accept;
use super::proxy::FaultProxy;
use super::shared::{Route, Shared};

/// The default and the least maximum length of a request that is decoded, in bytes.
const FRAME_LIMIT: usize = 4 << 20;
const LEAST_FRAME_LIMIT: usize = 1 << 10;

/// The default maximum number of connections to one server.
const CONNECTIONS: usize = 1000;

impl FaultProxy {
    /// Listens on a free port of 127.0.0.1 for each server. Needs a tokio runtime.
    ///
    /// # Errors
    /// Errors of binding the ports.
    ///
    /// # Cancel safety
    /// Dropping the future starts nothing.
    pub async fn start(servers: &[SocketAddr]) -> io::Result<Self> {
        let mut builder = Self::builder();
        for server in servers {
            builder = builder.server(server.to_string());
        }
        Ok(builder.start().await?)
    }

    /// Returns a builder of a proxy for servers with host names, or with other addresses to listen
    /// on.
    ///
    /// ```
    /// # async fn test() -> Result<(), zk_curator_testing::FaultProxyError> {
    /// let proxy = zk_curator_testing::FaultProxy::builder()
    ///     .server_at(([0, 0, 0, 0], 12181).into(), "zk1.staging:2181")
    ///     .server_at(([0, 0, 0, 0], 12182).into(), "zk2.staging:2181")
    ///     .start()
    ///     .await?;
    /// # Ok(()) }
    /// ```
    pub const fn builder() -> FaultProxyBuilder {
        FaultProxyBuilder::new()
    }
}

/// Builds a [`FaultProxy`]; see [`FaultProxy::builder`].
#[derive(Debug, Clone)]
#[must_use = "a builder does nothing until `start` is called"]
pub struct FaultProxyBuilder {
    servers: Vec<(String, SocketAddr)>,
    frame_limit: usize,
    connection_limit: usize,
    down: bool,
}

/// An error of [`FaultProxyBuilder::start`].
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum FaultProxyError {
    /// A server is not written as `host:port`.
    #[error("cannot start a proxy: {server:?} is not host:port")]
    InvalidServer {
        /// The server.
        server: String,
    },
    /// The proxy cannot listen on an address.
    #[error("cannot start a proxy on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The error of the operating system.
        source: io::Error,
    },
}

impl From<FaultProxyError> for io::Error {
    fn from(error: FaultProxyError) -> Self {
        let kind = match &error {
            FaultProxyError::InvalidServer { .. } => io::ErrorKind::InvalidInput,
            FaultProxyError::Listen { source, .. } => source.kind(),
        };
        Self::new(kind, error)
    }
}

impl FaultProxyBuilder {
    pub(super) const fn new() -> Self {
        Self {
            servers: Vec::new(),
            frame_limit: FRAME_LIMIT,
            connection_limit: CONNECTIONS,
            down: false,
        }
    }

    /// Adds a server, `host:port`. The proxy listens for its clients on a free port of 127.0.0.1.
    /// The host name is resolved for each connection.
    pub fn server(self, server: impl Into<String>) -> Self {
        self.server_at((Ipv4Addr::LOCALHOST, 0).into(), server)
    }

    /// Adds a server, `host:port`, for whose clients the proxy listens on this address. Port 0 is a
    /// free port. The host name is resolved for each connection.
    pub fn server_at(mut self, listen: SocketAddr, server: impl Into<String>) -> Self {
        self.servers.push((server.into(), listen));
        self
    }

    /// Sets the maximum length of a request that rules see, in bytes. Longer requests pass without
    /// being held in memory. At least 1 KiB. Default: 4 MiB.
    pub fn frame_limit(mut self, bytes: usize) -> Self {
        self.frame_limit = bytes.max(LEAST_FRAME_LIMIT);
        self
    }

    /// Sets the maximum number of open connections to each server. Further connections are closed
    /// immediately. Connections that wait in [`Flow::Stalled`](crate::Flow::Stalled) count. At
    /// least 1. Default: 1,000.
    pub fn connection_limit(mut self, connections: usize) -> Self {
        self.connection_limit = connections.clamp(1, Semaphore::MAX_PERMITS);
        self
    }

    /// Starts the proxy as after [`FaultProxy::down`]. Rules can be installed before the first
    /// client is served, which [`FaultProxy::up`] allows.
    pub const fn down(mut self) -> Self {
        self.down = true;
        self
    }

    /// Starts the proxy. Needs a tokio runtime.
    ///
    /// # Errors
    /// [`FaultProxyError::InvalidServer`], [`FaultProxyError::Listen`].
    ///
    /// # Cancel safety
    /// Dropping the future starts nothing.
    pub async fn start(self) -> Result<FaultProxy, FaultProxyError> {
        let mut listeners = Vec::new();
        for (server, address) in self.servers {
            if !is_host_and_port(&server) {
                return Err(FaultProxyError::InvalidServer { server });
            }
            let failed = |source| FaultProxyError::Listen { address, source };
            let listener = TcpListener::bind(address).await.map_err(failed)?;
            let address = listener.local_addr().map_err(failed)?;
            listeners.push((listener, address, server));
        }
        let end = CancellationToken::new();
        let shared = Arc::new(Shared::new(self.frame_limit));
        let mut routes = Vec::new();
        for (number, (listener, address, server)) in listeners.into_iter().enumerate() {
            let limit = self.connection_limit;
            let route = Route::new(number, server, address, self.down, limit, end.clone());
            let route = Arc::new(route);
            let accepts = accept(Arc::clone(&shared), Arc::clone(&route), listener);
            tokio::spawn(end.clone().run_until_cancelled_owned(accepts));
            routes.push(route);
        }
        Ok(FaultProxy::new(routes, shared, end))
    }
}

fn is_host_and_port(server: &str) -> bool {
    server.rsplit_once(':').is_some_and(|(host, port)| {
        !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn servers_are_checked_before_anything_starts() {
        for server in ["", "zk1", "zk1:", ":2181", "zk1:0", "zk1:70000", "zk1:2181/app"] {
            let found = FaultProxy::builder().server("zk1:2181").server(server).start().await;
            let error = found.expect_err(server);
            assert_eq!(
                error.to_string(),
                format!("cannot start a proxy: {server:?} is not host:port")
            );
            assert_eq!(io::Error::from(error).kind(), io::ErrorKind::InvalidInput);
        }
        for server in ["zk1:2181", "10.0.0.1:2181", "[::1]:2181"] {
            assert!(FaultProxy::builder().server(server).start().await.is_ok(), "{server}");
        }
    }

    #[tokio::test]
    async fn an_address_in_use_is_an_error_that_names_it() {
        let taken = FaultProxy::builder().server("zk1:2181").start().await.unwrap();
        let address = taken.servers().next().unwrap().address();
        let error = FaultProxy::builder().server_at(address, "zk1:2181").start().await.unwrap_err();
        assert_eq!(error.to_string(), format!("cannot start a proxy on {address}"));
        assert_eq!(io::Error::from(error).kind(), io::ErrorKind::AddrInUse);
    }
}
