//! Waits whose time passes only while the process runs.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use tokio::time::timeout;

/// The number of parts of a wait.
const PARTS: u32 = 20;

/// Waits for a future, at most for this time. A pause of the process uses up one twentieth of it:
/// afterwards, the tasks that the future depends on run, too.
///
/// In simulated time this is [`timeout`]. The clients of chaos are processes on a busy machine: all
/// of their timers are due after a pause, and any task may be the first to run.
pub(in crate::scenarios) async fn patiently<F: Future>(
    time: Duration,
    future: F,
) -> Option<F::Output> {
    let mut future = pin!(future);
    for _ in 0..PARTS {
        if let Ok(output) = timeout(time / PARTS, future.as_mut()).await {
            return Some(output);
        }
    }
    None
}
