//! Sessions that outlive a framework: [`CuratorFramework::detach`].

use zk_curator_client::internal::atomic::Ordering;
use zk_curator_client::{SessionCredentials, Stat};

use crate::error::{Error, ErrorKind, Result};
use crate::framework::CuratorFramework;

impl CuratorFramework {
    /// Returns `true` if an ephemeral node was created in the present session by the framework from
    /// which this one has [resumed](crate::CuratorFrameworkBuilder::resume) it. No guard of this
    /// framework exists for the node, unless one adopts it. Returns `false` for nodes of other
    /// sessions, and if the credentials had no [transaction](SessionCredentials::last_zxid).
    #[must_use]
    pub fn is_inherited(&self, stat: &Stat) -> bool {
        let resumed = self.core().settings.resume.as_ref();
        let is_own = |credentials: &&SessionCredentials| {
            self.session().is_some_and(|session| session.id == credentials.id)
                && stat.ephemeral_owner == credentials.id.get()
        };
        resumed.filter(is_own).is_some_and(|credentials| stat.czxid <= credentials.last_zxid)
    }

    /// Returns the credentials of the present session, if there is one and the raw client provides
    /// them. They are for tests, and for [`resume`](crate::CuratorFrameworkBuilder::resume).
    ///
    /// A client with the credentials can act as the session and end it.
    #[must_use]
    pub fn session_credentials(&self) -> Option<SessionCredentials> {
        self.core().session("session_credentials", "").ok()?.raw.credentials()
    }

    /// Closes the framework, for all clones of the handle, but not its session. Another framework,
    /// in this process or another one, can [resume it](crate::CuratorFrameworkBuilder::resume)
    /// within the session timeout. Ephemeral nodes stay until then.
    ///
    /// The pending cleanup is performed first, within the close timeout. Live guards are lost: they
    /// no longer delete their nodes, but ephemeral nodes stay. Watches end.
    ///
    /// # Errors
    /// * `NotStarted` or `Closed` if there is no session, or another caller has closed it.
    /// * `SessionExpired`, `AuthFailed` if the session ended before it could be detached.
    /// * `ConnectionLoss` if requests got no response within the close timeout.
    /// * `Unsupported` if the raw client cannot detach a session. The session is then closed.
    ///
    /// The framework is closed in each of these cases.
    ///
    /// # Cancel safety
    /// Once the future was polled, the framework detaches its session in the background, and the
    /// credentials are lost if they were not [read](Self::session_credentials) before.
    pub async fn detach(&self) -> Result<SessionCredentials> {
        const OP: &str = "detach";
        let core = self.core();
        core.session(OP, "")?;
        core.handover.leaves.store(true, Ordering::Release);
        match self.close().await {
            Ok(()) => {
                let left = core.handover.left.lock().clone();
                left.ok_or_else(|| Error::new(ErrorKind::Closed, OP, ""))
            }
            Err(error) => Err(error.of_operation(OP)),
        }
    }
}
