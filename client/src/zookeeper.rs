use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::Instant;
use zk_curator_proto::records::AuthPacket;
use zk_curator_proto::{Encoder, OpCode, Request};

use crate::answer::{Decode, Pending, PendingWatched, nothing};
use crate::config::{ConnectError, ZooKeeperBuilder};
use crate::locked::Locked;
use crate::path::validate;
use crate::session::{
    RequestQueue, ResponseTicket, SessionCommand, SessionMachine, SessionState, SessionStates,
    StateHub, WatchEffect, WatchPlan, run_driver,
};
use crate::spawn::Spawn;
use crate::watch::{EventSink, OneshotWatch};
use crate::{ConnectString, ConnectStringError, Error, HostPort, SessionCredentials, SessionInfo};

/// A handle to one ZooKeeper session. It is cheap to clone. The session closes in the background
/// when the last clone and the last [`Pending`] are dropped. Watches and [`SessionStates`] do not
/// keep it open.
///
/// Every method queues its request before it returns, so requests are sent, and responses come, in
/// the order of the calls. The returned [`Pending`] only waits. Errors of the arguments are
/// returned by the `Pending` too.
///
/// Paths are absolute and below the chroot of the connect string.
#[derive(Clone)]
pub struct ZooKeeper {
    shared: Arc<ClientShared>,
    deadline: Option<Duration>,
}

/// The state that the handles share. When the last handle is dropped, it closes the session.
struct ClientShared {
    queue: Arc<RequestQueue>,
    states: Arc<StateHub>,
    /// The settings of the client.
    settings: ZooKeeperBuilder,
    /// The servers and the added identities, for additional sessions next to this one.
    target: Locked<ConnectString>,
    identities: Locked<Vec<AuthPacket>>,
}

impl Drop for ClientShared {
    fn drop(&mut self) {
        self.queue.on_last_handle_dropped();
    }
}

impl ZooKeeperBuilder {
    /// Starts the client and returns immediately. The client connects in the background, without a
    /// time limit.
    ///
    /// # Errors
    /// A [`ConnectError`] if a setting is not valid, or if there is neither a tokio runtime nor a
    /// [spawner](Self::spawner).
    pub fn connect(self) -> Result<ZooKeeper, ConnectError> {
        let target: ConnectString = self.connect_string.parse()?;
        self.connect_to(&target)
    }

    /// Does the same as [`connect`](Self::connect), for the servers of another connect string.
    fn connect_to(self, target: &ConnectString) -> Result<ZooKeeper, ConnectError> {
        self.validate_numbers()?;
        let spawner: Arc<dyn Spawn> = match &self.spawner {
            Some(spawner) => Arc::clone(spawner),
            None => Arc::new(Handle::try_current().map_err(|_| ConnectError::NoRuntime)?),
        };
        let states = Arc::new(StateHub::new(Arc::clone(&self.clock)));
        let queue = Arc::new(RequestQueue::new(
            &target.chroot,
            self.max_frame,
            self.max_requests,
            self.max_bytes,
        ));
        let now = Instant::now() + states.suspended();
        let machine =
            SessionMachine::new(&self, target, Arc::clone(&states), Arc::clone(&queue), now);
        let (connector, credentials) = (Arc::clone(&self.connector), self.credentials.clone());
        let driver =
            run_driver(machine, connector, credentials, Arc::clone(&queue), Arc::clone(&states));
        spawner.spawn(Box::pin(driver));
        Ok(ZooKeeper::new(queue, states, self, target.clone()))
    }
}

impl ZooKeeper {
    /// Returns a builder of a client for the servers of a connect string:
    /// `host:port,host:port/chroot`.
    pub fn builder(connect_string: impl Into<String>) -> ZooKeeperBuilder {
        ZooKeeperBuilder::new(connect_string.into())
    }

    fn new(
        queue: Arc<RequestQueue>,
        states: Arc<StateHub>,
        settings: ZooKeeperBuilder,
        target: ConnectString,
    ) -> Self {
        let (target, identities) = (Locked::new(target), Locked::default());
        Self {
            shared: Arc::new(ClientShared { queue, states, settings, target, identities }),
            deadline: None,
        }
    }

    /// Returns the current state.
    #[must_use]
    pub fn state(&self) -> SessionState {
        self.shared.states.current()
    }

    /// Returns all states from now on, beginning with the current one, in order and without gaps.
    #[must_use]
    pub fn states(&self) -> SessionStates {
        self.shared.states.subscribe()
    }

