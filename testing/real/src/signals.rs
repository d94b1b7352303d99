//! Signals in the programs that tests start.

/// Gives the programs that this process starts from now on the default reaction to HUP, INT and
/// QUIT, even if the tests were started to ignore these signals, as by `nohup`, or by a script that
/// starts them with `&`. Tests that send such a signal call it before they start the program.
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

    static DONE: Once = Once::new();
    DONE.call_once(|| {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        let ignored = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
        for kind in [SignalKind::hangup(), SignalKind::interrupt(), SignalKind::quit()] {
            if ignored & 1 << (kind.as_raw_value() - 1) != 0 {
                // It stays caught when this is dropped.
                drop(signal(kind).expect("a signal can be caught"));
            }
        }
    });
}

/// Does nothing here: see Linux.
#[cfg(not(target_os = "linux"))]
pub fn default_signals() {}
