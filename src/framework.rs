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
use tracing::{Instrument, Span};
use zk_curator_client::{Acl, Error as RawError, ErrorCode, SessionInfo, SessionState, Signal};

use crate::builder::{Addresses, CuratorFrameworkBuilder, Settings};
use crate::chroot;
use crate::compression::Compression;
use crate::error::{Error, ErrorKind, LeftBehind, Result};
use crate::handover::Handover;
use crate::janitor::Chore;
use crate::namespace::Namespace;
use crate::observe::{Held, Ticket, metrics, tell};
use crate::op::{self, Call, Deletes};
use crate::random::Random;
use crate::raw::{RawClient, RawClientFactory, SessionSettings};
use crate::retry::{Budget, RetryPolicy};
use crate::schema::SchemaSet;
use crate::state::{
    BackgroundErrors, ConnectionState, ConnectionStateErrorPolicy, ConnectionStatus, Input, Published,
    StateMachine, StateWatch, supervise,
};

/// A handle to ZooKeeper: sessions, retries, connection state, and a builder for every operation.
///
/// Cheap to clone; all clones share one session. The session is closed by [`CuratorFramework::close`], or in
/// the background when the last handle is dropped, guards of recipes included.
///
/// Every verb returns a builder. **Nothing is sent until it is awaited.**
#[derive(Clone)]
pub struct CuratorFramework {
    pub(crate) handle: Arc<Handle>,
    /// What this handle has of its own.
    pub(crate) facade: Arc<Facade>,
}

/// What the operations of one handle have in common, beside the session.
#[derive(Debug, Clone, Default)]
pub(crate) struct Facade {
    pub(crate) namespace: Namespace,
    pub(crate) call: Call,
    /// Whether operations leave data as they are, also where the framework compresses.
    pub(crate) uncompressed: bool,
}

/// What all clones share; its drop begins the shutdown. The background tasks hold only the core.
pub(crate) struct Handle {
    core: Arc<Core>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        if *self.core.lifecycle() == Lifecycle::Latent {
            self.core.never_started();
        }
        self.core.shutdown.cancel();
    }
}

/// One session of the raw client.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) raw: Arc<dyn RawClient>,
    /// Counts the sessions of a framework, from one.
    pub(crate) epoch: u64,
    /// Cancelled when the session is over.
    pub(crate) lost: CancellationToken,
    /// The servers that it was opened with.
    servers: String,
}

/// What the handles, the builders' futures and the background tasks share.
pub(crate) struct Core {
    settings: Settings,
    /// The servers now: those of the settings until others are set.
    connect_string: Mutex<String>,
    lifecycle: Mutex<Lifecycle>,
    session: Signal<Option<Arc<Session>>>,
    status: Arc<Signal<Published>>,
    errors: broadcast::Sender<Error>,
    chores: mpsc::UnboundedSender<(Chore, Ticket)>,
    /// Who holds what.
    pub(crate) held: Held,
    /// The deletes of nodes whose names others may use.
    pub(crate) deletes: Deletes,
    /// Taken by the janitor.
    pub(crate) chore_queue: Mutex<Option<mpsc::UnboundedReceiver<(Chore, Ticket)>>>,
    /// Begins the shutdown.
    pub(crate) shutdown: CancellationToken,
    /// Whether there is a chroot as the connect string names it, once that is known.
    chroot: Signal<Option<Result<()>>>,
    /// The end of the shutdown, with the answer of `close`.
    end: Signal<Option<Result<()>>>,
    /// Cancelled with it.
    ended: CancellationToken,
    pub(crate) random: Random,
    pub(crate) handover: Handover,
    /// The last transaction that the sessions before the present one have seen.
    last_zxid: AtomicI64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lifecycle {
    Latent,
    Started,
    Closed,
}

impl CuratorFramework {
    /// Begins to configure a framework.
    pub fn builder() -> CuratorFrameworkBuilder {
        CuratorFrameworkBuilder::default()
    }

    pub(crate) fn new(settings: Settings, facade: Facade) -> Self {
        let (chores, chore_queue) = mpsc::unbounded_channel();
        let random = Random::new(settings.seed);
        let core = Core {
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
        };
        Self { handle: Arc::new(Handle { core: Arc::new(core) }), facade: Arc::new(facade) }
    }

