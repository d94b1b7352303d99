//! One connection: bytes to frames to requests, and answers back to bytes.

use std::io;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio_util::sync::CancellationToken;
use zk_curator_proto::records::{ConnectRequest, RequestHeader};
use zk_curator_proto::{DecodeError, Decoder, Encoder, OpCode, Record, Request, frame};

use crate::four_letter;
use crate::member::MemberId;
use crate::network::Link;
use crate::outbox::Outbox;
use crate::rule::Verdict;
use crate::shared::{Gate, Shared};
use crate::watch::ConnectionId;

/// How much is read at once, in bytes: as much as the longest lets in after reads that were full, as the shortest
/// after others, so that an idle connection keeps little.
const READ_SIZES: RangeInclusive<usize> = 1 << 10..=64 << 10;

/// How long a connection that has ended waits for the client to notice. Closing a TCP socket with unread
/// bytes makes the kernel discard what was sent but not yet delivered.
const LINGER: Duration = Duration::from_secs(1);

/// How long a connection that has ended waits for a client that does not read.
const FLUSH: Duration = Duration::from_secs(10);

/// Why a connection cannot go on.
#[derive(Debug, thiserror::Error)]
enum Ended {
    #[error("closed by the client")]
    ByClient,
    #[error("input/output error")]
    Io(#[from] io::Error),
    #[error("malformed input")]
    Malformed(#[from] DecodeError),
}

/// Serves a connection until it ends, or `cut` is cancelled.
pub(crate) async fn serve(
    shared: Arc<Shared>,
    cut: CancellationToken,
    peer: SocketAddr,
    link: Option<Arc<Link>>,
    mut reader: impl AsyncRead + Unpin + Send + 'static,
    mut writer: impl AsyncWrite + Unpin + Send + 'static,
) {
    let gate = shared.gate(link);
    serve_until_end(&shared, &gate, cut, peer, &mut reader, &mut writer).await;
    if !gate.is_connected() {
        // The client does not hear of the end before the network is back.
        shared.spawn_apart(async move {
            gate.connected().await;
            drop((reader, writer));
        });
    }
}

async fn serve_until_end(
    shared: &Arc<Shared>,
    gate: &Gate,
    cut: CancellationToken,
    peer: SocketAddr,
    reader: &mut (impl AsyncRead + Unpin),
    writer: &mut (impl AsyncWrite + Unpin),
) {
    let outbox = Arc::new(Outbox::new(cut, shared.limits().backlog));
    let Some(id) = shared.update(|state| state.open(shared.member(), Arc::clone(&outbox), peer)) else {
        return;
    };
    let connection = Connection { at: shared.member(), shared: Arc::clone(shared), gate, outbox, id };
    let outbox = &connection.outbox;
    {
        let writing = connection.write(writer);
        tokio::pin!(writing);
        // In a fixed order, here and below: a simulation must replay.
        tokio::select! {
            biased;
            () = outbox.was_cut() => return,
            () = outbox.sealed() => {}
            () = &mut writing => return,
            end = connection.read(reader) => if let Err(reason) = end {
                tracing::debug!(connection = id, %reason, "connection ended");
                return;
            },
            // After what has arrived was read.
            () = connection.without_session() => {
                tracing::info!(connection = id, %peer, "closed: no session in time");
                return;
            }
        }
        tokio::select! {
            biased;
            () = outbox.was_cut() => return,
            () = writing => {}
            () = connection.without_reader() => {
                tracing::info!(connection = id, %peer, "closed: the client does not read");
                return;
            }
        }
    }
    let discard = async { while reader.read(&mut [0; 1024]).await.is_ok_and(|read| read > 0) {} };
    tokio::select! {
        biased;
        () = outbox.was_cut() => {}
        _ = tokio::time::timeout(LINGER, discard) => {}
    }
}

struct Connection<'a> {
    shared: Arc<Shared>,
    gate: &'a Gate,
    outbox: Arc<Outbox>,
    at: MemberId,
    id: ConnectionId,
}

/// However the task ends, the state forgets the connection.
impl Drop for Connection<'_> {
    fn drop(&mut self) {
        self.shared.update(|state| state.detach(self.at, self.id));
    }
}

