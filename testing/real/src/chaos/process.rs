//! A client in a process of its own, as the process that watches sees it.

use std::io;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;

use super::ChaosError;
use super::journal::{Journal, Span};
use super::wire::{Heard, Told};
use super::worker::Life;
use zk_curator_sim::Event;
use zk_curator_sim::history::ProcessId;

/// A running client. Dropping it kills it.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    /// Lines for it.
    said: mpsc::UnboundedSender<Heard>,
    /// Ends with the output.
    reader: JoinHandle<()>,
}

impl Process {
    /// `granted` is told whenever the client has acquired something.
    pub(super) fn start(
        program: &Path,
        life: &Life,
        scenario: usize,
        journal: &Journal,
        granted: &Arc<Notify>,
    ) -> Result<Self, ChaosError> {
        let start = || {
            let mut command = Command::new(program);
            command.args(life.arguments()?).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
            let mut child = command.spawn()?;
            let missing = || io::Error::from(io::ErrorKind::BrokenPipe);
            let stdin = child.stdin.take().ok_or_else(missing)?;
            let stdout = child.stdout.take().ok_or_else(missing)?;
            Ok((child, stdin, stdout))
        };
        let (child, stdin, stdout) = start().map_err(ChaosError::io("start a client"))?;
        let (said, lines) = mpsc::unbounded_channel();
        tokio::spawn(write(stdin, lines));
        let journal = journal.clone();
        let listener = Listener {
            scenario,
            who: life.who(),
            journal,
            answers: said.clone(),
            granted: Arc::clone(granted),
        };
        let reader = tokio::spawn(async move {
            if let Err(error) = listener.read(stdout).await {
                let Listener { scenario, who, journal, .. } = listener;
                journal.fail(scenario, who, &format!("says what makes no sense: {error}"));
            }
        });
        Ok(Self { child, said, reader })
    }

    /// SIGSTOP.
    pub(super) fn stop(&self) -> Result<(), ChaosError> {
        self.signal(Signal::STOP)
    }

    /// SIGCONT.
    pub(super) fn resume(&self) -> Result<(), ChaosError> {
        self.signal(Signal::CONT)
    }

    fn signal(&self, signal: Signal) -> Result<(), ChaosError> {
        let id = self.child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        // If it has ended, it has no id.
        id.map_or(Ok(()), |id| kill_process(id, signal))
            .map_err(|error| ChaosError::io("signal a client")(error.into()))
    }

    /// SIGKILL. Returns when it has ended and all that it said is written down.
    pub(super) async fn kill(mut self) -> Result<(), ChaosError> {
        self.child.kill().await.map_err(ChaosError::io("kill a client"))?;
        // A panic in it would be ours.
        drop(self.reader.await);
        Ok(())
    }

    /// Tells it that there will be no more faults.
    pub(super) fn faults_are_over(&self) {
        // If it has ended, that is found out otherwise.
        drop(self.said.send(Heard::FaultsOver));
    }

    /// Whether it has ended by itself.
    pub(super) fn has_ended(&mut self) -> Result<bool, ChaosError> {
        self.child.try_wait().map(|status| status.is_some()).map_err(ChaosError::io("wait for a client"))
    }

    /// Waits for its end, and until all that it said is written down.
    ///
    /// # Cancel safety
    /// It may be called again.
    pub(super) async fn ended(&mut self) -> Result<ExitStatus, ChaosError> {
        let status = self.child.wait().await.map_err(ChaosError::io("wait for a client"))?;
        if !self.reader.is_finished() {
            drop((&mut self.reader).await);
        }
        Ok(status)
    }
}

/// Hears what a client says.
struct Listener {
    scenario: usize,
    who: ProcessId,
    journal: Journal,
    answers: mpsc::UnboundedSender<Heard>,
    granted: Arc<Notify>,
}

impl Listener {
    async fn read(&self, stdout: ChildStdout) -> io::Result<()> {
        let mut lines = BufReader::new(stdout).lines();
        while let Some(line) = lines.next_line().await? {
            match serde_json::from_str(&line) {
                Ok(told) => self.told(told),
                // Half a line is the last one of a process that was killed.
                Err(error) if error.is_eof() => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn told(&self, told: Told) {
        let Self { scenario, who, journal, answers, granted } = self;
        match told {
            Told::Event { at, event } => {
                if matches!(event, Event::Acquired { .. }) {
                    granted.notify_waiters();
                }
                journal.client_says(*scenario, *who, at, event);
            }
            Told::Stall { from, to } => journal.stall(Some((*scenario, *who)), Span { from, to }),
            Told::Use { call, resource, mode, hold, token } => {
                let event = journal.resource(*scenario, resource).use_as(mode, hold, token);
                // It may have ended.
                drop(answers.send(Heard::Used { call, event }));
            }
            Told::Failed { broken } => journal.violated(Some(*scenario), "workload", broken),
        }
    }
}

/// Writes lines until the process ends, or nobody has any.
async fn write(mut stdin: ChildStdin, mut lines: mpsc::UnboundedReceiver<Heard>) {
    while let Some(heard) = lines.recv().await {
        let Ok(mut line) = serde_json::to_vec(&heard) else { continue };
        line.push(b'\n');
        if stdin.write_all(&line).await.is_err() {
            return;
        }
    }
}
