//! The in-memory network: connections to a server without sockets, for tests under a paused clock.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Weak};

use async_trait::async_trait;
use zk_curator_client::{Connector, Transport};

use crate::connection;
use crate::shared::Shared;

/// Bytes on the way in either direction, as in a socket's buffers.
const BUFFER: usize = 256 << 10;

/// Where clients in memory seem to be.
const PEER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// Connects to one server through memory, whatever the host and port; see [`crate::TestServer::connector`].
///
/// It does not keep the server running. Connecting fails with [`io::ErrorKind::ConnectionRefused`] while the
/// server is stopped or gone, and waits while the network is partitioned, as a TCP handshake does whose
/// packets are lost.
#[derive(Debug, Clone)]
pub struct MemoryConnector {
    shared: Weak<Shared>,
}

impl MemoryConnector {
    pub(crate) fn new(shared: &Arc<Shared>) -> Self {
        Self { shared: Arc::downgrade(shared) }
    }
}

#[async_trait]
impl Connector for MemoryConnector {
    async fn connect(&self, _host: &str, _port: u16) -> io::Result<Box<dyn Transport>> {
        let shared = self.shared.upgrade().ok_or(io::ErrorKind::ConnectionRefused)?;
        shared.gate().connected().await;
        let token = shared.connection_token().ok_or(io::ErrorKind::ConnectionRefused)?;
        let (client, server) = tokio::io::duplex(BUFFER);
        let (reader, writer) = tokio::io::split(server);
        shared.spawn(connection::serve(Arc::clone(&shared), token, PEER, reader, writer));
        Ok(Box::new(client))
    }
}