    /// Starts the background tasks and waits until a server is reached.
    ///
    /// # Errors
    /// * `ConnectionLoss` when none was reached within the connection timeout; its source says why, if an attempt has
    ///   failed by then; or when all that was reached is a read-only server that does not have the chroot. The framework
    ///   is started all the same and goes on trying, until it is closed.
    /// * `AuthFailed` when the servers refuse the credentials.
    /// * `NoNode` when the chroot of the connect string does not exist: the error's path is the chroot. With
    ///   [`create_chroot`](CuratorFrameworkBuilder::create_chroot), what its creation fails with. The framework is started all
    ///   the same.
    /// * `InvalidArgument` when it was started before, `Closed` when it was closed.
    ///
    /// # Cancel safety
    /// Once polled, the framework is started; dropping the future only ends the waiting.
    pub async fn start(&self) -> Result<()> {
        const OP: &str = "start";
        let core = &self.handle.core;
        {
            let mut lifecycle = core.lifecycle();
            match *lifecycle {
                Lifecycle::Latent => *lifecycle = Lifecycle::Started,
                Lifecycle::Started => {
                    return Err(Error::new(ErrorKind::InvalidArgument, OP, "").with_source("started before"));
                }
                Lifecycle::Closed => return Err(Error::new(ErrorKind::Closed, OP, "")),
            }
        }
        // A task of its own: a dropped `start` leaves no framework half started.
        self.start_task(supervise(Arc::clone(core)));
        if let Some(chroot) = core.chroot() {
            self.spawn(settle_chroot(Arc::clone(core), chroot));
        }
        timeout(core.connection_timeout(), self.reach(OP))
            .await
            .unwrap_or_else(|_| Err(core.error(OP, "", RawError::NotConnected)))
    }

    /// Waits until a server is reached that accepts the credentials.
    async fn reach(&self, operation: &'static str) -> Result<()> {
        let core = &self.handle.core;
        let call = Call::default();
        let mut budget = Budget::new(core, &call);
        while !core.settings.auth.is_empty() || core.settings.factory.has_credentials() {
            let session = core.session_after(0).await;
            // Servers answer in order, so the credentials have been judged when this is answered.
            match session.raw.exists("/").await {
                // Who may not look has been judged all the same.
                Ok(_) | Err(RawError::Refused(ErrorCode::NoAuth)) => break,
                // It has only looked.
                Err(error) => {
                    let error = core.error(operation, "", error).of_a_read();
                    budget.spend(error, session.epoch).await?;
                }
            }
        }
        let connected = self.states().until(|status| status.state.is_connected()).await;
        connected.ok_or_else(|| Error::new(ErrorKind::Closed, operation, ""))?;
        if core.chroot().is_some() {
            core.chroot.find(Option::clone).await?;
        }
        Ok(())
    }

    /// Closes the framework, for all clones of the handle: performs the cleanup that is still owed, and closes the session,
    /// both within the [close timeout](CuratorFrameworkBuilder::close_timeout). Operations fail with `Closed` from now on.
    ///
    /// Operations under way that owe the deletion of a lasting node if they are dropped, such as guaranteed deletes and
    /// owned or protected creates, get their answer, or fail with `Closed` and their debt is paid here. One that nobody
    /// polls is waited for in vain for a quarter of the close timeout. So is a guard of a lasting node; it is not deleted
    /// then, because its holder may want to [keep](crate::OwnedNode::leak) it.
    ///
    /// # Errors
    /// * `LeftBehind` when lasting nodes may be left that should have been deleted:
    ///   [`left_behind`](crate::Error::left_behind) has their paths. [`background_errors`](Self::background_errors) tells it
    ///   too, and ends after that.
    /// * `ConnectionLoss` when no server could be told of the end of the session: ephemeral nodes stay until it expires.
    /// * `Closed` when the runtime of the framework ended, or its task panicked, before it was closed.
    ///
    /// The framework is closed all the same, and who asks again is told the same.
    ///
    /// # Cancel safety
    /// Once polled, the framework is closed in the background all the same.
    pub async fn close(&self) -> Result<()> {
        let core = &self.handle.core;
        let before = std::mem::replace(&mut *core.lifecycle(), Lifecycle::Closed);
        if before == Lifecycle::Latent {
            core.never_started();
        }
        core.shutdown.cancel();
        core.end.find(Option::clone).await
    }

    /// The name that it was [given](CuratorFrameworkBuilder::name), if any.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.core().name()
    }

    /// The state of the connection now.
    #[must_use]
    pub fn state(&self) -> ConnectionState {
        self.status().state
    }

