//! The response to a readiness probe.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::Instant;
use zk_curator_client::SessionInfo;

use super::ConnectionState;
use crate::framework::CuratorFramework;

/// The health of the connection, for the response to a readiness probe. Printable, and serializable
/// with the feature `serde`.
///
/// ```text
/// suspended for 4.2s, session 0x1000a3f210000 (timeout 10s); last failure: connection refused
/// ```
///
/// In JSON, `since` is in seconds since 1970, `lasted` and the timeout are in seconds, and the
/// session id is hexadecimal.
///
/// ```json
/// {"state":"connected","since":1763900000.25,"lasted":12.5,"server":"zk1:2181",
///  "session":{"id":"0x1000a3f210000","timeout":10.0},"last_failure":null}
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConnectionHealth {
    /// The state.
    pub state: ConnectionState,
    /// The time at which the state began, by the clock of this host.
    pub since: SystemTime,
    /// The duration of the state so far.
    pub lasted: Duration,
    /// The server of the session, as `host:port` of the connect string, if the state is a connected
    /// one and the raw client reports it.
    pub server: Option<Arc<str>>,
    /// The session, if there is a live one.
    pub session: Option<SessionInfo>,
    /// The reason why the last connection of the present session, or the last attempt to open one,
    /// failed. It stays when a later attempt succeeds.
    pub last_failure: Option<String>,
}

impl ConnectionHealth {
    /// Returns `true` if requests can have responses: [`ConnectionState::is_connected`].
    #[must_use]
    pub const fn is_ready(&self) -> bool {
        self.state.is_connected()
    }
}

impl CuratorFramework {
    /// Returns the health of the connection, for a readiness probe. Sends no request.
    ///
    /// Do not use it for a liveness probe: restarting a service because ZooKeeper is unreachable
    /// does not help.
    #[must_use]
    pub fn connection_health(&self) -> ConnectionHealth {
        let core = self.core();
        let (status, begun) =
            core.status.look(|published| (published.latest.clone(), published.begun));
        let lasted = Instant::now().saturating_duration_since(begun);
        let now = SystemTime::now();
        ConnectionHealth {
            state: status.state,
            since: now.checked_sub(lasted).unwrap_or(now),
            lasted,
            server: status.server,
            session: status.session,
            last_failure: core.last_failure().map(|why| why.to_string()),
        }
    }
}

impl fmt::Display for ConnectionHealth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} for {:.1?}", self.state, self.lasted)?;
        if let Some(server) = &self.server {
            write!(f, ", served by {server}")?;
        }
        if let Some(session) = self.session {
            write!(f, ", session {} (timeout {:?})", session.id, session.timeout)?;
        }
        match &self.last_failure {
            Some(why) => write!(f, "; last failure: {why}"),
            None => Ok(()),
        }
    }
}

#[cfg(feature = "serde")]
mod json {
    use std::time::{Duration, SystemTime};

    use serde::ser::{Serialize, SerializeStruct, Serializer};
    use zk_curator_client::SessionInfo;

    use super::ConnectionHealth;

    impl Serialize for ConnectionHealth {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            let since = self.since.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            let mut health = serializer.serialize_struct("ConnectionHealth", 6)?;
            health.serialize_field("state", self.state.name())?;
            health.serialize_field("since", &seconds(since))?;
            health.serialize_field("lasted", &seconds(self.lasted))?;
            health.serialize_field("server", &self.server.as_deref())?;
            health.serialize_field("session", &self.session.map(Session))?;
            health.serialize_field("last_failure", &self.last_failure)?;
            health.end()
        }
    }

    struct Session(SessionInfo);

    impl Serialize for Session {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            let mut session = serializer.serialize_struct("Session", 2)?;
            session.serialize_field("id", &self.0.id.to_string())?;
            session.serialize_field("timeout", &seconds(self.0.timeout))?;
            session.end()
        }
    }

    /// Converts to seconds, with milliseconds.
    fn seconds(time: Duration) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "exact below 2^53 ms")]
        let millis = time.as_millis() as f64;
        millis / 1000.0
    }
}
