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
use zk_curator_client::{SessionInfo, Signal};

pub use background::BackgroundErrors;
pub use circuit_breaker::CircuitBreaker;
pub(crate) use driver::supervise;
pub use health::Health;
pub(crate) use machine::{Input, StateMachine};

/// Where the connection stands (`org.apache.curator.framework.state.ConnectionState`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConnectionState {
    /// No server has been reached since the start.
    Connecting,
    /// A server was reached for the first time.
    Connected,
    /// The connection is lost; the session may live on. Leaders and lock holders that do not fence should
    /// pause.
    Suspended,
    /// A server was reached again.
    Reconnected {
        /// Whether the session is the one from before. If not, its ephemeral nodes and watches are gone.
        same_session: bool,
    },
    /// The session is over: the server said so, or the negotiated timeout passed without a server. The
    /// framework opens the next one.
    Lost,
    /// A read-only server was reached.
    ReadOnly,
    /// The framework was closed.
    Closed,
}

impl ConnectionState {
    /// Whether requests can be answered.
    #[must_use]
    pub const fn is_connected(self) -> bool {
        matches!(self, Self::Connected | Self::Reconnected { .. } | Self::ReadOnly)
    }

    /// The name that metrics and [`Health`] use: `connecting`, `connected`, `suspended`, `reconnected`, `lost`, `read_only`,
    /// `closed`.
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

/// A [`ConnectionState`] and its place in history.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConnectionStatus {
    /// The state.
    pub state: ConnectionState,
    /// Counts the transitions: a reader that sees it grow by more than one has missed some, or a
    /// [circuit breaker](crate::CuratorFrameworkBuilder::circuit_breaker) has held them back.
    /// [`CuratorFramework::status`](crate::CuratorFramework::status) counts those at once: while this is the same, so is the
    /// connection.
    pub epoch: u64,
    /// Counts the sessions, from one; zero before the start.
    pub session_epoch: u64,
    /// The session, if the state is one of a live session.
    pub session: Option<SessionInfo>,
    /// The server that serves it, as `host:port` of the connect string, if the state is a connected one and the raw client
    /// tells.
    pub server: Option<Arc<str>>,
}

/// Which states are an error to those who do not fence what they do, such as leaders
/// (`org.apache.curator.framework.state.ConnectionStateErrorPolicy`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum ConnectionStateErrorPolicy {
    /// SUSPENDED and LOST: who hears nothing of the server assumes the worst.
    #[default]
    Standard,
    /// LOST alone: what a session owns is ours until the session is over.
    Session,
}

impl ConnectionStateErrorPolicy {
    /// Whether the state is an error. The end of the framework is one in any case.
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
    /// The status as it is, whatever a circuit breaker holds back.
    pub(crate) actual: ConnectionStatus,
    /// When the state of the latest began.
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

/// Follows the [`ConnectionStatus`], beginning with the present one. [`StateWatch::into_stream`] makes it a
/// [`Stream`].
///
/// A slow reader may miss intermediate states, but neither the latest nor a [`ConnectionState::Lost`]: if sessions
/// were lost since it was made or looked last, the last of these comes before the latest state.
/// [`ConnectionStatus::epoch`] shows that it has missed some states, and [`ConnectionStatus::session_epoch`] how many
/// sessions have begun. Ends after [`ConnectionState::Closed`].
///
/// It holds no more than the last states and costs no task, however many follow.
#[derive(Debug)]
pub struct StateWatch {
    published: Arc<Signal<Published>>,
    /// The epoch since which a loss is news.
    since: u64,
    /// Whether that one was told.
    told: bool,
    ended: bool,
}

impl StateWatch {
    pub(crate) fn new(published: Arc<Signal<Published>>) -> Self {
        let since = published.look(|published| published.latest.epoch);
        Self { published, since, told: false, ended: false }
    }

    /// The present status.
    #[must_use]
    pub fn current(&self) -> ConnectionStatus {
        self.published.look(|published| published.latest.clone())
    }

    /// The present status at the first call, then the latest at every change, or a loss that was missed; `None` after
    /// the end.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn next(&mut self) -> Option<ConnectionStatus> {
        if self.ended {
            return None;
        }
        let (since, told) = (self.since, self.told);
        let news = |published: &Published| !told || published.latest.epoch != since;
        let published = self.published.find(|published| news(published).then(|| published.clone())).await;
        let missed = |lost: &ConnectionStatus| since < lost.epoch;
        let status = published.last_lost.filter(missed).unwrap_or(published.latest);
        (self.since, self.told) = (status.epoch, true);
        self.ended = status.state == ConnectionState::Closed;
        Some(status)
    }

    /// Returns the states as a stream.
    pub fn into_stream(self) -> impl Stream<Item = ConnectionStatus> + Send + 'static {
        futures_util::stream::unfold(self, async |mut watch| watch.next().await.map(|status| (status, watch)))
    }

    /// The first status for which `wanted` holds, beginning with the present one; `None` if the framework is
    /// closed before.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn until(&mut self, wanted: impl Fn(&ConnectionStatus) -> bool) -> Option<ConnectionStatus> {
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
