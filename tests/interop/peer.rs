//! A program of another client that answers commands: one line of its standard output for each line
//! of its standard input.

use std::ffi::OsStr;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout};
use tokio::time::timeout;
use zk_curator_real::java::Program;

/// A running program.
pub(crate) struct Peer {
    process: Child,
    commands: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
    /// The time for one response.
    patience: Duration,
}

impl Peer {
    /// Starts a Java program.
    pub(crate) fn java(
        program: &Program,
        arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
        patience: Duration,
    ) -> Self {
        Self::of(program.spawn(arguments).unwrap(), patience)
    }

    /// Wraps a process with piped standard input and output.
    pub(crate) fn of(mut process: Child, patience: Duration) -> Self {
        let commands = process.stdin.take().unwrap();
        let answers = BufReader::new(process.stdout.take().unwrap()).lines();
        Self { process, commands, answers, patience }
    }

    /// Returns the response to a command.
    pub(crate) async fn tell(&mut self, command: &str) -> String {
        self.commands.write_all(format!("{command}\n").as_bytes()).await.unwrap();
        let answer = timeout(self.patience, self.answers.next_line()).await;
        answer.ok().and_then(Result::unwrap).unwrap_or_else(|| panic!("no response to {command:?}"))
    }

    /// Ends the program's input and waits for its exit. The program closes its session first.
    pub(crate) async fn end(self) {
        let Self { mut process, commands, .. } = self;
        drop(commands);
        assert!(process.wait().await.unwrap().success());
    }
}
