use std::fmt;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use zk_curator::op::CreateBuilder;
use zk_curator::{
    ConnectionState, ConnectionStatus, CreateMode, CuratorFramework, Error, SessionId, SessionInfo,
};

use crate::measure::{self, MeasuredHold};

/// The name in metrics.
const RECIPE: &str = "session_lease";

/// A session of its own, with its own time to live, whose nodes go together: a lease as in etcd.
///
/// Nodes of one process that should vanish at different times need different sessions: for example
/// a presence that ends two seconds after a crash, and locks that outlive a pause of thirty
/// seconds. The framework of the lease has the settings of the main one. Every recipe runs on it.
///
/// # Layout
/// No node of its own. Nodes that are created through it are ephemeral nodes of its session.
///
/// # Protocol
/// 1. [`open`](SessionLeaseBuilder::open) opens a session with the time to live as its timeout.
/// 2. The client keeps it alive, as every session: with a ping after a third of the time.
/// 3. [`revoke`](Self::revoke) closes the session, and the servers delete its nodes in one
///    transaction. So they do when they have heard nothing for the time to live.
///
/// # Guarantees
/// * All nodes of the lease vanish in one transaction, whichever way it ends.
/// * A lease has one session: when that is lost, [`lost`](Self::lost) resolves, all its operations
///   fail with `SessionExpired` or `Closed`, and no other session is opened. By the clock of this
///   process it is lost no later than on the servers.
/// * The session of the main framework is not affected, and the other way round.
///
/// # Assumptions
/// The servers allow the time to live: they raise or lower it to their limits, by default twice and
/// twenty times their tick of two seconds. [`ttl`](Self::ttl) is what they have granted. Each lease
/// is a connection.
///
/// # Connection loss
/// * SUSPENDED: the lease goes on; [`remaining`](Self::remaining) falls.
/// * LOST: it is over.
///
/// # Cancel safety
/// Dropping it revokes it in the background.
///
/// # Errors
/// Those of the framework.
///
/// # Example
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = zk_curator_testing::TestServer::start().await;
/// # let zk = zk_curator::CuratorFramework::builder().connect_string(server.connect_string()).build()?;
/// # zk.start().await?;
/// use std::time::Duration;
/// use zk_curator_recipes::lease::SessionLease;
/// use zk_curator_recipes::lock::InterProcessMutex;
///
/// let lease = SessionLease::builder(&zk).ttl(Duration::from_secs(6)).open().await?;
/// lease.create("/present").await?;
/// // Any recipe, whose nodes then go with the lease.
/// let guard = InterProcessMutex::new(lease.framework(), "/locks/orders").acquire().await?;
///
/// lease.revoke().await?;
/// assert!(zk.exists("/present").await?.is_none());
/// assert!(guard.is_over());
/// # zk.close().await?;
/// # Ok(()) }
/// ```
#[must_use = "dropping it revokes the lease in the background"]
pub struct SessionLease {
    /// Bound to the session.
    zk: CuratorFramework,
    session: SessionInfo,
    epoch: u64,
    /// Cancelled when the lease is over.
    term: CancellationToken,
    _closing: FrameworkCloser,
}

/// Builds a [`SessionLease`].
#[derive(Debug, Clone)]
#[must_use = "nothing is done until it is opened"]
pub struct SessionLeaseBuilder {
    zk: CuratorFramework,
    ttl: Option<Duration>,
}

/// Closes a framework when it is dropped.
struct FrameworkCloser(CuratorFramework);

impl FrameworkCloser {
    /// Waits until the session with this number is over. The framework would open another one.
    async fn after(&self, epoch: u64, term: &CancellationToken, mut held: MeasuredHold) {
        until_over(&self.0, epoch, term).await;
        held.end(self.0.state() != ConnectionState::Closed);
    }
}

impl Drop for FrameworkCloser {
    fn drop(&mut self) {
        self.0.close_in_background();
    }
}

impl SessionLease {
    /// Builds a lease with a second session to the servers of this framework. Nothing is sent until
    /// it is [opened](SessionLeaseBuilder::open).
    pub fn builder(zk: &CuratorFramework) -> SessionLeaseBuilder {
        measure::lease(zk, RECIPE);
        SessionLeaseBuilder { zk: zk.clone(), ttl: None }
    }

    /// The framework of the lease, bound to its session: recipes on it end with the lease.
    ///
    /// A recipe that would continue in another session, such as
    /// [`PersistentNode`](crate::node::PersistentNode), ends with `SessionExpired` or `Closed`.
    #[must_use]
    pub const fn framework(&self) -> &CuratorFramework {
        &self.zk
    }

