use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use zk_curator_client::{Error as RawError, ErrorCode};

use crate::chroot;
use crate::core::{Call, Core, Lifecycle, Settings, tell};
use crate::error::{Error, ErrorKind, Result};
use crate::namespace::Namespace;
use crate::retry::Budget;
use crate::schema::SchemaSet;
use crate::state::supervise;

const DROPPED: &str = "the last handle of a framework was dropped without close(): its session is closed in the background if \
     the runtime keeps running, and errors are not reported. Await close(), also before `?` returns from main";

/// A handle to ZooKeeper with sessions, retries, connection state, and a builder for every
/// operation.
///
/// Cheap to clone; all clones share one session. [`CuratorFramework::close`] closes the session. If
/// the last handle, including guards of recipes, is dropped without it, the session is closed in
/// the background, and a warning is logged: if the runtime ends too early, as after a `main` that
/// returns with `?`, the servers do not learn of the end, and locks and other ephemeral nodes stay
/// until the session expires.
///
/// Every verb returns a builder. **Nothing is sent until it is awaited.**
#[derive(Clone)]
pub struct CuratorFramework {
    pub(crate) handle: Arc<FrameworkHandle>,
    /// The settings of this handle.
    pub(crate) options: Arc<HandleOptions>,
}

/// The settings of one handle, in addition to the session.
#[derive(Debug, Clone, Default)]
pub(crate) struct HandleOptions {
    pub(crate) namespace: Namespace,
    pub(crate) call: Call,
    /// `true` if operations compress even where the framework does not.
    pub(crate) compressed: bool,
    /// `true` if operations leave data unchanged even where the framework, or this handle,
    /// compresses.
    pub(crate) uncompressed: bool,
}

/// The state that all clones share. Its drop begins the shutdown. The background tasks hold only
/// the core.
pub(crate) struct FrameworkHandle {
    core: Arc<Core>,
}

impl Drop for FrameworkHandle {
    fn drop(&mut self) {
        let lifecycle = *self.core.lifecycle();
        match lifecycle {
            Lifecycle::Latent => self.core.never_started(),
            Lifecycle::Started => tell!(warn, self.core, self.core.status(), "{DROPPED}"),
            Lifecycle::Closed => {}
        }
        self.core.shutdown.cancel();
    }
}

impl CuratorFramework {
    pub(crate) fn new(settings: Settings, options: HandleOptions) -> Self {
        Self {
            handle: Arc::new(FrameworkHandle { core: Arc::new(Core::new(settings)) }),
            options: Arc::new(options),
        }
    }

    /// Starts the background tasks and waits until a server is reached, at most for the connection
    /// timeout.
    ///
    /// Even if this returns an error, except for the last two below, **the framework is started**,
    /// and connects when a server is available. A service that can work without ZooKeeper for a
    /// while should use [`start_in_background`](Self::start_in_background).
    ///
    /// # Errors
    /// * `ConnectionLoss` if no server was reached within the connection timeout; its source is the
    ///   reason, if an attempt has failed before that. Also if only a read-only server without the
    ///   chroot was reached. The framework is started, and keeps trying until it is closed.
    /// * `Throttled`, or another transient refusal, if the servers refuse the check of the
    ///   credentials for as long as the retry policy allows. The framework is started.
    /// * `AuthFailed` if the servers refuse the credentials.
    /// * `NoNode` if the chroot of the connect string does not exist; the path of the error is the
    ///   chroot. With [`create_chroot`](crate::CuratorFrameworkBuilder::create_chroot), any error
    ///   of its creation. The framework is started.
    /// * `InvalidArgument` if it was already started, `Closed` if it was closed.
    ///
    /// # Cancel safety
    /// Once the future was polled, the framework is started. Dropping the future only stops the
    /// wait.
    pub async fn start(&self) -> Result<()> {
        const OP: &str = "start";
        // These are separate tasks, so a dropped `start` does not leave the framework half started.
        self.launch(OP)?;
        let core = &self.handle.core;
        timeout(core.connection_timeout(), self.reach(OP))
            .await
            .unwrap_or_else(|_| Err(core.error(OP, "", RawError::NotConnected)))
    }