    /// The state of the connection now, with its place in history and the session.
    #[must_use]
    pub fn status(&self) -> ConnectionStatus {
        self.handle.core.status()
    }

    /// Follows the state of the connection.
    #[must_use]
    pub fn states(&self) -> StateWatch {
        StateWatch::new(Arc::clone(&self.handle.core.status))
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

    /// Why the last connection of the present session, or the last attempt to open one, failed; `None` when none has.
    /// It stays when a later attempt succeeds. An error of the kind `ConnectionLoss` or `AuthFailed` has it as its
    /// source.
    ///
    /// For people: it is what a service should log when it is not connected for long. With TLS,
    /// `tls::TlsError::of` finds in it what is wrong with a certificate.
    #[must_use]
    pub fn last_failure(&self) -> Option<Arc<io::Error>> {
        self.handle.core.last_failure()
    }

    /// The rules for nodes.
    #[must_use]
    pub fn schema_set(&self) -> &SchemaSet {
        self.handle.core.schemas()
    }

    /// Follows what fails in the background, where no caller waits for it: cleanup that is not possible (with the path
    /// on the server), sessions that cannot be opened, credentials that are refused, an ensemble that cannot be followed,
    /// background tasks that end early.
    #[must_use]
    pub fn background_errors(&self) -> BackgroundErrors {
        BackgroundErrors::new(self.handle.core.errors.subscribe(), self.handle.core.ended.clone())
    }

    /// Tells those who follow [`background_errors`](Self::background_errors) of an error: for recipes that work in the
    /// background, where no caller waits for them.
    pub fn report(&self, error: Error) {
        self.handle.core.report(error);
    }

    /// Which states of the connection those should take for an error who do not fence what they do.
    #[must_use]
    pub fn connection_state_error_policy(&self) -> ConnectionStateErrorPolicy {
        self.handle.core.settings.error_policy
    }

    /// The servers now, with the chroot.
    #[must_use]
    pub fn connect_string(&self) -> String {
        self.handle.core.connect_string()
    }

    /// Replaces the servers: of the present session, which goes on, and of later ones. The chroot must stay. See
    /// [`zk_curator_client::ZooKeeper::update_server_list`] for when the connection moves.
    ///
    /// # Errors
    /// `InvalidArgument` when the connect string is not valid or has another chroot, or the raw client cannot.
    pub fn set_connect_string(&self, connect_string: &str) -> Result<()> {
        self.handle.core.set_connect_string("set_connect_string", connect_string)
    }

    /// Creates a node.
    ///
    /// **Awaiting returns** [`Created`](crate::Created): the path, with the sequence number, and the stat.
    /// See [`op::CreateBuilder`] for options and errors.
    pub fn create(&self, path: impl Into<String>) -> op::CreateBuilder {
        op::CreateBuilder::new(self.clone(), path.into())
    }

    /// Deletes a node.
    ///
    /// **Awaiting returns** `()`. See [`op::DeleteBuilder`] for options and errors.
    pub fn delete(&self, path: impl Into<String>) -> op::DeleteBuilder {
        op::DeleteBuilder::new(self.clone(), path.into())
    }

    /// Looks whether a node exists.
    ///
    /// **Awaiting returns** `Option<Stat>`; `None` when it does not.
    pub fn exists(&self, path: impl Into<String>) -> op::ExistsBuilder {
        op::ExistsBuilder::new(self.clone(), path.into())
    }

    /// Reads the data of a node.
    ///
    /// **Awaiting returns** `Bytes`, or with [`with_stat`](op::GetDataBuilder::with_stat) `(Bytes, Stat)`.
    pub fn get_data(&self, path: impl Into<String>) -> op::GetDataBuilder {
        op::GetDataBuilder::new(self.clone(), path.into())
    }

    /// Replaces the data of a node.
    ///
    /// **Awaiting returns** the new [`Stat`](crate::Stat).
    pub fn set_data(&self, path: impl Into<String>, data: impl Into<Bytes>) -> op::SetDataBuilder {
        op::SetDataBuilder::new(self.clone(), path.into(), data.into())
    }

    /// Lists the children of a node.
    ///
    /// **Awaiting returns** their names, in no order, or with
    /// [`with_stat`](op::ChildrenBuilder::with_stat) `(Vec<String>, Stat)`.
    pub fn children(&self, path: impl Into<String>) -> op::ChildrenBuilder {
        op::ChildrenBuilder::new(self.clone(), path.into())
    }

    /// Lists the children of many nodes, in one request where the server can do that.
    ///
    /// **Awaiting returns** `Vec<Option<Vec<String>>>`: in the order of the paths, the names of the children, or `None` for a
    /// node that does not exist. See [`op::ChildrenOfEachBuilder`].
    pub fn children_of_each(
        &self,
        paths: impl IntoIterator<Item = impl Into<String>>,
    ) -> op::ChildrenOfEachBuilder {
        op::ChildrenOfEachBuilder::new(self.clone(), paths.into_iter().map(Into::into).collect())
    }

    /// Brings the server up to date with the leader, so that later reads see everything that was committed
    /// before.
    ///
    /// **Awaiting returns** `()`.
    pub fn sync(&self, path: impl Into<String>) -> op::SyncBuilder {
        op::SyncBuilder::new(self.clone(), path.into())
    }

    /// Reads the access control list of a node.
    ///
    /// **Awaiting returns** `Vec<Acl>`, or with [`with_stat`](op::GetAclBuilder::with_stat) `(Vec<Acl>, Stat)`.
    pub fn get_acl(&self, path: impl Into<String>) -> op::GetAclBuilder {
        op::GetAclBuilder::new(self.clone(), path.into())
    }

    /// Replaces the access control list of a node.
    ///
    /// **Awaiting returns** the new [`Stat`](crate::Stat).
    pub fn set_acl(&self, path: impl Into<String>, acl: Vec<Acl>) -> op::SetAclBuilder {
        op::SetAclBuilder::new(self.clone(), path.into(), acl)
    }

    /// Creates a node and what is missing above it, as containers.
    ///
    /// **Awaiting returns** `()`.
    pub fn create_containers(&self, path: impl Into<String>) -> op::CreateContainersBuilder {
        op::CreateContainersBuilder::new(self.clone(), path.into())
    }

    /// Adds a watch that reports again and again, until it is dropped or the session ends.
    ///
    /// **Awaiting returns** a [`PersistentWatch`](crate::watch::PersistentWatch).
    pub fn add_watch(&self, path: impl Into<String>) -> op::AddWatchBuilder {
        op::AddWatchBuilder::new(self.clone(), path.into())
    }

    /// Removes all watches of this session on a node.
    ///
    /// **Awaiting returns** `()`.
    pub fn remove_watches(&self, path: impl Into<String>) -> op::RemoveWatchesBuilder {
        op::RemoveWatchesBuilder::new(self.clone(), path.into())
    }

    /// Reads the configuration of the ensemble.
    ///
    /// **Awaiting returns** an [`EnsembleConfig`](crate::ensemble::EnsembleConfig).
    pub fn get_config(&self) -> op::ConfigBuilder {
        op::ConfigBuilder::new(self.clone())
    }

    /// Changes the members of the ensemble.
    ///
    /// **Awaiting returns** the new [`EnsembleConfig`](crate::ensemble::EnsembleConfig).
    pub fn reconfig(&self) -> op::ReconfigBuilder {
        op::ReconfigBuilder::new(self.clone())
    }

    /// A new name that nobody else has: a random UUID (version 4) in lower case with hyphens, as Curator's GUIDs are.
    ///
    /// Recipes take from here what must be told from the work of others. With a
    /// [seed](CuratorFrameworkBuilder::seed) it is not random at all.
    #[must_use]
    pub fn new_guid(&self) -> String {
        self.core().random.guid()
    }

    /// Starts a task where the background tasks of the framework run: on its
    /// [spawner](CuratorFrameworkBuilder::spawner), or else on the present tokio runtime. For recipes that have to work
    /// while nobody awaits them. Such a task ends by itself, at the latest when the framework is closed:
    /// [`StateWatch`] tells it. One that panics, or whose runtime ends before the framework is closed, is told of by
    /// [`background_errors`](Self::background_errors).
    ///
    /// # Panics
    /// Outside a tokio runtime, if there is no spawner.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let unfinished = Unfinished(Some(Arc::clone(self.core())));
        self.start_task(async move {
            task.await;
            unfinished.finish();
        });
    }

