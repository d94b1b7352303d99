use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use zk_curator_client::{Error as RawError, ErrorCode};

use crate::chroot;
use crate::core::{Call, Core, Lifecycle, Settings};
use crate::error::{Error, ErrorKind, Result};
use crate::namespace::Namespace;
use crate::retry::Budget;
use crate::schema::SchemaSet;
use crate::state::supervise;

/// A handle to ZooKeeper: sessions, retries, connection state, and a builder for every operation.
///
/// Cheap to clone; all clones share one session. The session is closed by [`CuratorFramework::close`], or in
/// the background when the last handle is dropped, guards of recipes included.
///
/// Every verb returns a builder. **Nothing is sent until it is awaited.**
#[derive(Clone)]
pub struct CuratorFramework {
    pub(crate) handle: Arc<Handle>,
    /// The settings of this handle.
    pub(crate) options: Arc<HandleOptions>,
}

/// The settings of one handle, beside the session.
#[derive(Debug, Clone, Default)]
pub(crate) struct HandleOptions {
    pub(crate) namespace: Namespace,
    pub(crate) call: Call,
    /// Whether operations leave data as they are, also where the framework compresses.
    pub(crate) uncompressed: bool,
}

/// The state that all clones share; its drop begins the shutdown. The background tasks hold only the core.
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

impl CuratorFramework {
    pub(crate) fn new(settings: Settings, options: HandleOptions) -> Self {
        Self { handle: Arc::new(Handle { core: Arc::new(Core::new(settings)) }), options: Arc::new(options) }
    }

    /// Starts the background tasks and waits until a server is reached, for as long as the connection timeout.
    ///
    /// **It goes on trying**: whatever it answers, but for the last two errors, the framework is started, and connects when there is a
    /// server. A service that can do without ZooKeeper for a while starts it with
    /// [`start_in_background`](Self::start_in_background).
    ///
    /// # Errors
    /// * `ConnectionLoss` when none was reached within the connection timeout; its source says why, if an attempt has
    ///   failed by then; or when all that was reached is a read-only server that does not have the chroot. The framework
    ///   is started all the same and goes on trying, until it is closed.
    /// * `AuthFailed` when the servers refuse the credentials.
    /// * `NoNode` when the chroot of the connect string does not exist: the error's path is the chroot. With
    ///   [`create_chroot`](crate::CuratorFrameworkBuilder::create_chroot), what its creation fails with. The framework is started all
    ///   the same.
    /// * `InvalidArgument` when it was started before, `Closed` when it was closed.
    ///
    /// # Cancel safety
    /// Once polled, the framework is started; dropping the future only ends the waiting.
    pub async fn start(&self) -> Result<()> {
        const OP: &str = "start";
        // Tasks of their own: a dropped `start` leaves no framework half started.
        self.launch(OP)?;
        let core = &self.handle.core;
        timeout(core.connection_timeout(), self.reach(OP))
            .await
            .unwrap_or_else(|_| Err(core.error(OP, "", RawError::NotConnected)))
    }

    /// Starts the background tasks and does not wait for a server: for services that begin without ZooKeeper. They connect when
    /// there is a server, and try for as long as it takes.
    ///
    /// Until then operations fail with `ConnectionLoss` when the retry policy gives up.
    /// [`wait_connected`](Self::wait_connected) waits, [`health`](Self::health) says how it stands, and
    /// [`background_errors`](Self::background_errors) tells of refused credentials and a missing chroot, which
    /// [`start`](Self::start) would answer.
    ///
    /// # Errors
    /// `InvalidArgument` when it was started before, `Closed` when it was closed.
    ///
    /// # Panics
    /// Outside a tokio runtime, if there is no [spawner](crate::CuratorFrameworkBuilder::spawner).
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
                    return Err(
                        Error::new(ErrorKind::InvalidArgument, operation, "").with_source("started before")
                    );
                }
                Lifecycle::Closed => return Err(Error::new(ErrorKind::Closed, operation, "")),
            }
        }
        self.start_task(supervise(Arc::clone(core)));
        if let Some(chroot) = core.chroot() {
            self.spawn(settle_chroot(Arc::clone(core), chroot));
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
            // Servers answer in order, so the credentials have been judged when this is answered.
            match session.raw.exists("/").await {
                // A refused read shows that the credentials were accepted all the same.
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
    /// both within the [close timeout](crate::CuratorFrameworkBuilder::close_timeout). Operations fail with `Closed` from now on.
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

    /// The name that it was [given](crate::CuratorFrameworkBuilder::name), if any.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.core().name()
    }

    /// The rules for nodes.
    #[must_use]
    pub fn schema_set(&self) -> &SchemaSet {
        self.handle.core.schemas()
    }

    /// A new name that nobody else has: a random UUID (version 4) in lower case with hyphens, as Curator's GUIDs are.
    ///
    /// Recipes take from here what must be told from the work of others. With a
    /// [seed](crate::CuratorFrameworkBuilder::seed) it is not random at all.
    #[must_use]
    pub fn new_guid(&self) -> String {
        self.core().random.guid()
    }

    /// A random number, for whatever a service has to choose: the seed of a generator of its own, for example.
    ///
    /// It is not for secrets. With a [seed](crate::CuratorFrameworkBuilder::seed), as in a simulation, it follows from the seed
    /// and from what was drawn before.
    #[must_use]
    pub fn random_u64(&self) -> u64 {
        self.core().random.number()
    }

    /// A random time from zero to `most`, both included: for pauses that are not to be the same in all processes. It follows the
    /// seed as [`random_u64`](Self::random_u64) does.
    #[must_use]
    pub fn jitter(&self, most: Duration) -> Duration {
        let nanos = u64::try_from(most.as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(self.core().random.up_to(nanos))
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

    /// Whether an operation of this handle compresses: `None` for as the framework does.
    pub(crate) fn compresses(&self, asked: Option<bool>) -> Option<bool> {
        asked.or_else(|| self.options.uncompressed.then_some(false))
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

/// Finds out about the chroot, for who starts the framework and for who follows its errors.
async fn settle_chroot(core: Arc<Core>, chroot: String) {
    let acl = core.settings.create_chroot.as_deref();
    let settled = tokio::select! {
        biased;
        () = core.shutdown.cancelled() => return,
        settled = chroot::settle(&core, &chroot, acl) => settled,
    };
    if let Err(error) = &settled {
        core.report_background_error(error.clone());
    }
    core.chroot.set(Some(settled));
}
