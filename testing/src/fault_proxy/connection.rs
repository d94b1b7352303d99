//! The task of a connection: moves bytes, and performs verdicts.

use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::timeout;
use zk_curator_client::internal::{Locked, Signal};
use zk_curator_proto::Request;

use super::conversation::{Conversation, Ended, Output};
use super::shared::{Admission, Conditions, Flow, Route, Shared};
use super::split::{ClientStream, Content, Piece};
use crate::rule::{Judgement, Verdict};

/// The room for each read, in bytes.
const CHUNK: usize = 16 << 10;

/// The number of bytes for a server that are collected before they are written.
const BATCH: usize = 64 << 10;

/// The time limit for a connection to a server.
const CONNECT: Duration = Duration::from_secs(10);

/// The time to wait for a peer after the connection ended. Closing a TCP socket with unread bytes
/// makes the kernel discard bytes that were sent but not delivered.
const LINGER: Duration = Duration::from_secs(1);

/// The time limit for the rest of the replies after a client has ended its requests.
const LAST_REPLIES: Duration = Duration::from_secs(60);

/// The end of a connection.
enum End {
    /// The client has closed it.
    Client,
    /// The client has closed it, and the server has heard nothing of the client.
    Unheard,
    /// The server has closed it, or a verdict ends it after the last reply.
    Replies,
    /// A verdict ends it immediately.
    Disconnect(Hit),
}

/// A judgement whose hit counts when it is dropped: also if the connection ends first, because the
/// rule has fired.
struct Hit(Judgement);

impl Drop for Hit {
    fn drop(&mut self) {
        self.0.has_taken_effect();
    }
}

/// The end of the requests.
enum Stop {
    ByClient,
    /// No further request is handled.
    Sealed,
    Disconnect(Hit),
}

/// A failure to move requests.
enum Failure {
    Client,
    /// The client has closed the connection before anything of it was forwarded.
    Unheard,
    Server,
}

/// Serves a connection until it ends, or `cut` is cancelled.
pub(super) async fn serve(
    shared: Arc<Shared>,
    route: Arc<Route>,
    client: TcpStream,
    peer: SocketAddr,
    admission: Admission,
) {
    let cut = &admission.cut;
    let id = shared.traffic.modify(|live| live.open(peer, route.number, cut.clone()));
    let connection = Connection {
        shared,
        route,
        id,
        conversation: Signal::new(Conversation::new()),
        lost: Locked::default(),
    };
    tokio::select! {
        // The cut comes first, because bytes that are released after it must not pass.
        biased;
        () = cut.cancelled() => {}
        () = connection.forward(client) => {}
    }
}

struct Connection {
    shared: Arc<Shared>,
    route: Arc<Route>,
    id: u64,
    conversation: Signal<Conversation>,
    /// The rule that has lost a reply.
    lost: Locked<Option<Hit>>,
}

/// Removes the connection, however its task ends.
impl Drop for Connection {
    fn drop(&mut self) {
        self.closed();
    }
}

impl Connection {
    fn closed(&self) {
        self.shared.traffic.modify(|live| live.close(self.id));
        // Its reply cannot arrive any more.
        let lost = self.lost.lock().take();
        drop(lost);
    }

    /// Forwards until one end has ended the connection, and ends it at the other end.
    async fn forward(&self, client: TcpStream) {
        let server = self.route.server.as_str();
        let server = match timeout(CONNECT, TcpStream::connect(server)).await {
            Ok(Ok(server)) => server,
            Ok(Err(error)) => return tracing::warn!(server, %error, "cannot connect"),
            Err(_) => return tracing::warn!(server, "cannot connect in time"),
        };
        for stream in [&client, &server] {
            if let Err(error) = stream.set_nodelay(true) {
                tracing::debug!(%error, "cannot set TCP_NODELAY");
            }
        }
        self.shared.granted.lock().take();
        let (mut from_client, mut to_client) = client.into_split();
        let (mut from_server, mut to_server) = server.into_split();
        let mut replies = Box::pin(self.replies(&mut from_server, &mut to_client));
        let end = tokio::select! {
            biased;
            end = self.requests(&mut from_client, &mut to_server) => end,
            () = &mut replies => End::Replies,
        };
        match end {
            End::Client => {
                self.closed();
                shut_down(&mut to_server).await;
                // The client may have closed only its sending half, as after a four-letter word.
                if timeout(LAST_REPLIES, replies).await.is_err() {
                    tracing::debug!(connection = self.id, "closed: the server does not");
                }
            }
            End::Unheard => {}
            End::Replies => {
                drop(replies);
                drop((from_server, to_server));
                shut_down(&mut to_client).await;
                self.closed();
                linger(&mut from_client).await;
            }
            End::Disconnect(hit) => {
                drop(replies);
                drop((from_client, to_client));
                self.closed();
                drop(hit);
                shut_down(&mut to_server).await;
                linger(&mut from_server).await;
            }
        }
    }