    fn start_task(&self, task: impl Future<Output = ()> + Send + 'static) {
        let task = task.instrument(self.core().background());
        match &self.core().settings.spawner {
            Some(spawner) => spawner.spawn(Box::pin(task)),
            None => drop(tokio::spawn(task)),
        }
    }

    /// Begins a transaction: all of its operations are applied, or none.
    pub fn transaction(&self) -> op::Transaction {
        op::Transaction::new(self.clone())
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.handle.core
    }

    pub(crate) fn ns(&self) -> &Namespace {
        &self.facade.namespace
    }

    pub(crate) fn call(&self) -> &Call {
        &self.facade.call
    }

    /// Whether an operation of this handle compresses: `None` for as the framework does.
    pub(crate) fn compresses(&self, asked: Option<bool>) -> Option<bool> {
        asked.or_else(|| self.facade.uncompressed.then_some(false))
    }
}

/// A task that has not come to its end: reports it when it is dropped.
struct Unfinished(Option<Arc<Core>>);

impl Unfinished {
    fn finish(mut self) {
        self.0 = None;
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        let Some(core) = self.0.take() else { return };
        let why = if std::thread::panicking() {
            "a background task panicked"
        } else if !core.shutdown.is_cancelled() {
            "the runtime of a background task ended before the framework was closed"
        } else {
            return;
        };
        core.report(Error::new(ErrorKind::Closed, "spawn", "").with_source(why));
    }
}

