//! The [`Connector`] trait, which opens connections to servers, and TCP.

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

use crate::HostPort;
use crate::timer::sleep;

/// The time after which the next address of a name is tried.
const STAGGER: Duration = Duration::from_millis(250);

/// The causes to check if the client did not run.
pub(crate) const STALLED: &str = "its runtime was blocked (by a call outside spawn_blocking?), or the process or machine was suspended";

/// A byte stream to a server.
pub trait Transport: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> Transport for T {}

/// Opens connections to servers.
///
/// [`TcpConnector`] is the default. The in-memory network of `zk-curator-testing` is another; with
/// it the whole stack runs under a paused clock.
#[async_trait]
pub trait Connector: Debug + Send + Sync + 'static {
    /// Returns `true` if its connections are encrypted. The servers' other ports cannot be used
    /// then. Default: no.
    fn is_encrypted(&self) -> bool {
        false
    }

    /// Opens a connection to `host`, a name or a literal address without brackets, and `port`.
    ///
    /// The client bounds the call by its own timeout, and may drop it at any time.
    async fn connect(&self, host: &str, port: u16) -> io::Result<Box<dyn Transport>>;
}

/// The reason why a connection to a server failed or could not be opened. It is the inner error of
/// [`ZooKeeper::last_failure`](crate::ZooKeeper::last_failure).
#[derive(Debug)]
pub struct ConnectionFailure {
    server: HostPort,
    is_open: bool,
    stalled: Option<Duration>,
    source: io::Error,
}

impl ConnectionFailure {
    /// Returns the `ConnectionError` inside of an error, if there is one.
    #[must_use]
    pub fn of(error: &io::Error) -> Option<&Self> {
        error.get_ref()?.downcast_ref()
    }

    /// Returns the server.
    #[must_use]
    pub const fn server(&self) -> &HostPort {
        &self.server
    }

    /// Returns the error.
    #[must_use]
    pub const fn reason(&self) -> &io::Error {
        &self.source
    }

    /// Returns the least time for which this client did not run shortly before: the threads of its
    /// runtime were blocked, the process was stopped, or the machine was suspended. `None` if it
    /// ran in time, which means that the server or the network is at fault.
    #[must_use]
    pub const fn stalled(&self) -> Option<Duration> {
        self.stalled
    }

    pub(crate) fn of_attempt(
        server: &HostPort,
        source: io::Error,
        stalled: Option<Duration>,
    ) -> io::Error {
        io::Error::new(
            source.kind(),
            Self { server: server.clone(), is_open: false, stalled, source },
        )
    }

    pub(crate) fn of_connection(
        server: Option<&HostPort>,
        source: io::Error,
        stalled: Option<Duration>,
    ) -> io::Error {
        match server.cloned() {
            Some(server) => {
                io::Error::new(source.kind(), Self { server, is_open: true, stalled, source })
            }
            None => source,
        }
    }
}

impl fmt::Display for ConnectionFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}{}: {}",
            if self.is_open { "" } else { "connect " },
            self.server,
            self.source
        )?;
        match self.stalled {
            Some(stalled) => write!(f, "; this process did not run for {stalled:.1?}: {STALLED}"),
            None => Ok(()),
        }
    }
}

impl Error for ConnectionFailure {
    /// Does not return the [reason](Self::reason), which `Display` already prints.
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.source()
    }
}

/// TCP with `TCP_NODELAY`.
///
/// Names are resolved at every attempt. Their addresses are tried in random order: the next one 250
/// ms after the previous one, or as soon as that fails. The first address that is connected is used
/// (RFC 8305).
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
    // An address that swallows attempts must not come first every time.
    fastrand::shuffle(&mut addresses);
    let stream = first_open(addresses.into_iter().map(TcpStream::connect)).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Starts attempts one after another, each [`STAGGER`] after the previous one, or as soon as one
/// fails. Returns the first success, or the last failure.
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
    use std::iter::successors;

    use tokio::time::Instant;

    use super::*;

    #[test]
    fn a_failure_and_its_causes_say_nothing_twice() {
        let server = HostPort { host: "zk1".into(), port: 2181 };
        let why = io::Error::from(io::ErrorKind::ConnectionRefused);
        let failure =
            ConnectionFailure::of_attempt(&server, why, Some(Duration::from_millis(2500)));
        let first: &(dyn Error + 'static) = &failure;
        let said: Vec<String> = successors(Some(first), |error| Error::source(*error))
            .map(ToString::to_string)
            .collect();
        assert_eq!(
            said,
            [format!(
                "connect zk1:2181: connection refused; this process did not run for 2.5s: {STALLED}"
            )]
        );
    }

    /// Runs attempts that take this many milliseconds and succeed or fail. Returns when each began,
    /// the result, and its time.
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
    async fn a_slow_address_does_not_hold_up_the_next() {
        const NEVER: u64 = 1_000_000;
        let cases: [(&[(u64, bool)], _, _, _); 7] = [
            (&[], vec![], Err(()), 0),
            (&[(10, true), (0, true)], vec![0], Ok(0), 10),
            // The first attempt is swallowed; the second is connected.
            (&[(NEVER, true), (10, true)], vec![0, 250], Ok(1), 260),
            // A failed attempt lets the next one start immediately.
            (&[(10, false), (NEVER, true), (20, true)], vec![0, 10, 260], Ok(2), 280),
            // The first attempt may still win.
            (&[(300, true), (100, true)], vec![0, 250], Ok(0), 300),
            (&[(300, false), (100, false)], vec![0, 250], Err(()), 350),
            (&[(900, true), (10, false), (10, false)], vec![0, 250, 260], Ok(0), 900),
        ];
        for (attempts, begun, result, took) in cases {
            assert_eq!(race(attempts).await, (begun, result, took), "{attempts:?}");
        }
    }
}