impl Connection<'_> {
    /// Sends what is queued, until the outbox is sealed and empty or the client is gone.
    async fn write(&self, writer: &mut (impl AsyncWrite + Unpin)) {
        while self.outbox.ready().await {
            self.gate.sends().await;
            let bytes = self.outbox.take();
            if writer.write_all(&bytes).await.is_err() || writer.flush().await.is_err() {
                return;
            }
        }
        self.gate.sends().await;
        if let Err(error) = writer.shutdown().await {
            tracing::debug!(connection = self.id, %error, "the client closed first");
        }
    }

    /// Completes when the client has had time to open a session, and has none. Whatever it has sent meanwhile must
    /// have been read: as long as the server is held, or the network partitioned, that cannot be.
    async fn without_session(&self) {
        tokio::time::sleep(self.shared.limits().session_within).await;
        self.gate.receives().await;
        if self.shared.look(|state| state.has_session(self.at, self.id)) {
            std::future::pending::<()>().await;
        }
    }

    /// Completes when the client has had time to read the rest, while the network carried it.
    async fn without_reader(&self) {
        loop {
            tokio::time::sleep(FLUSH).await;
            let sends = tokio::select! {
                biased;
                () = self.gate.sends() => true,
                () = std::future::ready(()) => false,
            };
            if sends {
                return;
            }
            self.gate.sends().await;
        }
    }

    /// Reads and handles requests in order, until the outbox is sealed.
    async fn read(&self, reader: &mut (impl AsyncRead + Unpin)) -> Result<(), Ended> {
        let mut buf = BytesMut::new();
        let mut read_size = *READ_SIZES.start();
        let mut session = None;
        loop {
            self.gate.receives().await;
            let opening =
                if session.is_none() { four_letter::Word::parse(&buf) } else { four_letter::Opening::Frame };
            if let four_letter::Opening::Word(word) = opening {
                self.shared.update(|state| state.answer_word(self.at, self.id, word));
                return Ok(());
            }
            while opening == four_letter::Opening::Frame
                && let Some(frame) = frame::take(&mut buf, self.shared.limits().frame)?
            {
                self.gate.receives().await;
                match session {
                    Some(session) => self.request(session, frame).await?,
                    None => session = self.handshake(frame)?,
                }
                if !self.outbox.has_room().await {
                    return Ok(());
                }
            }
            self.shared.has_turn(self.id).await;
            if buf.is_empty() && buf.capacity() > read_size {
                buf = BytesMut::new();
            }
            buf.reserve(read_size);
            let room = buf.capacity() - buf.len();
            match reader.read_buf(&mut buf).await? {
                0 => {
                    self.gate.receives().await;
                    return Err(Ended::ByClient);
                }
                read if read == room => read_size = (read_size * 4).min(*READ_SIZES.end()),
                read if read < room / 8 => read_size = (read_size / 4).max(*READ_SIZES.start()),
                _ => {}
            }
        }
    }

    fn handshake(&self, frame: Bytes) -> Result<Option<i64>, Ended> {
        let length = frame.len();
        let request = ConnectRequest::decode(&mut Decoder::new(frame), "connect request")?;
        let mut with_flag = Encoder::new();
        request.encode(&mut with_flag);
        let legacy = length < with_flag.len();
        let session = self.shared.update(|state| state.connect(self.at, self.id, &request, legacy));
        if let (Some(session), Some(link)) = (session, self.gate.link()) {
            link.has_session(session);
        }
        self.shared.deadlines_changed();
        Ok(session)
    }

    async fn request(&self, session: i64, frame: Bytes) -> Result<(), Ended> {
        let mut input = Decoder::new(frame);
        let RequestHeader { xid, opcode } = Record::decode(&mut input, "request header")?;
        let Ok(opcode) = OpCode::try_from(opcode) else {
            self.shared.update(|state| state.unimplemented(self.at, self.id, xid));
            return Ok(());
        };
        let request = match Request::decode_body(opcode, &mut input) {
            Ok(request) => request,
            Err(error) => {
                tracing::debug!(connection = self.id, ?opcode, %error, "request refused");
                let unknown = matches!(error, DecodeError::InvalidValue { what: "opcode", .. });
                match opcode {
                    OpCode::Auth | OpCode::Sasl => return Err(error.into()),
                    OpCode::Multi | OpCode::MultiRead => {
                        self.shared.update(|state| state.malformed(self.at, self.id, xid, opcode));
                    }
                    _ if unknown => self.shared.update(|state| state.unimplemented(self.at, self.id, xid)),
                    _ => self.shared.update(|state| state.malformed(self.at, self.id, xid, opcode)),
                }
                return Ok(());
            }
        };
        self.judge_and_handle(session, xid, request).await;
        Ok(())
    }

    async fn judge_and_handle(&self, session: i64, xid: i32, request: Request) {
        let (at, id) = (self.at, self.id);
        let judgement = self.shared.rules().judge(session, &request);
        if let Verdict::Delay(delay) = judgement.verdict {
            self.shared.update(|state| state.record_verdict(at, session, &request, judgement.verdict));
            judgement.has_taken_effect();
            tokio::time::sleep(delay).await;
            self.gate.receives().await;
            self.shared.update(|state| state.handle(at, id, xid, request));
            return;
        }
        self.shared.update(|state| {
            state.record_verdict(at, session, &request, judgement.verdict);
            match judgement.verdict {
                Verdict::Pass | Verdict::Delay(_) => state.handle(at, id, xid, request),
                Verdict::Refuse(code) => state.refuse(at, id, xid, &request, code),
                Verdict::LoseRequest => state.seal(at, id),
                Verdict::LoseReply => {
                    self.outbox.seal();
                    state.handle(at, id, xid, request);
                    state.seal(at, id);
                }
                Verdict::Disconnect => state.cut(at, id),
            }
        });
        judgement.has_taken_effect();
    }
}
