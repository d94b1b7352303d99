//! Transient errors.

use std::time::Duration;

use tracing::debug;
use zk_curator_client::internal::sleep;

use crate::error::{Error, ErrorKind, Result};
use crate::framework::CuratorFramework;
use crate::internal::is_of_the_past;
use crate::state::ConnectionState;

/// The minimum pause before an operation is tried again that has failed for as long as the retry
/// policy allows.
const PAUSE: Duration = Duration::from_millis(100);
/// The maximum random addition after a refusal by an overloaded server.
const LONGEST_EXTRA: Duration = Duration::from_secs(2);

impl Error {
    /// Returns `true` if the error passes by itself: the same call may succeed later, in this
    /// session or the next one, without a repair. [`CuratorFramework::wait_for_recovery`] waits for
    /// that.
    ///
    /// These are the [retryable](Self::is_retryable) errors, `SessionExpired` and `ReadOnly`.
    #[must_use]
    pub const fn is_transient(&self) -> bool {
        self.is_retryable()
            || matches!(self.kind(), ErrorKind::SessionExpired | ErrorKind::ReadOnly)
    }

    /// Returns `true` if a server has refused the request for now, and should not be asked again
    /// immediately.
    const fn is_refusal(&self) -> bool {
        self.is_retryable() && matches!(self.kind(), ErrorKind::Throttled | ErrorKind::Server(_))
    }
}

impl CuratorFramework {
    /// Waits until an operation that failed with this error may be tried again, without a time
    /// limit and across sessions. It is for loops that must outlast every outage, after the retry
    /// policy has given up.
    ///
    /// It first waits 100 milliseconds, or a random time of up to 2.1 seconds if a server has
    /// refused the operation (`Throttled`). Then it waits until there is a connection, and after
    /// `ReadOnly` until there is one to a server that accepts writes.
    ///
    /// # Errors
    /// The error itself, if it is not [transient](Error::is_transient), or if this handle is [bound
    /// to a session](Self::bound_to_session) that is over. `Closed` if the framework is closed.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    pub async fn wait_for_recovery(&self, error: Error) -> Result<()> {
        if !error.is_transient() || is_of_the_past(self, &error) {
            return Err(error);
        }
        debug!(%error, "tries again");
        sleep(self.pause_after(&error)).await;
        let needs_writes = error.kind() == ErrorKind::ReadOnly;
        let will_do = |state: ConnectionState| {
            state.is_connected() && !(needs_writes && state == ConnectionState::ReadOnly)
        };
        match self.states().until(|status| will_do(status.state)).await {
            Some(_) => Ok(()),
            None => Err(Error::new(ErrorKind::Closed, error.operation(), error.path())),
        }
    }

    /// Returns the pause before the operation that has failed with this error is tried again.
    pub(crate) fn pause_after(&self, error: &Error) -> Duration {
        if error.is_refusal() { PAUSE + self.jitter(LONGEST_EXTRA) } else { PAUSE }
    }
}
