//! Runs `zkc` as a process.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, Command};
use zk_curator_real::TempDir;
use zk_curator_testing::TestServer;

/// Longer than any command of a test takes, on a busy machine too.
const LIMIT: Duration = Duration::from_secs(240);

/// A process of `zkc` that has ended.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Outcome {
    /// Returns the output of a command that must succeed.
    #[track_caller]
    pub(crate) fn ok(self) -> String {
        assert_eq!(self.code, 0, "{self:?}");
        self.stdout
    }

    /// Returns the words for people of a command that must fail with this code.
    #[track_caller]
    pub(crate) fn fails(self, code: i32) -> String {
        assert_eq!(self.code, code, "{self:?}");
        self.stderr
    }

    /// Parses the output as JSON.
    #[track_caller]
    pub(crate) fn json(self) -> serde_json::Value {
        serde_json::from_str(&self.ok()).expect("JSON")
    }
}

/// The command line, with an environment of its own and in a folder of its own.
pub(crate) struct Zkc {
    pub(crate) server: TestServer,
    /// The servers that commands connect to: the embedded one, unless a test names others.
    pub(crate) servers: String,
    folder: TempDir,
}

impl Zkc {
    pub(crate) async fn start() -> Self {
        Self::on(TestServer::start().await)
    }

    pub(crate) fn on(server: TestServer) -> Self {
        let servers = server.connect_string();
        let folder = TempDir::new("zkc-test").expect("a folder");
        Self { server, servers, folder }
    }

    /// Returns a file of this test. Scripts name it without the folder, in which they run, because
    /// its path may have spaces.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file that only its owner may read, as those with secrets have to be.
    pub(crate) fn secret(&self, name: &str, text: &str) -> String {
        let file = self.file(name);
        std::fs::write(&file, "").expect("a file");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let only_owner = std::fs::Permissions::from_mode(0o600);
            std::fs::set_permissions(&file, only_owner).expect("a mode");
        }
        std::fs::write(&file, text).expect("a file");
        file.display().to_string()
    }

    /// Returns a command of `zkc` that is not started yet.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        self.program(env!("CARGO_BIN_EXE_zkc"), arguments)
    }

    /// Returns a program that is not started yet, which finds `zkc`. It ignores no signals.
    pub(crate) fn program(&self, program: &str, arguments: &[&str]) -> Command {
        zk_curator_real::default_signals();
        let folder = Path::new(env!("CARGO_BIN_EXE_zkc")).parent().expect("a folder");
        let others = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env_clear()
            .env("PATH", format!("{}:{others}", folder.display()))
            .env("ZK_CONNECT", &self.servers)
            .env("ZKC_CONFIG", self.file("config.toml"))
            .env("HOME", self.folder.path())
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    /// Runs a command.
    pub(crate) async fn run(&self, arguments: &[&str]) -> Outcome {
        self.run_with(arguments, "").await
    }

    /// Runs a command with this text on its standard input.
    pub(crate) async fn run_with(&self, arguments: &[&str], input: &str) -> Outcome {
        let child = self.command(arguments).stdin(Stdio::piped()).spawn().expect("zkc");
        end(child, input).await
    }

    /// Runs a command whose reader ends before it has read everything, as `head` does.
    pub(crate) async fn run_with_closed_pipe(&self, arguments: &[&str]) -> Outcome {
        let mut child = self.command(arguments).spawn().expect("zkc");
        let mut stdout = BufReader::with_capacity(1, child.stdout.take().expect("stdout"));
        stdout.fill_buf().await.expect("some output");
        drop(stdout);
        end(child, "").await
    }
}

/// Waits for the end of a process.
pub(crate) async fn end(mut child: Child, input: &str) -> Outcome {
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(input.as_bytes()).await.expect("stdin");
    }
    let output = child.wait_with_output();
    let output = tokio::time::timeout(LIMIT, output).await.expect("an end in time").expect("zkc");
    Outcome {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).expect("UTF-8"),
        stderr: String::from_utf8(output.stderr).expect("UTF-8"),
    }
}

/// Sends a signal to a process.
pub(crate) async fn signal(child: &Child, signal: &str) {
    let pid = child.id().expect("a running process").to_string();
    let kill = Command::new("kill").args([&format!("-{signal}"), &pid]).status().await;
    assert!(kill.expect("kill").success());
}
