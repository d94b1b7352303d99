//! A TCP relay between a client and its servers, for faults of the network in real time.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use zk_curator_client::{SessionCredentials, SessionId, Signal};
use zk_curator_proto::frame;
use zk_curator_proto::records::ConnectResponse;
use zk_curator_proto::{Decoder, Record};

/// How much is read at once, in bytes.
const CHUNK: usize = 64 * 1024;
/// More than the first frame of a server takes, in bytes.
const HANDSHAKE: usize = 256;
/// Before the next attempt to accept a connection, when the system has nothing to accept it with.
const PAUSE: Duration = Duration::from_millis(50);

/// What a [`Relay`] does with the bytes of one direction.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Flow {
    /// They pass.
    Open,
    /// They wait, as in a network that will send them again. So does the end of the connection.
    Stalled,
    /// They vanish. What comes after the hole makes no sense: [`Relay::cut`] the connections before the next bytes
    /// pass.
    Lost,
}

/// Stands between a client and its servers on the loopback interface: one address for each server. Cuts connections,
/// stalls, delays, and loses what goes one way.
///
/// Faults are of all its connections. For a client that reaches some servers and others not, take a relay for each.
/// Dropping it cuts all connections.
///
/// ```
/// # async fn test(server: zk_curator_testing::TestServer) -> std::io::Result<()> {
/// use zk_curator_testing::{Flow, Relay};
///
/// let relay = Relay::start(server.addr().as_slice()).await?;
/// // … connect a client to relay.connect_string() …
/// relay.replies(Flow::Stalled); // requests arrive, the client hears nothing
/// relay.replies(Flow::Open);
/// relay.cut();
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Relay {
    addresses: Vec<SocketAddr>,
    shared: Arc<Shared>,
    /// Ends the listeners.
    end: CancellationToken,
}

#[derive(Debug)]
struct Shared {
    way: Signal<Way>,
    counts: Signal<RelayCounts>,
    /// What the server has answered first on the last connection.
    handshake: Mutex<Vec<u8>>,
}

#[derive(Debug)]
struct Way {
    down: bool,
    requests: Flow,
    replies: Flow,
    delay: Duration,
    /// Ends the connections there are.
    cut: CancellationToken,
}

/// What has come to a [`Relay`] so far.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RelayCounts {
    /// Attempts to connect, those that were refused as well.
    pub connections: u64,
    /// Frames that were passed on to servers, with those of the handshakes and pings.
    pub requests: u64,
}

impl Relay {
    /// Listens on a free port of 127.0.0.1 for each server. Needs a tokio runtime, as its connections do.
    ///
    /// # Errors
    /// Those of the operating system.
    ///
    /// # Cancel safety
    /// Nothing is left.
    pub async fn start(servers: &[SocketAddr]) -> io::Result<Self> {
        let end = CancellationToken::new();
        let way = Way {
            down: false,
            requests: Flow::Open,
            replies: Flow::Open,
            delay: Duration::ZERO,
            cut: end.child_token(),
        };
        let shared = Arc::new(Shared {
            way: Signal::new(way),
            counts: Signal::default(),
            handshake: Mutex::default(),
        });
        let mut relay = Self { addresses: Vec::new(), shared, end };
        for server in servers {
            let listener = TcpListener::bind("127.0.0.1:0").await?;
            relay.addresses.push(listener.local_addr()?);
            let accept = Arc::clone(&relay.shared).accept(listener, *server);
            tokio::spawn(relay.end.clone().run_until_cancelled_owned(accept));
        }
        Ok(relay)
    }

    /// The addresses as clients want them, in the order of the servers.
    #[must_use]
    pub fn connect_string(&self) -> String {
        self.addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
    }

    /// Cuts every connection. New ones are accepted.
    pub fn cut(&self) {
        let cut = |way: &mut Way| std::mem::replace(&mut way.cut, self.end.child_token());
        let mut before = None;
        self.shared.way.modify(|way| before = Some(cut(way)));
        if let Some(before) = before {
            before.cancel();
        }
    }

    /// Cuts every connection and closes new ones at once, until [`Relay::up`].
    pub fn down(&self) {
        self.shared.way.modify(|way| way.down = true);
        self.cut();
    }

    /// Ends [`Relay::down`].
    pub fn up(&self) {
        self.shared.way.modify(|way| way.down = false);
    }

    /// What is done with what clients send.
    pub fn requests(&self, flow: Flow) {
        self.shared.way.modify(|way| way.requests = flow);
    }

    /// What is done with what servers send.
    pub fn replies(&self, flow: Flow) {
        self.shared.way.modify(|way| way.replies = flow);
    }

    /// How long bytes take on their way, in either direction; those that follow closely, up to twice as long. Zero
    /// at first.
    pub fn delay(&self, delay: Duration) {
        self.shared.way.modify(|way| way.delay = delay);
    }

