//! A connection to the control port.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Number, Value};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::call::Call;
use super::lines::{Lines, MAX_LINE};
use super::message::{CallError, Code, Malformed, Request, response};
use super::service::Service;
use super::target::Target;
use super::token::Token;

/// The time within which a connection must say hello.
const HELLO_WITHIN: Duration = Duration::from_secs(10);
/// The time within which a client must read a part of a response.
const READ_WITHIN: Duration = Duration::from_secs(30);
/// The size of a part, in bytes.
const PART: usize = 64 * 1024;

/// The reason for the end of a connection.
enum End {
    /// The client has closed it, or does not read.
    Client,
    /// A response closes it.
    Refused,
}

/// Serves a connection until it ends.
pub(super) async fn serve<T: Target>(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    service: &Service<T>,
    token: &Token,
) {
    let (reader, writer) = tokio::io::split(stream);
    let mut connection = Connection { reader, writer, lines: Lines::default(), has_ended: false };
    let greeted = tokio::time::timeout(HELLO_WITHIN, connection.greet(service, token)).await;
    if matches!(greeted, Ok(Ok(()))) {
        // Every end is the same: there is nobody to tell.
        while connection.answer_next(service, token).await.is_ok() {}
    }
    connection.writer.shutdown().await.ok();
}

/// Refuses a connection because there are too many.
pub(super) async fn refuse(mut stream: impl AsyncWrite + Unpin, limit: usize) -> io::Result<()> {
    let error = CallError::new(Code::Failed, format!("{limit} connections are open"));
    stream.write_all(&response(None, Err(&error))).await
}

struct Connection<R, W> {
    reader: R,
    writer: W,
    lines: Lines,
    /// `true` after the end of the received bytes.
    has_ended: bool,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Connection<R, W> {
    /// Answers requests until a `hello` succeeds.
    async fn greet<T: Target>(&mut self, service: &Service<T>, token: &Token) -> Result<(), End> {
        loop {
            let Request { id, call } = match self.request().await? {
                Ok(request) => request,
                Err(malformed) => {
                    self.refuse(malformed).await?;
                    continue;
                }
            };
            if !is_allowed(&call, token) {
                return self.close(Some(id), &unauthorized()).await;
            }
            let result = service.call(call).await;
            self.respond(Some(&id), result.as_ref()).await?;
            if result.is_ok() {
                return Ok(());
            }
        }
    }

    /// Answers the next request.
    async fn answer_next<T: Target>(
        &mut self,
        service: &Service<T>,
        token: &Token,
    ) -> Result<(), End> {
        let Request { id, call } = match self.request().await? {
            Ok(request) => request,
            Err(malformed) => return self.refuse(malformed).await,
        };
        if matches!(call, Call::Hello { .. }) && !is_allowed(&call, token) {
            return self.close(Some(id), &unauthorized()).await;
        }
        let can_stop = matches!(call, Call::Until { .. });
        let result = {
            let mut running = std::pin::pin!(service.call(call));
            loop {
                tokio::select! {
                    biased;
                    result = &mut running => break result,
                    () = self.lines_or_end(), if !self.has_ended && !self.lines.is_full() => {}
                }
                // Nobody waits for the condition any more. Every other call ends by itself.
                if self.has_ended && can_stop {
                    return Err(End::Client);
                }
            }
        };
        self.respond(Some(&id), result.as_ref()).await
    }

    /// Returns the next line as a request.
    async fn request(&mut self) -> Result<Result<Request, Malformed>, End> {
        let line: Bytes = loop {
            match self.lines.next() {
                Some(Ok(line)) => break line,
                Some(Err(_)) => {
                    let text = format!("the line is longer than {MAX_LINE} bytes");
                    let error = CallError::new(Code::BadRequest, text);
                    return Ok(Err(Malformed { id: None, error, ends: true }));
                }
                // The rest of the bytes is no line.
                None if self.has_ended => return Err(End::Client),
                None => self.lines_or_end().await,
            }
        };
        Ok(Request::parse(&line))
    }

    /// Reads some bytes. A connection that fails has ended.
    async fn lines_or_end(&mut self) {
        let read = self.reader.read_buf(self.lines.buffer()).await;
        self.has_ended = read.unwrap_or(0) == 0;
    }

    async fn refuse(&mut self, malformed: Malformed) -> Result<(), End> {
        let Malformed { id, error, ends } = malformed;
        if ends {
            self.close(id, &error).await
        } else {
            self.respond(id.as_ref(), Err(&error)).await
        }
    }

    /// Sends an error, and ends the connection.
    async fn close(&mut self, id: Option<Number>, error: &CallError) -> Result<(), End> {
        self.respond(id.as_ref(), Err(error)).await?;
        Err(End::Refused)
    }

    async fn respond(
        &mut self,
        id: Option<&Number>,
        result: Result<&Value, &CallError>,
    ) -> Result<(), End> {
        let line = response(id, result);
        for part in line.chunks(PART) {
            let written = tokio::time::timeout(READ_WITHIN, self.writer.write_all(part)).await;
            if !matches!(written, Ok(Ok(()))) {
                return Err(End::Client);
            }
        }
        self.writer.flush().await.map_err(|_| End::Client)
    }
}

/// Returns `true` for a `hello` with the token.
fn is_allowed(call: &Call, token: &Token) -> bool {
    matches!(call, Call::Hello { token: presented, .. } if token.is(presented.expose()))
}

fn unauthorized() -> CallError {
    CallError::new(Code::Unauthorized, "say hello with the token of ZK_TEST_SERVER_TOKEN first")
}
