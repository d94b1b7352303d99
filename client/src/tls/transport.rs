use std::io::{self, Write};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use super::TlsError;

/// An open connection. Its errors name the host, and its end is announced to the server.
pub(super) struct TlsTransport {
    stream: TlsStream<TcpStream>,
    host: Arc<str>,
    port: u16,
}

impl TlsTransport {
    pub(super) const fn new(stream: TlsStream<TcpStream>, host: Arc<str>, port: u16) -> Self {
        Self { stream, host, port }
    }

    fn named<T>(&self, result: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        result.map_err(|error| TlsError::of_connection(&self.host, self.port, error))
    }
}

impl AsyncRead for TlsTransport {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.stream).poll_read(cx, buf);
        self.named(result)
    }
}

impl AsyncWrite for TlsTransport {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.named(result)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.stream).poll_flush(cx);
        self.named(result)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.named(result)
    }
}

impl Drop for TlsTransport {
    /// Tells the server that this is a regular end and not an attack (`close_notify`), as far as
    /// that is possible without waiting.
    fn drop(&mut self) {
        let (tcp, tls) = self.stream.get_mut();
        tls.send_close_notify();
        let mut tcp = WriteNow(tcp);
        while tls.wants_write() && tls.write_tls(&mut tcp).is_ok_and(|written| written > 0) {}
    }
}

/// Writes as much as the operating system accepts immediately.
struct WriteNow<'a>(&'a TcpStream);

impl Write for WriteNow<'_> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.0.try_write(buf)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
