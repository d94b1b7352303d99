//! The signals that are passed on to a command.

use std::future::poll_fn;
use std::io;
use std::sync::OnceLock;
use std::task::Poll;

use nix::sys::signal::Signal as Number;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::machine::Caught;
use crate::stop::Handled;

const PASSED: [(Caught, Number); 7] = [
    (Caught::Interrupt, Number::SIGINT),
    (Caught::Terminate, Number::SIGTERM),
    (Caught::Hangup, Number::SIGHUP),
    (Caught::Quit, Number::SIGQUIT),
    (Caught::User1, Number::SIGUSR1),
    (Caught::User2, Number::SIGUSR2),
    (Caught::Window, Number::SIGWINCH),
];

impl Caught {
    pub(crate) fn number(self) -> Number {
        let found = PASSED.iter().find(|(caught, _)| *caught == self);
        found.map_or(Number::SIGTERM, |(_, number)| *number)
    }

    /// Returns `true` if the signal asks for the end.
    pub(crate) const fn ends(self) -> bool {
        matches!(self, Self::Interrupt | Self::Terminate | Self::Hangup | Self::Quit)
    }

    /// Returns the exit code of a program that this signal has ended.
    pub(crate) fn code(self) -> u8 {
        128 + u8::try_from(self.number() as i32).unwrap_or(0)
    }
}

/// Catches signals from its creation on.
#[derive(Debug)]
pub(crate) struct Signals {
    passed: Vec<(Caught, Signal)>,
    /// Caught, so that this process cannot be suspended while the command runs.
    _stop: Signal,
    _handled: Handled,
}

impl Signals {
    pub(crate) fn catch() -> io::Result<Self> {
        let wanted = PASSED.iter().filter(|(_, number)| !is_ignored(*number));
        let passed = wanted
            .map(|(caught, number)| Ok((*caught, signal(kind(*number))?)))
            .collect::<io::Result<_>>()?;
        let stop = signal(kind(Number::SIGTSTP))?;
        Ok(Self { passed, _stop: stop, _handled: Handled::begin() })
    }

    /// Returns the next signal.
    pub(crate) async fn next(&mut self) -> Caught {
        poll_fn(|cx| {
            for (caught, signal) in &mut self.passed {
                if signal.poll_recv(cx).is_ready() {
                    return Poll::Ready(*caught);
                }
            }
            Poll::Pending
        })
        .await
    }

    /// Returns the next signal that asks for the end.
    pub(crate) async fn end(&mut self) -> Caught {
        loop {
            let caught = self.next().await;
            if caught.ends() {
                return caught;
            }
        }
    }
}

fn kind(number: Number) -> SignalKind {
    SignalKind::from_raw(number as i32)
}

const fn bit(number: Number) -> u64 {
    1 << (number as u32 - 1)
}

/// Returns `true` for a signal that this process was started to ignore, as by `nohup`. It stays
/// ignored, also in the command.
pub(crate) fn is_ignored(signal: Number) -> bool {
    // A signal that was caught is not ignored any more, so the first look counts.
    static IGNORED: OnceLock<u64> = OnceLock::new();
    let read = || std::fs::read_to_string("/proc/self/status");
    let ignored = IGNORED.get_or_init(|| read().map_or(0, |status| ignored_by(&status)));
    ignored & bit(signal) != 0
}

fn ignored_by(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_read_from_the_status() {
        let ignored = ignored_by("Name:\tzkc\nSigIgn:\t0000000000001001\nSigCgt:\t00\n");
        assert_ne!(ignored & bit(Number::SIGHUP), 0);
        assert_eq!(ignored & bit(Number::SIGINT), 0);
        assert_eq!(ignored_by("nothing"), 0);
    }

    #[test]
    fn each_signal_has_its_code() {
        assert_eq!(Caught::Interrupt.code(), 130);
        assert_eq!(Caught::Terminate.code(), 143);
        assert_eq!(Caught::Hangup.code(), 129);
    }
}
