//! The signals that are passed on to a command.

use std::future::poll_fn;
use std::io;
use std::task::Poll;

use nix::sys::signal::Signal as Number;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::machine::Caught;
use crate::stop::{Handled, is_heeded};

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

/// Catches signals from its creation on, unless this process was started to ignore them: those are
/// not passed on, because the command ignores them, too.
#[derive(Debug)]
pub(crate) struct Signals {
    passed: Vec<(Caught, Signal)>,
    /// Caught unless ignored, so that this process cannot be suspended while the command runs.
    _stop: Option<Signal>,
    _handled: Handled,
}

impl Signals {
    pub(crate) fn catch() -> io::Result<Self> {
        let wanted = PASSED.iter().filter(|(_, number)| is_heeded(*number));
        let passed = wanted
            .map(|(caught, number)| Ok((*caught, signal(kind(*number))?)))
            .collect::<io::Result<_>>()?;
        let stop = is_heeded(Number::SIGTSTP).then(|| signal(kind(Number::SIGTSTP))).transpose()?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_signal_has_its_code() {
        assert_eq!(Caught::Interrupt.code(), 130);
        assert_eq!(Caught::Terminate.code(), 143);
        assert_eq!(Caught::Hangup.code(), 129);
    }
}
