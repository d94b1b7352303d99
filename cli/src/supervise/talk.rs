//! Lines for people, by a thread of their own.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use crate::output::Out;

/// The time that the end waits for lines that are not written yet.
const PATIENCE: Duration = Duration::from_secs(1);

/// Prints lines on stderr without blocking. A terminal that is stopped (Ctrl-S) must not delay the
/// end of a command.
#[derive(Debug)]
pub(crate) struct Talk {
    lines: Option<Sender<String>>,
    written: Receiver<()>,
}

impl Talk {
    pub(crate) fn new(out: &Out) -> Self {
        let (lines, to_write) = channel::<String>();
        let (done, written) = channel();
        let out = out.clone();
        thread::spawn(move || {
            for line in to_write {
                out.say(line);
            }
            drop(done);
        });
        Self { lines: Some(lines), written }
    }

    pub(crate) fn say(&self, line: impl Into<String>) {
        if let Some(lines) = &self.lines {
            // The thread ends only after this sender.
            drop(lines.send(line.into()));
        }
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        self.lines = None;
        // An error is the end of the thread, or of the patience.
        self.written.recv_timeout(PATIENCE).ok();
    }
}