    /// Returns the session, if there is one already.
    #[must_use]
    pub fn session(&self) -> Option<SessionInfo> {
        self.shared.states.session()
    }

    /// Returns the server of the session, or the last one; `None` before the first one.
    #[must_use]
    pub fn server(&self) -> Option<HostPort> {
        self.shared.states.server()
    }

    /// Returns the reason why the last connection, or the last attempt to open one, failed; `None`
    /// if none has. A later successful attempt does not reset it.
    ///
    /// It is meant for people: a service should log it when it is not connected for long.
    #[must_use]
    pub fn last_failure(&self) -> Option<Arc<io::Error>> {
        self.shared.states.failure()
    }

    /// Returns the credentials to resume the session with ([`ZooKeeperBuilder::resume`]), if there
    /// is a session already.
    #[must_use]
    pub fn credentials(&self) -> Option<SessionCredentials> {
        self.shared.states.credentials()
    }

    /// Returns the time until which the session is certainly alive: the granted timeout after the
    /// last request with a response, counted from the time when it was sent, and less without a
    /// connection if [`ZooKeeperBuilder::expiration_percent`] is below 100. It is `None` before
    /// there is a session, and in the past when the session is over.
    ///
    /// The result does not depend on the client's task. Code that runs first after a long stop, of
    /// the process, of its runtime or of the [machine](crate::Clock), sees a time in the past while
    /// the state still says that the client is connected. If the servers have received a later
    /// request, the session may continue, and the time increases again. It is a time of tokio's
    /// clock, which stands still while the machine is suspended, so call this again instead of
    /// storing the result.
    #[must_use]
    pub fn valid_until(&self) -> Option<Instant> {
        self.shared.states.certain_until()
    }

    /// Returns the time for which the machine was suspended, by the
    /// [clock](ZooKeeperBuilder::clock) of the client, counted from any fixed point in time.
    /// tokio's clock leaves it out.
    #[must_use]
    pub fn suspended(&self) -> Duration {
        self.shared.states.suspended()
    }

    /// Returns the last transaction that this client has seen in a response, for the [next
    /// session](ZooKeeperBuilder::last_zxid_seen); 0 before the first one.
    ///
    /// The watches of this client have already received the events of all transactions up to this
    /// one, or [`PersistentEvent::Disarmed`](crate::PersistentEvent::Disarmed) instead. Responses
    /// to requests count, and those to pings of writable servers.
    #[must_use]
    pub fn last_zxid_seen(&self) -> i64 {
        self.shared.states.last_zxid()
    }

    /// Returns the transaction that the client [required](ZooKeeperBuilder::last_zxid_seen), if no
    /// server had it and the client has continued without it.
    #[must_use]
    pub fn lost_history(&self) -> Option<i64> {
        self.shared.states.lost_history()
    }

    /// Returns a handle that gives each of its requests a deadline. A request without a response in
    /// this time after the call fails with [`Error::DeadlineExceeded`]. If the error says that the
    /// request was not sent, it never will be.
    #[must_use]
    pub fn with_deadline(&self, deadline: Duration) -> Self {
        Self { deadline: Some(deadline), ..self.clone() }
    }

    /// Returns `true` if requests through this handle have a deadline.
    #[must_use]
    pub const fn has_deadline(&self) -> bool {
        self.deadline.is_some()
    }

    /// Replaces the servers. The client moves to another server if its own is no longer listed, or,
    /// at random, to keep the load even, with the probability that ZooKeeper's own clients use. The
    /// session continues if the whole ensemble knows it; a local session does not. When the client
    /// moves, pending requests fail with [`Error::ConnectionLoss`].
    ///
    /// # Errors
    /// Fails if the connect string is not valid, or has another chroot.
    pub fn update_server_list(&self, connect_string: &str) -> Result<(), ConnectStringError> {
        let target: ConnectString = connect_string.parse()?;
        if *target.chroot != *self.queue().chroot {
            return Err(ConnectStringError::OtherChroot);
        }
        // A failure means that the client has ended, so there is nothing to move.
        drop(self.queue().send(SessionCommand::ReplaceHosts { hosts: target.hosts.clone() }));
        *self.shared.target.lock() = target;
        Ok(())
    }

