//! The state of the connection, as services see it.

mod background;
mod circuit_breaker;
mod driver;
mod farewell;
mod handle;
mod health;
mod machine;

use std::fmt;
use std::sync::Arc;

use futures_core::Stream;
use tokio::time::Instant;
use zk_curator_client::SessionInfo;
use zk_curator_client::internal::Signal;

pub use background::BackgroundErrors;
pub use circuit_breaker::CircuitBreaker;
pub(crate) use driver::supervise;
pub use health::ConnectionHealth;
pub(crate) use machine::{StateInput, StateMachine};

/// The state of the connection (`org.apache.curator.framework.state.ConnectionState`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConnectionState {
    /// No server has been reached since the start.
    Connecting,
    /// A server was reached for the first time.
    Connected,
    /// The connection is lost, but the session may still be alive. Leaders and lock holders without
    /// fencing should pause.
    Suspended,
    /// A server was reached again.
    Reconnected {
        /// `true` if the session is the previous one. If not, its ephemeral nodes and watches are
        /// gone.
        same_session: bool,
    },
    /// The session is over: the server has said so, or the negotiated timeout has passed without a
    /// server. The framework opens the next one.
    Lost,
    /// A read-only server was reached.
    ReadOnly,
    /// The framework was closed.
    Closed,
}

impl ConnectionState {
    /// Returns `true` if requests can have responses.
    #[must_use]
    pub const fn is_connected(self) -> bool {
        matches!(self, Self::Connected | Self::Reconnected { .. } | Self::ReadOnly)
    }

    /// Returns the name that metrics and [`ConnectionHealth`] use: `connecting`, `connected`,
    /// `suspended`, `reconnected`, `lost`, `read_only`, `closed`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Connecting => "connecting",
            Self::Connected => "connected",
            Self::Suspended => "suspended",
            Self::Reconnected { .. } => "reconnected",
            Self::Lost => "lost",
            Self::ReadOnly => "read_only",
            Self::Closed => "closed",
        }
    }
}

impl fmt::Display for ConnectionState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A [`ConnectionState`] with its epoch.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConnectionStatus {
    /// The state.
    pub state: ConnectionState,
    /// The number of transitions. If a reader sees it grow by more than one, it has missed some, or
    /// a [circuit breaker](crate::CuratorFrameworkBuilder::circuit_breaker) has suppressed them.
    /// [`CuratorFramework::status`](crate::CuratorFramework::status) includes suppressed ones:
    /// while this number is the same, so is the connection.
    pub epoch: u64,
    /// The number of sessions, from one; zero before the start.
    pub session_epoch: u64,
    /// The session, if the state is one of a live session.
    pub session: Option<SessionInfo>,
    /// The server of the session, as `host:port` of the connect string, if the state is a connected
    /// one and the raw client reports it.
    pub server: Option<Arc<str>>,
}

/// The connection states that count as errors for recipes without fencing, such as leaders
/// (`org.apache.curator.framework.state.ConnectionStateErrorPolicy`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum ConnectionStateErrorPolicy {
    /// SUSPENDED and LOST. The conservative choice: without a connection, the session counts as
    /// lost.
    #[default]
    Standard,
    /// Only LOST. A session keeps its holds until it is over.
    Session,
}

impl ConnectionStateErrorPolicy {
    /// Returns `true` if the state is an error. The end of the framework always is.
    #[must_use]
    pub const fn is_error(self, state: ConnectionState) -> bool {
        match state {
            ConnectionState::Suspended => matches!(self, Self::Standard),
            ConnectionState::Lost | ConnectionState::Closed => true,
            _ => false,
        }
    }
}

/// The published states: a late reader does not miss the loss of a session.
#[derive(Debug, Clone)]
pub(crate) struct Published {
    pub(crate) latest: ConnectionStatus,
    /// The present status, including one that a circuit breaker suppresses.
    pub(crate) actual: ConnectionStatus,
    /// The time at which the latest state began.
    pub(crate) begun: Instant,
    last_lost: Option<ConnectionStatus>,
}

impl Published {
    pub(crate) fn new(latest: ConnectionStatus) -> Self {
        Self { actual: latest.clone(), latest, begun: Instant::now(), last_lost: None }
    }

    pub(crate) fn push(&mut self, status: ConnectionStatus) {
        if status.state == ConnectionState::Lost {
            self.last_lost = Some(status.clone());
        }
        if status.state != self.latest.state {
            self.begun = Instant::now();
        }
        self.latest = status;
    }
}

/// Follows the [`ConnectionStatus`], beginning with the present one. [`StateWatch::into_stream`]
/// makes it a [`Stream`].
///
/// A slow reader may miss intermediate states, but neither the latest one nor a
/// [`ConnectionState::Lost`]. If sessions were lost since its creation or its last call, the last
/// loss comes before the latest state. [`ConnectionStatus::epoch`] shows that it has missed states,
/// and [`ConnectionStatus::session_epoch`] how many sessions have begun. Ends after
/// [`ConnectionState::Closed`].
///
/// It keeps only the last states and needs no task, regardless of the number of followers.
#[derive(Debug)]
pub struct StateWatch {
    published: Arc<Signal<Published>>,
    /// The epoch after which a loss is unread.
    since: u64,
    /// `true` if the status of that epoch was returned.
    told: bool,
    ended: bool,
}

impl StateWatch {
    pub(crate) fn new(published: Arc<Signal<Published>>) -> Self {
        let since = published.look(|published| published.latest.epoch);
        Self { published, since, told: false, ended: false }
    }

    /// Returns the present status.
    #[must_use]
    pub fn current(&self) -> ConnectionStatus {
        self.published.look(|published| published.latest.clone())
    }

    /// Returns the present status at the first call, and then the latest one after every change, or
    /// a missed loss; `None` after the end.
    ///
    /// # Cancel safety
    /// Dropping the future loses no state.
    pub async fn next(&mut self) -> Option<ConnectionStatus> {
        if self.ended {
            return None;
        }
        let (since, told) = (self.since, self.told);
        let news = |published: &Published| !told || published.latest.epoch != since;
        let published =
            self.published.find(|published| news(published).then(|| published.clone())).await;
        let missed = |lost: &ConnectionStatus| since < lost.epoch;
        let status = published.last_lost.filter(missed).unwrap_or(published.latest);
        (self.since, self.told) = (status.epoch, true);
        self.ended = status.state == ConnectionState::Closed;
        Some(status)
    }

    /// Returns the states as a stream.
    pub fn into_stream(self) -> impl Stream<Item = ConnectionStatus> + Send + 'static {
        futures_util::stream::unfold(self, async |mut watch| {
            watch.next().await.map(|status| (status, watch))
        })
    }

    /// Returns the first status that satisfies `wanted`, beginning with the present one; `None` if
    /// the framework is closed first.
    ///
    /// # Cancel safety
    /// Dropping the future loses no state.
    pub async fn until(
        &mut self,
        wanted: impl Fn(&ConnectionStatus) -> bool,
    ) -> Option<ConnectionStatus> {
        let present = self.current();
        if self.told && present.epoch == self.since && wanted(&present) {
            return Some(present);
        }
        loop {
            let status = self.next().await?;
            if wanted(&status) {
                return Some(status);
            }
        }
    }
}
