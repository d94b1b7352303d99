use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::clock::{Clock, NeverSuspended};
use crate::{Error, HostPort, SessionCredentials, SessionInfo};

/// Where a session stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SessionState {
    /// No server has been reached yet; there is no session.
    Connecting,
    /// A server serves the session.
    Connected(SessionInfo),
    /// A server in read-only mode serves the session, for a client that is content with one
    /// ([`crate::ZooKeeperBuilder::read_only`]). The client looks for a writable server meanwhile.
    ConnectedReadOnly(SessionInfo),
    /// The connection is lost; the session may live on. The client looks for a server.
    Disconnected,
    /// The session is over. Final.
    Expired(ExpiredBy),
    /// A server refused the credentials. Final.
    AuthFailed,
    /// The client was closed. Final.
    Closed,
    /// The client was detached from the session, which lives on. Final.
    Detached,
    /// No server was reached before the connect deadline. Final.
    Unreachable,
}

/// The judge of the end of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExpiredBy {
    /// The server said so.
    Server,
    /// There is no connection, and the negotiated timeout has passed since the last request that was answered,
    /// counted from when it was sent. The server counts from when it received that request, or a later one, so
    /// it expires the session no earlier.
    ///
    /// One exception: a follower tells the leader only every half tick which sessions it has heard of. If it
    /// dies in between, the leader counts from up to half a tick earlier. What must not happen twice needs a
    /// fencing token as well.
    Clock,
}

impl SessionState {
    /// The error of requests in a final state that were never sent; `None` in the other states.
    #[must_use]
    pub const fn end(self) -> Option<Error> {
        match self {
            Self::Connecting | Self::Connected(_) | Self::ConnectedReadOnly(_) | Self::Disconnected => None,
            Self::Expired(_) => Some(Error::SessionExpired { sent: false }),
            Self::AuthFailed => Some(Error::AuthFailed { sent: false }),
            Self::Closed | Self::Detached => Some(Error::Closed { sent: false }),
            Self::Unreachable => Some(Error::NotConnected),
        }
    }
}

/// The states of a session from a moment on: all of them, in order. Also a [`Stream`]. Ends after a final state.
#[derive(Debug)]
pub struct SessionStates {
    receiver: mpsc::UnboundedReceiver<SessionState>,
}

impl SessionStates {
    /// The next state; `None` after the final one.
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

/// The present state and everybody who follows it.
pub(crate) struct StateHub {
    inner: Mutex<Hub>,
    clock: Arc<dyn Clock>,
    /// The time of the session when it began to be followed.
    base: Instant,
    /// Until when the session is certain, in nanoseconds from `base`; [`UNKNOWN`] before there is one, 0 when it is over.
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
            inner: Mutex::new(Hub {
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

    /// How far the time by which the session is judged is ahead of tokio's clock.
    pub(crate) fn suspended(&self) -> Duration {
        self.clock.suspended()
    }

    /// How often to look at the clock.
    pub(crate) fn look_every(&self) -> Option<Duration> {
        self.clock.look_every()
    }

    /// Until when the session is certain, on tokio's clock; `None` before there is one. In the past when it is over.
    pub(crate) fn certain_until(&self) -> Option<Instant> {
        let nanos = self.valid_until.load(Ordering::Acquire);
        let until = (nanos != UNKNOWN).then(|| self.base + Duration::from_nanos(nanos))?;
        Some(until.checked_sub(self.suspended()).unwrap_or_else(Instant::now))
    }

    /// Until when the session is certain, in its own time.
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

    /// The last transaction that the session has seen.
    ///
    /// A caller that gets `zxid` finds the events of all transactions up to `zxid` in its watches, or for lasting watches
    /// `Disarmed`: they are told before [`StateHub::has_seen`], whose store this load acquires.
    pub(crate) fn last_zxid(&self) -> i64 {
        self.last_zxid.load(Ordering::Acquire)
    }

    /// All events up to this transaction have been told.
    pub(crate) fn has_seen(&self, zxid: i64) {
        self.last_zxid.store(zxid, Ordering::Release);
    }

    /// The transaction that an earlier session had seen, and that no server had.
    pub(crate) fn lost_history(&self) -> Option<i64> {
        self.lock().history_lost
    }

    pub(crate) fn history_lost(&self, zxid: i64) {
        self.has_seen(0);
        self.lock().history_lost = Some(zxid);
    }

    /// Why no server was told of the end of the session, which may be alive for the servers.
    pub(crate) fn untold(&self, why: Error) {
        self.lock().untold = Some(why);
    }

    /// What [`close`](crate::ZooKeeper::close) returns once the client has ended.
    pub(crate) fn end_told(&self) -> Result<(), Error> {
        self.lock().untold.clone().map_or(Ok(()), Err)
    }

    pub(crate) fn current(&self) -> SessionState {
        self.lock().current
    }

    pub(crate) fn session(&self) -> Option<SessionInfo> {
        self.lock().session
    }

    /// The credentials to resume the session with.
    pub(crate) fn credentials(&self) -> Option<SessionCredentials> {
        self.lock().credentials.clone()
    }

    pub(crate) fn granted(&self, credentials: SessionCredentials) {
        self.lock().credentials = Some(credentials);
    }

    /// The server that serves the session, or served it last.
    pub(crate) fn server(&self) -> Option<HostPort> {
        self.lock().server.clone()
    }

    pub(crate) fn served_by(&self, server: HostPort) {
        self.lock().server = Some(server);
    }

    /// Why the last connection, or attempt to open one, failed.
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

    fn lock(&self) -> MutexGuard<'_, Hub> {
        // Nothing panics while the lock is held; the data are whole in any case.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for StateHub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StateHub").field(&self.current()).finish()
    }
}

/// Publishes the states of a session, for raw clients other than [`crate::ZooKeeper`]. The first one is
/// [`SessionState::Connecting`].
#[derive(Debug)]
pub struct StatePublisher(StateHub);

impl Default for StatePublisher {
    fn default() -> Self {
        Self(StateHub::new(Arc::new(NeverSuspended)))
    }
}

impl StatePublisher {
    /// Publishes a state. After a final one nobody hears anything.
    pub fn publish(&self, state: SessionState) {
        if self.0.current().end().is_none() {
            self.0.publish(state);
        }
    }

    /// Notes why a connection, or an attempt to open one, failed.
    pub fn failed(&self, why: io::Error) {
        self.0.failed(why);
    }

    /// The present state.
    #[must_use]
    pub fn current(&self) -> SessionState {
        self.0.current()
    }

    /// The session, once there is one.
    #[must_use]
    pub fn session(&self) -> Option<SessionInfo> {
        self.0.session()
    }

    /// The last failure.
    #[must_use]
    pub fn last_failure(&self) -> Option<Arc<io::Error>> {
        self.0.failure()
    }

    /// Follows the state from now on.
    #[must_use]
    pub fn states(&self) -> SessionStates {
        self.0.subscribe()
    }
}
