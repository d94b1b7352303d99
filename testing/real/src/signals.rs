//! Signals in the programs that tests start.

/// Gives the programs that this process starts from now on the default reaction to HUP, INT and
/// QUIT, even if the tests were started to ignore these signals, as by `nohup`, or by a script that
/// starts them with `&`. A test that sends such a signal calls this before it starts the program.
///
/// This process ignores them as before: it catches them and does nothing, because a program starts
/// with the default of a signal that is caught. The standard library itself resets PIPE. Only Linux
/// says which signals are ignored; elsewhere this does nothing.
///
/// # Panics
/// Panics outside a Tokio runtime whose I/O is enabled.
#[cfg(target_os = "linux")]
pub fn default_signals() {
    use std::sync::Once;

    use tokio::signal::unix::{SignalKind, signal};
    use zk_curator_client::internal::is_ignored;

    static DONE: Once = Once::new();
    DONE.call_once(|| {
        for kind in [SignalKind::hangup(), SignalKind::interrupt(), SignalKind::quit()] {
            if is_ignored(kind.as_raw_value()) {
                // It stays caught when this is dropped.
                drop(signal(kind).expect("a signal can be caught"));
            }
        }
    });
}

/// Does nothing here: see Linux.
#[cfg(not(target_os = "linux"))]
pub fn default_signals() {}