    async fn requests(&self, from: &mut OwnedReadHalf, to: &mut OwnedWriteHalf) -> End {
        match self.forward_requests(from, to).await {
            Ok(Stop::ByClient) | Err(Failure::Client) => End::Client,
            Ok(Stop::Disconnect(hit)) => End::Disconnect(hit),
            Ok(Stop::Sealed) => {
                discard(from).await;
                End::Client
            }
            Err(Failure::Unheard) => End::Unheard,
            // There may be replies left to read.
            Err(Failure::Server) => pending().await,
        }
    }

    async fn forward_requests(
        &self,
        from: &mut OwnedReadHalf,
        to: &mut OwnedWriteHalf,
    ) -> Result<Stop, Failure> {
        let mut stream = ClientStream::new(self.shared.frame_limit);
        let mut buf = BytesMut::new();
        let mut out = Requests { shared: &self.shared, to, bytes: BytesMut::new(), frames: 0 };
        loop {
            buf.reserve(CHUNK);
            let read = from.read_buf(&mut buf).await.map_err(|_| Failure::Client)?;
            let mut pieces = self.pieces(&mut stream, &mut buf);
            self.route.delay().await;
            if let Some(Content::Connect(_)) = pieces.first().map(|piece| &piece.content) {
                pieces.extend(self.read_ahead(from, &mut stream, &mut buf).await?);
            }
            if read == 0 {
                let flow = self.route.conditions.look(Conditions::requests);
                if stream.is_new() && flow == Flow::Stalled {
                    return Err(Failure::Unheard);
                }
                self.route.opens(Conditions::requests).await;
                out.bytes.extend_from_slice(&buf);
                out.flush().await?;
                return Ok(Stop::ByClient);
            }
            for piece in pieces {
                if let Some(stop) = self.handle(piece, &mut out).await? {
                    return Ok(stop);
                }
            }
            out.flush().await?;
        }
    }

    /// Takes the pieces off the front of `buf`.
    fn pieces(&self, stream: &mut ClientStream, buf: &mut BytesMut) -> Vec<Piece> {
        let pieces: Vec<_> = std::iter::from_fn(|| stream.next(buf)).collect();
        let frames = pieces.iter().filter(|piece| piece.ends_frame).count() as u64;
        self.shared.counts.modify(|counts| counts.received += frames);
        pieces
    }

    /// Waits until the requests of a new connection are not stalled, and returns the pieces after
    /// the handshake. Fails if the client closes the connection first: clients try again and again,
    /// and every attempt would wait. Reads about one chunk at most, so the end of a client that
    /// sends more is not noticed.
    async fn read_ahead(
        &self,
        from: &mut OwnedReadHalf,
        stream: &mut ClientStream,
        buf: &mut BytesMut,
    ) -> Result<Vec<Piece>, Failure> {
        let mut opens = pin!(self.route.opens(Conditions::requests));
        let (mut pieces, mut ahead) = (Vec::new(), 0);
        loop {
            buf.reserve(CHUNK);
            tokio::select! {
                biased;
                _ = &mut opens => return Ok(pieces),
                read = from.read_buf(buf), if ahead < CHUNK => match read {
                    Ok(0) | Err(_) => return Err(Failure::Unheard),
                    Ok(read) => {
                        ahead += read;
                        pieces.extend(self.pieces(stream, buf));
                    }
                },
            }
        }
    }

