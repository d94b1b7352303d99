//! The end that a user or a service manager asks for.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
#[cfg(unix)]
use std::task::Poll;

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
    #[cfg(feature = "shell")]
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

/// Catches signals from its creation on, except those that this process was started to ignore.
#[derive(Debug)]
pub(crate) struct Stops {
    #[cfg(unix)]
    signals: Vec<(Stop, tokio::signal::unix::Signal)>,
}

#[cfg(unix)]
impl Stops {
    pub(crate) fn catch() -> io::Result<Self> {
        use nix::sys::signal::Signal;
        use tokio::signal::unix::{SignalKind, signal};

        let wanted = [
            (Stop::Interrupt, Signal::SIGINT),
            (Stop::Terminate, Signal::SIGTERM),
            (Stop::Hangup, Signal::SIGHUP),
        ];
        let wanted =
            wanted.into_iter().filter(|(_, number)| !crate::supervise::is_ignored(*number));
        let caught = wanted
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
