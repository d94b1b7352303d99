//! A TCP proxy between a client and its servers, for faults of the network in real time.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use zk_curator_client::internal::Locked;
use zk_curator_client::internal::Signal;
use zk_curator_client::{SessionCredentials, SessionId};
use zk_curator_proto::frame;
use zk_curator_proto::records::ConnectResponse;
use zk_curator_proto::{Decoder, Record};

/// The size of a read, in bytes.
const CHUNK: usize = 64 * 1024;
/// An upper limit of the size of the first frame of a server, in bytes.
const HANDSHAKE: usize = 256;
/// The pause before the next attempt to accept a connection, after the system has run out of
/// resources.
const PAUSE: Duration = Duration::from_millis(50);

/// The treatment of the bytes of one direction of a [`FaultProxy`].
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Flow {
    /// Bytes pass.
    Open,
    /// Bytes and the end of the connection wait, as in a network that retransmits them later.
    Stalled,
    /// Bytes are discarded. The rest of the stream is unusable: call [`FaultProxy::cut`] before
    /// bytes pass again.
    Lost,
}

/// A proxy between a client and its servers on the loopback interface, with one address per server.
/// Cuts connections, and stalls, delays or discards the bytes of either direction.
///
/// Faults affect all connections of the proxy. Use one proxy per server to make only some servers
/// unreachable. Dropping the proxy cuts all connections.
///
/// ```
/// # async fn test(server: zk_curator_testing::TestServer) -> std::io::Result<()> {
/// use zk_curator_testing::{FaultProxy, Flow};
///
/// let proxy = FaultProxy::start(server.addr().as_slice()).await?;
/// // … connect a client to proxy.connect_string() …
/// proxy.replies(Flow::Stalled); // requests arrive, the client hears nothing
/// proxy.replies(Flow::Open);
/// proxy.cut();
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct FaultProxy {
    addresses: Vec<SocketAddr>,
    shared: Arc<Shared>,
    /// Ends the listeners.
    end: CancellationToken,
}

#[derive(Debug)]
struct Shared {
    conditions: Signal<Conditions>,
    counts: Signal<ProxyCounts>,
    /// The first bytes from the server on the last connection.
    handshake: Locked<Vec<u8>>,
}

#[derive(Debug)]
struct Conditions {
    down: bool,
    requests: Flow,
    replies: Flow,
    delay: Duration,
    /// Ends the present connections.
    cut: CancellationToken,
}

/// Counts of a [`FaultProxy`].
#[non_exhaustive]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProxyCounts {
    /// Connection attempts, including refused ones.
    pub connections: u64,
    /// Frames forwarded to servers, including handshakes and pings.
    pub requests: u64,
    /// Frames received from clients, including those that wait or were discarded.
    pub received: u64,
}

impl FaultProxy {
    /// Listens on a free port of 127.0.0.1 for each server. Needs a tokio runtime.
    ///
    /// # Errors
    /// Errors of binding the ports.
    ///
    /// # Cancel safety
    /// Dropping the future starts nothing.
    pub async fn start(servers: &[SocketAddr]) -> io::Result<Self> {
        let end = CancellationToken::new();
        let conditions = Conditions {
            down: false,
            requests: Flow::Open,
            replies: Flow::Open,
            delay: Duration::ZERO,
            cut: end.child_token(),
        };
        let shared = Arc::new(Shared {
            conditions: Signal::new(conditions),
            counts: Signal::default(),
            handshake: Locked::default(),
        });
        let mut proxy = Self { addresses: Vec::new(), shared, end };
        for server in servers {
            let listener = TcpListener::bind("127.0.0.1:0").await?;
            proxy.addresses.push(listener.local_addr()?);
            let accept = Arc::clone(&proxy.shared).accept(listener, *server);
            tokio::spawn(proxy.end.clone().run_until_cancelled_owned(accept));
        }
        Ok(proxy)
    }

    /// Returns the addresses as a connect string, in the order of the servers.
    #[must_use]
    pub fn connect_string(&self) -> String {
        self.addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
    }

    /// Cuts every connection. New connections are accepted.
    pub fn cut(&self) {
        let cut = |now: &mut Conditions| std::mem::replace(&mut now.cut, self.end.child_token());
        let mut before = None;
        self.shared.conditions.modify(|now| before = Some(cut(now)));
        if let Some(before) = before {
            before.cancel();
        }
    }

    /// Cuts every connection, and closes new ones immediately until [`FaultProxy::up`].
    pub fn down(&self) {
        self.shared.conditions.modify(|now| now.down = true);
        self.cut();
    }

    /// Ends [`FaultProxy::down`].
    pub fn up(&self) {
        self.shared.conditions.modify(|now| now.down = false);
    }

    /// Sets the treatment of bytes from clients.
    pub fn requests(&self, flow: Flow) {
        self.shared.conditions.modify(|now| now.requests = flow);
    }