    async fn handle(&self, piece: Piece, out: &mut Requests<'_>) -> Result<Option<Stop>, Failure> {
        if !self.conversation.look(Conversation::has_room) {
            out.flush().await?;
            self.conversation.until(Conversation::has_room).await;
        }
        match &piece.content {
            Content::Connect(request) => self.conversation.modify(|talk| talk.connect(request)),
            Content::Foreign => {
                let server = self.route.server.as_str();
                tracing::info!(server, "rules do not apply: a client speaks another protocol");
                self.conversation.modify(Conversation::make_opaque);
            }
            _ => {}
        }
        match self.route.conditions.look(Conditions::requests) {
            Flow::Open => {}
            Flow::Lost => return Ok(None),
            Flow::Stalled => {
                out.flush().await?;
                if self.route.opens(Conditions::requests).await == Flow::Lost {
                    return Ok(None);
                }
            }
        }
        match &piece.content {
            Content::Connect(_) | Content::Foreign | Content::Raw => {}
            Content::Unknown { xid } => {
                if let Some(session) = self.session(out).await? {
                    self.shared.traffic.modify(|live| live.count_unknown(session));
                }
                self.conversation.modify(|talk| talk.forward(*xid, None));
            }
            Content::Request { xid, request } => {
                if let Some(session) = self.session(out).await? {
                    return self.judge(session, *xid, request, &piece, out).await;
                }
            }
        }
        out.push(&piece).await?;
        Ok(None)
    }

    /// Waits until the server has named the session. Returns `None` if it does not speak the
    /// protocol of ZooKeeper.
    async fn session(&self, out: &mut Requests<'_>) -> Result<Option<i64>, Failure> {
        let session = |talk: &Conversation| match talk.session() {
            _ if talk.is_opaque() => Some(None),
            session => session.map(Some),
        };
        if self.conversation.look(session).is_none() {
            out.flush().await?;
        }
        Ok(self.conversation.find(session).await)
    }

    async fn judge(
        &self,
        session: i64,
        xid: i32,
        request: &Request,
        piece: &Piece,
        out: &mut Requests<'_>,
    ) -> Result<Option<Stop>, Failure> {
        self.shared.traffic.modify(|live| live.count(session, request));
        let hit = Hit(self.route.rules.judge(session, request));
        let verdict = hit.0.verdict;
        if verdict != Verdict::Pass {
            let opcode = request.opcode();
            tracing::debug!(connection = self.id, session, ?opcode, ?verdict, "fault");
        }
        match verdict {
            Verdict::Pass => {}
            Verdict::Delay(delay) => {
                out.flush().await?;
                let late = hit.0.late(delay);
                drop(hit);
                late.await;
                if self.route.opens(Conditions::requests).await == Flow::Lost {
                    return Ok(None);
                }
            }
            Verdict::Refuse(code) => {
                self.conversation.modify(|talk| talk.refuse(xid, code));
                return Ok(None);
            }
            Verdict::LoseRequest => {
                out.flush().await?;
                self.conversation.modify(Conversation::lose_request);
                return Ok(Some(Stop::Sealed));
            }
            Verdict::LoseReply => {
                *self.lost.lock() = Some(hit);
                let opcode = Some(request.opcode());
                self.conversation.modify(|talk| talk.lose_reply(xid, opcode));
                out.push(piece).await?;
                out.flush().await?;
                return Ok(Some(Stop::Sealed));
            }
            Verdict::Disconnect => {
                out.flush_now();
                return Ok(Some(Stop::Disconnect(hit)));
            }
        }
        self.conversation.modify(|talk| talk.forward(xid, Some(request.opcode())));
        out.push(piece).await?;
        Ok(None)
    }

