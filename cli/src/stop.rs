//! The end that a user or a service manager asks for.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};

use zk_curator_client::internal::{CaughtSignals, HUP, INT, TERM};

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

/// Waits for Ctrl-C, and on Unix also for TERM and HUP, as [`Stops`] does. A command that holds
/// something then lets go of it. Signals are caught from this call on, before the future is polled.
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
pub(crate) enum StopRequest {
    /// Ctrl-C.
    Interrupt,
    Terminate,
    Hangup,
}

impl StopRequest {
    const fn number(self) -> i32 {
        match self {
            Self::Interrupt => INT,
            Self::Terminate => TERM,
            Self::Hangup => HUP,
        }
    }

    /// Returns the exit code of a program that this signal has ended.
    pub(crate) const fn code(self) -> u8 {
        128 + self.number() as u8
    }
}

/// Catches signals from its creation on, unless this process was started to ignore them.
#[derive(Debug)]
pub(crate) struct Stops(CaughtSignals<StopRequest>);

impl Stops {
    pub(crate) fn catch() -> io::Result<Self> {
        Self::catch_some(&[StopRequest::Interrupt, StopRequest::Terminate, StopRequest::Hangup])
    }

    /// Catches only these signals.
    pub(crate) fn catch_some(wanted: &[StopRequest]) -> io::Result<Self> {
        CaughtSignals::catch(wanted.iter().map(|stop| (*stop, stop.number()))).map(Self)
    }

    /// Returns the next signal.
    pub(crate) async fn next(&mut self) -> StopRequest {
        self.0.next().await
    }
}

/// Ends when every [`Stops`] has the signals that came before, for example before the end of a
/// program that this process has waited for. The system runs their handler before this call; the
/// runtime passes them on when it looks at its sources, which it does before a task that has
/// yielded goes on.
pub(crate) async fn told() {
    tokio::task::yield_now().await;
}

#[cfg(all(test, unix))]
mod tests {
    use std::task::Poll;

    use nix::sys::signal::Signal;
    use tokio::signal::unix::{SignalKind, signal};

    use super::*;

    #[test]
    fn each_stop_has_its_code() {
        let stops = [StopRequest::Interrupt, StopRequest::Terminate, StopRequest::Hangup];
        assert_eq!(stops.map(StopRequest::code), [130, 143, 129]);
    }

    #[tokio::test]
    async fn a_signal_before_the_call_is_delivered() {
        let mut signal = signal(SignalKind::window_change()).unwrap();
        for _ in 0..1_000 {
            nix::sys::signal::raise(Signal::SIGWINCH).unwrap();
            told().await;
            let polled = std::future::poll_fn(|cx| Poll::Ready(signal.poll_recv(cx))).await;
            assert!(polled.is_ready());
        }
    }
}
