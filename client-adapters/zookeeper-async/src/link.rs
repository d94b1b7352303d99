//! The connection between the crate and the servers, which this adapter controls.
//!
//! The crate exposes neither the id of its session nor the granted timeout. It reconnects in a
//! tight loop without end, continues in a new session silently, and notices a silent server late.
//! So it gets an address on the loopback interface. This adapter finds a server with pauses and
//! deadlines, and forwards the frames. From these frames it reads all properties of the session
//! that the framework needs.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tracing::debug;
use zk_curator_client::internal::{sleep, sleep_until};
use zk_curator_client::{
    ExpiredBy, HostPort, SessionId, SessionInfo, SessionState, StatePublisher, WatchEnded,
};
use zk_curator_proto::records::{ConnectRequest, ConnectResponse, RequestHeader, WatcherEvent};
use zk_curator_proto::{Decoder, Encoder, OpCode, Record, XID_NOTIFICATION, XID_PING, frame};

use super::registry::AdapterRegistry;

/// The first pause between attempts to connect; it doubles up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// A connection that lasted this long resets the pause.
const GOOD: Duration = Duration::from_secs(1);
/// The largest response of a server. A longer one is an error or an attack.
const MAX_FRAME: usize = 64 << 20;

/// The state of the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LinkState {
    Down,
    /// The link is up; the number counts its connections.
    Up(u64),
    Over,
}

/// The reports of the link, and their receivers.
#[derive(Debug)]
pub(super) struct Reports {
    pub(super) states: StatePublisher,
    pub(super) registry: AdapterRegistry,
    pub(super) link: watch::Sender<LinkState>,
}

impl Reports {
    /// Ends the session; the first reason counts.
    pub(super) fn over(&self, state: SessionState) {
        self.states.publish(state);
        let closed = self.states.current() == SessionState::Closed;
        self.registry.end(if closed { WatchEnded::Closed } else { WatchEnded::SessionLost });
        self.link.send_replace(LinkState::Over);
    }
}

/// The link of one session to the servers.
pub(super) struct PacketLink {
    pub(super) listener: TcpListener,
    /// The servers, at least one.
    pub(super) hosts: Vec<HostPort>,
    /// The requested timeout, until the server has granted one.
    pub(super) timeout: Duration,
    pub(super) reports: Arc<Reports>,
    /// The id of the session, if there is one already.
    session: Option<i64>,
    /// The time at which the last request with a response was sent.
    heard: Instant,
    next_host: usize,
    failures: u32,
    connections: u64,
}

/// The reason why a connection ended.
enum LinkEnd {
    Lost(io::Error),
    Over(SessionState),
}

