//! The end that a user or a service manager asks for.

use std::io;
#[cfg(unix)]
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
#[cfg(unix)]
use std::task::Poll;

#[cfg(unix)]
use nix::sys::signal::Signal;

/// The number of [`Handled`]. Signals are those of the whole process.
static HANDLED: AtomicUsize = AtomicUsize::new(0);

/// While it exists, a command ends itself at a signal, so the shell does not end it.
#[derive(Debug)]
pub(crate) struct Handled(());

impl Handled {
    pub(crate) fn begin() -> Self {
        HANDLED.fetch_add(1, Ordering::Relaxed);
        Self(())
    }

    #[cfg(feature = "shell")]
    pub(crate) fn is_any() -> bool {
        HANDLED.load(Ordering::Relaxed) > 0
    }
}

impl Drop for Handled {
    fn drop(&mut self) {
        HANDLED.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Waits for Ctrl-C, and on Unix also for TERM and HUP. A command that holds something then lets go
/// of it. Signals are caught from this call on, before the future is polled.
pub(crate) fn requested() -> impl Future<Output = io::Result<()>> {
    let (stops, handled) = (Stops::catch(), Handled::begin());
    async move {
        let _handled = handled;
        stops?.next().await;
        Ok(())
    }
}

/// A signal that asks for the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Ctrl-C.
    Interrupt,
    #[cfg(unix)]
    Terminate,
    #[cfg(unix)]
    Hangup,
}

impl Stop {
    /// Returns the exit code of a program that this signal has ended.
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Interrupt => 130,
            #[cfg(unix)]
            Self::Terminate => 143,
            #[cfg(unix)]
            Self::Hangup => 129,
        }
    }
}

/// Catches signals from its creation on, but not HUP if this process was started to ignore it.
#[derive(Debug)]
pub(crate) struct Stops {
    #[cfg(unix)]
    signals: Vec<(Stop, tokio::signal::unix::Signal)>,
}

#[cfg(unix)]
impl Stops {
    pub(crate) fn catch() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};

        let wanted = [
            (Stop::Interrupt, Signal::SIGINT),
            (Stop::Terminate, Signal::SIGTERM),
            (Stop::Hangup, Signal::SIGHUP),
        ];
        // As by `nohup`. INT is also ignored where a shell has started a command with `&`.
        let is_wanted =
            |(stop, number): &(Stop, Signal)| *stop != Stop::Hangup || !is_ignored(*number);
        let caught = wanted
            .into_iter()
            .filter(is_wanted)
            .map(|(stop, number)| Ok((stop, signal(SignalKind::from_raw(number as i32))?)))
            .collect::<io::Result<_>>()?;
        Ok(Self { signals: caught })
    }

    /// Returns the next signal.
    pub(crate) async fn next(&mut self) -> Stop {
        std::future::poll_fn(|cx| {
            for (stop, signal) in &mut self.signals {
                if signal.poll_recv(cx).is_ready() {
                    return Poll::Ready(*stop);
                }
            }
            Poll::Pending
        })
        .await
    }
}

#[cfg(not(unix))]
impl Stops {
    pub(crate) fn catch() -> io::Result<Self> {
        Ok(Self {})
    }

    /// Returns the next signal.
    pub(crate) async fn next(&mut self) -> Stop {
        match tokio::signal::ctrl_c().await {
            Ok(()) => Stop::Interrupt,
            Err(_) => std::future::pending().await,
        }
    }
}

#[cfg(unix)]
const fn bit(number: Signal) -> u64 {
    1 << (number as u32 - 1)
}

/// Returns `true` for a signal that this process was started to ignore, as by `nohup`. It stays
/// ignored, also in the command.
#[cfg(unix)]
pub(crate) fn is_ignored(signal: Signal) -> bool {
    // A signal that was caught is not ignored any more, so the first look counts.
    static IGNORED: OnceLock<u64> = OnceLock::new();
    let read = || std::fs::read_to_string("/proc/self/status");
    let ignored = IGNORED.get_or_init(|| read().map_or(0, |status| ignored_by(&status)));
    ignored & bit(signal) != 0
}

#[cfg(unix)]
fn ignored_by(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    #[cfg(unix)]
    use super::*;

    #[cfg(unix)]
    #[test]
    fn ignored_signals_are_read_from_the_status() {
        let ignored = ignored_by("Name:\tzkc\nSigIgn:\t0000000000001001\nSigCgt:\t00\n");
        assert_ne!(ignored & bit(Signal::SIGHUP), 0);
        assert_eq!(ignored & bit(Signal::SIGINT), 0);
        assert_eq!(ignored_by("nothing"), 0);
    }
}
