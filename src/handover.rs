//! Sessions that outlive a framework: [`CuratorFramework::detach`].

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use zk_curator_client::SessionCredentials;

use crate::error::{Error, ErrorKind, Result};
use crate::framework::CuratorFramework;

impl CuratorFramework {
    /// The credentials of the present session, once there is one and if the raw client tells them: for tests, and for
    /// [`resume`](crate::CuratorFrameworkBuilder::resume).
    ///
    /// A client with the credentials can act as the session and end it.
    #[must_use]
    pub fn session_credentials(&self) -> Option<SessionCredentials> {
        self.core().session("session_credentials", "").ok()?.raw.credentials()
    }

    /// Closes the framework, for all clones of the handle, but not its session: another framework, in this process or another
    /// one, can [take it up](crate::CuratorFrameworkBuilder::resume) within the session timeout. Ephemeral nodes stay until
    /// then.
    ///
    /// The cleanup that is still owed is performed first, within the close timeout. Guards that are alive are lost: they do not
    /// delete their nodes any more, but ephemeral nodes live on. Watches end.
    ///
    /// # Errors
    /// * `NotStarted` or `Closed` when there is no session, or it was closed by another caller.
    /// * `SessionExpired`, `AuthFailed` when the session ended before it could be left.
    /// * `ConnectionLoss` when requests were not answered within the close timeout.
    /// * `Unsupported` when the raw client cannot leave a session; it is closed then.
    ///
    /// The framework is closed all the same.
    ///
    /// # Cancel safety
    /// Once polled, the framework leaves its session in the background all the same, and the credentials are lost if they were not
    /// [read](Self::session_credentials) before.
    pub async fn detach(&self) -> Result<SessionCredentials> {
        const OP: &str = "detach";
        let core = self.core();
        core.session(OP, "")?;
        core.handover.leaves.store(true, Ordering::Release);
        match self.close().await {
            Ok(()) => {
                let left = core.handover.left.lock().unwrap_or_else(PoisonError::into_inner).clone();
                left.ok_or_else(|| Error::new(ErrorKind::Closed, OP, ""))
            }
            Err(error) => Err(error.of_operation(OP)),
        }
    }
}
