//! The signal that ends a process, the time that bodies have then, and the deadline of all steps.

use std::future::IntoFuture;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::time::Instant;
use tracing::warn;
use zk_curator::internal::{bounded, sleep_until};
use zk_curator::{CancellationToken, ConnectionState, CuratorFramework};

/// Decides when a [`Run`](crate::Run) of a consumer, a worker, a schedule, an election or a sharder
/// [stops](crate::Run::until), and for how long bodies may then continue.
///
/// Made of a [`CancellationToken`], by [`into`](Into) or with [`on`](Self::on). Cheap to clone: one
/// serves all runs of a process. It contains only the settings that all of these share; the number
/// of concurrent bodies is an argument where it applies.
///
/// All steps of the end of a process have one [deadline](Self::deadline), also without servers:
///
/// 1. Cancel the token.
/// 2. [`step`](Self::step)`(registration.drain())`: other processes stop calling this one.
/// 3. Wait for the runs.
/// 4. `step(registration.unregister())`, `step(guard.release())`, and so on.
/// 5. [`close`](Self::close)`(&zk)`.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = zk_curator_testing::TestServer::start().await;
/// # let zk = zk_curator::CuratorFramework::builder().connect_string(server.connect_string()).build()?;
/// # zk.start().await?;
/// use std::time::Duration;
///
/// use zk_curator_recipes::queue::LockingQueue;
/// use zk_curator_recipes::{CancellationToken, Shutdown};
///
/// let stop = CancellationToken::new();
/// let shutdown = Shutdown::on(stop.clone()).drain(Duration::from_secs(10));
/// // For example: `tokio::signal::ctrl_c().await?; stop.cancel();` in a task.
///
/// let mails = LockingQueue::new(&zk, "/mails");
/// mails.put("hello").await?;
/// let deliver = |mail: zk_curator_recipes::queue::Message| {
///     println!("{:?}", mail.data);
///     stop.cancel();
///     async { Ok::<_, std::io::Error>(()) }
/// };
/// mails.consumer().run(4, deliver).until(shutdown).await?;
/// assert_eq!(mails.count().await?, 0);
/// # zk.close().await?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
#[must_use = "it does nothing unless it is passed to a run"]
pub struct Shutdown {
    stop: CancellationToken,
    drain: Duration,
    deadline: Duration,
    /// The time at which the stop was noticed first.
    since: Arc<OnceLock<Instant>>,
}

impl Shutdown {
    /// The time to drain by default: 20 s. Of the 30 s that Kubernetes gives a process, this leaves
    /// 10 s to close the session.
    pub const DRAIN: Duration = Duration::from_secs(20);

    /// The deadline by default: 25 s. Of the 30 s that Kubernetes gives a process, this leaves 5 s
    /// for the rest.
    pub const DEADLINE: Duration = Duration::from_secs(25);

    /// Stops when this token is cancelled. A run with a token that is cancelled already begins
    /// nothing.
    pub fn on(stop: CancellationToken) -> Self {
        Self { stop, drain: Self::DRAIN, deadline: Self::DEADLINE, since: Arc::default() }
    }

    /// Never stops.
    pub(crate) fn never() -> Self {
        Self::on(CancellationToken::new())
    }

    /// Sets the time for which bodies that run at the stop may continue. Bodies that still run then
    /// are dropped. Zero drops them at the stop; `Duration::MAX` lets all of them finish. Default:
    /// [`DRAIN`](Self::DRAIN).
    pub const fn drain(mut self, time: Duration) -> Self {
        self.drain = time;
        self
    }

    /// Sets the time from the stop until [steps](Self::step) and [`close`](Self::close) no longer
    /// wait. It does not shorten the [time to drain](Self::drain), which should be less. Zero waits
    /// for nothing. More than 30 years count as 30 years. Default: [`DEADLINE`](Self::DEADLINE).
    pub const fn deadline(mut self, time: Duration) -> Self {
        self.deadline = time;
        self
    }

