use std::fmt;
use std::io;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc::error::SendError;
use tokio::sync::{broadcast, mpsc};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::Span;
use zk_curator_client::{Acl, Error as RawError, SessionState, Signal};

use super::chore::Chore;
use super::handover::Handover;
use super::held::{Held, Ticket};
use super::identity::Deletes;
use super::metrics;
use super::random::Random;
use super::session::Session;
use super::settings::{Addresses, Settings};
use super::tell::tell;
use crate::compression::Compression;
use crate::error::{Error, ErrorKind, LeftBehind, Result};
use crate::raw::{RawClient, SessionSettings};
use crate::retry::RetryPolicy;
use crate::schema::SchemaSet;
use crate::state::{BackgroundErrors, ConnectionState, ConnectionStatus, Input, Published, StateMachine};

/// The state that handles, futures of builders and background tasks share.
pub(crate) struct Core {
    pub(crate) settings: Settings,
    /// The servers now: those of the settings until others are set.
    connect_string: Mutex<String>,
    lifecycle: Mutex<Lifecycle>,
    session: Signal<Option<Arc<Session>>>,
    pub(crate) status: Arc<Signal<Published>>,
    pub(crate) errors: broadcast::Sender<Error>,
    chores: mpsc::UnboundedSender<(Chore, Ticket)>,
    /// The nodes, watches and chores that are held.
    pub(crate) held: Held,
    /// The deletes of nodes whose names others may use.
    pub(crate) deletes: Deletes,
    /// Taken by the janitor.
    pub(crate) chore_queue: Mutex<Option<mpsc::UnboundedReceiver<(Chore, Ticket)>>>,
    /// Begins the shutdown.
    pub(crate) shutdown: CancellationToken,
    /// Whether there is a chroot as the connect string names it, once that is known.
    pub(crate) chroot: Signal<Option<Result<()>>>,
    /// The end of the shutdown, with the answer of `close`.
    pub(crate) end: Signal<Option<Result<()>>>,
    /// Cancelled with it.
    pub(crate) ended: CancellationToken,
    pub(crate) random: Random,
    pub(crate) handover: Handover,
    /// The last transaction that the sessions before the present one have seen.
    last_zxid: AtomicI64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lifecycle {
    Latent,
    Started,
    Closed,
}

impl Core {
    pub(crate) fn new(settings: Settings) -> Self {
        let (chores, chore_queue) = mpsc::unbounded_channel();
        let random = Random::new(settings.seed);
        Self {
            connect_string: Mutex::new(settings.session.connect_string.clone()),
            settings,
            lifecycle: Mutex::new(Lifecycle::Latent),
            session: Signal::new(None),
            status: Arc::new(Signal::new(Published::new(StateMachine::new().status()))),
            errors: broadcast::Sender::new(BackgroundErrors::CAPACITY),
            chores,
            held: Held::default(),
            deletes: Deletes::default(),
            chore_queue: Mutex::new(Some(chore_queue)),
            shutdown: CancellationToken::new(),
            chroot: Signal::new(None),
            end: Signal::new(None),
            ended: CancellationToken::new(),
            random,
            handover: Handover::default(),
            last_zxid: AtomicI64::new(0),
        }
    }

    pub(crate) const fn connection_timeout(&self) -> Duration {
        self.settings.session.connection_timeout
    }

    pub(crate) const fn close_timeout(&self) -> Duration {
        self.settings.session.close_timeout
    }

    pub(crate) const fn compression(&self) -> &Compression {
        &self.settings.compression
    }

    pub(crate) fn schemas(&self) -> &SchemaSet {
        &self.settings.schemas
    }

    pub(crate) fn retry_policy(&self) -> &dyn RetryPolicy {
        &*self.settings.retry
    }

    pub(crate) fn default_data(&self) -> Bytes {
        self.settings.default_data.clone()
    }

    /// The access control list of a node to create; the path is the server's.
    pub(crate) fn acl_of(&self, path: &str) -> Vec<Acl> {
        self.settings.acl_provider.acl(path)
    }

    pub(crate) const fn tracks_ensemble(&self) -> bool {
        self.settings.ensemble_tracker
    }

    pub(crate) const fn ensemble_addresses(&self) -> Option<&Addresses> {
        self.settings.ensemble_addresses.as_ref()
    }

