//! The signals that are passed on to a command.

use std::io;

use nix::sys::signal::Signal as Number;
use zk_curator_client::internal::CaughtSignals;

use super::machine::PassedSignal;
use crate::stop::Handled;

const PASSED: [(PassedSignal, Number); 7] = [
    (PassedSignal::Interrupt, Number::SIGINT),
    (PassedSignal::Terminate, Number::SIGTERM),
    (PassedSignal::Hangup, Number::SIGHUP),
    (PassedSignal::Quit, Number::SIGQUIT),
    (PassedSignal::User1, Number::SIGUSR1),
    (PassedSignal::User2, Number::SIGUSR2),
    (PassedSignal::Window, Number::SIGWINCH),
];

impl PassedSignal {
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
    passed: CaughtSignals<PassedSignal>,
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
    pub(crate) async fn next(&mut self) -> PassedSignal {
        self.passed.next().await
    }

    /// Returns the next signal that asks for the end.
    pub(crate) async fn end(&mut self) -> PassedSignal {
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
        assert_eq!(PassedSignal::Interrupt.code(), 130);
        assert_eq!(PassedSignal::Terminate.code(), 143);
        assert_eq!(PassedSignal::Hangup.code(), 129);
    }
}
