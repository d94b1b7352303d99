//! The terminal, while a command has it.

use std::io::{self, IsTerminal};

use nix::sys::signal::{SigSet, Signal};
use nix::sys::termios::{SetArg, Termios, tcgetattr, tcsetattr};
use nix::unistd::{getpgrp, tcgetpgrp, tcsetpgrp};

/// The terminal of a process in the foreground, with its settings. Dropping it takes the terminal
/// back, and restores the settings.
#[derive(Debug)]
pub(crate) struct Terminal {
    settings: Option<Termios>,
}

impl Terminal {
    /// Returns the terminal, if standard input is one and this process is in its foreground.
    pub(crate) fn present() -> Option<Self> {
        let stdin = io::stdin();
        let is_ours =
            stdin.is_terminal() && tcgetpgrp(&stdin).is_ok_and(|group| group == getpgrp());
        is_ours.then(|| Self { settings: tcgetattr(&stdin).ok() })
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        take();
        if let Some(settings) = &self.settings {
            // The terminal may be gone.
            tcsetattr(io::stdin(), SetArg::TCSADRAIN, settings).ok();
        }
    }
}

/// Brings the group of this process to the foreground. A group in the background may do so only
/// while TTOU is blocked.
pub(super) fn take() {
    let stop = SigSet::from(Signal::SIGTTOU);
    if stop.thread_block().is_ok() {
        // Without it, the command is in the background; its reads of the terminal then stop it.
        tcsetpgrp(io::stdin(), getpgrp()).ok();
        stop.thread_unblock().ok();
    }
}
