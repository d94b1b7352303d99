//! A program of this package as a process, and a client of its control port.
#![expect(clippy::unwrap_used, reason = "helpers of a test are not recognised as tests")]

use std::process::{ExitStatus, Output, Stdio};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::process::{Child, ChildStdout, Command};

use crate::common::{LONG, RawClient};

/// The token of all tests.
pub(crate) const TOKEN: &str = "a token of tests";

/// The options of a server whose control port is open. Sessions of 10 s are not shortened.
pub(crate) const CONTROL: &[&str] =
    &["--control", "0", "--tick-time", "100", "--max-session-timeout", "60000"];

/// A process whose servers are ready.
pub(crate) struct Program {
    pub(crate) process: Child,
    lines: Lines<BufReader<ChildStdout>>,
    /// The addresses of the servers.
    pub(crate) addresses: Vec<String>,
    /// The address of the control port.
    pub(crate) control: Option<String>,
}

impl Program {
    /// Starts `zk-test-server` on free ports.
    pub(crate) async fn start(options: &[&str]) -> Self {
        let options = [&["--port", "0"], options].concat();
        let count = options.iter().position(|option| *option == "--ensemble");
        let count = count.map_or(1, |at| options[at + 1].parse().unwrap());
        Self::launch(command(&options), count, options.contains(&"--control")).await
    }

    /// Starts `zk-fault-proxy`.
    pub(crate) async fn start_proxy(options: &[&str]) -> Self {
        let count = options.iter().filter(|option| **option == "--server").count();
        Self::launch(proxy_command(options), count, options.contains(&"--control")).await
    }

    /// Starts `zk-test-server` from a shell that ignores these signals.
    pub(crate) async fn start_ignoring(signals: &str) -> Self {
        let script = format!("trap '' {signals}; exec \"$0\" --port 0");
        let shell = with_token("sh", &["-c", &script, env!("CARGO_BIN_EXE_zk-test-server")]);
        Self::launch(shell, 1, false).await
    }

    /// Starts a program with a number of servers.
    async fn launch(mut command: Command, count: usize, has_control: bool) -> Self {
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut program = Self { process, lines, addresses: Vec::new(), control: None };
        for _ in 0..count {
            let line = program.line().await;
            let Some(address) = line.strip_prefix("listening on ") else { panic!("{line}") };
            program.addresses.push(address.to_owned());
        }
        if has_control {
            let line = program.line().await;
            let Some(address) = line.strip_prefix("control on ") else { panic!("{line}") };
            program.control = Some(address.to_owned());
        }
        program
    }

    /// Returns the next line of standard output.
    pub(crate) async fn line(&mut self) -> String {
        self.next_line().await.expect("a line before the end")
    }

    /// Returns the next line of standard output; `None` at the end.
    pub(crate) async fn next_line(&mut self) -> Option<String> {
        tokio::time::timeout(LONG, self.lines.next_line()).await.expect("a line in time").unwrap()
    }

    /// Returns the address of the first server.
    pub(crate) fn address(&self) -> &str {
        &self.addresses[0]
    }

    /// Connects a client to the first server.
    pub(crate) async fn client(&self) -> RawClient {
        RawClient::over_tcp(self.address()).await
    }

    /// Connects to the control port, without `hello`.
    pub(crate) async fn connect(&self) -> Control {
        let address = self.control.as_deref().expect("the control port");
        let (reader, writer) = TcpStream::connect(address).await.unwrap().into_split();
        Control { reader: BufReader::new(reader), writer, id: 0 }
    }

    /// Connects to the control port, and says hello.
    pub(crate) async fn controlled(&self) -> Control {
        let mut control = self.connect().await;
        control.ok("hello", json!({ "version": 1, "token": TOKEN })).await;
        control
    }

    /// Sends bytes to the server, and returns its response up to the end of the connection.
    pub(crate) async fn ask(&self, bytes: &[u8]) -> String {
        let mut stream = TcpStream::connect(self.address()).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        let mut answer = String::new();
        tokio::time::timeout(LONG, stream.read_to_string(&mut answer))
            .await
            .expect("an end")
            .unwrap();
        answer
    }

    /// Returns the id of the process.
    pub(crate) fn id(&self) -> u32 {
        self.process.id().expect("it runs")
    }

