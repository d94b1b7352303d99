//! The state of the connection, of a handle.

use std::io;
use std::sync::Arc;

use zk_curator_client::SessionInfo;

use super::{ConnectionState, ConnectionStateErrorPolicy, ConnectionStatus, StateWatch};
use crate::error::{Error, ErrorKind, Result};
use crate::framework::CuratorFramework;

impl CuratorFramework {
    /// The state of the connection now.
    #[must_use]
    pub fn state(&self) -> ConnectionState {
        self.status().state
    }

    /// The state of the connection now, with its place in history and the session.
    #[must_use]
    pub fn status(&self) -> ConnectionStatus {
        self.core().status()
    }

    /// Follows the state of the connection.
    #[must_use]
    pub fn states(&self) -> StateWatch {
        StateWatch::new(Arc::clone(&self.core().status))
    }

    /// Waits until the connection is in a connected state; for ever, if no server is reached. Compose with
    /// `tokio::time::timeout`.
    ///
    /// # Errors
    /// `Closed` when the framework is closed.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn wait_connected(&self) -> Result<ConnectionStatus> {
        let connected = self.states().until(|status| status.state.is_connected()).await;
        connected.ok_or_else(|| Error::new(ErrorKind::Closed, "wait_connected", ""))
    }

    /// The session now, once there is one.
    #[must_use]
    pub fn session(&self) -> Option<SessionInfo> {
        self.status().session
    }

    /// The last transaction that the server is known to have applied, by the answers of the present session; `None` without a
    /// session, and for a handle that is [bound](Self::bound_to_session) to a session that is over.
    ///
    /// The events of all transactions up to this one have been told to the watches of the session.
    #[must_use]
    pub fn last_zxid_seen(&self) -> Option<i64> {
        let session = self.core().session("last_zxid_seen", "").ok()?;
        let is_bound_to = self.call().session_epoch.unwrap_or(session.epoch);
        Some(session.raw.last_zxid_seen()).filter(|zxid| is_bound_to == session.epoch && *zxid > 0)
    }

    /// Why the last connection of the present session, or the last attempt to open one, failed; `None` when none has.
    /// It stays when a later attempt succeeds. An error of the kind `ConnectionLoss` or `AuthFailed` has it as its
    /// source.
    ///
    /// For people: it is what a service should log when it is not connected for long. With TLS,
    /// `tls::TlsError::of` finds in it what is wrong with a certificate.
    #[must_use]
    pub fn last_failure(&self) -> Option<Arc<io::Error>> {
        self.core().last_failure()
    }

    /// Connection states that unfenced callers should treat as errors.
    #[must_use]
    pub fn connection_state_error_policy(&self) -> ConnectionStateErrorPolicy {
        self.core().settings.error_policy
    }

    /// The servers now, with the chroot.
    #[must_use]
    pub fn connect_string(&self) -> String {
        self.core().connect_string()
    }

    /// Replaces the servers: of the present session, which goes on, and of later ones. The chroot must stay. See
    /// [`zk_curator_client::ZooKeeper::update_server_list`] for when the connection moves.
    ///
    /// # Errors
    /// `InvalidArgument` when the connect string is not valid or has another chroot, or the raw client cannot.
    pub fn set_connect_string(&self, connect_string: &str) -> Result<()> {
        self.core().set_connect_string("set_connect_string", connect_string)
    }
}