    pub(crate) fn connect_string(&self) -> String {
        self.connect_string.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_connect_string(&self, operation: &'static str, connect_string: &str) -> Result<()> {
        let invalid = |why: Box<dyn std::error::Error + Send + Sync>| {
            Error::new(ErrorKind::InvalidArgument, operation, "").with_source(why)
        };
        let mut present = self.connect_string.lock().unwrap_or_else(PoisonError::into_inner);
        // Compared with what was set last, not with what the framework was built with (CURATOR-551).
        if *present == connect_string {
            return Ok(());
        }
        let mut session = self.settings.session.clone();
        connect_string.clone_into(&mut session.connect_string);
        self.settings.factory.validate(&session).map_err(invalid)?;
        if chroot_of(&present) != chroot_of(connect_string) {
            return Err(invalid("another chroot".into()));
        }
        if let Some(session) = self.session.look(Option::clone) {
            session.raw.update_server_list(connect_string).map_err(|why| invalid(why.into()))?;
        }
        connect_string.clone_into(&mut present);
        Ok(())
    }

    /// The chroot, with its leading slash, if there is one.
    pub(crate) fn chroot(&self) -> Option<String> {
        chroot_of(&self.connect_string()).map(str::to_owned)
    }

    /// Opens a session beside the present one, whose paths are the server's.
    pub(crate) async fn open_outside_chroot(&self) -> Result<Arc<dyn RawClient>, RawError> {
        let mut servers = self.connect_string();
        let chroot = chroot_of(&servers).map_or(0, str::len);
        servers.truncate(servers.trim_end().len() - chroot);
        self.open_raw(&self.session_settings(servers)).await
    }

    /// Tells those who follow it of an error that no caller waits for.
    pub(crate) fn report_background_error(&self, error: Error) {
        tell!(warn, self, self.status(), %error, "in the background");
        // A failure means that nobody follows.
        drop(self.errors.send(error));
    }

    /// The session for an operation.
    pub(crate) fn session(&self, operation: &'static str, path: &str) -> Result<Arc<Session>> {
        let missing = match *self.lifecycle() {
            Lifecycle::Latent => ErrorKind::NotStarted,
            Lifecycle::Closed => ErrorKind::Closed,
            Lifecycle::Started => match self.session.look(Option::clone) {
                Some(session) => return Ok(session),
                // The framework was started just now.
                None => ErrorKind::NotStarted,
            },
        };
        Err(Error::new(missing, operation, path))
    }

    /// Whether it was started, and is not closed.
    pub(crate) fn is_started(&self) -> bool {
        *self.lifecycle() == Lifecycle::Started
    }

    /// The session for an operation. The first one is waited for until it is open, within the time limit.
    pub(crate) async fn opened_session(
        &self,
        operation: &'static str,
        path: &str,
        limit: Option<Duration>,
    ) -> Result<Arc<Session>> {
        let session = self.session(operation, path);
        if session.is_ok() || !self.is_started() {
            return session;
        }
        let limit = limit.unwrap_or_else(|| self.connection_timeout());
        // On the heap: it is rare.
        let opened = Box::pin(async {
            tokio::select! {
                biased;
                () = self.shutdown.cancelled() => Err(Error::new(ErrorKind::Closed, operation, path)),
                opened = timeout(limit, self.session_after(0)) => {
                    opened.map_err(|_| self.error(operation, path, RawError::NotConnected))
                }
            }
        });
        opened.await
    }

    /// Returns the error of an operation. Without a connection, it names the reason for that too.
    pub(crate) fn error(&self, operation: &'static str, path: &str, error: RawError) -> Error {
        let failure = match error {
            RawError::ConnectionLoss { .. } | RawError::NotConnected | RawError::AuthFailed { .. } => {
                self.last_failure()
            }
            RawError::DeadlineExceeded { .. } if !self.is_connected() => self.last_failure(),
            _ => None,
        };
        let error = Error::raw(operation, path, error);
        match failure {
            Some(failure) => error.because(failure),
            None => error,
        }
    }

    pub(crate) fn last_failure(&self) -> Option<Arc<io::Error>> {
        self.session.look(Option::clone)?.raw.last_failure()
    }

    /// Waits for a session after the one with this epoch. Only janitors wait without a limit.
    pub(crate) async fn session_after(&self, epoch: u64) -> Arc<Session> {
        self.session.find(|session| session.clone().filter(|session| session.epoch > epoch)).await
    }

    /// Waits until a session after the one with this epoch is connected to a server that accepts writes.
    pub(crate) async fn connected_after(&self, epoch: u64) -> Arc<Session> {
        let writable = |status: &ConnectionStatus| {
            status.session_epoch > epoch
                && status.state.is_connected()
                && status.state != ConnectionState::ReadOnly
        };
        let connected = self.status.find(|published| {
            Some(&published.actual).filter(|status| writable(status)).map(|status| status.session_epoch)
        });
        let connected = connected.await;
        self.session_after(connected - 1).await
    }

    pub(crate) async fn open_session(&self, epoch: u64) -> Result<Arc<Session>, RawError> {
        let servers = self.connect_string();
        let mut settings = self.session_settings(servers.clone());
        settings.resume = self.settings.resume.clone().filter(|_| epoch == 1);
        settings.last_zxid_seen = self.last_zxid.load(Ordering::Relaxed);
        let raw = self.open_raw(&settings).await?;
        Ok(Arc::new(Session { raw, epoch, lost: CancellationToken::new(), servers }))
    }

    fn session_settings(&self, connect_string: String) -> SessionSettings {
        let mut settings = self.settings.session.clone();
        settings.connect_string = connect_string;
        settings.seed = self.random.seed();
        settings
    }

    async fn open_raw(&self, settings: &SessionSettings) -> Result<Arc<dyn RawClient>, RawError> {
        let raw = self.settings.factory.open(settings).await?;
        for (scheme, auth) in &self.settings.auth {
            // The raw client replays it on every connection, and ends the session when it is refused.
            drop(raw.add_auth(scheme, auth));
        }
        Ok(raw)
    }

    pub(crate) fn install(&self, session: &Arc<Session>) {
        self.session.set(Some(Arc::clone(session)));
        // A replacement of the servers from now on finds the session; what was replaced while it was opened is told
        // here.
        let servers = self.connect_string();
        if servers != session.servers
            && let Err(error) = session.raw.update_server_list(&servers)
        {
            self.report_background_error(Error::raw("set_connect_string", "", error));
        }
    }

    /// A session is over: the next one goes on from what it has seen.
    pub(crate) fn has_ended(&self, session: &Session, begun: bool, over: &SessionState) {
        let seen = session.raw.last_zxid_seen();
        if seen > 0 {
            self.last_zxid.store(seen, Ordering::Relaxed);
        }
        let resumed = session.epoch == 1 && self.settings.resume.is_some();
        if let Some(why) =
            over.end().filter(|_| resumed && !begun && matches!(over, SessionState::Expired(_)))
        {
            self.report_background_error(Error::raw("resume", "", why));
        }
    }

    pub(crate) fn report_lost_history(&self, zxid: i64) {
        let why = format!("no server has transaction {zxid:#x}, which an earlier session has seen");
        self.report_background_error(Error::new(ErrorKind::HistoryLost, "session", "").with_source(why));
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.status.look(|published| published.actual.state.is_connected())
    }

    /// Notes a status before it is told, or held back.
    pub(crate) fn note(&self, status: &ConnectionStatus) {
        let before = self.status.modify(|published| std::mem::replace(&mut published.actual, status.clone()));
        metrics::status(self.name(), &before, status);
    }

    /// The policy of the circuit breaker, if there is one.
    pub(crate) fn circuit_policy(&self) -> Option<Box<dyn RetryPolicy>> {
        self.settings.circuit_breaker.clone().map(|policy| Box::new(policy) as Box<dyn RetryPolicy>)
    }

    pub(crate) fn status(&self) -> ConnectionStatus {
        // Code that compares epochs, to recognise an unchanged connection, hears of every change.
        self.status
            .look(|published| ConnectionStatus { epoch: published.actual.epoch, ..published.latest.clone() })
    }

    /// The name that the framework was given.
    pub(crate) fn name(&self) -> Option<&str> {
        self.settings.name.as_deref()
    }

    /// The span of the background tasks: it names the framework in the events of recipes, which run there.
    pub(crate) fn background(&self) -> Span {
        match self.name() {
            Some(framework) => tracing::error_span!("background", framework),
            None => Span::none(),
        }
    }

    pub(crate) fn publish(&self, status: ConnectionStatus) {
        let before = self.status.look(|published| published.latest.clone());
        if before.epoch != status.epoch {
            metrics::state_changed(status.state);
            // What is lost is named, too.
            let (session, server) =
                (status.session.or(before.session), status.server.clone().or(before.server));
            let about = ConnectionStatus { session, server, ..status };
            match status.state {
                state @ ConnectionState::Lost => tell!(warn, self, about, ?state, "connection state"),
                state => tell!(info, self, about, ?state, "connection state"),
            }
        }
        self.status.modify(|published| published.push(status));
    }

    /// Closes a framework that has no task which would do it.
    pub(crate) fn never_started(&self) {
        let mut machine = StateMachine::new();
        machine.step(Input::Closed);
        self.note(&machine.status());
        self.publish(machine.status());
        self.stopped(Ok(()));
    }

    /// The framework is closed, by whatever.
    pub(crate) fn stopped(&self, result: Result<()>) {
        *self.lifecycle() = Lifecycle::Closed;
        self.shutdown.cancel();
        self.end.set(Some(result));
        self.ended.cancel();
    }

    /// Hands cleanup to the janitor. Never blocks and needs no runtime.
    pub(crate) fn owe(&self, chore: Chore) {
        let ticket = self.held.chore(chore.path(), chore.is_bound());
        let Err(SendError((chore, ticket))) = self.chores.send((chore, ticket)) else { return };
        // The framework is closed, and the session with it.
        if !chore.is_bound() {
            let left = LeftBehind::new([chore.path()].iter(), 0);
            self.report_background_error(Error::of_left_behind(left));
        }
        drop(ticket);
    }

    pub(crate) fn lifecycle(&self) -> MutexGuard<'_, Lifecycle> {
        // A plain value: whole, whatever panicked.
        self.lifecycle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core").field("status", &self.status()).finish_non_exhaustive()
    }
}

/// The chroot of a connect string, with its leading slash.
fn chroot_of(connect_string: &str) -> Option<&str> {
    let connect_string = connect_string.trim();
    let chroot = &connect_string[connect_string.find('/')?..];
    (chroot != "/").then_some(chroot)
}
