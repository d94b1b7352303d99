//! How the client reaches a server: the [`Connector`] trait, and TCP.

use std::error::Error;
use std::fmt::{self, Debug};
use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use async_trait::async_trait;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::sleep;

use crate::HostPort;

/// How long after one address of a name the next one is tried.
const STAGGER: Duration = Duration::from_millis(250);

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

/// Why a connection failed, or could not be opened, and to which server: what
/// [`ZooKeeper::last_failure`](crate::ZooKeeper::last_failure) has inside.
#[derive(Debug)]
pub struct ConnectionFailure {
    server: HostPort,
    is_open: bool,
    source: io::Error,
}

impl ConnectionFailure {
    /// The one inside of an error.
    #[must_use]
    pub fn of(error: &io::Error) -> Option<&Self> {
        error.get_ref()?.downcast_ref()
    }

    /// The server.
    #[must_use]
    pub const fn server(&self) -> &HostPort {
        &self.server
    }

    /// The error.
    #[must_use]
    pub const fn reason(&self) -> &io::Error {
        &self.source
    }

    pub(crate) fn of_attempt(server: &HostPort, source: io::Error) -> io::Error {
        io::Error::new(source.kind(), Self { server: server.clone(), is_open: false, source })
    }

    pub(crate) fn of_connection(server: Option<&HostPort>, source: io::Error) -> io::Error {
        match server.cloned() {
            Some(server) => io::Error::new(source.kind(), Self { server, is_open: true, source }),
            None => source,
        }
    }
}

impl fmt::Display for ConnectionFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}: {}", if self.is_open { "" } else { "connect " }, self.server, self.source)
    }
}

impl Error for ConnectionFailure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.source)
    }
}

/// TCP with `TCP_NODELAY`.
///
/// Names are resolved at every attempt. Their addresses are tried in random order, the next one 250 ms after the one before or as
/// soon as that fails; the first that is connected is used (RFC 8305).
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
    let stream = first_open(addresses.into_iter().map(TcpStream::connect)).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// The first that succeeds of attempts that begin one after another: each [`STAGGER`] after the one before, or as soon as one
/// fails. The last failure, if all do.
async fn first_open<T>(
    attempts: impl ExactSizeIterator<Item: Future<Output = io::Result<T>>>,
) -> io::Result<T> {
    let mut waiting = attempts;
    let mut running = Vec::new();
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    loop {
        match waiting.next() {
            Some(attempt) => running.push(Box::pin(attempt)),
            None if running.is_empty() => return Err(failure),
            None => {}
        }
        let mut pause = pin!(sleep(STAGGER));
        let progress = poll_fn(|cx| {
            for place in 0..running.len() {
                if let Poll::Ready(result) = running[place].as_mut().poll(cx) {
                    drop(running.remove(place));
                    return Poll::Ready(Some(result));
                }
            }
            match waiting.len() {
                0 => Poll::Pending,
                _ => pause.as_mut().poll(cx).map(|()| None),
            }
        });
        match progress.await {
            Some(Ok(open)) => return Ok(open),
            Some(Err(error)) => failure = error,
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use tokio::time::Instant;

    use super::*;

    /// Attempts that take so many milliseconds, and fail or not; when they began, and what came of it when.
    async fn race(attempts: &[(u64, bool)]) -> (Vec<u128>, Result<usize, ()>, u128) {
        let (begun, start) = (RefCell::new(Vec::new()), Instant::now());
        let attempt = |(index, (millis, succeeds)): (usize, &(u64, bool))| {
            let (begun, millis, succeeds) = (&begun, *millis, *succeeds);
            async move {
                begun.borrow_mut().push(start.elapsed().as_millis());
                sleep(Duration::from_millis(millis)).await;
                if succeeds { Ok(index) } else { Err(io::ErrorKind::ConnectionRefused.into()) }
            }
        };
        let result = first_open(attempts.iter().enumerate().map(attempt)).await.map_err(drop);
        (begun.take(), result, start.elapsed().as_millis())
    }

    #[tokio::test(start_paused = true)]
    async fn addresses_are_tried_one_after_another_without_waiting_for_each() {
        const NEVER: u64 = 1_000_000;
        let cases: [(&[(u64, bool)], _, _, _); 7] = [
            (&[], vec![], Err(()), 0),
            (&[(10, true), (0, true)], vec![0], Ok(0), 10),
            // The first swallows the attempt; the second is connected.
            (&[(NEVER, true), (10, true)], vec![0, 250], Ok(1), 260),
            // One that fails makes room for the next at once.
            (&[(10, false), (NEVER, true), (20, true)], vec![0, 10, 260], Ok(2), 280),
            // The first may still be the first.
            (&[(300, true), (100, true)], vec![0, 250], Ok(0), 300),
            (&[(300, false), (100, false)], vec![0, 250], Err(()), 350),
            (&[(900, true), (10, false), (10, false)], vec![0, 250, 260], Ok(0), 900),
        ];
        for (attempts, begun, result, took) in cases {
            assert_eq!(race(attempts).await, (begun, result, took), "{attempts:?}");
        }
    }
}
