use std::fmt;
use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use tokio::runtime::Handle;
use tokio::sync::mpsc::error::SendError;
use tokio::sync::{broadcast, mpsc};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::Span;
use zk_curator_client::internal::Signal;
use zk_curator_client::internal::atomic::{AtomicI64, Ordering};
use zk_curator_client::internal::bounded;
use zk_curator_client::internal::{Locked, LockedGuard};
use zk_curator_client::{Acl, Error as RawError, SessionState};

use super::advice::Advice;
use super::authorship::Authors;
use super::cleanup::{Cleanup, ResourceRegistration, Resources};
use super::fence::FencedSends;
use super::handover::Handover;
use super::identity::Deletes;
use super::metrics::{Meter, Metered, OperationMetrics, STATE_CHANGES};
use super::random::RandomSource;
use super::session::Session;
use super::settings::{AddressOfMember, Settings};
use super::tell::tell;
use crate::compression::Compression;
use crate::error::{Error, ErrorKind, LeftBehind, Result};
use crate::raw::{RawClient, SessionSettings};
use crate::retry::RetryPolicy;
use crate::schema::SchemaSet;
use crate::state::{
    BackgroundErrors, ConnectionState, ConnectionStatus, Published, StateInput, StateMachine,
};

/// The state that handles, futures of builders and background tasks share.
pub(crate) struct Core {
    pub(crate) settings: Settings,
    /// The present connect string: that of the settings until another one is set.
    connect_string: Locked<String>,
    /// The connect string that the caller has set last.
    given: Locked<String>,
    lifecycle: Locked<Lifecycle>,
    session: Signal<Option<Arc<Session>>>,
    pub(crate) status: Arc<Signal<Published>>,
    pub(crate) errors: broadcast::Sender<Error>,
    cleanups: mpsc::UnboundedSender<(Cleanup, ResourceRegistration)>,
    /// The nodes, watches and cleanups.
    pub(crate) resources: Resources,
    /// The measured operations.
    pub(crate) operations: Metered<OperationMetrics>,
    /// The deletes of nodes whose names others may use.
    pub(crate) deletes: Deletes,
    /// The creates with an unknown outcome.
    pub(crate) authors: Authors,
    /// The queue of cleanups, until the janitor takes it.
    pub(crate) cleanup_queue:
        Locked<Option<mpsc::UnboundedReceiver<(Cleanup, ResourceRegistration)>>>,
    /// Begins the shutdown.
    pub(crate) shutdown: CancellationToken,
    /// The result of the check of the chroot, once it is known.
    pub(crate) chroot: Signal<Option<Result<()>>>,
    /// The end of the shutdown, with the result of `close`.
    pub(crate) end: Signal<Option<Result<()>>>,
    /// Cancelled at the end of the shutdown.
    pub(crate) ended: CancellationToken,
    pub(crate) random: RandomSource,
    pub(crate) fenced_sends: FencedSends,
    pub(crate) handover: Handover,
    pub(crate) advice: Advice,
    /// The last transaction that the earlier sessions have seen.
    last_zxid: AtomicI64,
    /// The runtime on which the framework was started.
    pub(crate) runtime: OnceLock<Handle>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lifecycle {
    Latent,
    Started,
    Closed,
}

impl Core {
    pub(crate) fn new(settings: Settings) -> Self {
        let (cleanups, cleanup_queue) = mpsc::unbounded_channel();
        let random = RandomSource::new(settings.seed);
        let meter = Meter::new(settings.name.as_deref());
        Self {
            connect_string: Locked::new(settings.session.connect_string.clone()),
            given: Locked::new(settings.session.connect_string.clone()),
            operations: Metered::new(|| OperationMetrics::new(&meter)),
            resources: Resources::new(meter),
            settings,
            lifecycle: Locked::new(Lifecycle::Latent),
            session: Signal::new(None),
            status: Arc::new(Signal::new(Published::new(StateMachine::new().status()))),
            errors: broadcast::Sender::new(BackgroundErrors::CAPACITY),
            cleanups,
            deletes: Deletes::default(),
            authors: Authors::default(),
            cleanup_queue: Locked::new(Some(cleanup_queue)),
            shutdown: CancellationToken::new(),
            chroot: Signal::new(None),
            end: Signal::new(None),
            ended: CancellationToken::new(),
            random,
            fenced_sends: FencedSends::default(),
            handover: Handover::default(),
            advice: Advice::default(),
            last_zxid: AtomicI64::new(0),
            runtime: OnceLock::new(),
        }
    }

    pub(crate) const fn connection_timeout(&self) -> Duration {
        bounded(self.settings.session.connection_timeout)
    }