    /// Sets the treatment of bytes from servers.
    pub fn replies(&self, flow: Flow) {
        self.shared.conditions.modify(|now| now.replies = flow);
    }

    /// Sets the delay in either direction. Bytes close behind others take up to twice as long.
    /// Default: zero.
    pub fn delay(&self, delay: Duration) {
        self.shared.conditions.modify(|now| now.delay = delay);
    }

    /// Returns the counts so far.
    #[must_use]
    pub fn counts(&self) -> ProxyCounts {
        self.shared.counts.look(|counts| *counts)
    }

    /// Waits until this many frames have been forwarded to servers.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    pub async fn passed(&self, requests: u64) {
        self.shared.counts.until(|counts| counts.requests >= requests).await;
    }

    /// Waits until this many frames have been received from clients, forwarded or not.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    pub async fn received(&self, requests: u64) {
        self.shared.counts.until(|counts| counts.received >= requests).await;
    }

    /// Returns the credentials of the session that a server granted last. They allow acting as that
    /// client, and ending its session.
    #[must_use]
    pub fn session(&self) -> Option<SessionCredentials> {
        let mut handshake = BytesMut::from(&self.shared.handshake()[..]);
        let body = frame::take(&mut handshake, HANDSHAKE).ok()??;
        let answer = ConnectResponse::decode(&mut Decoder::new(body), "handshake").ok()?;
        let password: Bytes = answer.password?;
        (answer.timeout > 0)
            .then(|| SessionCredentials::new(SessionId::new(answer.session_id), password, 0))
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.end.cancel();
    }
}

impl Shared {
    fn handshake(&self) -> MutexGuard<'_, Vec<u8>> {
        self.handshake.lock()
    }

    async fn accept(self: Arc<Self>, listener: TcpListener, server: SocketAddr) {
        loop {
            let client = match listener.accept().await {
                Ok((client, _)) => client,
                Err(error) => {
                    tracing::warn!(%error, "a proxy accepts no connection");
                    sleep(PAUSE).await;
                    continue;
                }
            };
            self.counts.modify(|counts| counts.connections += 1);
            if let Some(cut) = self.conditions.look(|now| (!now.down).then(|| now.cut.clone())) {
                let forwarded = Arc::clone(&self).forward(client, server);
                tokio::spawn(async move {
                    tokio::select! {
                        // The cut comes first, because bytes that are released after it must not
                        // pass.
                        biased;
                        () = cut.cancelled() => {}
                        () = forwarded => {}
                    }
                });
            }
        }
    }

    /// Forwards until either direction ends, and ends the connection with it.
    async fn forward(self: Arc<Self>, client: TcpStream, server: SocketAddr) {
        let Ok(server) = TcpStream::connect(server).await else { return };
        for stream in [&client, &server] {
            if let Err(error) = stream.set_nodelay(true) {
                tracing::debug!(%error, "a connection that may be slow");
            }
        }
        self.handshake().clear();
        let (from_client, to_client) = client.into_split();
        let (from_server, to_server) = server.into_split();
        let (mut received, mut forwarded) = (Frames::default(), Frames::default());
        let receive = |bytes: &[u8]| {
            let complete = received.feed(bytes);
            self.counts.modify(|counts| counts.received += complete);
        };
        let count = |bytes: &[u8]| {
            let complete = forwarded.feed(bytes);
            self.counts.modify(|counts| counts.requests += complete);
        };
        let keep = |bytes: &[u8]| {
            let mut handshake = self.handshake();
            let room = HANDSHAKE.saturating_sub(handshake.len());
            handshake.extend_from_slice(&bytes[..bytes.len().min(room)]);
        };
        // The reason does not matter: the connection has ended.
        tokio::select! {
            biased;
            _ = self.pump(from_client, to_server, |now| now.requests, receive, count) => {}
            _ = self.pump(from_server, to_client, |now| now.replies, |_| (), keep) => {}
        }
    }

    async fn pump(
        &self,
        mut from: OwnedReadHalf,
        mut to: OwnedWriteHalf,
        flow: impl Fn(&Conditions) -> Flow,
        mut received: impl FnMut(&[u8]),
        mut passed: impl FnMut(&[u8]),
    ) -> io::Result<()> {
        let mut buffer = vec![0; CHUNK];
        loop {
            let read = from.read(&mut buffer).await?;
            received(&buffer[..read]);
            let delay = self.conditions.look(|now| now.delay);
            if !delay.is_zero() {
                sleep(delay).await;
            }
            self.conditions.until(|now| flow(now) != Flow::Stalled).await;
            if read == 0 {
                return Ok(());
            }
            if self.conditions.look(|now| flow(now) == Flow::Lost) {
                continue;
            }
            to.write_all(&buffer[..read]).await?;
            passed(&buffer[..read]);
        }
    }
}

/// Counts frames. A frame is a length of four bytes, followed by that number of bytes.
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
