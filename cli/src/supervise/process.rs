//! A command, with its process group.

use std::ffi::OsString;
use std::io::{self, PipeReader, PipeWriter, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::process::{Child, ChildStdin, Command};
use tokio::signal::unix::{Signal as Arrivals, SignalKind, signal};
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::exec;
use super::machine::Orders;
use super::orders::OrderMessage;
use super::terminal::{Awaited, Terminal, TerminalReply};

/// The time between two looks at the terminal that a command has, or waits for.
const LOOK: Duration = Duration::from_secs(1);

/// The variable with the number of a descriptor that is closed when the command should stop.
const DEADLINE_FD: &str = "ZKC_DEADLINE_FD";

/// The description of a process group that is not started yet.
#[derive(Debug)]
pub(crate) struct CommandSpec<'a> {
    pub(crate) command: &'a [OsString],
    pub(crate) environment: &'a [(&'static str, OsString)],
    /// Without standard input.
    pub(crate) no_stdin: bool,
}

/// A command that runs in a process group of its own. Dropping it kills the group.
#[derive(Debug)]
pub(crate) struct ProcessGroup {
    child: Child,
    id: Pid,
    exited: bool,
    /// Closed when the command should stop.
    alive: Option<PipeWriter>,
    terminal: Option<Terminal>,
    /// The command is stopped, because it has used the terminal in the background.
    awaited: Option<Awaited>,
    looks: Interval,
    children: Arrivals,
    /// A byte lets the command begin.
    start: Option<PipeWriter>,
    /// The orders for the watcher, which stops the group when this process is killed or stopped.
    watched: PipeWriter,
}

impl ProcessGroup {
    /// Starts a command. It begins with the first call of [`next`](Self::next), after the orders
    /// for it.
    pub(crate) fn start(start: &CommandSpec<'_>) -> io::Result<Self> {
        let terminal = if start.no_stdin { None } else { Terminal::present() };
        let stdin = if start.no_stdin { Stdio::null() } else { Stdio::inherit() };
        Self::begin(start, terminal, stdin)
    }

    /// Starts a command whose standard input is written by this process.
    pub(crate) fn start_with_input(start: &CommandSpec<'_>) -> io::Result<(Self, ChildStdin)> {
        let mut group = Self::begin(start, None, Stdio::piped())?;
        group.let_begin()?;
        let stdin = group.child.stdin.take();
        Ok((group, stdin.ok_or_else(|| io::Error::other("the command has no input"))?))
    }

    fn begin(
        start: &CommandSpec<'_>,
        terminal: Option<Terminal>,
        stdin: Stdio,
    ) -> io::Result<Self> {
        let children = signal(SignalKind::child())?;
        let (seen, alive) = io::pipe()?;
        let (may_start, go) = io::pipe()?;
        inherit(&seen)?;
        inherit(&may_start)?;
        let mut command = Command::new(this_program()?);
        command
            .args(exec::arguments(terminal.is_some(), may_start.as_raw_fd()))
            .args(start.command)
            .envs(start.environment.iter().map(|(name, value)| (name, value)))
            .env(DEADLINE_FD, seen.as_raw_fd().to_string())
            .stdin(stdin)
            .process_group(0);
        let child = command.spawn()?;
        let id = child.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw);
        let id = id.ok_or_else(|| io::Error::other("the command has no process"))?;
        let (of_watcher, watched) = io::pipe()?;
        // A watcher that is stopped must not stop this process.
        fcntl(&watched, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        let mut looks = interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let group = Self {
            child,
            id,
            exited: false,
            alive: Some(alive),
            terminal,
            awaited: None,
            looks,
            children,
            start: Some(go),
            watched,
        };
        // If it fails, dropping the group kills the command.
        watch(id, of_watcher)?;
        Ok(group)
    }

    /// Sends a signal to every process of the group. A group that is gone is no error. A signal
    /// that asks for the end also continues the group: a stopped process would not get it.
    pub(crate) fn signal(&self, signal: Signal) -> Result<(), Errno> {
        let asks = [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT];
        let continues = asks.contains(&signal).then_some(Signal::SIGCONT);
        for signal in std::iter::once(signal).chain(continues) {
            match killpg(self.id, signal) {
                Ok(()) | Err(Errno::ESRCH) => {}
                failed => return failed,
            }
        }
        Ok(())
    }

    fn let_begin(&mut self) -> io::Result<()> {
        match self.start.take() {
            // It may have been killed.
            Some(mut start) => start.write_all(b".").or_else(|error| match error.kind() {
                io::ErrorKind::BrokenPipe => Ok(()),
                _ => Err(error),
            }),
            None => Ok(()),
        }
    }

