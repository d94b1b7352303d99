//! Signals that ask a program to end.

use std::io;

use zk_curator_client::internal::CaughtSignals;

/// Receives the signals that ask a program to end, from the call on: the future completes at the
/// first one. For programs that serve test servers until they are stopped.
///
/// On Unix these are TERM, INT and HUP. INT and HUP stay ignored if the process was started to
/// ignore them, as by `nohup`, or by a script that starts it with `&`. Only Linux says whether it
/// was; elsewhere they always end the program. On Windows, it is Ctrl-C.
///
/// # Errors
/// The errors of the operating system.
///
/// # Panics
/// Panics outside a tokio runtime whose I/O is enabled.
pub fn stop_signal() -> io::Result<impl Future<Output = ()>> {
    let mut signals = CaughtSignals::that_end()?;
    Ok(async move { signals.next().await })
}