    /// Starts the background tasks without waiting for a server, for services that can begin
    /// without ZooKeeper. The tasks connect when a server is available, and try without a time
    /// limit.
    ///
    /// Until then operations fail with `ConnectionLoss` when the retry policy gives up.
    /// [`wait_connected`](Self::wait_connected) waits, and
    /// [`connection_health`](Self::connection_health) returns the present state.
    /// [`background_errors`](Self::background_errors) reports refused credentials and a missing
    /// chroot, which [`start`](Self::start) would return.
    ///
    /// # Errors
    /// `InvalidArgument` if it was already started, `Closed` if it was closed.
    ///
    /// # Panics
    /// Panics outside a tokio runtime if there is no
    /// [spawner](crate::CuratorFrameworkBuilder::spawner).
    pub fn start_in_background(&self) -> Result<()> {
        self.launch("start_in_background")
    }

    fn launch(&self, operation: &'static str) -> Result<()> {
        let core = &self.handle.core;
        {
            let mut lifecycle = core.lifecycle();
            match *lifecycle {
                Lifecycle::Latent => *lifecycle = Lifecycle::Started,
                Lifecycle::Started => {
                    return Err(Error::new(ErrorKind::InvalidArgument, operation, "")
                        .with_source("started before"));
                }
                Lifecycle::Closed => return Err(Error::new(ErrorKind::Closed, operation, "")),
            }
        }
        core.meter().begin();
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            core.runtime.get_or_init(|| runtime);
        }
        self.start_task(supervise(Arc::clone(core)));
        if let Some(chroot) = core.chroot() {
            let told = Arc::clone(core);
            self.spawn_then(chroot::keep(Arc::clone(core), chroot), move |end| {
                if let Err(why) = end {
                    told.chroot.set(Some(Err(why.of_operation("start", ""))));
                }
            });
        }
        Ok(())
    }

    /// Waits until a server is reached that accepts the credentials.
    async fn reach(&self, operation: &'static str) -> Result<()> {
        let core = &self.handle.core;
        let call = Call::default();
        let mut budget = Budget::new(core, &call);
        while !core.settings.auth.is_empty() || core.settings.factory.has_credentials() {
            let session = core.session_after(0).await;
            // Servers respond in order, so this response comes after the check of the credentials.
            match session.raw.exists("/").await {
                // Even a refused read shows that the credentials were accepted.
                Ok(_) | Err(RawError::Refused(ErrorCode::NoAuth)) => break,
                // The request was only a read.
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

    /// Closes the framework, for all clones of the handle: performs the pending cleanup, and closes
    /// the session, both within the [close timeout](crate::CuratorFrameworkBuilder::close_timeout).
    /// Operations fail with `Closed` from now on.
    ///
    /// Some operations in flight have to delete a persistent node if they are dropped, such as
    /// guaranteed deletes and owned or protected creates. They get their response, or fail with
    /// `Closed` and this call performs their cleanup. If such an operation is not polled, this call
    /// gives up on it after a quarter of the close timeout. The same holds for the guard of a
    /// persistent node, but its node is not deleted, because its holder may want to
    /// [keep](crate::OwnedNode::leak) it.
    ///
    /// # Errors
    /// * `LeftBehind` if persistent nodes may be left that should have been deleted:
    ///   [`left_behind`](crate::Error::left_behind) returns their paths.
    ///   [`background_errors`](Self::background_errors) reports it too, and then ends.
    /// * `ConnectionLoss` if no server confirmed the end of the session: ephemeral nodes stay until
    ///   it expires.
    /// * `Closed` if the runtime of the framework ended, or its task panicked, before it was
    ///   closed.
    ///
    /// The framework is closed even so, and later calls return the same error.
    ///
    /// # Cancel safety
    /// Once the future was polled, the framework is closed in the background in any case.
    pub async fn close(&self) -> Result<()> {
        self.close_in_background();
        self.handle.core.end.find(Option::clone).await
    }

    /// Closes the framework as [`close`](Self::close) does, without waiting for the end: for code
    /// that cannot wait, such as a `Drop`. A later `close` waits for the end and returns its
    /// result.
    pub fn close_in_background(&self) {
        let core = &self.handle.core;
        let before = std::mem::replace(&mut *core.lifecycle(), Lifecycle::Closed);
        if before == Lifecycle::Latent {
            core.never_started();
        }
        core.shutdown.cancel();
    }

    /// Returns another framework with the settings of this one, its handle included, that has a
    /// session of its own with this timeout. It has to be [started](Self::start) and
    /// [closed](Self::close) by itself, and begins with the present servers.
    ///
    /// It has the same [name](Self::name), and with a seed, another one that follows from it. It
    /// neither resumes a session nor creates the chroot. Handles that are bound to a session or a
    /// retry scope return one that is not.
    ///
    /// # Errors
    /// `InvalidArgument` if the timeout is not valid, as of
    /// [`build`](crate::CuratorFrameworkBuilder::build).
    pub fn another(&self, session_timeout: Duration) -> Result<Self> {
        let core = self.core();
        let mut settings = core.settings.clone();
        settings.session.session_timeout = session_timeout;
        settings.session.connect_string = core.connect_string();
        settings.seed = core.random.seed();
        (settings.resume, settings.create_chroot) = (None, None);
        settings.factory.validate(&settings.session).map_err(|why| {
            Error::new(ErrorKind::InvalidArgument, "another", "").with_source(why)
        })?;
        let mut options = HandleOptions::clone(&self.options);
        (options.call.session_epoch, options.call.scope) = (None, None);
        Ok(Self::new(settings, options))
    }

    /// Returns the [name](crate::CuratorFrameworkBuilder::name) of the framework, if it has one.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.core().name()
    }

    /// Returns the rules for nodes.
    #[must_use]
    pub fn schema_set(&self) -> &SchemaSet {
        self.handle.core.schemas()
    }

    /// Returns a new unique name: a random UUID (version 4) in lower case with hyphens, like
    /// Curator's GUIDs.
    ///
    /// Recipes use it to tell their nodes from those of other clients. With a
    /// [seed](crate::CuratorFrameworkBuilder::seed) it is not random.
    #[must_use]
    pub fn new_guid(&self) -> String {
        self.core().random.guid()
    }

    /// Returns a random number, for the choices of a service, such as the seed of a generator.
    ///
    /// It is not for secrets. With a [seed](crate::CuratorFrameworkBuilder::seed), as in a
    /// simulation, it follows from the seed and the earlier draws.
    #[must_use]
    pub fn random_u64(&self) -> u64 {
        self.core().random.number()
    }

    /// Returns a random time from zero to `most`, both included, for pauses that should differ
    /// between processes. With a seed, it follows from the seed as [`random_u64`](Self::random_u64)
    /// does.
    #[must_use]
    pub fn jitter(&self, most: Duration) -> Duration {
        self.core().random.time(most)
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.handle.core
    }

    pub(crate) fn ns(&self) -> &Namespace {
        &self.options.namespace
    }

    pub(crate) fn call(&self) -> &Call {
        &self.options.call
    }

    /// Returns `true` if an operation of this handle compresses, and `None` to do as the framework
    /// does.
    pub(crate) fn compresses(&self, asked: Option<bool>) -> Option<bool> {
        let HandleOptions { compressed, uncompressed, .. } = *self.options;
        asked.or_else(|| (compressed || uncompressed).then_some(!uncompressed))
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
