//! The end that a user or a service manager asks for.

use std::io;

/// Waits for Ctrl-C, and on Unix also for TERM and HUP. A command that holds something then lets go
/// of it. Signals are caught from this call on, before the future is polled.
pub(crate) fn requested() -> impl Future<Output = io::Result<()>> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
        let signals = kinds.map(signal);
        async move {
            let [interrupt, terminate, hangup] = signals;
            let (mut interrupt, mut terminate, mut hangup) = (interrupt?, terminate?, hangup?);
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
                _ = hangup.recv() => {}
            }
            Ok(())
        }
    }
    #[cfg(not(unix))]
    tokio::signal::ctrl_c()
}