    /// Sends a signal. Returns the exit status and the standard error of the program.
    pub(crate) async fn signal(&mut self, signal: &str) -> (ExitStatus, String) {
        let pid = self.id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &pid]).status().await.unwrap().success());
        self.ended().await
    }

    /// Waits for the end. Returns the exit status and the standard error of the program.
    pub(crate) async fn ended(&mut self) -> (ExitStatus, String) {
        // Unlike `Child::wait`, this leaves standard input open.
        let input = self.process.stdin.take();
        let status =
            tokio::time::timeout(LONG, self.process.wait()).await.expect("an end in time").unwrap();
        drop(input);
        let mut errors = String::new();
        self.process.stderr.take().unwrap().read_to_string(&mut errors).await.unwrap();
        (status, errors)
    }

    /// Sends a signal. Asserts that the program ends cleanly and prints nothing more.
    pub(crate) async fn end(mut self, signal: &str) {
        let (status, errors) = self.signal(signal).await;
        assert_eq!((status.code(), errors.as_str()), (Some(0), ""), "{status}");
        assert_eq!(self.next_line().await, None);
        assert!(TcpStream::connect(self.address()).await.is_err());
    }
}

/// Returns the command of `zk-test-server`, with the token.
pub(crate) fn command(options: &[&str]) -> Command {
    with_token(env!("CARGO_BIN_EXE_zk-test-server"), options)
}

/// Returns the command of `zk-fault-proxy`, with the token.
pub(crate) fn proxy_command(options: &[&str]) -> Command {
    with_token(env!("CARGO_BIN_EXE_zk-fault-proxy"), options)
}

/// Returns the command of a program that ignores no signals.
fn with_token(program: &str, options: &[&str]) -> Command {
    zk_curator_real::default_signals();
    let mut command = Command::new(program);
    command.args(options).env("ZK_TEST_SERVER_TOKEN", TOKEN).kill_on_drop(true);
    command
}

/// Runs `zk-test-server` until it ends by itself.
pub(crate) async fn output(options: &[&str]) -> Output {
    tokio::time::timeout(LONG, command(options).output()).await.expect("an end in time").unwrap()
}

/// Returns the single line that the program prints about refused options.
pub(crate) async fn refusal(options: &[&str]) -> String {
    let Output { status, stdout, stderr } = output(options).await;
    let text = String::from_utf8(stderr).unwrap();
    assert_eq!(
        (status.code(), stdout.len(), text.lines().count()),
        (Some(2), 0, 1),
        "{options:?}: {text}"
    );
    text
}

/// A connection to the control port.
pub(crate) struct Control {
    reader: BufReader<OwnedReadHalf>,
    writer: OwnedWriteHalf,
    id: u64,
}

impl Control {
    /// Writes bytes unchanged.
    pub(crate) async fn write(&mut self, bytes: &[u8]) {
        self.writer.write_all(bytes).await.unwrap();
    }

    /// Ends what this side sends.
    pub(crate) async fn finish(&mut self) {
        self.writer.shutdown().await.unwrap();
    }

    /// Reads the next message; `None` at the end of the connection.
    pub(crate) async fn message(&mut self) -> Option<Value> {
        let mut line = Vec::new();
        let read = self.reader.read_until(b'\n', &mut line);
        // A connection that is cut with unread bytes is reset.
        match tokio::time::timeout(LONG, read).await.expect("a message in time") {
            Ok(0) | Err(_) => None,
            Ok(_) => Some(serde_json::from_slice(&line).unwrap()),
        }
    }

    /// Sends a request without reading the response.
    pub(crate) async fn send(&mut self, call: &str, parameters: Value) {
        self.id += 1;
        let mut request = parameters;
        request["id"] = self.id.into();
        request["call"] = call.into();
        self.write(format!("{request}\n").as_bytes()).await;
    }

    /// Reads a response to the last request: `ok`, or the code and the message of the error.
    pub(crate) async fn response(&mut self) -> Result<Value, (String, String)> {
        let mut message = self.message().await.expect("a response before the end");
        assert_eq!(message["id"], self.id, "{message}");
        match message.get_mut("ok") {
            Some(ok) => Ok(ok.take()),
            None => {
                let text = |field: &str| message["error"][field].as_str().unwrap().to_owned();
                Err((text("code"), text("message")))
            }
        }
    }

    /// Calls.
    pub(crate) async fn call(
        &mut self,
        call: &str,
        parameters: Value,
    ) -> Result<Value, (String, String)> {
        self.send(call, parameters).await;
        self.response().await
    }

    /// Calls, and returns the result of a call that succeeds.
    pub(crate) async fn ok(&mut self, call: &str, parameters: Value) -> Value {
        let result = self.call(call, parameters).await;
        result.unwrap_or_else(|(code, message)| panic!("{code}: {message}"))
    }

    /// Calls, and returns the message of the error with this code.
    pub(crate) async fn fails(&mut self, code: &str, call: &str, parameters: Value) -> String {
        let (found, message) = self.call(call, parameters).await.expect_err(call);
        assert_eq!(found, code, "{message}");
        assert!(message.starts_with(&format!("{call}: ")), "{message}");
        message
    }

    /// Waits for a condition.
    pub(crate) async fn until(&mut self, condition: Value) {
        self.ok("until", json!({ "condition": condition, "timeout_ms": 120_000 })).await;
    }
}
