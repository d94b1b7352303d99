use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::clock::{Clock, NeverSuspended};
use crate::locked::{Locked, LockedGuard};
use crate::primitives::atomic::{AtomicI64, AtomicU64, Ordering};
use crate::{Error, HostPort, SessionCredentials, SessionInfo};

/// The state of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SessionState {
    /// No server has been reached yet; there is no session.
    Connecting,
    /// A server serves the session.
    Connected(SessionInfo),
    /// A read-only server serves the session, for a client that accepts one
    /// ([`crate::ZooKeeperBuilder::read_only`]). The client searches for a writable server.
    ConnectedReadOnly(SessionInfo),
    /// The connection is lost; the session may still be alive. The client searches for a server.
    Disconnected,
    /// The session is over. Final.
    Expired(ExpiredBy),
    /// A server refused the credentials. Final.
    AuthFailed,
    /// The client was closed. Final.
    Closed,
    /// The client was detached from the session, which stays alive. Final.
    Detached,
    /// No server was reached before the connect deadline. Final.
    Unreachable,
}

/// The side that decided on the end of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExpiredBy {
    /// The server.
    Server,
    /// The client: there is no connection, and the granted timeout has passed since the last
    /// request with a response was *sent*. The server counts from the time at which it received
    /// that request or a later one, so it does not expire the session earlier.
    ///
    /// There is one exception. A follower reports only every half tick to the leader which sessions
    /// were active. If it dies before the report, the leader counts from up to half a tick earlier.
    /// If two holders would do harm, use a fencing token as well.
    Clock,
}

impl SessionState {
    /// Returns the error of requests in a final state that were never sent; `None` in the other
    /// states.
    #[must_use]
    pub const fn end(self) -> Option<Error> {
        match self {
            Self::Connecting
            | Self::Connected(_)
            | Self::ConnectedReadOnly(_)
            | Self::Disconnected => None,
            Self::Expired(_) => Some(Error::SessionExpired { sent: false }),
            Self::AuthFailed => Some(Error::AuthFailed { sent: false }),
            Self::Closed | Self::Detached => Some(Error::Closed { sent: false }),
            Self::Unreachable => Some(Error::NotConnected),
        }
    }
}

/// The states of a session, all of them in order, from the call on. Also a [`Stream`]. Ends after a
/// final state.
#[derive(Debug)]
pub struct SessionStates {
    receiver: mpsc::UnboundedReceiver<SessionState>,
}

impl SessionStates {
    /// Returns the next state; `None` after the final one.
    ///
    /// # Cancel safety
    /// No state is lost.
    pub async fn next(&mut self) -> Option<SessionState> {
        self.receiver.recv().await
    }
}

impl Stream for SessionStates {
    type Item = SessionState;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<SessionState>> {
        self.receiver.poll_recv(cx)
    }
}

/// The current state and its followers.
pub(crate) struct StateHub {
    inner: Locked<Hub>,
    clock: Arc<dyn Clock>,
    /// The time at which the session began to be followed.
    base: Instant,
    /// The time until which the session is certain, in nanoseconds from `base`: [`UNKNOWN`] before
    /// there is a session, 0 when it is over.
    valid_until: AtomicU64,
    last_zxid: AtomicI64,
}

/// There is no session yet.
const UNKNOWN: u64 = u64::MAX;

struct Hub {
    current: SessionState,
    session: Option<SessionInfo>,
    credentials: Option<SessionCredentials>,
    server: Option<HostPort>,
    failure: Option<Arc<io::Error>>,
    history_lost: Option<i64>,
    untold: Option<Error>,
    subscribers: Vec<mpsc::UnboundedSender<SessionState>>,
}