    /// Waits until the client is connected. A read-only server counts if it is allowed.
    ///
    /// # Errors
    /// [`Error::SessionExpired`], [`Error::AuthFailed`], [`Error::NotConnected`] or
    /// [`Error::Closed`] if it never will be connected.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn connected(&self) -> Result<SessionInfo, Error> {
        let mut states = self.states();
        loop {
            match states.next().await {
                Some(
                    SessionState::Connected(session) | SessionState::ConnectedReadOnly(session),
                ) => {
                    return Ok(session);
                }
                Some(state) => state.end().map_or(Ok(()), Err)?,
                None => return Err(Error::Closed { sent: false }),
            }
        }
    }

    /// Adds an identity to this connection and, in the order of the calls, to every later one.
    ///
    /// Resolves when a server has accepted it, however long there is no connection:
    /// [`crate::DisconnectedPolicy`] does not apply to identities. Dropping the future does not
    /// withdraw it. A server that refuses it ends the client in [`SessionState::AuthFailed`].
    pub fn add_auth(&self, scheme: &str, auth: &[u8]) -> Pending<()> {
        // Both headers, the type and the lengths of both fields count too.
        let length = scheme.len() + auth.len() + 20;
        let limit = self.queue().max_frame;
        if length > limit {
            return Pending::failed(Error::TooLarge { length, limit });
        }
        let auth = Some(Bytes::copy_from_slice(auth));
        let packet = Box::new(AuthPacket { scheme: scheme.to_owned(), auth });
        let mut identities = self.shared.identities.lock();
        if !identities.contains(&packet) {
            identities.push((*packet).clone());
        }
        drop(identities);
        let ticket = self.queue().ask(|reply| SessionCommand::AddAuth { packet, reply });
        self.pending(ticket.ok_or(None), nothing)
    }

    /// Closes the session for all clones of the handle. Requests that were issued before are still
    /// sent, the server deletes the ephemeral nodes of the session, and the client ends.
    ///
    /// # Errors
    /// [`Error::ConnectionLoss`] if no server was reached within the close timeout: the ephemeral
    /// nodes then stay until the session expires. The client is closed in any case. A repeated call
    /// returns the same result. A call also returns it if the client's own clock has ended the
    /// session and no server was reached after that.
    ///
    /// # Cancel safety
    /// Once polled, the session is closed in the background even if this future is dropped.
    pub async fn close(&self) -> Result<(), Error> {
        let (done, receiver) = oneshot::channel();
        if self.queue().send(SessionCommand::Close { done }).is_err() {
            return self.shared.states.end_told();
        }
        receiver.await.unwrap_or_else(|_| self.shared.states.end_told())
    }

    /// Ends another session, on a separate connection to the [server](Self::server) of this one,
    /// and so deletes its ephemeral nodes. Use it, with stored credentials, for a session that was
    /// given up while no server could be reached.
    ///
    /// Succeeds if that session has already expired.
    ///
    /// # Errors
    /// [`Error::ConnectionLoss`] if the server was not reached, or did not respond, within the
    /// close timeout; [`Error::NotConnected`] if this client was never connected.
    ///
    /// # Cancel safety
    /// Once polled, the session is ended in the background even if this future is dropped.
    pub async fn end_session(&self, credentials: SessionCredentials) -> Result<(), Error> {
        let server = self.server().ok_or(Error::NotConnected)?;
        let target = ConnectString { hosts: vec![server], chroot: String::new() };
        let settings = self.shared.settings.clone().resume(credentials).read_only(false);
        let other = settings.connect_to(&target).map_err(|_| Error::Closed { sent: false })?;
        other.close().await
    }

    /// Opens another session with the same servers and identities, and with these settings.
    pub(crate) fn connect_beside(&self, settings: ZooKeeperBuilder) -> Result<Self, Error> {
        let target = self.shared.target.lock().clone();
        let beside = settings.connect_to(&target).map_err(|_| Error::Closed { sent: false })?;
        for AuthPacket { scheme, auth } in &*self.shared.identities.lock() {
            // Sent on every connection; a refusal ends the session.
            drop(beside.add_auth(scheme, auth.as_deref().unwrap_or_default()));
        }
        Ok(beside)
    }

    pub(crate) fn settings(&self) -> &ZooKeeperBuilder {
        &self.shared.settings
    }

    pub(crate) const fn deadline(&self) -> Option<Duration> {
        self.deadline
    }

    pub(crate) fn queue(&self) -> &Arc<RequestQueue> {
        &self.shared.queue
    }

    /// Sends a request that begins with the path on the server; `rest` writes the remainder.
    pub(crate) fn at<T>(
        &self,
        path: &str,
        opcode: OpCode,
        decode: Decode<T>,
        rest: impl FnOnce(&mut Encoder),
    ) -> Pending<T> {
        if let Err(error) = validate(path) {
            return Pending::failed(error.into());
        }
        let (chroot, path) = self.parts(path);
        self.enqueue(opcode, None, decode, |body| {
            body.joined(chroot, path);
            rest(body);
        })
    }

    pub(crate) fn submit<T>(&self, request: &Request, decode: Decode<T>) -> Pending<T> {
        self.enqueue(request.opcode(), None, decode, |body| request.encode_body(body))
    }

    /// Leaves the session without ending it. Requests that were issued before still get their
    /// responses. Then the connection is closed, and the client ends. Ephemeral nodes stay for the
    /// session timeout, during which another client may [resume the
    /// session](ZooKeeperBuilder::resume).
    ///
    /// Requests without a response within the close timeout fail with [`Error::Closed`].
    ///
    /// # Errors
    /// [`Error::Closed`] if there is no session, or it was closed; [`Error::SessionExpired`] and
    /// [`Error::AuthFailed`] if it ended before the client could leave it.
    ///
    /// # Cancel safety
    /// The client detaches in the background even if this future is dropped.
    pub async fn detach(&self) -> Result<SessionCredentials, Error> {
        let (done, receiver) = oneshot::channel();
        if self.queue().send(SessionCommand::Detach { done }).is_err() {
            return Err(self.ended());
        }
        // The state has the result in any case: it is published before.
        drop(receiver.await);
        match self.state() {
            SessionState::Detached => self.credentials().ok_or(Error::Closed { sent: false }),
            _ => Err(self.ended()),
        }
    }

    /// Sends a read that sets a watch.
    pub(crate) fn watched<T>(
        &self,
        path: &str,
        opcode: OpCode,
        plan: WatchPlan,
        decode: Decode<T>,
    ) -> PendingWatched<T> {
        match self.absolute(path) {
            Ok(path) => self.watched_below(&self.queue().chroot, path.into(), opcode, plan, decode),
            Err(error) => PendingWatched::failed(error),
        }
    }

    /// Adds a watch to a path on the server; its events do not show the chroot.
    pub(crate) fn watched_below<T>(
        &self,
        chroot: &str,
        path: Arc<str>,
        opcode: OpCode,
        plan: WatchPlan,
        decode: Decode<T>,
    ) -> PendingWatched<T> {
        let (sender, receiver) = oneshot::channel();
        let chroot = u32::try_from(chroot.len()).unwrap_or_default();
        let watch =
            OneshotWatch::new(Arc::clone(&path), chroot, receiver, Arc::clone(self.queue()));
        let effect = WatchEffect::Arm(plan, Arc::clone(&path), EventSink::Once(sender));
        let answer = self.enqueue(opcode, Some(effect), decode, |body| {
            body.string(&path);
            body.bool(true);
        });
        PendingWatched { answer, watch: Some(watch) }
    }

    pub(crate) fn enqueue<T>(
        &self,
        opcode: OpCode,
        watch: Option<WatchEffect>,
        decode: Decode<T>,
        fill: impl FnOnce(&mut Encoder),
    ) -> Pending<T> {
        let watch = watch.map(Box::new);
        self.pending(self.queue().submit(opcode, watch, self.deadline.is_some(), fill), decode)
    }

    fn pending<T>(
        &self,
        ticket: Result<ResponseTicket, Option<Error>>,
        decode: Decode<T>,
    ) -> Pending<T> {
        match ticket {
            Ok(ticket) => Pending::waiting(ticket, decode).until(self.deadline),
            Err(refusal) => Pending::failed(refusal.unwrap_or_else(|| self.ended())),
        }
    }

    /// Returns the reason why nothing can be sent any more.
    fn ended(&self) -> Error {
        self.shared.states.current().end().unwrap_or(Error::Closed { sent: false })
    }

    pub(crate) fn absolute(&self, path: &str) -> Result<String, Error> {
        validate(path)?;
        Ok(self.below_chroot(path))
    }

    pub(crate) fn below_chroot(&self, path: &str) -> String {
        let (chroot, path) = self.parts(path);
        [chroot, path].concat()
    }

    /// Returns the path on the server.
    fn parts<'a>(&'a self, path: &'a str) -> (&'a str, &'a str) {
        match (&*self.queue().chroot, path) {
            ("", path) => ("", path),
            (chroot, "/") => (chroot, ""),
            both => both,
        }
    }
}

impl fmt::Debug for ZooKeeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ZooKeeper").field("state", &self.state()).finish_non_exhaustive()
    }
}
