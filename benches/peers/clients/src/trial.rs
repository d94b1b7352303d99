//! What both trials need: times, and the outcome of an operation in words.

use std::fmt::Display;
use std::time::Duration;

use tokio::time::timeout;

pub(crate) type Result<T, E = Box<dyn std::error::Error>> = std::result::Result<T, E>;

/// The time limit of an operation.
const PATIENCE: Duration = Duration::from_secs(20);
/// The delay of a request whose future is dropped.
pub(crate) const LATE: Duration = Duration::from_millis(500);
/// The time after which a future is dropped.
pub(crate) const DROPPED: Duration = Duration::from_millis(100);
/// The time in which a client may repair what it has left.
pub(crate) const REPAIR: Duration = Duration::from_secs(3);

/// Says how an operation ended.
pub(crate) async fn ended<T, E: Display>(operation: impl Future<Output = Result<T, E>>) -> String {
    match timeout(PATIENCE, operation).await {
        Ok(Ok(_)) => "succeeds".to_owned(),
        Ok(Err(error)) => format!("fails: `{error}`"),
        Err(_) => format!("has not ended after {} s", PATIENCE.as_secs()),
    }
}