    /// Performs a step of the end of a process, such as `registration.drain()`,
    /// `registration.unregister()` or `guard.release()`. Returns its result, or `None` if it has not
    /// ended at the deadline. The step is dropped then; the futures of this crate continue in the
    /// background as they document, until the framework is closed.
    ///
    /// The deadline begins when the stop is noticed by any clone, at the latest with the first step.
    ///
    /// # Cancel safety
    /// As that of the step.
    pub async fn step<F: IntoFuture>(&self, step: F) -> Option<F::Output> {
        let end = self.since() + bounded(self.deadline);
        tokio::select! {
            biased;
            output = step.into_future() => Some(output),
            () = sleep_until(end) => None,
        }
    }

    /// Closes the framework, for all clones of its handle. Returns `true` if a server has confirmed
    /// the end of the session, and all cleanup is done. Otherwise it logs the reason as a warning,
    /// and the servers delete the ephemeral nodes when the session expires; a process needs to do no
    /// more. After the deadline it does not wait.
    ///
    /// # Cancel safety
    /// Once the future was polled, the framework is closed in the background in any case.
    pub async fn close(&self, zk: &CuratorFramework) -> bool {
        match self.step(zk.close()).await {
            Some(Ok(())) => return true,
            Some(Err(error)) => warn!(%error, "the end of the session is not confirmed"),
            None => warn!("the session was not closed before the deadline"),
        }
        false
    }

    /// Returns the time of the stop. If it was not noticed yet, it is now.
    fn since(&self) -> Instant {
        *self.since.get_or_init(Instant::now)
    }

    /// The time to drain.
    pub(crate) const fn time(&self) -> Duration {
        self.drain
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.stop.is_cancelled()
    }

    /// Resolves at the stop.
    pub(crate) async fn begun(&self) {
        self.stop.cancelled().await;
    }

    /// The end of one run.
    pub(crate) const fn ending(self) -> Ending {
        Ending { shutdown: self, since: OnceLock::new() }
    }
}

/// Stops when the token is cancelled, and drains for [`DRAIN`](Shutdown::DRAIN).
impl From<CancellationToken> for Shutdown {
    fn from(stop: CancellationToken) -> Self {
        Self::on(stop)
    }
}

/// The end of one run, from the stop on.
pub(crate) struct Ending {
    shutdown: Shutdown,
    /// When this run has noticed the stop.
    since: OnceLock<Instant>,
}

impl Ending {
    pub(crate) fn has_begun(&self) -> bool {
        let has_begun = self.shutdown.has_begun();
        if has_begun {
            self.notice();
        }
        has_begun
    }

    fn notice(&self) {
        self.shutdown.since();
        self.since.get_or_init(Instant::now);
    }

    /// Resolves at the stop.
    pub(crate) async fn begun(&self) {
        self.shutdown.begun().await;
        self.notice();
    }

    /// Resolves when the session is lost after the stop: nothing of this process can be left then.
    pub(crate) async fn lost(&self, zk: &CuratorFramework) {
        self.begun().await;
        let is_lost = |state| matches!(state, ConnectionState::Lost | ConnectionState::Closed);
        zk.states().until(|status| is_lost(status.state)).await;
    }

    /// Resolves when a step without a body is to be given up: when the time to drain has passed, or
    /// the session is lost.
    pub(crate) async fn gives_up(&self, zk: &CuratorFramework) {
        tokio::select! {
            biased;
            () = self.drained() => {}
            () = self.lost(zk) => {}
        }
    }

    /// When the time to drain has passed; `None` if that is never, or the end has not begun.
    pub(crate) fn end(&self) -> Option<Instant> {
        self.since.get().and_then(|since| since.checked_add(self.shutdown.drain))
    }

    /// Resolves when the time to drain has passed.
    pub(crate) async fn drained(&self) {
        self.begun().await;
        match self.end() {
            Some(end) => sleep_until(end).await,
            None => std::future::pending().await,
        }
    }
}