    pub(crate) const fn close_timeout(&self) -> Duration {
        bounded(self.settings.session.close_timeout)
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

    /// Returns the access control list of a node to create. The path is the server's.
    pub(crate) fn acl_of(&self, path: &str) -> Vec<Acl> {
        self.settings.acl_provider.acl(path)
    }

    pub(crate) const fn tracks_ensemble(&self) -> bool {
        self.settings.ensemble_tracker
    }

    pub(crate) const fn ensemble_addresses(&self) -> Option<&AddressOfMember> {
        self.settings.ensemble_addresses.as_ref()
    }

    pub(crate) fn connect_string(&self) -> String {
        self.connect_string.lock().clone()
    }

    pub(crate) fn set_connect_string(
        &self,
        operation: &'static str,
        connect_string: &str,
    ) -> Result<()> {
        let invalid = |why: Box<dyn std::error::Error + Send + Sync>| {
            Error::new(ErrorKind::InvalidArgument, operation, "").with_source(why)
        };
        let mut present = self.connect_string.lock();
        // Compares with the last set connect string, not with that of the builder (CURATOR-551).
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

    /// Replaces the servers on behalf of the caller.
    pub(crate) fn give_connect_string(
        &self,
        operation: &'static str,
        connect_string: String,
    ) -> Result<()> {
        self.set_connect_string(operation, &connect_string)?;
        *self.given.lock() = connect_string;
        Ok(())
    }

    /// Returns a connect string with the servers that the caller has given, after its own.
    pub(crate) fn with_given_servers(&self, connect_string: &str) -> String {
        let given = self.given.lock().clone();
        let (servers, chroot) = split_chroot(connect_string);
        let present: Vec<&str> = servers.split(',').map(str::trim).collect();
        let given = split_chroot(&given).0.split(',').map(str::trim);
        let others = given.filter(|server| !present.contains(server));
        let all: Vec<&str> = present.iter().copied().chain(others).collect();
        format!("{}{chroot}", all.join(","))
    }

    /// Returns the chroot, with its leading slash, if there is one.
    pub(crate) fn chroot(&self) -> Option<String> {
        chroot_of(&self.connect_string()).map(str::to_owned)
    }

    /// Returns `true` if a chroot that was deleted is created again.
    pub(crate) fn restores_chroot(&self) -> bool {
        self.settings.create_chroot.is_some() && self.chroot().is_some()
    }

    /// Opens an additional session, whose paths are the server's.
    pub(crate) async fn open_outside_chroot(&self) -> Result<Arc<dyn RawClient>, RawError> {
        let mut servers = self.connect_string();
        let chroot = chroot_of(&servers).map_or(0, str::len);
        servers.truncate(servers.trim_end().len() - chroot);
        self.open_raw(&self.session_settings(servers)).await
    }

    /// Reports an error that no caller waits for to the followers.
    pub(crate) fn report_background_error(&self, error: Error) {
        tell!(warn, self, self.status(), %error, "in the background");
        // An error here means that there is no follower.
        drop(self.errors.send(error));
    }

    /// Returns the session for an operation.
    pub(crate) fn session(&self, operation: &'static str, path: &str) -> Result<Arc<Session>> {
        let missing = match *self.lifecycle() {
            Lifecycle::Latent => ErrorKind::NotStarted,
            Lifecycle::Closed => ErrorKind::Closed,
            Lifecycle::Started => match self.session.look(Option::clone) {
                Some(session) => return Ok(session),
                // The framework has just been started.
                None => ErrorKind::NotStarted,
            },
        };
        Err(Error::new(missing, operation, path))
    }

    /// Returns the present session, or the last one, also after the end of the framework.
    pub(crate) fn last_session(&self) -> Option<Arc<Session>> {
        self.session.look(Option::clone)
    }

    /// Returns `true` if the framework was neither started nor closed.
    pub(crate) fn is_latent(&self) -> bool {
        *self.lifecycle() == Lifecycle::Latent
    }

    /// Returns `true` if the framework was started, and is not closed.
    pub(crate) fn is_started(&self) -> bool {
        *self.lifecycle() == Lifecycle::Started
    }

    /// Returns the session for an operation. Waits until the first session is open, within the time
    /// limit.
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
        // Boxed, because this case is rare.
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

    /// Returns the error of an operation. Without a connection, it includes the reason for that.
    pub(crate) fn error(&self, operation: &'static str, path: &str, error: RawError) -> Error {
        let failure = match error {
            RawError::ConnectionLoss { .. }
            | RawError::NotConnected
            | RawError::AuthFailed { .. } => self.last_failure(),
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

    /// Waits for a session after the one with this epoch. Only janitors and the
    /// repair of a chroot wait without a limit.
    pub(crate) async fn session_after(&self, epoch: u64) -> Arc<Session> {
        self.session.find(|session| session.clone().filter(|session| session.epoch > epoch)).await
    }

    /// Waits until a session after the one with this epoch is connected to a server that accepts
    /// writes.
    pub(crate) async fn connected_after(&self, epoch: u64) -> Arc<Session> {
        let writable = |status: &ConnectionStatus| {
            status.session_epoch > epoch
                && status.state.is_connected()
                && status.state != ConnectionState::ReadOnly
        };
        let connected = self.status.find(|published| {
            Some(&published.actual)
                .filter(|status| writable(status))
                .map(|status| status.session_epoch)
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
            // The raw client replays the credentials on every connection, and ends the session if
            // they are refused.
            drop(raw.add_auth(scheme, auth));
        }
        Ok(raw)
    }

    pub(crate) fn install(&self, session: &Arc<Session>) {
        self.session.set(Some(Arc::clone(session)));
        // A later replacement of the servers finds the session. A replacement that happened while
        // it was opened is applied here.
        let servers = self.connect_string();
        if servers != session.servers
            && let Err(error) = session.raw.update_server_list(&servers)
        {
            self.report_background_error(Error::raw("set_connect_string", "", error));
        }
    }

    /// Records the end of a session: the next one continues from the last transaction that it has
    /// seen.
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
        self.report_background_error(
            Error::new(ErrorKind::HistoryLost, "session", "").with_source(why),
        );
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.status.look(|published| published.actual.state.is_connected())
    }

    /// Records a status before it is reported or suppressed.
    pub(crate) fn note(&self, status: &ConnectionStatus) {
        let before = self
            .status
            .modify(|published| std::mem::replace(&mut published.actual, status.clone()));
        self.meter().status(&before, status);
    }

    /// Returns the policy of the circuit breaker, if there is one.
    pub(crate) fn circuit_policy(&self) -> Option<Box<dyn RetryPolicy>> {
        self.settings.circuit_breaker.clone().map(|policy| Box::new(policy) as Box<dyn RetryPolicy>)
    }

    pub(crate) fn status(&self) -> ConnectionStatus {
        // Code that compares epochs to detect an unchanged connection has to see every change.
        self.status.look(|published| ConnectionStatus {
            epoch: published.actual.epoch,
            ..published.latest.clone()
        })
    }

    /// Returns the meter of the framework.
    pub(crate) const fn meter(&self) -> &Meter {
        self.resources.meter()
    }

    /// Returns the name of the framework, if it has one.
    pub(crate) fn name(&self) -> Option<&str> {
        self.settings.name.as_deref()
    }

    /// Returns the span of the background tasks. It names the framework in the events of recipes,
    /// whose tasks run in it.
    pub(crate) fn background(&self) -> Span {
        match self.name() {
            Some(framework) => tracing::error_span!("background", framework),
            None => Span::none(),
        }
    }

    pub(crate) fn publish(&self, status: ConnectionStatus) {
        let before = self.status.look(|published| published.latest.clone());
        if before.epoch != status.epoch {
            STATE_CHANGES.series(self.meter(), [status.state.name()]).add(1);
            // The event of a loss also names the lost session and server.
            let (session, server) =
                (status.session.or(before.session), status.server.clone().or(before.server));
            let about = ConnectionStatus { session, server, ..status };
            match status.state {
                state @ ConnectionState::Lost => {
                    tell!(warn, self, about, ?state, "connection state");
                }
                state => tell!(info, self, about, ?state, "connection state"),
            }
        }
        self.status.modify(|published| published.push(status));
    }

    /// Closes a framework that has no task to do it.
    pub(crate) fn never_started(&self) {
        let mut machine = StateMachine::new();
        machine.step(StateInput::Closed);
        self.note(&machine.status());
        self.publish(machine.status());
        self.stopped(Ok(()));
    }

    /// Records that the framework is closed, for any reason.
    pub(crate) fn stopped(&self, result: Result<()>) {
        *self.lifecycle() = Lifecycle::Closed;
        self.shutdown.cancel();
        self.end.set(Some(result));
        self.ended.cancel();
    }

    /// Passes a cleanup to the janitor. Never blocks and needs no runtime.
    pub(crate) fn owe(&self, cleanup: Cleanup) {
        let registration = self.resources.cleanup(cleanup.path(), cleanup.is_bound());
        let Err(SendError((cleanup, registration))) = self.cleanups.send((cleanup, registration))
        else {
            return;
        };
        // The framework is closed, and so is its session.
        if !cleanup.is_bound() {
            let left = LeftBehind::new([cleanup.path()].iter(), 0);
            self.report_background_error(Error::of_left_behind(left));
        }
        drop(registration);
    }

    pub(crate) fn lifecycle(&self) -> LockedGuard<'_, Lifecycle> {
        self.lifecycle.lock()
    }
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core").field("status", &self.status()).finish_non_exhaustive()
    }
}

/// Splits a connect string into its servers and its chroot.
fn split_chroot(connect_string: &str) -> (&str, &str) {
    let connect_string = connect_string.trim();
    connect_string.split_at(connect_string.find('/').unwrap_or(connect_string.len()))
}

/// Returns the chroot of a connect string, with its leading slash.
fn chroot_of(connect_string: &str) -> Option<&str> {
    let (_, chroot) = split_chroot(connect_string);
    (!matches!(chroot, "" | "/")).then_some(chroot)
}