    /// Forwards replies until the server has closed the connection, or a verdict ends it. Discards
    /// them if the client does not receive them: earlier requests of the client may still wait, and
    /// reading from it shows its end.
    async fn replies(&self, from: &mut OwnedReadHalf, to: &mut OwnedWriteHalf) {
        let mut buf = BytesMut::new();
        let mut read = 1;
        let mut receives = true;
        loop {
            if self.conversation.look(Conversation::has_output) || read == 0 {
                self.route.delay().await;
                let flow = self.route.opens(Conditions::replies).await;
                let output = self.conversation.modify(Conversation::take);
                let ended = output.ended;
                if flow == Flow::Open && receives {
                    receives = self.send(output, to).await.is_ok();
                }
                if let Some(ended) = ended {
                    if ended == Ended::Malformed {
                        let server = self.route.server.as_str();
                        tracing::warn!(server, "closed a connection: malformed reply");
                    }
                    return;
                }
            }
            if read == 0 {
                return;
            }
            buf.reserve(CHUNK);
            tokio::select! {
                biased;
                received = from.read_buf(&mut buf) => {
                    // A server that has reset the connection has ended it.
                    read = received.unwrap_or(0);
                    self.conversation.modify(|talk| match read {
                        0 => talk.receive_last(&mut buf),
                        _ => talk.receive(&mut buf),
                    });
                }
                () = self.conversation.until(Conversation::has_output) => {}
            }
        }
    }

    async fn send(&self, output: Output, to: &mut OwnedWriteHalf) -> io::Result<()> {
        if let Some(granted) = output.granted {
            // Before the client can use it.
            self.shared.traffic.modify(|live| live.has_session(self.id, granted.id.get()));
            *self.shared.granted.lock() = Some(granted);
        }
        to.write_all(&output.bytes).await
    }
}

/// Requests on their way to a server.
struct Requests<'a> {
    shared: &'a Shared,
    to: &'a mut OwnedWriteHalf,
    bytes: BytesMut,
    frames: u64,
}

impl Requests<'_> {
    async fn push(&mut self, piece: &Piece) -> Result<(), Failure> {
        self.bytes.extend_from_slice(&piece.bytes);
        self.frames += u64::from(piece.ends_frame);
        if self.bytes.len() >= BATCH { self.flush().await } else { Ok(()) }
    }

    async fn flush(&mut self) -> Result<(), Failure> {
        if self.bytes.is_empty() {
            return Ok(());
        }
        self.to.write_all(&self.bytes).await.map_err(|_| Failure::Server)?;
        self.bytes.clear();
        let frames = std::mem::take(&mut self.frames);
        self.shared.counts.modify(|counts| counts.requests += frames);
        Ok(())
    }

    /// Writes what the server takes without waiting, before the connection ends.
    fn flush_now(&mut self) {
        match self.to.try_write(&self.bytes) {
            Ok(written) if written == self.bytes.len() => {
                let frames = std::mem::take(&mut self.frames);
                self.shared.counts.modify(|counts| counts.requests += frames);
            }
            Ok(written) => tracing::debug!(written, "the connection ends before other bytes"),
            Err(error) => tracing::debug!(%error, "the connection ends before any bytes"),
        }
    }
}

async fn shut_down(to: &mut OwnedWriteHalf) {
    if let Err(error) = to.shutdown().await {
        tracing::debug!(%error, "the peer closed first");
    }
}

/// Waits for the peer to close the connection.
async fn linger(from: &mut OwnedReadHalf) {
    if timeout(LINGER, discard(from)).await.is_err() {
        tracing::debug!("closed: the peer does not");
    }
}

/// Reads until the peer closes the connection.
async fn discard(from: &mut OwnedReadHalf) {
    let mut ignored = [0; 1024];
    while from.read(&mut ignored).await.is_ok_and(|read| read > 0) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::Rules;

    #[test]
    fn a_judgement_counts_however_its_connection_ends() {
        let rules = Arc::new(Rules::default());
        let guard = Rules::install([&rules], |_| Verdict::Disconnect).times(1);
        let hit = Hit(rules.judge(1, &Request::Ping));
        assert_eq!((guard.hits(), hit.0.verdict), (0, Verdict::Disconnect));
        drop(hit);
        assert_eq!(guard.hits(), 1);
        drop(Hit(rules.judge(1, &Request::Ping)));
        assert_eq!(guard.hits(), 1, "no rule fires any more");
    }
}
