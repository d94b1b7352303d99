//! A connection to the control port.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Number, Value};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::call::Call;
use super::lines::{Lines, MAX_LINE};
use super::message::{CallError, Code, Malformed, Request, response};
use super::service::Service;
use super::target::Target;
use super::token::Token;

/// The maximum number of open connections that have said hello.
const MAX_CONNECTIONS: usize = 64;
/// The time within which a connection must end to make room for another one. A client that closes
/// connections and opens others does not know when the program has noticed their end.
const ROOM_WITHIN: Duration = Duration::from_secs(1);
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

/// The room for connections that have said hello.
#[derive(Debug, Clone)]
pub(super) struct Room(Arc<Semaphore>);

impl Room {
    pub(super) fn new() -> Self {
        Self(Arc::new(Semaphore::new(MAX_CONNECTIONS)))
    }

    async fn take(&self) -> Result<OwnedSemaphorePermit, CallError> {
        let place = tokio::time::timeout(ROOM_WITHIN, Arc::clone(&self.0).acquire_owned()).await;
        place.ok().and_then(Result::ok).ok_or_else(|| {
            let text = format!("hello: {MAX_CONNECTIONS} connections are open");
            CallError::new(Code::Failed, text)
        })
    }
}

/// Serves a connection until it ends, or `evicted` completes before it has said hello.
#[expect(clippy::disallowed_methods, reason = "the time limit of a connection")]
pub(super) async fn serve<T: Target>(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    service: &Service<T>,
    token: &Token,
    room: &Room,
    evicted: oneshot::Receiver<()>,
) {
    let (reader, writer) = tokio::io::split(stream);
    let mut connection = Connection { reader, writer, lines: Lines::default(), has_ended: false };
    let greeted = tokio::select! {
        greeted = connection.greet(service, token, room) => greeted,
        () = tokio::time::sleep(HELLO_WITHIN) => Err(End::Refused),
        _ = evicted => Err(End::Refused),
    };
    if let Ok(_room) = greeted {
        // Every end is the same: there is nobody to tell.
        while connection.answer_next(service, token).await.is_ok() {}
    }
    connection.writer.shutdown().await.ok();
}

struct Connection<R, W> {
    reader: R,
    writer: W,
    lines: Lines,
    /// `true` after the end of the received bytes.
    has_ended: bool,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Connection<R, W> {
    /// Responds to requests until a `hello` succeeds.
    async fn greet<T: Target>(
        &mut self,
        service: &Service<T>,
        token: &Token,
        room: &Room,
    ) -> Result<OwnedSemaphorePermit, End> {
        loop {
            let Request { id, call } = match self.request().await? {
                Ok(request) => request,
                Err(malformed) => {
                    self.refuse(malformed).await?;
                    continue;
                }
            };
            if !is_allowed(&call, token) {
                return Err(self.close(Some(id), &unauthorized()).await);
            }
            let place = match room.take().await {
                Ok(place) => place,
                Err(error) => return Err(self.close(Some(id), &error).await),
            };
            let result = service.call(call).await;
            self.respond(Some(&id), result.as_ref()).await?;
            if result.is_ok() {
                return Ok(place);
            }
        }
    }

    /// Responds to the next request.
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
            return Err(self.close(Some(id), &unauthorized()).await);
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
            Err(self.close(id, &error).await)
        } else {
            self.respond(id.as_ref(), Err(&error)).await
        }
    }

    /// Sends an error, after which the connection ends.
    async fn close(&mut self, id: Option<Number>, error: &CallError) -> End {
        self.respond(id.as_ref(), Err(error)).await.err().unwrap_or(End::Refused)
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
        let served = tokio::spawn(async move {
            let (_stays, evicted) = oneshot::channel();
            serve(server, &service, &token, &Room::new(), evicted).await;
        });
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
    async fn a_connection_waits_for_the_end_of_another() {
        let room = Room::new();
        let mut places = Vec::new();
        for _ in 0..MAX_CONNECTIONS {
            places.push(room.take().await.unwrap());
        }
        assert_eq!(room.take().await.unwrap_err().code(), Code::Failed);
        let mut next = std::pin::pin!(room.take());
        assert!(tokio::time::timeout(ROOM_WITHIN / 2, &mut next).await.is_err());
        places.pop();
        assert!(next.await.is_ok());
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
        // At the end of its time, it would have a response.
        assert_eq!(client.read_to_end(&mut Vec::new()).await.unwrap(), 0);
    }
}
