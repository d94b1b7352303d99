//! The methods of a handle about the state of the connection.

use std::io;
use std::sync::Arc;

use tokio::time::Instant;
use zk_curator_client::SessionInfo;

use super::{ConnectionState, ConnectionStateErrorPolicy, ConnectionStatus, StateWatch};
use crate::error::{Error, ErrorKind, Result};
use crate::framework::CuratorFramework;

impl CuratorFramework {
    /// Returns the present state of the connection.
    #[must_use]
    pub fn state(&self) -> ConnectionState {
        self.status().state
    }

    /// Returns the present state of the connection, with its epoch and the session.
    #[must_use]
    pub fn status(&self) -> ConnectionStatus {
        self.core().status()
    }

    /// Follows the state of the connection.
    #[must_use]
    pub fn states(&self) -> StateWatch {
        StateWatch::new(Arc::clone(&self.core().status))
    }

    /// Waits until the connection is in a connected state, without a time limit. Compose with
    /// `tokio::time::timeout`.
    ///
    /// # Errors
    /// `NotStarted` if the framework was not started, `Closed` if it is closed.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    pub async fn wait_connected(&self) -> Result<ConnectionStatus> {
        self.check_started("wait_connected", "")?;
        let connected = self.states().until(|status| status.state.is_connected()).await;
        connected.ok_or_else(|| Error::new(ErrorKind::Closed, "wait_connected", ""))
    }

    /// Fails with `NotStarted` if the framework was not started, but not after its end. It is for
    /// code that waits for a background task: without a started framework, it would wait forever
    /// without an error.
    ///
    /// # Errors
    /// `NotStarted`, with this operation and path.
    pub fn check_started(&self, operation: &'static str, path: &str) -> Result<()> {
        if self.core().is_latent() {
            return Err(Error::new(ErrorKind::NotStarted, operation, path));
        }
        Ok(())
    }

    /// Returns the present session, if there is one.
    #[must_use]
    pub fn session(&self) -> Option<SessionInfo> {
        self.status().session
    }

    /// Returns the last transaction that the server is known to have applied, by the responses of
    /// the present session. `None` without a session, and for a handle that is
    /// [bound](Self::bound_to_session) to a session that is over.
    ///
    /// The watches of the session have received the events of all transactions up to this one.
    #[must_use]
    pub fn last_zxid_seen(&self) -> Option<i64> {
        let session = self.core().session("last_zxid_seen", "").ok()?;
        let is_bound_to = self.call().session_epoch.unwrap_or(session.epoch);
        Some(session.raw.last_zxid_seen()).filter(|zxid| is_bound_to == session.epoch && *zxid > 0)
    }

    /// Returns the time until which the present session is certainly alive, on tokio's clock. It
    /// moves forward with every response of a server, and is in the past when the session is over.
    /// `None` without a session, for a handle that is [bound](Self::bound_to_session) to a session
    /// that is over, and if the raw client does not report it.
    ///
    /// [`Ownership::valid_until`](crate::Ownership::valid_until) does the same for a node.
    #[must_use]
    pub fn session_valid_until(&self) -> Option<Instant> {
        let session = self.core().session("session_valid_until", "").ok()?;
        let is_bound_to = self.call().session_epoch.unwrap_or(session.epoch);
        session.raw.valid_until().filter(|_| is_bound_to == session.epoch)
    }

    /// Returns the reason why the last connection of the present session, or the last attempt to
    /// open one, failed; `None` if none has failed. It stays when a later attempt succeeds. An
    /// error of the kind `ConnectionLoss` or `AuthFailed` has it as its source.
    ///
    /// A service should log it when it is not connected for long. With TLS, `tls::TlsError::of`
    /// finds the problem of a certificate in it.
    #[must_use]
    pub fn last_failure(&self) -> Option<Arc<io::Error>> {
        self.core().last_failure()
    }

    /// Returns the connection states that unfenced callers should treat as errors.
    #[must_use]
    pub fn connection_state_error_policy(&self) -> ConnectionStateErrorPolicy {
        self.core().settings.error_policy
    }

    /// Returns the present connect string, with the chroot.
    #[must_use]
    pub fn connect_string(&self) -> String {
        self.core().connect_string()
    }

    /// Replaces the servers of the present session, which continues, and of later ones. The chroot
    /// must stay the same. [`zk_curator_client::ZooKeeper::update_server_list`] says when the
    /// connection moves.
    ///
    /// # Errors
    /// `InvalidArgument` if the connect string is invalid or has another chroot, or the raw client
    /// does not support this.
    pub fn set_connect_string(&self, connect_string: impl Into<String>) -> Result<()> {
        self.core().give_connect_string("set_connect_string", connect_string.into())
    }
}
