//! Processes that help with a command: `zkc __exec` becomes the command, and `zkc __watch` stops it
//! when `zkc` is killed, or does not run.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::{Pid, getppid};

use super::orders::{self, LENGTH, OrderMessage};
use super::terminal;
use crate::exit::Exit;

/// The greatest time between two looks at the clock, in milliseconds. Timers stand still while the
/// machine is suspended.
const LOOK_MS: u64 = 1_000;

/// The first argument of a process that becomes a command. Its arguments are the process that
/// starts it, `-` or `+` with the terminal, a descriptor with a byte when it may, and the command.
pub(super) const EXEC: &str = "__exec";

/// The first argument of a process that watches `zkc`. Its argument is the process group of the
/// command.
pub(super) const WATCH: &str = "__watch";

const NOT_EXECUTABLE: u8 = Exit::NOT_EXECUTABLE.code();
const NOT_FOUND: u8 = Exit::NOT_FOUND.code();

/// Returns the arguments of `zkc __exec PARENT TERMINAL START COMMAND…`.
pub(super) fn arguments(has_terminal: bool, start: RawFd) -> [OsString; 4] {
    let (parent, terminal) = (std::process::id().to_string(), if has_terminal { "+" } else { "-" });
    [EXEC.into(), parent.into(), terminal.into(), start.to_string().into()]
}

/// Does the work of this process, if it was started for a command. Returns its exit code.
pub(crate) fn run() -> Option<u8> {
    let mut arguments = std::env::args_os().skip(1);
    let role = arguments.next()?;
    if role != EXEC && role != WATCH {
        return None;
    }
    let id = arguments.next().and_then(|id| id.to_str()?.parse().ok()).map(Pid::from_raw);
    Some(match id {
        Some(parent) if role == EXEC => become_command(parent, arguments),
        Some(group) => watch(group),
        None => NOT_FOUND,
    })
}

/// Stops the group at the times of the last orders, and kills it if the other end of standard input
/// is closed without a farewell.
fn watch(group: Pid) -> u8 {
    if follow(group).is_err() {
        killpg(group, Signal::SIGKILL).ok();
    }
    0
}

/// Returns after a farewell. Fails when the group must be killed.
fn follow(group: Pid) -> io::Result<()> {
    // Without a buffer, because `poll` would not see its content.
    let mut pipe = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let (mut terminate, mut kill) = (None, None);
    loop {
        // All orders that have arrived come before the clock: this process may have been stopped.
        while is_ready(&pipe, PollTimeout::ZERO)? {
            let mut message = [0; LENGTH];
            // An error leaves it open if `zkc` is alive.
            pipe.read_exact(&mut message)?;
            match OrderMessage::decode(message) {
                OrderMessage::Farewell => return Ok(()),
                OrderMessage::Orders { terminate: term, kill: end } => {
                    (terminate, kill) = (term, end);
                }
            }
        }
        let now = orders::now();
        if kill.is_some_and(|at| at <= now) {
            return Err(io::ErrorKind::TimedOut.into());
        }
        if terminate.take_if(|at| *at <= now).is_some() {
            // A process that is stopped would not get it.
            for signal in [Signal::SIGTERM, Signal::SIGCONT] {
                killpg(group, signal).ok();
            }
        }
        let due = terminate.into_iter().chain(kill).min();
        let left = due.map_or(PollTimeout::NONE, |at| {
            let left = at.saturating_sub(now).div_ceil(1_000_000);
            left.min(LOOK_MS).try_into().unwrap_or(PollTimeout::ZERO)
        });
        is_ready(&pipe, left)?;
    }
}

/// Waits for a message, or for the end of `zkc`.
fn is_ready(pipe: &File, within: PollTimeout) -> io::Result<bool> {
    match poll(&mut [PollFd::new(pipe.as_fd(), PollFlags::POLLIN)], within) {
        Err(Errno::EINTR) => Ok(false),
        ready => Ok(ready? > 0),
    }
}

/// Becomes the command. Returns the exit code if it cannot.
fn become_command(parent: Pid, mut arguments: impl Iterator<Item = OsString>) -> u8 {
    let has_terminal = arguments.next().is_some_and(|given| given == "+");
    // First, so that nothing waits for a parent that is gone.
    let has_parent = die_with(parent);
    let start = arguments.next().filter(|_| has_parent);
    let may_start = start.is_some_and(|start| wait_for_start(&start).is_ok());
    let Some(program) = arguments.next().filter(|_| may_start) else {
        return NOT_FOUND;
    };
    if has_terminal {
        terminal::take();
    }
    let error = Command::new(&program).args(arguments).exec();
    explain(&program, &error)
}

/// Waits until the parent has given its orders for this command. Fails if it never will.
fn wait_for_start(descriptor: &OsStr) -> io::Result<()> {
    let number = descriptor.to_str().and_then(|number| number.parse::<RawFd>().ok());
    let number = number.ok_or(io::ErrorKind::InvalidInput)?;
    let descriptors = if cfg!(target_os = "linux") { "/proc/self/fd" } else { "/dev/fd" };
    File::open(format!("{descriptors}/{number}"))?.read_exact(&mut [0])?;
    // The command does not inherit it.
    Ok(nix::unistd::close(number)?)
}

/// Ends this process, and the command that it becomes, with the parent. Returns `false` if the
/// parent is gone already.
fn die_with(parent: Pid) -> bool {
    #[cfg(target_os = "linux")]
    // Without it, the command would outlive the parent; it is not a reason to refuse the command.
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL).ok();
    getppid() == parent
}

fn explain(program: &OsStr, error: &io::Error) -> u8 {
    drop(writeln!(io::stderr(), "not started: {}: {error}", program.to_string_lossy()));
    if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { NOT_EXECUTABLE }
}
