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
    use zk_curator_client::internal::is_ignored;

    let wanted = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()];
    let heeded = wanted
        .into_iter()
        .filter(|kind| *kind == SignalKind::terminate() || !is_ignored(kind.as_raw_value()));
    let mut signals = heeded.map(signal).collect::<io::Result<Vec<_>>>()?;
    Ok(poll_fn(move |cx| match signals.iter_mut().any(|signal| signal.poll_recv(cx).is_ready()) {
        true => Poll::Ready(()),
        false => Poll::Pending,
    }))
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
