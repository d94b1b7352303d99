//! Errors that pass by themselves.

use std::time::Duration;

use tokio::time::sleep;
use tracing::debug;

use crate::error::{Error, ErrorKind, Result};
use crate::framework::CuratorFramework;
use crate::state::ConnectionState;

/// The pause before something is tried again that has failed for as long as the retry policy allows.
const PAUSE: Duration = Duration::from_millis(100);

impl Error {
    /// Whether it passes by itself: the same call may succeed later, in this session or the next one, without another change
    /// than that of the connection. [`CuratorFramework::ride_out`] waits for that.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        // A framework is closed for good, and its connection is there a little longer.
        let session_lost = self.is_session_lost() && self.kind() != ErrorKind::Closed;
        session_lost
            || self.is_retryable()
            || matches!(self.kind(), ErrorKind::NotStarted | ErrorKind::ReadOnly)
    }
}

impl CuratorFramework {
    /// Waits until an operation that failed with this error may be tried again: for ever, and across sessions. For loops
    /// that outlive every outage, after the retry policy has given up.
    ///
    /// It takes 100 milliseconds, and then until there is a connection; after `ReadOnly`, one to a server that accepts
    /// writes.
    ///
    /// # Errors
    /// The error itself, if it is not [transient](Error::is_transient), or if this handle is
    /// [bound to a session](Self::bound_to_session) that is over; `Closed` when the framework is closed.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn ride_out(&self, error: Error) -> Result<()> {
        let is_bound = self.call().session_epoch.is_some();
        if !error.is_transient() || (is_bound && error.is_session_lost()) {
            return Err(error);
        }
        debug!(%error, "tries again");
        sleep(PAUSE).await;
        let needs_writes = error.kind() == ErrorKind::ReadOnly;
        let will_do = |state: ConnectionState| {
            state.is_connected() && !(needs_writes && state == ConnectionState::ReadOnly)
        };
        match self.states().until(|status| will_do(status.state)).await {
            Some(_) => Ok(()),
            None => Err(Error::new(ErrorKind::Closed, error.operation(), error.path())),
        }
    }
}
