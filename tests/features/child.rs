//! A test of this program as a process of its own, which others can signal, and which can exit.

use std::ffi::OsString;
use std::process::{ExitStatus, Stdio};

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{ChildStdout, Command};

/// The variable by which a test knows that it is the process. Its value is for the test.
const VARIABLE: &str = "ZK_CURATOR_TESTS_CHILD";

/// Returns the value that the process of a test was started with; `None` in the test itself.
pub(crate) fn value() -> Option<String> {
    std::env::var(VARIABLE).ok()
}

/// The process of a test. It is killed when this is dropped.
pub(crate) struct Child {
    process: tokio::process::Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Child {
    /// Starts a test, by its whole name. The process ignores no signals.
    pub(crate) fn start(test: &str, value: &str) -> Self {
        Self::spawn(Command::new(std::env::current_exe().unwrap()), test, value)
    }

    /// Starts a test in a process that ignores these signals from its start on.
    #[cfg(target_os = "linux")]
    pub(crate) fn start_ignoring(signals: &str, test: &str) -> Self {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("trap '' {signals}; exec \"$@\""), "sh"]);
        shell.arg(std::env::current_exe().unwrap());
        Self::spawn(shell, test, "")
    }

    fn spawn(mut command: Command, test: &str, value: &str) -> Self {
        zk_curator_real::default_signals();
        let arguments = ["--exact", test, "--nocapture"].map(OsString::from);
        let mut process = command
            .args(arguments)
            .env(VARIABLE, value)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        Self { process, lines }
    }

    pub(crate) fn id(&self) -> u32 {
        self.process.id().unwrap()
    }

    /// Waits for a line of the test. The harness may have printed something before it.
    pub(crate) async fn line(&mut self, wanted: &str) {
        while let Some(line) = self.lines.next_line().await.unwrap() {
            if line.ends_with(wanted) {
                return;
            }
        }
        panic!("it has ended without {wanted:?}");
    }

    pub(crate) async fn write(&mut self, line: &str) {
        let input = self.process.stdin.as_mut().unwrap();
        input.write_all(line.as_bytes()).await.unwrap();
    }

    /// Sends a signal, by its name without SIG.
    pub(crate) async fn signal(&self, name: &str) {
        let id = self.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &id]).status().await.unwrap();
        assert!(sent.success(), "kill -s {name} {id}");
    }

    pub(crate) async fn ended(mut self) -> ExitStatus {
        while self.lines.next_line().await.unwrap().is_some() {}
        self.process.wait().await.unwrap()
    }
}