    /// Creates an ephemeral node of the lease. [`mode`](CreateBuilder::mode) may make it
    /// sequential.
    ///
    /// **Awaiting returns** the path, as [`CuratorFramework::create`].
    pub fn create(&self, path: impl Into<String>) -> CreateBuilder {
        self.zk.create(path).mode(CreateMode::Ephemeral)
    }

    /// The id of the session, as `inspect` and the servers show it.
    #[must_use]
    pub const fn session_id(&self) -> SessionId {
        self.session.id
    }

    /// The time to live that the servers have granted.
    #[must_use]
    pub const fn ttl(&self) -> Duration {
        self.session.timeout
    }

    /// Returns the time for which the lease certainly lives if no server responds any more: at most
    /// its time to live; zero if it is over. Sends nothing.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        if self.is_over() {
            return Duration::ZERO;
        }
        let until = self.zk.session_valid_until();
        until.map_or(Duration::ZERO, |until| until.saturating_duration_since(Instant::now()))
    }

    /// Returns `true` if the lease is over: lost or revoked. Sends nothing.
    ///
    /// It also checks the clock, so code that runs first after a long stop sees the end before a
    /// task of the framework reports it. Once it is over, it stays over: if its session turns out
    /// to be alive, it is closed in the background.
    #[must_use]
    pub fn is_over(&self) -> bool {
        if self.term.is_cancelled() {
            return true;
        }
        let until = self.zk.session_valid_until();
        let is_over = is_over(&self.zk.status(), self.epoch)
            || until.is_some_and(|until| until <= Instant::now());
        if is_over {
            self.term.cancel();
        }
        is_over
    }

    /// Resolves when the lease is over: lost or revoked.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    pub async fn lost(&self) {
        until_over(&self.zk, self.epoch, &self.term).await;
    }

    /// Ends the lease, and waits until the servers have deleted its nodes. Again after that it has
    /// no effect.
    ///
    /// # Errors
    /// `ConnectionLoss` if no server has confirmed it within the
    /// [close timeout](zk_curator::CuratorFrameworkBuilder::close_timeout): the nodes stay until
    /// the time to live is over. `LeftBehind` as from [`CuratorFramework::close`].
    ///
    /// # Cancel safety
    /// Once polled, it is revoked in the background in any case.
    pub async fn revoke(&self) -> Result<(), Error> {
        self.zk.close().await
    }
}

impl fmt::Debug for SessionLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionLease").field("session", &self.session).finish_non_exhaustive()
    }
}

impl SessionLeaseBuilder {
    /// Sets the time to live that is requested: longer than zero. See
    /// [`SessionLease::ttl`] for the granted one. Default: the session timeout of the main
    /// framework.
    pub const fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// Opens the session.
    ///
    /// # Errors
    /// As [`CuratorFramework::start`], for example `ConnectionLoss` if no server is reached within
    /// the connection timeout. `InvalidArgument` for an invalid time to live. `NotStarted` if the
    /// main framework has no session and no time to live was set. No session stays open.
    ///
    /// # Panics
    /// Outside a tokio runtime, if the framework has no spawner.
    ///
    /// # Cancel safety
    /// Dropping the future closes the session in the background.
    pub async fn open(self) -> Result<SessionLease, Error> {
        let ttl = match self.ttl {
            Some(ttl) => ttl,
            None => self.zk.wait_connected().await?.session.map_or(Duration::MAX, |of| of.timeout),
        };
        let closing = FrameworkCloser(self.zk.another(ttl)?);
        let zk = &closing.0;
        zk.start().await?;
        let status = zk.wait_connected().await?;
        let (bound, epoch) = (zk.bound_to_session()?, status.session_epoch);
        let Some(session) = status.session else {
            return Err(Error::closed("open", ""));
        };
        let term = CancellationToken::new();
        let (held, over) = (MeasuredHold::of_lock(zk, RECIPE), term.clone());
        let ending = FrameworkCloser(zk.clone());
        zk.spawn_then(async move { ending.after(epoch, &over, held).await }, |_| {});
        Ok(SessionLease { zk: bound, session, epoch, term, _closing: closing })
    }
}

/// Waits until the session with this number is over, or was found to be over.
async fn until_over(zk: &CuratorFramework, epoch: u64, term: &CancellationToken) {
    let mut states = zk.states();
    tokio::select! {
        biased;
        () = term.cancelled() => {}
        _ = states.until(|status| is_over(status, epoch)) => term.cancel(),
    }
}

fn is_over(status: &ConnectionStatus, epoch: u64) -> bool {
    status.session_epoch != epoch
        || matches!(status.state, ConnectionState::Lost | ConnectionState::Closed)
}
