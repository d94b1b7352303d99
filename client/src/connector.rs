//! How the client reaches a server: the [`Connector`] trait, and TCP.

use std::fmt::Debug;
use std::io;

use async_trait::async_trait;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// A byte stream to a server.
pub trait Transport: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> Transport for T {}

/// Opens connections to servers.
///
/// [`TcpConnector`] is the default; the in-memory network of `zk-curator-testing` is another, which lets
/// the whole stack run under a paused clock.
#[async_trait]
pub trait Connector: Debug + Send + Sync + 'static {
    /// Whether its connections are encrypted: the servers' ports for others do not serve them. Default: no.
    fn is_encrypted(&self) -> bool {
        false
    }

    /// Opens a connection to `host`, a name or a literal address without brackets, and `port`.
    ///
    /// The client bounds the call by its own timeout and may drop it at any time.
    async fn connect(&self, host: &str, port: u16) -> io::Result<Box<dyn Transport>>;
}

/// TCP with `TCP_NODELAY`. Names are resolved at every attempt; their addresses are tried in random order.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, Default)]
pub struct TcpConnector;

#[async_trait]
impl Connector for TcpConnector {
    async fn connect(&self, host: &str, port: u16) -> io::Result<Box<dyn Transport>> {
        Ok(Box::new(open_tcp(host, port).await?))
    }
}

pub(crate) async fn open_tcp(host: &str, port: u16) -> io::Result<TcpStream> {
    let mut addresses: Vec<_> = tokio::net::lookup_host((host, port)).await?.collect();
    // One that swallows the attempt must not stand in front of the others every time.
    fastrand::shuffle(&mut addresses);
    let stream = TcpStream::connect(&addresses[..]).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}
