//! Runs `zkc` as a process that receives signals and is read while it runs.
#![expect(clippy::unwrap_used, reason = "helpers of a test are not recognised as tests")]

use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::sync::mpsc;
use tokio::time::timeout;
use zk_curator_real::TempDir;
use zk_curator_testing::wait;

/// Longer than any step of a test takes, on a busy machine too.
pub(crate) const LIMIT: Duration = Duration::from_secs(240);

/// The result of a finished process.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Returns `zkc` with its options for a server. Its session does not end on a busy machine, unless
/// the test names another timeout.
pub(crate) fn zkc(servers: &str, arguments: &[&str]) -> Command {
    let mut command = program(env!("CARGO_BIN_EXE_zkc"), servers);
    command.args(["-s", servers]);
    if !arguments.contains(&"--session-timeout") {
        command.args(["--session-timeout", "40s"]);
    }
    command.args(arguments);
    command
}

/// Returns a program that finds `zkc`, which finds the server. It ignores no signals.
pub(crate) fn program(program: &str, servers: &str) -> Command {
    zk_curator_real::default_signals();
    let mut command = Command::new(program);
    command
        .env_clear()
        .env("ZK_CONNECT", servers)
        .env("ZKC_CONFIG", "/nonexistent/zkc.toml")
        .env("PATH", path_with_zkc())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}

/// Returns a search path on which commands find `zkc`.
fn path_with_zkc() -> String {
    let folder = Path::new(env!("CARGO_BIN_EXE_zkc")).parent().unwrap();
    format!("{}:{}", folder.display(), std::env::var("PATH").unwrap())
}

/// Runs `zkc` to its end.
pub(crate) async fn run(servers: &str, arguments: &[&str]) -> Finished {
    Running::start(servers, arguments).finish().await
}

/// A running `zkc`.
pub(crate) struct Running {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Running {
    pub(crate) fn start(servers: &str, arguments: &[&str]) -> Self {
        Self::spawn(&mut zkc(servers, arguments))
    }

    pub(crate) fn spawn(command: &mut Command) -> Self {
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        send(&self.child, signal);
    }

    /// Returns the next line on standard output.
    pub(crate) async fn line(&mut self) -> String {
        let line = timeout(LIMIT, self.lines.next_line()).await.unwrap().unwrap().unwrap();
        line.trim_end_matches('\r').to_owned()
    }

    /// Writes to standard input, which must be a pipe.
    pub(crate) async fn write(&mut self, text: &str) {
        let stdin = self.child.stdin.as_mut().unwrap();
        stdin.write_all(text.as_bytes()).await.unwrap();
        stdin.flush().await.unwrap();
    }

    /// Waits for the end, but not until standard output is closed.
    pub(crate) async fn ended(&mut self) -> ExitStatus {
        timeout(LIMIT, self.child.wait()).await.unwrap().unwrap()
    }

    /// Waits for the end, and returns the remaining output.
    pub(crate) async fn finish(self) -> Finished {
        let (_, mut no_signals) = mpsc::unbounded_channel();
        timeout(LIMIT, self.finish_signalled(&mut no_signals)).await.unwrap()
    }

    /// Does the same without a limit, and sends the process the signals that arrive until its end.
    /// They cannot meet another process that has got its id, as those of a second task could.
    pub(crate) async fn finish_signalled(
        mut self,
        signals: &mut mpsc::UnboundedReceiver<Signal>,
    ) -> Finished {
        let stdout = async {
            let mut stdout = String::new();
            while let Some(line) = self.lines.next_line().await.unwrap() {
                stdout += &line;
                stdout.push('\n');
            }
            stdout
        };
        let mut pipe = self.child.stderr.take().unwrap();
        let stderr = async {
            let mut stderr = Vec::new();
            pipe.read_to_end(&mut stderr).await.unwrap();
            String::from_utf8_lossy(&stderr).into_owned()
        };
        let status = async {
            loop {
                tokio::select! {
                    status = self.child.wait() => return status.unwrap(),
                    Some(signal) = signals.recv() => send(&self.child, signal),
                }
            }
        };
        let (stdout, stderr, status) = tokio::join!(stdout, stderr, status);
        Finished { code: status.code(), stdout, stderr }
    }
}

/// Sends a signal to a process that nobody has waited for, so its id is still its own.
fn send(child: &Child, signal: Signal) {
    kill(Pid::from_raw(child.id().unwrap().cast_signed()), signal).unwrap();
}

/// A folder of a test, removed at its end.
pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(TempDir::new("zkc").unwrap())
    }

    /// Starts `zkc` in this folder. Scripts name files without it, because its path may have
    /// spaces.
    pub(crate) fn start(&self, servers: &str, arguments: &[&str]) -> Running {
        Running::spawn(zkc(servers, arguments).current_dir(self.0.path()))
    }

    pub(crate) fn file(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }
}

/// Waits until a file has a text, and returns the content.
pub(crate) async fn file_with(path: &str, text: &str) -> String {
    let content = wait::until_some(async || {
        std::fs::read_to_string(path).ok().filter(|content| content.contains(text))
    });
    timeout(LIMIT, content).await.unwrap()
}

/// Returns `true` if a process is gone.
pub(crate) fn is_gone(process: &str) -> bool {
    // A zombie has ended, too.
    std::fs::read_to_string(format!("/proc/{process}/stat"))
        .map_or(true, |stat| stat.contains(") Z "))
}

/// Waits until a process is gone.
pub(crate) async fn gone(process: &str) {
    timeout(LIMIT, wait::until(async || is_gone(process))).await.unwrap();
}