impl StateHub {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            base: Instant::now() + clock.suspended(),
            clock,
            valid_until: AtomicU64::new(UNKNOWN),
            last_zxid: AtomicI64::new(0),
            inner: Locked::new(Hub {
                current: SessionState::Connecting,
                session: None,
                credentials: None,
                server: None,
                failure: None,
                history_lost: None,
                untold: None,
                subscribers: Vec::new(),
            }),
        }
    }

    /// Returns the difference between the session's time and tokio's clock.
    pub(crate) fn suspended(&self) -> Duration {
        self.clock.suspended()
    }

    /// Returns the interval at which to read the clock.
    pub(crate) fn look_every(&self) -> Option<Duration> {
        self.clock.look_every()
    }

    /// Returns the time until which the session is certain, on tokio's clock; `None` before there
    /// is a session. It is in the past when the session is over.
    pub(crate) fn certain_until(&self) -> Option<Instant> {
        let nanos = self.valid_until.load(Ordering::Acquire);
        let until = (nanos != UNKNOWN).then(|| self.base + Duration::from_nanos(nanos))?;
        Some(until.checked_sub(self.suspended()).unwrap_or_else(Instant::now))
    }

    /// Sets the time until which the session is certain, in the session's own time.
    pub(crate) fn valid_until(&self, until: Option<Instant>) {
        let nanos = until.map_or(UNKNOWN, |until| {
            let nanos = until.saturating_duration_since(self.base).as_nanos();
            u64::try_from(nanos).unwrap_or(UNKNOWN - 1)
        });
        self.valid_until.store(nanos, Ordering::Release);
    }

    pub(crate) fn session_over(&self) {
        self.valid_until.store(0, Ordering::Release);
    }

    /// Returns the last transaction that the session has seen.
    ///
    /// A caller that gets `zxid` finds the events of all transactions up to `zxid` in its watches,
    /// or `Disarmed` in persistent watches. They are delivered before [`StateHub::has_seen`], whose
    /// store this load acquires.
    pub(crate) fn last_zxid(&self) -> i64 {
        self.last_zxid.load(Ordering::Acquire)
    }

    /// Notes that all events up to this transaction have been delivered.
    pub(crate) fn has_seen(&self, zxid: i64) {
        self.last_zxid.store(zxid, Ordering::Release);
    }

    /// Returns the transaction that an earlier session had seen, and that no server had.
    pub(crate) fn lost_history(&self) -> Option<i64> {
        self.lock().history_lost
    }

    pub(crate) fn history_lost(&self, zxid: i64) {
        self.has_seen(0);
        self.lock().history_lost = Some(zxid);
    }

    /// Notes why no server has ended the session, which may still be alive on the servers.
    pub(crate) fn untold(&self, why: Error) {
        self.lock().untold = Some(why);
    }

    /// Returns the result of [`close`](crate::ZooKeeper::close) for a client that has ended.
    pub(crate) fn end_told(&self) -> Result<(), Error> {
        self.lock().untold.clone().map_or(Ok(()), Err)
    }

    pub(crate) fn current(&self) -> SessionState {
        self.lock().current
    }

    pub(crate) fn session(&self) -> Option<SessionInfo> {
        self.lock().session
    }

    /// Returns the credentials to resume the session with.
    pub(crate) fn credentials(&self) -> Option<SessionCredentials> {
        self.lock().credentials.clone()
    }

    pub(crate) fn granted(&self, credentials: SessionCredentials) {
        self.lock().credentials = Some(credentials);
    }

    /// Returns the server of the session, or the last one.
    pub(crate) fn server(&self) -> Option<HostPort> {
        self.lock().server.clone()
    }

    pub(crate) fn served_by(&self, server: HostPort) {
        self.lock().server = Some(server);
    }

    /// Returns the reason why the last connection, or attempt to open one, failed.
    pub(crate) fn failure(&self) -> Option<Arc<io::Error>> {
        self.lock().failure.clone()
    }

    pub(crate) fn failed(&self, why: io::Error) {
        self.lock().failure = Some(Arc::new(why));
    }

    pub(crate) fn subscribe(&self) -> SessionStates {
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut hub = self.lock();
        let sent = sender.send(hub.current);
        debug_assert!(sent.is_ok(), "the receiver is in hand");
        if hub.current.end().is_none() {
            hub.subscribers.push(sender);
        }
        SessionStates { receiver }
    }

    pub(crate) fn publish(&self, state: SessionState) {
        let mut hub = self.lock();
        hub.current = state;
        if let SessionState::Connected(session) | SessionState::ConnectedReadOnly(session) = state {
            hub.session = Some(session);
        }
        hub.subscribers.retain(|subscriber| subscriber.send(state).is_ok());
        if state.end().is_some() {
            hub.subscribers.clear();
        }
    }

    fn lock(&self) -> LockedGuard<'_, Hub> {
        self.inner.lock()
    }
}

impl fmt::Debug for StateHub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StateHub").field(&self.current()).finish()
    }
}

/// Publishes the states of a session, for raw clients other than [`crate::ZooKeeper`]. The first
/// state is [`SessionState::Connecting`].
#[derive(Debug)]
pub struct StatePublisher(StateHub);

impl Default for StatePublisher {
    fn default() -> Self {
        Self(StateHub::new(Arc::new(NeverSuspended)))
    }
}

impl StatePublisher {
    /// Publishes a state. After a final state this has no effect.
    pub fn publish(&self, state: SessionState) {
        if self.0.current().end().is_none() {
            self.0.publish(state);
        }
    }

    /// Notes why a connection, or an attempt to open one, failed.
    pub fn failed(&self, why: io::Error) {
        self.0.failed(why);
    }

    /// Returns the current state.
    #[must_use]
    pub fn current(&self) -> SessionState {
        self.0.current()
    }

    /// Returns the session, if there is one already.
    #[must_use]
    pub fn session(&self) -> Option<SessionInfo> {
        self.0.session()
    }

    /// Returns the last failure.
    #[must_use]
    pub fn last_failure(&self) -> Option<Arc<io::Error>> {
        self.0.failure()
    }

    /// Returns a stream of the states from now on.
    #[must_use]
    pub fn states(&self) -> SessionStates {
        self.0.subscribe()
    }
}
