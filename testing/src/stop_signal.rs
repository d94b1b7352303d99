//! Signals that ask a program to end.

use std::io;

/// Receives the signals that ask a program to end, from the call on: the future completes at the
/// first one. For programs that serve test servers until they are stopped.
///
/// # Errors
/// The errors of the operating system.
#[cfg(unix)]
pub fn stop_signal() -> io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};

    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            biased;
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

/// Receives the signals that ask a program to end, from the call on: the future completes at the
/// first one. For programs that serve test servers until they are stopped.
///
/// # Errors
/// The errors of the operating system.
#[cfg(windows)]
pub fn stop_signal() -> io::Result<impl Future<Output = ()>> {
    let mut interrupt = tokio::signal::windows::ctrl_c()?;
    Ok(async move {
        interrupt.recv().await;
    })
}
