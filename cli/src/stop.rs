//! The end that a user or a service manager asks for.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
#[cfg(unix)]
use std::task::Poll;

#[cfg(unix)]
use nix::sys::signal::Signal;
#[cfg(unix)]
use zk_curator_client::internal::is_ignored;

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
pub(crate) enum Stop {
    /// Ctrl-C.
    Interrupt,
    #[cfg(unix)]
    Terminate,
    #[cfg(unix)]
    Hangup,
}

impl Stop {
    #[cfg(unix)]
    const fn number(self) -> Signal {
        match self {
            Self::Interrupt => Signal::SIGINT,
            Self::Terminate => Signal::SIGTERM,
            Self::Hangup => Signal::SIGHUP,
        }
    }

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

/// Catches signals from its creation on, unless this process was started to ignore them
/// ([`is_heeded`]).
#[derive(Debug)]
pub(crate) struct Stops {
    #[cfg(unix)]
    signals: Vec<(Stop, tokio::signal::unix::Signal)>,
}

#[cfg(unix)]
impl Stops {
    pub(crate) fn catch() -> io::Result<Self> {
        Self::catch_some(&[Stop::Interrupt, Stop::Terminate, Stop::Hangup])
    }

    /// Catches only these signals.
    pub(crate) fn catch_some(wanted: &[Stop]) -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};

        let heeded = wanted.iter().filter(|stop| is_heeded(stop.number()));
        let signals = heeded
            .map(|stop| Ok((*stop, signal(SignalKind::from_raw(stop.number() as i32))?)))
            .collect::<io::Result<_>>()?;
        Ok(Self { signals })
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

/// Ends when every [`Stops`] has the signals that came before, for example before the end of a
/// program that this process has waited for. The system runs their handler before this call; the
/// runtime passes them on when it looks at its sources, which it does before a task that has yielded
/// goes on.
pub(crate) async fn told() {
    tokio::task::yield_now().await;
}

/// Returns `false` for a signal that this process was started to ignore: HUP by `nohup`, and INT
/// and QUIT by a script that starts a command with `&`. It stays ignored, also in a command that
/// this process starts. TERM is always heeded: service managers have nothing else.
///
/// Only Linux says which signals are ignored. Elsewhere every signal is heeded.
#[cfg(unix)]
pub(crate) fn is_heeded(signal: Signal) -> bool {
    signal == Signal::SIGTERM || !is_ignored(signal as i32)
}

#[cfg(all(test, unix))]
mod tests {
    use tokio::signal::unix::{SignalKind, signal};

    use super::*;

    #[tokio::test]
    async fn a_signal_before_the_call_is_told() {
        let mut signal = signal(SignalKind::window_change()).unwrap();
        for _ in 0..1_000 {
            nix::sys::signal::raise(Signal::SIGWINCH).unwrap();
            told().await;
            let polled = std::future::poll_fn(|cx| Poll::Ready(signal.poll_recv(cx))).await;
            assert!(polled.is_ready());
        }
    }
}