impl From<io::Error> for LinkEnd {
    fn from(why: io::Error) -> Self {
        Self::Lost(why)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum PacketKind {
    Handshake,
    /// A ping of the crate, or the adapter's own, whose response the crate must not see.
    Ping {
        ours: bool,
    },
    Request,
    Close,
}

fn lost(why: &'static str) -> LinkEnd {
    LinkEnd::Lost(io::Error::new(io::ErrorKind::ConnectionAborted, why))
}

fn malformed(why: impl std::error::Error + Send + Sync + 'static) -> LinkEnd {
    LinkEnd::Lost(io::Error::new(io::ErrorKind::InvalidData, why))
}

impl PacketLink {
    pub(super) fn new(
        listener: TcpListener,
        hosts: Vec<HostPort>,
        timeout: Duration,
        reports: Arc<Reports>,
    ) -> Self {
        let next_host = fastrand::usize(..hosts.len());
        Self {
            listener,
            hosts,
            timeout,
            reports,
            session: None,
            heard: Instant::now(),
            next_host,
            failures: 0,
            connections: 0,
        }
    }

    /// Serves the crate until the session is over.
    pub(super) async fn run(mut self) {
        loop {
            let end = tokio::select! {
                biased;
                () = sleep_until(self.heard + self.timeout), if self.session.is_some() => {
                    LinkEnd::Over(SessionState::Expired(ExpiredBy::Clock))
                }
                accepted = self.listener.accept() => match accepted {
                    Ok((client, _)) => match self.serve(client).await {
                        Ok(never) => match never {},
                        Err(end) => end,
                    },
                    Err(why) => LinkEnd::Lost(why),
                }
            };
            match end {
                LinkEnd::Over(state) => return self.reports.over(state),
                LinkEnd::Lost(why) => {
                    debug!(%why, "connection lost");
                    self.reports.states.failed(why);
                    if self.reports.link.send_replace(LinkState::Down) != LinkState::Down {
                        self.reports.states.publish(SessionState::Disconnected);
                    }
                }
            }
        }
    }

    /// Serves one connection of the crate.
    async fn serve(&mut self, mut client: TcpStream) -> Result<std::convert::Infallible, LinkEnd> {
        client.set_nodelay(true)?;
        let mut from_client = BytesMut::new();
        let hello = loop {
            if let Some(hello) = take(&mut from_client)? {
                break hello;
            }
            read(&mut client, &mut from_client).await?;
        };
        let request =
            ConnectRequest::decode(&mut Decoder::new(hello.clone()), "").map_err(malformed)?;
        if self.session.is_some_and(|session| session != request.session_id) {
            // The crate begins another session silently; the adapter ends this one instead.
            return Err(LinkEnd::Over(SessionState::Expired(ExpiredBy::Clock)));
        }
        let expires = self.session.map(|_| self.heard + self.timeout);
        let server = {
            let dialled = self.dial();
            tokio::pin!(dialled);
            loop {
                tokio::select! {
                    biased;
                    server = &mut dialled => break server,
                    () = sleep_until(expires.unwrap_or_else(Instant::now)), if expires.is_some() => {
                        return Err(LinkEnd::Over(SessionState::Expired(ExpiredBy::Clock)));
                    }
                    // The crate gives up after two seconds and tries again.
                    got = read(&mut client, &mut from_client) => got?,
                }
            }
        };
        let since = Instant::now();
        let end = self.relay(client, from_client, server, hello).await;
        self.failures = if since.elapsed() >= GOOD { 0 } else { self.failures.saturating_add(1) };
        end
    }

    /// Finds a server, without a time limit.
    async fn dial(&mut self) -> TcpStream {
        loop {
            if self.failures > 0 {
                let pause =
                    FIRST_PAUSE.saturating_mul(1 << self.failures.min(10)).min(LONGEST_PAUSE);
                sleep(pause.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
            }
            let host = self.hosts[self.next_host % self.hosts.len()].clone();
            self.next_host = (self.next_host + 1) % self.hosts.len();
            // Names are looked up at every attempt.
            let connect = TcpStream::connect((host.host.as_str(), host.port));
            let refused = match timeout(self.timeout / 3, connect).await {
                Ok(Ok(server)) => match server.set_nodelay(true) {
                    Ok(()) => return server,
                    Err(why) => why,
                },
                Ok(Err(why)) => why,
                Err(_) => {
                    io::Error::new(io::ErrorKind::TimedOut, format!("no response from {host}"))
                }
            };
            debug!(%host, why = %refused, "no connection");
            self.reports.states.failed(refused);
            self.failures = self.failures.saturating_add(1);
        }
    }

    /// Passes frames both ways until the connection ends.
    async fn relay(
        &mut self,
        mut client: TcpStream,
        mut from_client: BytesMut,
        mut server: TcpStream,
        hello: Bytes,
    ) -> Result<std::convert::Infallible, LinkEnd> {
        let mut from_server = BytesMut::new();
        // The packets without a response yet, each with the time at which it was sent.
        let mut sent = VecDeque::from([(Instant::now(), PacketKind::Handshake)]);
        let mut heard_of_server = Instant::now();
        let mut said_to_server = Instant::now();
        let mut leaving = false;
        self.send(&mut server, &hello).await?;
        loop {
            while let Some(request) = take(&mut from_client)? {
                let what = kind_of(&request)?;
                sent.push_back((Instant::now(), what));
                said_to_server = Instant::now();
                self.send(&mut server, &request).await?;
            }
            while let Some(answer) = take(&mut from_server)? {
                if self.pass(&answer, &mut sent)? {
                    continue;
                }
                // The crate may have closed the connection already, if it has requested the end.
                let told = self.send(&mut client, &answer).await;
                if !leaving {
                    told?;
                }
            }
            tokio::select! {
                biased;
                got = read(&mut server, &mut from_server) => {
                    got?;
                    heard_of_server = Instant::now();
                }
                got = read(&mut client, &mut from_client), if !leaving => match got {
                    Err(_) if sent.iter().any(|(_, what)| *what == PacketKind::Close) => leaving = true,
                    got => got?,
                },
                () = sleep_until(heard_of_server + self.timeout * 2 / 3) => {
                    return Err(lost("the server is silent"));
                }
                () = sleep_until(said_to_server + self.timeout / 3), if !leaving => {
                    let mut ping = Encoder::new();
                    RequestHeader { xid: XID_PING, opcode: OpCode::Ping.code() }.encode(&mut ping);
                    said_to_server = Instant::now();
                    sent.push_back((said_to_server, PacketKind::Ping { ours: true }));
                    self.send(&mut server, &ping.finish()).await?;
                }
            }
        }
    }

    /// Inspects a response of a server. Returns `true` if the crate must not see it.
    fn pass(
        &mut self,
        answer: &Bytes,
        sent: &mut VecDeque<(Instant, PacketKind)>,
    ) -> Result<bool, LinkEnd> {
        let mut decoder = Decoder::new(answer.clone());
        if sent.front().is_some_and(|(_, what)| *what == PacketKind::Handshake) {
            let granted = ConnectResponse::decode(&mut decoder, "").map_err(malformed)?;
            let Some((asked, _)) = sent.pop_front() else { return Ok(false) };
            return self.granted(&granted, asked).map(|()| false);
        }
        let xid = decoder.i32("xid").map_err(malformed)?;
        if xid == XID_NOTIFICATION {
            let zxid = decoder.i64("zxid").map_err(malformed)?;
            let _err = decoder.i32("err").map_err(malformed)?;
            let event = WatcherEvent::decode(&mut decoder, "").map_err(malformed)?;
            if let Ok(event_type) = event.event_type.try_into() {
                self.reports.registry.fire(
                    &event.path,
                    event_type,
                    Some(zxid).filter(|zxid| *zxid > 0),
                );
            }
            return Ok(false);
        }
        let Some((at, what)) = sent.pop_front() else {
            return Err(lost("a response to no request"));
        };
        if (xid == XID_PING) != matches!(what, PacketKind::Ping { .. }) {
            return Err(lost("a response to another request"));
        }
        self.heard = at;
        match what {
            PacketKind::Close => Err(LinkEnd::Over(SessionState::Closed)),
            PacketKind::Ping { ours } => Ok(ours),
            PacketKind::Handshake | PacketKind::Request => {
                self.reports.registry.arm();
                Ok(false)
            }
        }
    }

    fn granted(&mut self, granted: &ConnectResponse, asked: Instant) -> Result<(), LinkEnd> {
        let millis = u64::try_from(granted.timeout).unwrap_or_default();
        if millis == 0 {
            return Err(LinkEnd::Over(SessionState::Expired(ExpiredBy::Server)));
        }
        self.timeout = Duration::from_millis(millis);
        self.session = Some(granted.session_id);
        self.heard = asked;
        self.connections += 1;
        // The actor first arms watches and adds identities, so the framework may be notified
        // immediately.
        self.reports.link.send_replace(LinkState::Up(self.connections));
        let info = SessionInfo::new(SessionId::new(granted.session_id), self.timeout);
        self.reports.states.publish(SessionState::Connected(info));
        Ok(())
    }

    async fn send(&self, to: &mut (impl AsyncWrite + Unpin), body: &[u8]) -> Result<(), LinkEnd> {
        let mut bytes = BytesMut::with_capacity(4 + body.len());
        frame::put_parts(&mut bytes, &[body]);
        match timeout(self.timeout * 2 / 3, to.write_all(&bytes)).await {
            Ok(written) => Ok(written?),
            Err(_) => Err(lost("the server does not read")),
        }
    }
}

fn take(buffer: &mut BytesMut) -> Result<Option<Bytes>, LinkEnd> {
    frame::take(buffer, MAX_FRAME).map_err(malformed)
}

/// Reads more bytes; the end of the stream is an error. Cancellation loses nothing.
async fn read(from: &mut (impl AsyncRead + Unpin), into: &mut BytesMut) -> Result<(), LinkEnd> {
    match from.read_buf(into).await? {
        0 => Err(lost("closed by the peer")),
        _ => Ok(()),
    }
}

fn kind_of(request: &Bytes) -> Result<PacketKind, LinkEnd> {
    let mut decoder = Decoder::new(request.clone());
    let xid = decoder.i32("xid").map_err(malformed)?;
    let opcode = decoder.i32("opcode").map_err(malformed)?;
    Ok(match xid {
        XID_PING => PacketKind::Ping { ours: false },
        _ if opcode == OpCode::CloseSession.code() => PacketKind::Close,
        _ => PacketKind::Request,
    })
}
