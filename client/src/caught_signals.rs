//! The signals of the operating system that this process catches.

use std::future::poll_fn;
use std::io;
use std::task::Poll;

#[cfg(unix)]
use tokio::signal::unix::Signal as Arrivals;
#[cfg(windows)]
use tokio::signal::windows::CtrlC as Arrivals;

use crate::ignored_signals::is_ignored;

/// The number of HUP: the terminal is gone.
pub const HUP: i32 = 1;
/// The number of INT: Ctrl-C.
pub const INT: i32 = 2;
/// The number of TERM, which service managers send.
pub const TERM: i32 = 15;

/// Signals that are caught from the creation of this value on, unless this process was started to
/// ignore them ([`is_heeded`]). Each has a name, a `T`. They stay caught when this value is
/// dropped.
#[derive(Debug)]
pub struct CaughtSignals<T>(Vec<(T, Arrivals)>);

impl CaughtSignals<()> {
    /// Catches the signals that ask a process to end: TERM, INT and HUP. On Windows, only INT.
    ///
    /// # Errors
    /// As [`catch`](CaughtSignals::catch).
    pub fn that_end() -> io::Result<Self> {
        Self::catch([TERM, INT, HUP].map(|number| ((), number)))
    }
}

impl<T: Copy> CaughtSignals<T> {
    /// Catches the signals with these names and numbers. Windows has only INT; the others are left
    /// out there.
    ///
    /// # Errors
    /// The errors of the operating system.
    ///
    /// # Panics
    /// Panics outside a tokio runtime whose I/O is enabled.
    pub fn catch(wanted: impl IntoIterator<Item = (T, i32)>) -> io::Result<Self> {
        let heeded = wanted.into_iter().filter(|(_, number)| is_heeded(*number));
        let caught = heeded.map(|(name, number)| Ok((name, arrivals(number)?)));
        caught.collect::<io::Result<_>>().map(Self)
    }

    /// Waits for the next signal, and returns its name. Signals of one kind that arrive together
    /// count as one. Never returns if all of them are ignored.
    ///
    /// # Cancel safety
    /// No signal is lost: the next call returns it.
    pub async fn next(&mut self) -> T {
        poll_fn(|cx| {
            for (name, arrivals) in &mut self.0 {
                if arrivals.poll_recv(cx).is_ready() {
                    return Poll::Ready(*name);
                }
            }
            Poll::Pending
        })
        .await
    }
}

#[cfg(unix)]
fn arrivals(number: i32) -> io::Result<Arrivals> {
    use tokio::signal::unix::{SignalKind, signal};
    signal(SignalKind::from_raw(number))
}

#[cfg(windows)]
fn arrivals(_ctrl_c: i32) -> io::Result<Arrivals> {
    tokio::signal::windows::ctrl_c()
}

/// Returns `false` for a signal that this process was started to ignore: HUP by `nohup`, and INT
/// and QUIT by a script that starts a program with `&`. It stays ignored, also in a program that
/// this process starts. TERM is always heeded: service managers have nothing else.
///
/// Only Linux says which signals are ignored. Elsewhere every signal is heeded that exists.
#[must_use]
pub fn is_heeded(number: i32) -> bool {
    let exists = cfg!(unix) || number == INT;
    exists && (number == TERM || !is_ignored(number))
}