    /// What has come so far.
    #[must_use]
    pub fn counts(&self) -> RelayCounts {
        self.shared.counts.look(|counts| *counts)
    }

    /// Waits until so many frames have been passed on to servers.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn passed(&self, requests: u64) {
        self.shared.counts.until(|counts| counts.requests >= requests).await;
    }

    /// The session that a server has granted last, as it told the client. Whoever has it can act as that client, and
    /// end its session.
    #[must_use]
    pub fn session(&self) -> Option<SessionCredentials> {
        let mut handshake = BytesMut::from(&self.shared.handshake()[..]);
        let body = frame::take(&mut handshake, HANDSHAKE).ok()??;
        let answer = ConnectResponse::decode(&mut Decoder::new(body), "handshake").ok()?;
        let password: Bytes = answer.password?;
        (answer.timeout > 0).then(|| SessionCredentials::new(SessionId::new(answer.session_id), password, 0))
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.end.cancel();
    }
}

impl Shared {
    fn handshake(&self) -> MutexGuard<'_, Vec<u8>> {
        // Bytes: whole, whatever panicked.
        self.handshake.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn accept(self: Arc<Self>, listener: TcpListener, server: SocketAddr) {
        loop {
            let client = match listener.accept().await {
                Ok((client, _)) => client,
                Err(error) => {
                    tracing::warn!(%error, "a relay accepts no connection");
                    sleep(PAUSE).await;
                    continue;
                }
            };
            self.counts.modify(|counts| counts.connections += 1);
            if let Some(cut) = self.way.look(|way| (!way.down).then(|| way.cut.clone())) {
                let relayed = Arc::clone(&self).relay(client, server);
                tokio::spawn(async move {
                    tokio::select! {
                        // First: what is let go after a cut must not slip through.
                        biased;
                        () = cut.cancelled() => {}
                        () = relayed => {}
                    }
                });
            }
        }
    }

    /// Ends, and with it the connection, when either direction does.
    async fn relay(self: Arc<Self>, client: TcpStream, server: SocketAddr) {
        let Ok(server) = TcpStream::connect(server).await else { return };
        for stream in [&client, &server] {
            if let Err(error) = stream.set_nodelay(true) {
                tracing::debug!(%error, "a connection that may be slow");
            }
        }
        self.handshake().clear();
        let (from_client, to_client) = client.into_split();
        let (from_server, to_server) = server.into_split();
        let mut frames = Frames::default();
        let count = |bytes: &[u8]| {
            let complete = frames.feed(bytes);
            self.counts.modify(|counts| counts.requests += complete);
        };
        let keep = |bytes: &[u8]| {
            let mut handshake = self.handshake();
            let room = HANDSHAKE.saturating_sub(handshake.len());
            handshake.extend_from_slice(&bytes[..bytes.len().min(room)]);
        };
        // Why a direction ended is of no interest: the connection has.
        tokio::select! {
            biased;
            _ = self.pump(from_client, to_server, |way| way.requests, count) => {}
            _ = self.pump(from_server, to_client, |way| way.replies, keep) => {}
        }
    }

    async fn pump(
        &self,
        mut from: OwnedReadHalf,
        mut to: OwnedWriteHalf,
        flow: impl Fn(&Way) -> Flow,
        mut passed: impl FnMut(&[u8]),
    ) -> io::Result<()> {
        let mut buffer = vec![0; CHUNK];
        loop {
            let read = from.read(&mut buffer).await?;
            let delay = self.way.look(|way| way.delay);
            if !delay.is_zero() {
                sleep(delay).await;
            }
            self.way.until(|way| flow(way) != Flow::Stalled).await;
            if read == 0 {
                return Ok(());
            }
            if self.way.look(|way| flow(way) == Flow::Lost) {
                continue;
            }
            to.write_all(&buffer[..read]).await?;
            passed(&buffer[..read]);
        }
    }
}

/// Counts frames: a length of four bytes, and as many bytes.
#[derive(Default)]
struct Frames {
    length: u32,
    digits: u32,
    left: u32,
}

impl Frames {
    fn feed(&mut self, mut bytes: &[u8]) -> u64 {
        let mut complete = 0;
        while let Some((first, rest)) = bytes.split_first() {
            if self.digits < 4 {
                (self.length, self.digits, bytes) =
                    (self.length << 8 | u32::from(*first), self.digits + 1, rest);
                self.left = self.length;
            } else {
                let taken = bytes.len().min(self.left as usize);
                self.left -= taken as u32;
                bytes = &bytes[taken..];
            }
            if self.digits == 4 && self.left == 0 {
                complete += 1;
                (self.length, self.digits) = (0, 0);
            }
        }
        complete
    }
}
