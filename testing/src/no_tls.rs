//! In the place of [`crate::tls`] without the feature `tls`: nobody can have a [`ServerTls`].

use std::io;

use tokio::net::TcpStream;

#[derive(Debug, Clone)]
pub(crate) enum ServerTls {}

impl ServerTls {
    pub(crate) async fn accept(self, _stream: TcpStream) -> io::Result<TcpStream> {
        match self {}
    }
}
