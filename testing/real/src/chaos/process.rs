//! A client in a process of its own, as seen by the watching process.

use std::io;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;

use super::error::ChaosError;
use super::journal::{Journal, Span};
use super::wire::{Heard, Told};
use super::worker::Life;
use zk_curator_sim::Event;
use zk_curator_sim::history::{Hold, ProcessId};

/// A running client. Dropping it kills it.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    /// The lines for the client.
    said: mpsc::UnboundedSender<Heard>,
    /// The task that reads the output, and ends with it.
    reader: JoinHandle<()>,
}

impl Process {
    /// Starts a client. `granted` is notified whenever the client has acquired a resource.
    pub(super) fn start(
        program: &Path,
        life: &Life,
        scenario: usize,
        journal: &Journal,
        granted: &Arc<Notify>,
    ) -> Result<Self, ChaosError> {
        let start = || {
            let mut command = Command::new(program);
            command
                .args(life.arguments()?)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .kill_on_drop(true);
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

    /// Stops the process (SIGSTOP).
    pub(super) fn stop(&self) -> Result<(), ChaosError> {
        self.signal(Signal::STOP)
    }

    /// Resumes the process (SIGCONT).
    pub(super) fn resume(&self) -> Result<(), ChaosError> {
        self.signal(Signal::CONT)
    }

    fn signal(&self, signal: Signal) -> Result<(), ChaosError> {
        let id = self.child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        // A process that has ended has no id.
        id.map_or(Ok(()), |id| kill_process(id, signal))
            .map_err(|error| ChaosError::io("signal a client")(error.into()))
    }

    /// Kills the process (SIGKILL). Returns after it has ended and its output is recorded.
    pub(super) async fn kill(mut self) -> Result<(), ChaosError> {
        self.child.kill().await.map_err(ChaosError::io("kill a client"))?;
        // The reader does not panic.
        drop(self.reader.await);
        Ok(())
    }

    /// Tells the client that there will be no more faults.
    pub(super) fn faults_are_over(&self) {
        // The end of the process is detected elsewhere.
        drop(self.said.send(Heard::FaultsOver));
    }

    /// Returns `true` if the process has ended by itself.
    pub(super) fn has_ended(&mut self) -> Result<bool, ChaosError> {
        self.child
            .try_wait()
            .map(|status| status.is_some())
            .map_err(ChaosError::io("wait for a client"))
    }

    /// Waits until the process has ended and its output is recorded.
    ///
    /// # Cancel safety
    /// If the future is dropped, it may be called again.
    pub(super) async fn ended(&mut self) -> Result<ExitStatus, ChaosError> {
        let status = self.child.wait().await.map_err(ChaosError::io("wait for a client"))?;
        if !self.reader.is_finished() {
            drop((&mut self.reader).await);
        }
        Ok(status)
    }
}

/// The receiver of the lines of a client.
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
                // A killed process may end with half a line.
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
                if matches!(event, Event::Hold(Hold::Acquired { .. })) {
                    granted.notify_waiters();
                }
                journal.client_says(*scenario, *who, at, event);
            }
            Told::Stall { from, to } => journal.stall(Some((*scenario, *who)), Span { from, to }),
            Told::Use { call, resource, mode, token } => {
                let outcome = journal.use_resource(*scenario, resource, mode, token);
                // The process may have ended.
                drop(answers.send(Heard::Used { call, outcome }));
            }
            Told::Failed { broken } => journal.violated(Some(*scenario), "workload", broken),
        }
    }
}

/// Writes lines until the process ends, or the sender is dropped.
async fn write(mut stdin: ChildStdin, mut lines: mpsc::UnboundedReceiver<Heard>) {
    while let Some(heard) = lines.recv().await {
        let Ok(mut line) = serde_json::to_vec(&heard) else { continue };
        line.push(b'\n');
        if stdin.write_all(&line).await.is_err() {
            return;
        }
    }
}