    /// Tells the watcher when to stop the group, unless newer orders arrive before.
    pub(super) fn order(&mut self, orders: Orders) {
        // The watcher may be gone, or stopped, with a full pipe.
        self.watched.write_all(&OrderMessage::of(orders).encode()).ok();
    }

    /// Closes the descriptor of `ZKC_DEADLINE_FD`.
    pub(crate) fn close_deadline(&mut self) {
        self.alive = None;
    }

    /// Waits for the end of the command, or for what happens to its terminal. After the end, takes
    /// the terminal back.
    pub(crate) async fn next(&mut self) -> io::Result<ProcessEvent> {
        self.let_begin()?;
        loop {
            let looks = self.terminal.is_some() || self.awaited.is_some();
            tokio::select! {
                biased;
                status = self.child.wait() => {
                    self.exited = true;
                    self.terminal = None;
                    return Ok(ProcessEvent::Exited(code(status?)));
                }
                Some(()) = self.children.recv() => match stopped_by(self.id) {
                    Some(Signal::SIGTSTP) => {
                        self.signal(Signal::SIGCONT)?;
                        return Ok(ProcessEvent::Continued);
                    }
                    Some(Signal::SIGTTIN | Signal::SIGTTOU) => {
                        self.awaited = Some(Awaited::begin());
                        if let Some(event) = self.look()? {
                            return Ok(event);
                        }
                        if self.awaited.is_some() {
                            return Ok(ProcessEvent::InBackground);
                        }
                    }
                    _ => {}
                },
                _ = self.looks.tick(), if looks => if let Some(event) = self.look()? {
                    return Ok(event);
                },
            }
        }
    }

    /// Looks at the terminal. A command that waits for it gets it in the foreground.
    fn look(&mut self) -> io::Result<Option<ProcessEvent>> {
        if self.terminal.as_ref().is_some_and(Terminal::is_gone) {
            self.terminal = None;
            self.awaited = None;
            return Ok(Some(ProcessEvent::HungUp));
        }
        let Some(awaited) = &mut self.awaited else { return Ok(None) };
        match awaited.ask(self.id) {
            TerminalReply::Wait => return Ok(None),
            TerminalReply::Lent(terminal) => self.terminal = Some(terminal),
            TerminalReply::Gone => {
                self.awaited = None;
                return Ok(Some(ProcessEvent::HungUp));
            }
        }
        self.awaited = None;
        self.signal(Signal::SIGCONT)?;
        Ok(None)
    }
}

/// An event of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProcessEvent {
    /// It has ended with this exit code.
    Exited(u8),
    /// The user has suspended it, and it was continued.
    Continued,
    /// It is stopped until it is in the foreground, because it uses the terminal.
    InBackground,
    /// The terminal that it had, or has waited for, is gone. A command that waits for it is
    /// stopped.
    HungUp,
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        if !self.exited {
            // Without a permission, nothing else can be done.
            self.signal(Signal::SIGKILL).ok();
        }
        // The watcher may be gone.
        self.watched.write_all(&OrderMessage::Farewell.encode()).ok();
    }
}

/// Starts the watcher: it stops a group at the times of its orders, and kills it when the other end
/// of the pipe is closed without a farewell.
fn watch(group: Pid, pipe: PipeReader) -> io::Result<()> {
    // The runtime waits for its end.
    let _watcher = Command::new(this_program()?)
        .args([exec::WATCH, &group.to_string()])
        .stdin(pipe)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()?;
    Ok(())
}

/// Returns the program of this process, also if its file was replaced.
fn this_program() -> io::Result<PathBuf> {
    if cfg!(target_os = "linux") { Ok("/proc/self/exe".into()) } else { std::env::current_exe() }
}

/// Keeps a descriptor open in the command.
fn inherit(pipe: &PipeReader) -> io::Result<()> {
    fcntl(pipe, FcntlArg::F_SETFD(FdFlag::empty()))?;
    Ok(())
}

fn code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}

/// Returns the signal that has stopped the process since the last call.
#[cfg(target_os = "linux")]
fn stopped_by(id: Pid) -> Option<Signal> {
    use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
    match waitid(Id::Pid(id), WaitPidFlag::WSTOPPED | WaitPidFlag::WNOHANG) {
        Ok(WaitStatus::Stopped(_, signal)) => Some(signal),
        _ => None,
    }
}

#[cfg(not(target_os = "linux"))]
const fn stopped_by(_: Pid) -> Option<Signal> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_of_a_signal_is_above_128() {
        assert_eq!(code(ExitStatus::from_raw(7 << 8)), 7);
        assert_eq!(code(ExitStatus::from_raw(9)), 137);
        assert_eq!(code(ExitStatus::from_raw(255 << 8)), 255);
    }
}
