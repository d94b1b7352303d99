//! A pseudo-terminal.

use std::fs::File;
use std::io::{PipeWriter, Read, Write, pipe};
use std::os::fd::{AsFd, OwnedFd};
use std::process::Stdio;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rustix::fs::{Mode, OFlags, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use tokio::process::{Child, Command};

/// Longer than it takes until something is shown, on a busy machine too.
pub(crate) const PATIENCE: Duration = Duration::from_secs(240);

/// A pseudo-terminal with 130 columns and 30 lines, and everything that was written to it.
pub(crate) struct Terminal {
    controller: File,
    pub(crate) user: OwnedFd,
    written: mpsc::Receiver<Vec<u8>>,
    seen: String,
    /// Dropping it ends the thread that reads.
    reads: PipeWriter,
}

impl Terminal {
    pub(crate) fn open() -> Self {
        // A command that had the controller too would keep its own terminal open.
        #[cfg(target_os = "linux")]
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        #[cfg(not(target_os = "linux"))]
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY;
        let controller = openpt(flags).expect("a terminal");
        grantpt(&controller).expect("permission");
        unlockpt(&controller).expect("an open terminal");
        let name = ptsname(&controller, Vec::new()).expect("a name");
        let user = open(name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).expect("a terminal");
        let size = Winsize { ws_row: 30, ws_col: 130, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&user, size).expect("a size");
        let controller = File::from(controller);
        let mut reader = controller.try_clone().expect("a copy");
        let (sender, written) = mpsc::channel();
        let (is_read, reads) = pipe().expect("a pipe");
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            loop {
                let wanted = |fd| PollFd::new(fd, PollFlags::POLLIN);
                let mut polled = [wanted(reader.as_fd()), wanted(is_read.as_fd())];
                if poll(&mut polled, PollTimeout::NONE).is_err() || polled[1].any() != Some(false) {
                    return;
                }
                let Ok(count @ 1..) = reader.read(&mut bytes) else { return };
                if sender.send(bytes[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self { controller, user, written, seen: String::new(), reads }
    }

    fn stdio(&self) -> Stdio {
        Stdio::from(self.user.try_clone().expect("a copy"))
    }

    /// Waits until a text is written, forgets everything up to it, and returns what came before.
    pub(crate) fn expect(&mut self, text: &str) -> String {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(at) = self.seen.find(text) {
                let before = self.seen[..at].to_owned();
                self.seen.drain(..at + text.len());
                return before;
            }
            let left = end.saturating_duration_since(Instant::now());
            let Ok(bytes) = self.written.recv_timeout(left) else {
                panic!("no {text:?} in {:?}", self.seen);
            };
            self.seen.push_str(&String::from_utf8_lossy(&bytes));
        }
    }

    /// Waits until the shell reads a line after this prompt. While a line is typed, the shell shows its
    /// prompt again with each key, and between two lines the terminal itself acts on keys such as
    /// Ctrl-D. So the prompt counts only after the sequence with which the shell begins to read
    /// (bracketed paste).
    pub(crate) fn expect_prompt(&mut self, prompt: &str) {
        self.expect("\u{1b}[?2004h");
        self.expect(prompt);
    }

    pub(crate) fn press(&mut self, keys: &str) {
        self.controller.write_all(keys.as_bytes()).expect("a terminal");
    }

    /// Closes the terminal, as a window or a connection does, and waits until it is gone.
    pub(crate) fn close(self) {
        let Self { controller, written, reads, .. } = self;
        drop((controller, reads));
        while written.recv().is_ok() {}
    }

    /// Starts a command on the terminal.
    pub(crate) fn start(&self, command: &mut Command) -> Child {
        let command = command.env("TERM", "xterm").stdin(self.stdio()).stdout(self.stdio());
        command.stderr(self.stdio()).spawn().expect("zkc")
    }
}
