//! The signals that are passed on to a command.

use std::io;

use nix::sys::signal::Signal as Number;
use zk_curator_client::internal::CaughtSignals;

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

/// Catches signals from its creation on, unless this process was started to ignore them: those are
/// not passed on, because the command ignores them, too.
#[derive(Debug)]
pub(crate) struct Signals {
    passed: CaughtSignals<Caught>,
    /// Caught unless ignored, so that this process cannot be suspended while the command runs.
    _stop: CaughtSignals<()>,
    _handled: Handled,
}

impl Signals {
    pub(crate) fn catch() -> io::Result<Self> {
        let passed = PASSED.map(|(caught, number)| (caught, number as i32));
        Ok(Self {
            passed: CaughtSignals::catch(passed)?,
            _stop: CaughtSignals::catch([((), Number::SIGTSTP as i32)])?,
            _handled: Handled::begin(),
        })
    }

    /// Returns the next signal.
    pub(crate) async fn next(&mut self) -> Caught {
        self.passed.next().await
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
