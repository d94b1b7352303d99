//! What those who follow something do when they cannot look at it.

use zk_curator::{CuratorFramework, Error};

/// Waits until a read that has failed may be tried again, for ever and across sessions.
///
/// # Errors
/// The error, if it is not one that passes.
pub(crate) async fn until_passed(zk: &CuratorFramework, error: Error) -> Result<(), Error> {
    if !error.is_retryable() && !error.is_session_lost() {
        return Err(error);
    }
    match zk.states().until(|status| status.state.is_connected()).await {
        Some(_) => Ok(()),
        // It is closed.
        None => Err(error),
    }
}
