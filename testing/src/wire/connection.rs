//! The task of a connection: decodes requests and writes responses.

use std::io;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio_util::sync::CancellationToken;
use zk_curator_client::internal::sleep;
use zk_curator_proto::records::{ConnectRequest, RequestHeader};
use zk_curator_proto::{DecodeError, Decoder, Encoder, OpCode, Record, Request, frame};

use super::gate::Gate;
use super::link::Link;
use super::shared::Shared;
use crate::ensemble::{handshake, requests};
use crate::four_letter;
use crate::ids::Place;
use crate::member::Outbox;
use crate::rule::Verdict;

/// The bounds of the read size, in bytes. The size grows after full reads and shrinks after others,
/// so an idle connection uses little memory.
const READ_SIZES: RangeInclusive<usize> = 1 << 10..=64 << 10;

/// The time to wait for the client after the connection ended. Closing a TCP socket with unread
/// bytes makes the kernel discard bytes that were sent but not delivered.
const LINGER: Duration = Duration::from_secs(1);

/// The time to wait for a client that does not read, after the connection ended.
const FLUSH: Duration = Duration::from_secs(10);

/// The reason for the end of a connection.
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
pub(super) async fn serve(
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
        // The client notices the end only after the network is back.
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
    let Some(id) = shared.update(|state| state.open(shared.member(), Arc::clone(&outbox), peer))
    else {
        return;
    };
    let here = Place { member: shared.member(), connection: id };
    let connection = Connection { shared: Arc::clone(shared), gate, outbox, here };
    let outbox = &connection.outbox;
    {
        let writing = connection.write(writer);
        tokio::pin!(writing);
        // The order is fixed, here and below, because a simulation must be repeatable.
        tokio::select! {
            biased;
            () = outbox.was_cut() => return,
            () = outbox.sealed() => {}
            () = &mut writing => return,
            end = connection.read(reader) => if let Err(reason) = end {
                tracing::debug!(connection = id, %reason, "connection ended");
                return;
            },
            // After reading the received data.
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
    here: Place,
}

/// Removes the connection from the state, however the task ends.
impl Drop for Connection<'_> {
    fn drop(&mut self) {
        self.shared.update(|state| state.detach(self.here));
    }
}

impl Connection<'_> {
    /// Sends queued frames until the outbox is sealed and empty, or the client is gone.
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
            tracing::debug!(connection = self.here.connection, %error, "the client closed first");
        }
    }

    /// Completes when the client has opened no session in time. Does not complete while the server
    /// is held or the network partitioned: requests may be unread then.
    async fn without_session(&self) {
        sleep(self.shared.limits().session_within).await;
        self.gate.receives().await;
        let Place { member, connection } = self.here;
        let session =
            self.shared.look(|state| state.member(member).connections().session_of(connection));
        if session.is_some() {
            std::future::pending::<()>().await;
        }
    }

    /// Completes when the client has had time to read the rest over a working network.
    async fn without_reader(&self) {
        loop {
            sleep(FLUSH).await;
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
            let opening = if session.is_none() {
                four_letter::Word::parse(&buf)
            } else {
                four_letter::Opening::Frame
            };
            if let four_letter::Opening::Word(word) = opening {
                self.shared.update(|state| four_letter::answer(state, self.here, word));
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
            self.shared.has_turn(self.here.connection).await;
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
        let session =
            self.shared.update(|state| handshake::connect(state, self.here, &request, legacy));
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
            self.shared.update(|state| requests::unimplemented(state, self.here, xid));
            return Ok(());
        };
        let request = match Request::decode_body(opcode, &mut input) {
            Ok(request) => request,
            Err(error) => {
                tracing::debug!(connection = self.here.connection, ?opcode, %error, "request refused");
                let unknown = matches!(error, DecodeError::InvalidValue { what: "opcode", .. });
                match opcode {
                    OpCode::Auth | OpCode::Sasl => return Err(error.into()),
                    OpCode::Multi | OpCode::MultiRead => {
                        self.shared
                            .update(|state| requests::malformed(state, self.here, xid, opcode));
                    }
                    _ if unknown => {
                        self.shared.update(|state| requests::unimplemented(state, self.here, xid));
                    }
                    _ => self
                        .shared
                        .update(|state| requests::malformed(state, self.here, xid, opcode)),
                }
                return Ok(());
            }
        };
        self.judge_and_handle(session, xid, request).await;
        Ok(())
    }

    async fn judge_and_handle(&self, session: i64, xid: i32, request: Request) {
        let here = self.here;
        let judgement = self.shared.rules().judge(session, &request);
        if let Verdict::Delay(delay) = judgement.verdict {
            self.shared.update(|state| {
                requests::record_verdict(state, here, session, &request, judgement.verdict);
            });
            judgement.has_taken_effect();
            judgement.late(delay).await;
            self.gate.receives().await;
            self.shared.update(|state| requests::handle(state, here, xid, request));
            return;
        }
        self.shared.update(|state| {
            requests::record_verdict(state, here, session, &request, judgement.verdict);
            match judgement.verdict {
                Verdict::Pass | Verdict::Delay(_) => requests::handle(state, here, xid, request),
                Verdict::Refuse(code) => requests::refuse(state, here, xid, &request, code),
                Verdict::LoseRequest => state.seal(here),
                Verdict::LoseReply => {
                    self.outbox.seal();
                    requests::handle(state, here, xid, request);
                    state.seal(here);
                }
                Verdict::Disconnect => state.cut(here),
            }
        });
        judgement.has_taken_effect();
    }
}
