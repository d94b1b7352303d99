//! Shared functions of the services' tests: the program as a process, its output lines, and signals
//! to it.

use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::TcpStream;
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;
use zk_curator_testing::TestServer;

/// The time limit of every wait.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// The session timeout of the services in tests.
pub const SESSION_TIMEOUT: Duration = Duration::from_secs(2);

/// A running service. It is killed when the value is dropped.
pub struct Service {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Service {
    /// Starts a program with the address of a server.
    pub fn start(program: &str, server: &TestServer, arguments: &[&str]) -> Self {
        let mut child = Command::new(program)
            .args(arguments)
            .env("ZOOKEEPER", server.connect_string())
            .env("SESSION_TIMEOUT_MS", SESSION_TIMEOUT.as_millis().to_string())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("the program starts");
        let stdout = child.stdout.take().expect("it is piped");
        Self { child, lines: BufReader::new(stdout).lines() }
    }

    /// Returns the next line; `None` after the last one.
    pub async fn next_line(&mut self) -> Option<String> {
        let line = timeout(PATIENCE, self.lines.next_line()).await.expect("the service is silent");
        line.expect("its output can be read")
    }

    /// Waits for a line with this beginning, and returns the rest of it.
    pub async fn line(&mut self, beginning: &str) -> String {
        let found = async {
            while let Some(line) = self.next_line().await {
                if let Some(rest) = line.strip_prefix(beginning) {
                    return rest.trim().to_owned();
                }
            }
            panic!("the service has ended before it said {beginning:?}");
        };
        timeout(PATIENCE, found).await.unwrap_or_else(|_| panic!("no line {beginning:?}"))
    }

    /// Kills the process, like `kill -9`.
    pub async fn kill(mut self) {
        self.child.kill().await.expect("it runs");
    }

    /// Sends a signal such as `TERM`, `STOP`, `CONT`.
    pub async fn signal(&self, name: &str) {
        let pid = self.child.id().expect("it runs").to_string();
        let sent =
            Command::new("kill").args(["-s", name, &pid]).status().await.expect("there is a kill");
        assert!(sent.success(), "kill -s {name} {pid}");
    }

    /// Waits for the end of the process.
    pub async fn ended(mut self) -> ExitStatus {
        while self.next_line().await.is_some() {}
        timeout(PATIENCE, self.child.wait()).await.expect("it keeps running").expect("it has ended")
    }
}

/// The response to an HTTP request.
pub struct Response {
    pub status: u16,
    /// The headers, in lower case, a line each.
    pub headers: String,
    pub body: String,
}

/// Sends a GET request to a service, and returns the status and the body.
pub async fn get(address: &str, path: &str) -> (u16, String) {
    let Response { status, body, .. } = request(address, "GET", path, "").await;
    (status, body)
}

/// Sends an HTTP request to a service.
pub async fn request(address: &str, method: &str, path: &str, body: &str) -> Response {
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await.expect("it reads");
    let mut answer = String::new();
    timeout(PATIENCE, stream.read_to_string(&mut answer))
        .await
        .expect("no response")
        .expect("it is text");
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    let (headers, body) = answer.split_once("\r\n\r\n").expect("a body");
    Response { status, headers: headers.to_lowercase(), body: body.to_owned() }
}
