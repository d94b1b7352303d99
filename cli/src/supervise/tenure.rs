//! How long a command may run: as long as its session, or longer.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, pending};
use tokio::time::Instant;
use zk_curator::state::StateWatch;
use zk_curator::{ConnectionState, ConnectionStatus, CuratorFramework, Error, Ownership};

/// The session to which something belongs that is held while a command runs.
pub(crate) trait Tenure: Send + Sync {
    /// Follows the connection. `None` if it does not matter.
    fn states(&self) -> Option<StateWatch>;

    /// Returns the number of the session.
    fn session_epoch(&self) -> u64;

    /// Returns the session timeout.
    fn session_timeout(&self) -> Duration;

    /// Returns the time until which it is certainly held.
    fn valid_until(&self) -> Option<Instant>;

    /// Returns `true` if it is known to be lost.
    fn is_over(&self) -> bool;

    /// Resolves when it is lost.
    fn over(&self) -> BoxFuture<'_, ()>;
}

impl Tenure for Ownership {
    fn states(&self) -> Option<StateWatch> {
        Some(self.framework().states())
    }

    fn session_epoch(&self) -> u64 {
        Self::session_epoch(self)
    }

    fn session_timeout(&self) -> Duration {
        session_timeout(self.framework())
    }

    fn valid_until(&self) -> Option<Instant> {
        Self::valid_until(self)
    }

    fn is_over(&self) -> bool {
        Self::is_over(self)
    }

    fn over(&self) -> BoxFuture<'_, ()> {
        Self::over(self).boxed()
    }
}

fn session_timeout(zk: &CuratorFramework) -> Duration {
    zk.session().map_or(Duration::MAX, |session| session.timeout)
}

/// The tenure of something that this client cannot ask for its owner: it lasts as long as the
/// session, or until [`end`](Self::end).
#[derive(Debug)]
pub(crate) struct InSession {
    zk: CuratorFramework,
    epoch: u64,
    has_ended: AtomicBool,
}

impl InSession {
    /// The tenure of the present session.
    pub(crate) fn present(zk: &CuratorFramework) -> Result<Self, Error> {
        // If another session begins in between, this tenure is over from its beginning.
        let epoch = zk.status().session_epoch;
        let zk = zk.bound_to_session()?;
        Ok(Self { zk, epoch, has_ended: AtomicBool::new(false) })
    }

    /// Returns a handle whose operations fail after the end of the session.
    pub(crate) const fn framework(&self) -> &CuratorFramework {
        &self.zk
    }

    /// Notes that it is lost, although the session may be alive.
    pub(crate) fn end(&self) {
        self.has_ended.store(true, Ordering::Release);
    }

    fn is_later(&self, status: &ConnectionStatus) -> bool {
        status.session_epoch != self.epoch
            || matches!(status.state, ConnectionState::Lost | ConnectionState::Closed)
    }
}

impl Tenure for InSession {
    fn states(&self) -> Option<StateWatch> {
        Some(self.zk.states())
    }

    fn session_epoch(&self) -> u64 {
        self.epoch
    }

    fn session_timeout(&self) -> Duration {
        session_timeout(&self.zk)
    }

    fn valid_until(&self) -> Option<Instant> {
        self.zk.session_valid_until()
    }

    fn is_over(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
            || self.is_later(&self.zk.status())
            || self.valid_until().is_some_and(|until| until <= Instant::now())
    }

    fn over(&self) -> BoxFuture<'_, ()> {
        async {
            let mut states = self.zk.states();
            states.until(|status| self.is_later(status)).await;
        }
        .boxed()
    }
}

/// The tenure of something that outlasts sessions.
#[derive(Debug)]
pub(crate) struct Unlimited;

/// Farther than any command runs.
const FAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

impl Tenure for Unlimited {
    fn states(&self) -> Option<StateWatch> {
        None
    }

    fn session_epoch(&self) -> u64 {
        0
    }

    fn session_timeout(&self) -> Duration {
        Duration::MAX
    }

    fn valid_until(&self) -> Option<Instant> {
        Instant::now().checked_add(FAR)
    }

    fn is_over(&self) -> bool {
        false
    }

    fn over(&self) -> BoxFuture<'_, ()> {
        pending().boxed()
    }
}
