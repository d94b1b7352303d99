//! The watch of a followed path.

use std::time::Duration;

use zk_curator::internal::sleep;
use zk_curator::watch::PersistentWatch;
use zk_curator::{CuratorFramework, ErrorKind};

/// The pause before another attempt to add the watch.
const RETRY: Duration = Duration::from_secs(1);

/// The reason why a path has no watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unwatched {
    /// The request has failed. It is sent again.
    ForNow,
    /// The servers have no such watches, or refuse them.
    ForGood,
}

/// Adds a recursive watch to a path, which need not exist. `failed` learns of every failure.
/// Returns `None` when the framework is closed.
pub(crate) async fn watch_below(
    zk: &CuratorFramework,
    path: &str,
    failed: impl Fn(Unwatched),
) -> Option<PersistentWatch> {
    loop {
        let error = match zk.add_watch(path).recursive().await {
            Ok(watch) => return Some(watch),
            Err(error) => error,
        };
        match error.kind() {
            ErrorKind::Closed | ErrorKind::NotStarted => return None,
            ErrorKind::Unsupported | ErrorKind::NoAuth => {
                failed(Unwatched::ForGood);
                // Until the framework is closed.
                let mut states = zk.states();
                while states.next().await.is_some() {}
                return None;
            }
            _ => {
                failed(Unwatched::ForNow);
                sleep(RETRY).await;
            }
        }
    }
}
