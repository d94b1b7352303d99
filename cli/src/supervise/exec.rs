//! Processes that help with a command: `zkc __exec` becomes the command, and `zkc __watch` kills it
//! when `zkc` is killed.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::{Pid, getppid};

use super::terminal;

/// The first argument of a process that becomes a command. Its arguments are the process that
/// starts it, `-` or `+` with the terminal, and the command.
pub(super) const EXEC: &str = "__exec";

/// The first argument of a process that watches `zkc`. Its argument is the process group of the
/// command.
pub(super) const WATCH: &str = "__watch";

const NOT_EXECUTABLE: u8 = 126;
const NOT_FOUND: u8 = 127;

/// Returns the arguments of `zkc __exec PARENT TERMINAL COMMAND…`.
pub(super) fn arguments(has_terminal: bool) -> [OsString; 3] {
    let parent = std::process::id().to_string();
    [EXEC.into(), parent.into(), if has_terminal { "+" } else { "-" }.into()]
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

/// Kills the group if the other end of standard input is closed without a byte.
fn watch(group: Pid) -> u8 {
    // An error leaves it open if `zkc` is alive.
    if io::stdin().read_exact(&mut [0]).is_err() {
        killpg(group, Signal::SIGKILL).ok();
    }
    0
}

/// Becomes the command. Returns the exit code if it cannot.
fn become_command(parent: Pid, mut arguments: impl Iterator<Item = OsString>) -> u8 {
    let has_terminal = arguments.next().is_some_and(|given| given == "+");
    let Some(program) = arguments.next().filter(|_| die_with(parent)) else {
        return NOT_FOUND;
    };
    if has_terminal {
        terminal::take();
    }
    let error = Command::new(&program).args(arguments).exec();
    explain(&program, &error)
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
