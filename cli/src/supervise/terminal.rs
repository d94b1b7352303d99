//! The terminal, while a command has it.

use std::fs::OpenOptions;
use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, OwnedFd};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::termios::{SetArg, Termios, tcgetattr, tcsetattr};
use nix::unistd::{Pid, getpgrp, tcgetpgrp, tcsetpgrp};

/// The terminal of a process in the foreground, with its settings. Dropping it takes the terminal
/// back, and restores the settings.
#[derive(Debug)]
pub(crate) struct Terminal {
    device: OwnedFd,
    settings: Option<Termios>,
}

impl Terminal {
    /// Returns the terminal, if standard input is one and this process is in its foreground.
    pub(crate) fn present() -> Option<Self> {
        let stdin = io::stdin();
        let device = stdin.as_fd().try_clone_to_owned().ok().filter(|_| stdin.is_terminal())?;
        is_ours(&device).then(|| Self::with(device))
    }

    fn with(device: OwnedFd) -> Self {
        let settings = tcgetattr(&device).ok();
        Self { device, settings }
    }

    /// Returns `true` if the window or the connection of the terminal is closed.
    pub(super) fn is_gone(&self) -> bool {
        is_gone(&self.device)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        bring(&self.device, getpgrp());
        if let Some(settings) = &self.settings {
            // The terminal may be gone.
            tcsetattr(&self.device, SetArg::TCSADRAIN, settings).ok();
        }
    }
}

/// The terminal of a command in the background, which is stopped because it has used it.
#[derive(Debug)]
pub(super) struct Awaited {
    /// The terminal of this session; `None` if there is none any more.
    device: Option<OwnedFd>,
}

/// The answer of a terminal to a command that waits for it.
#[derive(Debug)]
pub(super) enum TerminalReply {
    /// Other processes have it.
    Wait,
    /// The command has it now.
    Lent(Terminal),
    Gone,
}

impl Awaited {
    pub(super) fn begin() -> Self {
        let device = OpenOptions::new().read(true).write(true).open("/dev/tty");
        Self { device: device.ok().map(OwnedFd::from) }
    }

    /// Lends the terminal to a group if this process is in its foreground.
    pub(super) fn ask(&mut self, group: Pid) -> TerminalReply {
        match self.device.take() {
            Some(device) if is_gone(&device) => TerminalReply::Gone,
            Some(device) if is_ours(&device) => {
                let terminal = Terminal::with(device);
                bring(&terminal.device, group);
                TerminalReply::Lent(terminal)
            }
            Some(device) => {
                self.device = Some(device);
                TerminalReply::Wait
            }
            None => TerminalReply::Gone,
        }
    }
}

fn is_ours(device: impl AsFd) -> bool {
    tcgetpgrp(device).is_ok_and(|group| group == getpgrp())
}

fn is_gone(device: impl AsFd) -> bool {
    let mut polled = [PollFd::new(device.as_fd(), PollFlags::empty())];
    poll(&mut polled, PollTimeout::ZERO).is_ok_and(|ready| ready > 0)
}

/// Brings the group of this process to the foreground.
pub(super) fn take() {
    bring(io::stdin(), getpgrp());
}

/// Brings a group to the foreground. A group in the background may do so only while TTOU is
/// blocked.
fn bring(device: impl AsFd, group: Pid) {
    let stop = SigSet::from(Signal::SIGTTOU);
    if stop.thread_block().is_ok() {
        // Without it, the group is in the background; its reads of the terminal then stop it.
        tcsetpgrp(device, group).ok();
        stop.thread_unblock().ok();
    }
}
