//! Signals that ask a program to end.

use std::io;

/// Receives the signals that ask a program to end, from the call on: the future completes at the
/// first one. For programs that serve test servers until they are stopped.
///
/// On Unix these are TERM, INT and HUP. INT and HUP stay ignored if the process was started to
/// ignore them, as by `nohup`, or by a script that starts it with `&`. Only Linux says whether it
/// was; elsewhere they always end the program.
///
/// # Errors
/// The errors of the operating system.
#[cfg(unix)]
pub fn stop_signal() -> io::Result<impl Future<Output = ()>> {
    use std::future::poll_fn;
    use std::task::Poll;

    use tokio::signal::unix::{SignalKind, signal};

    let ignored = ignored_at_start();
    let wanted = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()];
    let heeded = wanted.into_iter().filter(|kind| {
        *kind == SignalKind::terminate() || ignored & 1 << (kind.as_raw_value() - 1) == 0
    });
    let mut signals = heeded.map(signal).collect::<io::Result<Vec<_>>>()?;
    Ok(poll_fn(move |cx| match signals.iter_mut().any(|signal| signal.poll_recv(cx).is_ready()) {
        true => Poll::Ready(()),
        false => Poll::Pending,
    }))
}

/// Returns a bit for each signal that this process ignores when it calls this first, from HUP = 1.
/// A signal that was caught since its start is not among them.
#[cfg(unix)]
fn ignored_at_start() -> u64 {
    static IGNORED: std::sync::OnceLock<u64> = std::sync::OnceLock::new();
    *IGNORED.get_or_init(|| {
        std::fs::read_to_string("/proc/self/status").map_or(0, |status| ignored_by(&status))
    })
}

#[cfg(unix)]
fn ignored_by(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
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
