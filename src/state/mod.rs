//! The state of the connection, as services see it.

mod driver;
mod machine;

use futures_core::Stream;
use tokio::sync::watch;
use zk_curator_client::SessionInfo;

pub(crate) use driver::supervise;
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
}

/// A [`ConnectionState`] and its place in history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConnectionStatus {
    /// The state.
    pub state: ConnectionState,
    /// Counts the transitions: a reader that sees it grow by more than one has missed some.
    pub epoch: u64,
    /// Counts the sessions, from one; zero before the start.
    pub session_epoch: u64,
    /// The session, if the state is one of a live session.
    pub session: Option<SessionInfo>,
}

/// Follows the [`ConnectionStatus`], beginning with the present one. [`StateWatch::into_stream`] makes it a
/// [`Stream`].
///
/// A slow reader may miss intermediate states, never the latest. [`ConnectionStatus::epoch`] shows that it has
/// missed some, and [`ConnectionStatus::session_epoch`] that a session was lost among them. Ends after
/// [`ConnectionState::Closed`].
#[derive(Debug)]
pub struct StateWatch {
    receiver: watch::Receiver<ConnectionStatus>,
    ended: bool,
}

impl StateWatch {
    pub(crate) fn new(mut receiver: watch::Receiver<ConnectionStatus>) -> Self {
        receiver.mark_changed();
        Self { receiver, ended: false }
    }

    /// The present status.
    #[must_use]
    pub fn current(&self) -> ConnectionStatus {
        *self.receiver.borrow()
    }

    /// The present status at the first call, then the latest at every change; `None` after the end.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn next(&mut self) -> Option<ConnectionStatus> {
        if self.ended || self.receiver.changed().await.is_err() {
            return None;
        }
        Some(self.take())
    }

    /// The same as a stream.
    pub fn into_stream(self) -> impl Stream<Item = ConnectionStatus> + Send + 'static {
        futures_util::stream::unfold(self, async |mut watch| watch.next().await.map(|status| (status, watch)))
    }

    fn take(&mut self) -> ConnectionStatus {
        let status = *self.receiver.borrow_and_update();
        self.ended = status.state == ConnectionState::Closed;
        status
    }

    /// The first status for which `wanted` holds, beginning with the present one; `None` if the framework is
    /// closed before.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn until(&mut self, wanted: impl Fn(&ConnectionStatus) -> bool) -> Option<ConnectionStatus> {
        loop {
            let status = self.take();
            if wanted(&status) {
                return Some(status);
            }
            if self.ended || self.receiver.changed().await.is_err() {
                return None;
            }
        }
    }
}
