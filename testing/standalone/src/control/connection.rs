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

#[cfg(test)]
mod tests {
    use std::fmt::Display;

    use serde_json::json;
    use tokio::io::{AsyncBufReadExt, BufReader, DuplexStream, duplex};
    use zk_curator_testing::{RuleGuard, TestCluster};

    use super::super::condition::Condition;
    use super::super::target::Decide;
    use super::*;

    /// Servers whose probe is long.
    struct Verbose(TestCluster);

    impl Target for Verbose {
        const KIND: &'static str = "server";

        fn connect_string(&self) -> String {
            self.0.connect_string()
        }

        fn install(&self, _: Option<usize>, decide: Decide) -> Result<RuleGuard, CallError> {
            Ok(self.0.rule(decide))
        }

        async fn perform(&self, call: Call) -> Result<Value, CallError> {
            match call {
                Call::Probe { .. } => Ok(json!("x".repeat(1 << 20))),
                call => Err(CallError::unsupported(call.name(), "this only talks")),
            }
        }

        async fn wait(&self, condition: &Condition) -> Result<(), CallError> {
            self.0.until(|probe| condition.holds(probe)).await;
            Ok(())
        }

        fn state(&self) -> impl Display {
            self.0.probe()
        }
    }

    const HELLO: &str =
        "{\"id\":1,\"call\":\"hello\",\"version\":1,\"token\":\"0123456789abcdef\"}\n";

    /// Returns a connection, and the task that serves it.
    async fn connection() -> (BufReader<DuplexStream>, tokio::task::JoinHandle<()>) {
        let (client, server) = duplex(1024);
        let target = Verbose(TestCluster::in_memory(1).await);
        let service = Service::new(target);
        let token = Token::new("0123456789abcdef".to_owned()).unwrap();
        let served = tokio::spawn(async move { serve(server, &service, &token).await });
        (BufReader::new(client), served)
    }

    async fn next(client: &mut BufReader<DuplexStream>) -> Value {
        let mut line = String::new();
        client.read_line(&mut line).await.unwrap();
        serde_json::from_str(&line).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_without_hello_is_closed() {
        let (mut client, served) = connection().await;
        client.write_all(b"{\"id\":1,").await.unwrap();
        served.await.unwrap();
        assert_eq!(client.read_to_end(&mut Vec::new()).await.unwrap(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_read_is_disconnected() {
        let (mut client, served) = connection().await;
        client.write_all(HELLO.as_bytes()).await.unwrap();
        assert_eq!(next(&mut client).await["ok"]["kind"], "server");
        client.write_all(b"{\"id\":2,\"call\":\"probe\"}\n").await.unwrap();
        served.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_reads_slowly_gets_the_whole_response() {
        let (mut client, served) = connection().await;
        client.write_all(HELLO.as_bytes()).await.unwrap();
        next(&mut client).await;
        client.write_all(b"{\"id\":2,\"call\":\"probe\"}\n").await.unwrap();
        let mut response = Vec::new();
        while !response.ends_with(b"\n") {
            tokio::time::advance(READ_WITHIN / 100).await;
            let bytes = client.fill_buf().await.unwrap();
            let read = bytes.len();
            assert!(read > 0, "the connection ends after {} bytes", response.len());
            response.extend_from_slice(bytes);
            client.consume(read);
        }
        let response: Value = serde_json::from_slice(&response).unwrap();
        assert_eq!(response["ok"].as_str().unwrap().len(), 1 << 20);
        client.shutdown().await.unwrap();
        served.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn the_end_of_the_client_ends_its_wait() {
        let (mut client, served) = connection().await;
        client.write_all(HELLO.as_bytes()).await.unwrap();
        next(&mut client).await;
        let wait = "{\"id\":2,\"call\":\"until\",\"timeout_ms\":4000000000,\"condition\":{\"exists\":\"/a\"}}\n";
        client.write_all(wait.as_bytes()).await.unwrap();
        client.shutdown().await.unwrap();
        served.await.unwrap();
        // At the end of its time, it would have an answer.
        assert_eq!(client.read_to_end(&mut Vec::new()).await.unwrap(), 0);
    }
}