impl fmt::Debug for CuratorFramework {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CuratorFramework")
            .field("namespace", &self.ns().name())
            .field("status", &self.status())
            .finish_non_exhaustive()
    }
}

impl Core {
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
    pub(crate) fn report(&self, error: Error) {
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
                // `start` has been called in another task and has not come far.
                None => ErrorKind::NotStarted,
            },
        };
        Err(Error::new(missing, operation, path))
    }

    /// What an operation fails with: also why there is no connection, if that is why.
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

    fn last_failure(&self) -> Option<Arc<io::Error>> {
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
        SessionSettings { connect_string, seed: self.random.seed(), ..self.settings.session.clone() }
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
        // Whoever replaces the servers from now on finds the session; what was replaced while it was opened is told
        // here.
        let servers = self.connect_string();
        if servers != session.servers
            && let Err(error) = session.raw.update_server_list(&servers)
        {
            self.report(Error::raw("set_connect_string", "", error));
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
            self.report(Error::raw("resume", "", why));
        }
    }

    pub(crate) fn report_lost_history(&self, zxid: i64) {
        let why = format!("no server has transaction {zxid:#x}, which an earlier session has seen");
        self.report(Error::new(ErrorKind::HistoryLost, "session", "").with_source(why));
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.status.look(|published| published.actual.state.is_connected())
    }

    /// Notes a status before it is told, or held back.
    pub(crate) fn note(&self, status: &ConnectionStatus) {
        self.status.modify(|published| published.actual = status.clone());
    }

    /// The policy of the circuit breaker, if there is one.
    pub(crate) fn circuit_policy(&self) -> Option<Box<dyn RetryPolicy>> {
        self.settings.circuit_breaker.clone().map(|policy| Box::new(policy) as Box<dyn RetryPolicy>)
    }

    pub(crate) fn status(&self) -> ConnectionStatus {
        // Who compares epochs, to know that the connection is the one from before, hears of every change.
        self.status
            .look(|published| ConnectionStatus { epoch: published.actual.epoch, ..published.latest.clone() })
    }

    /// The name that the framework was given.
    pub(crate) fn name(&self) -> Option<&str> {
        self.settings.name.as_deref()
    }

    /// The span of the background tasks: it names the framework in the events of recipes, which run there.
    fn background(&self) -> Span {
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
    fn never_started(&self) {
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
            self.report(Error::of_left_behind(left));
        }
        drop(ticket);
    }

    fn lifecycle(&self) -> MutexGuard<'_, Lifecycle> {
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

/// Finds out about the chroot, for who starts the framework and for who follows its errors.
async fn settle_chroot(core: Arc<Core>, chroot: String) {
    let acl = core.settings.create_chroot.as_deref();
    let settled = tokio::select! {
        biased;
        () = core.shutdown.cancelled() => return,
        settled = chroot::settle(&core, &chroot, acl) => settled,
    };
    if let Err(error) = &settled {
        core.report(error.clone());
    }
    core.chroot.set(Some(settled));
}

/// Checked once, when the framework is built.
pub(crate) fn validate(factory: &dyn RawClientFactory, settings: &Settings) -> Result<()> {
    factory
        .validate(&settings.session)
        .map_err(|why| Error::new(ErrorKind::InvalidArgument, "build", "").with_source(why))
}
