//! Transient errors.

use std::time::Duration;

use tokio::time::Instant;
use tracing::{debug, info, warn};
use zk_curator_client::internal::sleep;

use crate::error::{Error, ErrorKind};
use crate::framework::CuratorFramework;
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

/// An error that [`CuratorFramework::wait_for_recovery`] understands: that of the framework, and
/// those of the recipes.
pub trait Recoverable: From<Error> {
    /// Returns the error of the framework, if it is the reason.
    fn framework_error(&self) -> Option<&Error>;
}

impl Recoverable for Error {
    fn framework_error(&self) -> Option<&Error> {
        Some(self)
    }
}

impl CuratorFramework {
    /// Waits until an operation that failed with this error may be tried again, without a time
    /// limit and across sessions. It is for loops that must outlast every outage, after the retry
    /// policy has given up. [`through_outages`](Self::through_outages) is such a loop.
    ///
    /// It first waits 100 milliseconds, or a random time of up to 2.1 seconds if a server has
    /// refused the operation (`Throttled`). Then it waits until there is a connection, and after
    /// `ReadOnly` until there is one to a server that accepts writes.
    ///
    /// # Errors
    /// The error itself, if its reason is not [transient](Error::is_transient), or if this handle
    /// is [bound to a session](Self::bound_to_session) that is over. `Closed` if the framework is
    /// closed.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    pub async fn wait_for_recovery<E: Recoverable>(&self, error: E) -> Result<(), E> {
        let Some(reason) = error.framework_error() else { return Err(error) };
        // A handle that is bound to a session that is over never succeeds again.
        let is_of_the_past = self.call().session_epoch.is_some() && reason.is_session_lost();
        if !reason.is_transient() || is_of_the_past {
            return Err(error);
        }
        debug!(error = %reason, "tries again");
        sleep(self.pause_after(reason)).await;
        let needs_writes = reason.kind() == ErrorKind::ReadOnly;
        let will_do = |state: ConnectionState| {
            state.is_connected() && !(needs_writes && state == ConnectionState::ReadOnly)
        };
        match self.states().until(|status| will_do(status.state)).await {
            Some(_) => Ok(()),
            None => Err(Error::new(ErrorKind::Closed, reason.operation(), reason.path()).into()),
        }
    }

    /// Calls an operation again and again, until it succeeds or fails with another error than one
    /// of an outage. In between it [waits for recovery](Self::wait_for_recovery). It logs the
    /// reason of the first failure as a warning, and the length of the outage when the operation
    /// has succeeded.
    ///
    /// An attempt that has failed may have been applied: the operation must be repeatable, as the
    /// acquire of a lock and all idempotent operations are.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = zk_curator_testing::TestServer::start().await;
    /// # let zk = zk_curator::CuratorFramework::builder().connect_string(server.connect_string()).build()?;
    /// # zk.start().await?;
    /// let names = zk.through_outages(|| zk.children("/").into_future()).await?;
    /// assert_eq!(names, ["zookeeper"]);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As the operation, except transient ones. `Closed` if the framework is closed.
    ///
    /// # Cancel safety
    /// As that of the operation.
    pub async fn through_outages<T, E: Recoverable, F>(
        &self,
        mut operation: impl FnMut() -> F,
    ) -> Result<T, E>
    where
        F: Future<Output = Result<T, E>>,
    {
        let mut since = None;
        loop {
            let error = match operation().await {
                Ok(output) => {
                    if let Some(outage) = since.map(|since: Instant| since.elapsed()) {
                        info!(?outage, "an operation has succeeded after an outage");
                    }
                    return Ok(output);
                }
                Err(error) => error,
            };
            if let Some(reason) = error.framework_error().filter(|reason| reason.is_transient())
                && since.is_none()
            {
                warn!(error = %reason, "an operation waits for the end of an outage");
                since = Some(Instant::now());
            }
            self.wait_for_recovery(error).await?;
        }
    }

    /// Returns the pause before the operation that has failed with this error is tried again.
    pub(crate) fn pause_after(&self, error: &Error) -> Duration {
        if error.is_refusal() { PAUSE + self.jitter(LONGEST_EXTRA) } else { PAUSE }
    }
}
