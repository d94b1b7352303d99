//! One connection: bytes to frames to requests, and answers back to bytes.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio_util::sync::CancellationToken;
use zk_curator_proto::records::{ConnectRequest, RequestHeader};
use zk_curator_proto::{DecodeError, Decoder, Encoder, OpCode, Record, Request, frame};

use crate::four_letter;
use crate::outbox::Outbox;
use crate::rule::Verdict;
use crate::shared::Shared;
use crate::watch::ConnectionId;

/// How much is read at once, in bytes.
const READ_SIZE: usize = 64 << 10;

/// How long a connection that has ended waits for the client to notice. Closing a TCP socket with unread
/// bytes makes the kernel discard what was sent but not yet delivered.
const LINGER: Duration = Duration::from_secs(1);

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
    mut reader: impl AsyncRead + Unpin,
    writer: impl AsyncWrite + Unpin,
) {
    let outbox = Arc::new(Outbox::new(cut));
    let Some(id) = shared.update(|state| state.open(Arc::clone(&outbox), peer)) else {
        return;
    };
    let connection = Connection { shared, outbox, id };
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
            end = connection.read(&mut reader) => if let Err(reason) = end {
                tracing::debug!(connection = id, %reason, "connection ended");
                return;
            },
        }
        tokio::select! {
            biased;
            () = outbox.was_cut() => return,
            () = writing => {}
        }
    }
    let discard = async { while reader.read(&mut [0; 1024]).await.is_ok_and(|read| read > 0) {} };
    tokio::select! {
        biased;
        () = outbox.was_cut() => {}
        _ = tokio::time::timeout(LINGER, discard) => {}
    }
}

struct Connection {
    shared: Arc<Shared>,
    outbox: Arc<Outbox>,
    id: ConnectionId,
}

/// However the task ends, the state forgets the connection.
impl Drop for Connection {
    fn drop(&mut self) {
        self.shared.update(|state| state.detach(self.id));
    }
}

impl Connection {
    /// Sends what is queued, until the outbox is sealed and empty or the client is gone.
    async fn write(&self, mut writer: impl AsyncWrite + Unpin) {
        let gate = self.shared.gate();
        while self.outbox.ready().await {
            gate.open().await;
            let bytes = self.outbox.take();
            if writer.write_all(&bytes).await.is_err() || writer.flush().await.is_err() {
                return;
            }
        }
        gate.open().await;
        if let Err(error) = writer.shutdown().await {
            tracing::debug!(connection = self.id, %error, "the client closed first");
        }
    }

    /// Reads and handles requests in order, until the outbox is sealed.
    async fn read(&self, reader: &mut (impl AsyncRead + Unpin)) -> Result<(), Ended> {
        let gate = self.shared.gate();
        let mut buf = BytesMut::new();
        let mut session = None;
        loop {
            gate.open().await;
            if session.is_none() && self.answer_word(&buf) {
                return Ok(());
            }
            while let Some(frame) = frame::take(&mut buf, self.shared.max_frame())? {
                gate.open().await;
                match session {
                    Some(session) => self.request(session, frame).await?,
                    None => session = self.handshake(frame)?,
                }
                if self.outbox.is_closed() {
                    return Ok(());
                }
            }
            self.outbox.has_room().await;
            buf.reserve(READ_SIZE);
            if reader.read_buf(&mut buf).await? == 0 {
                return Err(Ended::ByClient);
            }
        }
    }

    /// Answers a four-letter word in the place of the handshake; whether there was one.
    fn answer_word(&self, buf: &[u8]) -> bool {
        let word = buf.first_chunk().and_then(four_letter::Word::parse);
        if let Some(word) = word {
            self.shared.update(|state| state.answer_word(self.id, word));
        }
        word.is_some()
    }

    fn handshake(&self, frame: Bytes) -> Result<Option<i64>, Ended> {
        let length = frame.len();
        let request = ConnectRequest::decode(&mut Decoder::new(frame), "connect request")?;
        let mut with_flag = Encoder::new();
        request.encode(&mut with_flag);
        let legacy = length < with_flag.len();
        let session = self.shared.update(|state| state.connect(self.id, &request, legacy));
        self.shared.deadlines_changed();
        Ok(session)
    }

    async fn request(&self, session: i64, frame: Bytes) -> Result<(), Ended> {
        let mut input = Decoder::new(frame);
        let RequestHeader { xid, opcode } = Record::decode(&mut input, "request header")?;
        let Ok(opcode) = OpCode::try_from(opcode) else {
            self.shared.update(|state| state.unimplemented(self.id, xid));
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
                        self.shared.update(|state| state.malformed(self.id, xid, opcode));
                    }
                    _ if unknown => self.shared.update(|state| state.unimplemented(self.id, xid)),
                    _ => self.shared.update(|state| state.malformed(self.id, xid, opcode)),
                }
                return Ok(());
            }
        };
        self.judge_and_handle(session, xid, request).await;
        Ok(())
    }

    async fn judge_and_handle(&self, session: i64, xid: i32, request: Request) {
        let id = self.id;
        let judgement = self.shared.rules().judge(session, &request);
        if let Verdict::Delay(delay) = judgement.verdict {
            self.shared.update(|state| state.record_verdict(session, &request, judgement.verdict));
            judgement.has_taken_effect();
            tokio::time::sleep(delay).await;
            self.shared.gate().open().await;
            self.shared.update(|state| state.handle(id, xid, request));
            return;
        }
        self.shared.update(|state| {
            state.record_verdict(session, &request, judgement.verdict);
            match judgement.verdict {
                Verdict::Pass | Verdict::Delay(_) => state.handle(id, xid, request),
                Verdict::Refuse(code) => state.refuse(id, xid, &request, code),
                Verdict::LoseRequest => state.seal(id),
                Verdict::LoseReply => {
                    self.outbox.seal();
                    state.handle(id, xid, request);
                    state.seal(id);
                }
                Verdict::Disconnect => state.cut(id),
            }
        });
        judgement.has_taken_effect();
    }
}
