//! The signal that ends a process, the time that bodies have then, and the deadline of all steps.

use std::future::IntoFuture;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::DropGuard;
use tracing::warn;
use zk_curator::internal::{CancellationToken, bounded, sleep_until};
use zk_curator::{ConnectionState, CuratorFramework};

/// Decides when a [`Run`](crate::Run) of a consumer, a worker, a schedule, an election or a sharder
/// [stops](crate::Run::until), and for how long bodies may then continue.
///
/// Made with `on_signals` (feature `signal`), with [`when`](Self::when) of a future, or with
/// [`new`](Self::new), to be begun by the process itself. Cheap to clone: one serves all runs of a
/// process. It contains only the settings that all of these share; the number of concurrent bodies
/// is an argument where it applies.
///
/// All steps of the end of a process have one [deadline](Self::deadline), also without servers:
///
/// 1. A signal arrives, the future resolves, or [`begin`](Self::begin) is called.
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
/// use zk_curator_recipes::Shutdown;
///
/// // In a service: `Shutdown::on_signals()?`, with the feature `signal`.
/// let shutdown = Shutdown::new().drain(Duration::from_secs(10));
///
/// let mails = LockingQueue::new(&zk, "/mails");
/// mails.put("hello").await?;
/// let deliver = |mail: zk_curator_recipes::queue::Message| {
///     println!("{:?}", mail.data);
///     shutdown.begin(); // here: one mail is enough
///     async { Ok::<_, std::io::Error>(()) }
/// };
/// mails.consumer().run(4, deliver).until(shutdown.clone()).await?;
/// assert_eq!(mails.count().await?, 0);
/// shutdown.close(&zk).await;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
#[must_use = "it does nothing unless it is passed to a run"]
pub struct Shutdown {
    stop: CancellationToken,
    drain: Duration,
    deadline: Duration,
    shared: Arc<ShutdownShared>,
}

/// The state that all clones share.
#[derive(Debug, Default)]
struct ShutdownShared {
    /// The time at which the stop was noticed first.
    since: OnceLock<Instant>,
    /// Ends the task that waits for the stop, if there is one.
    _when: Option<DropGuard>,
}

impl Shutdown {
    /// The time to drain by default: 20 s. Of the 30 s that Kubernetes gives a process, this leaves
    /// 10 s to close the session.
    pub const DRAIN: Duration = Duration::from_secs(20);

    /// The deadline by default: 25 s. Of the 30 s that Kubernetes gives a process, this leaves 5 s
    /// for the rest.
    pub const DEADLINE: Duration = Duration::from_secs(25);

    /// Stops when [`begin`](Self::begin) is called. A run whose shutdown has already begun begins
    /// nothing.
    pub fn new() -> Self {
        Self::on(CancellationToken::new())
    }

    /// Stops when this token is cancelled.
    pub(crate) fn on(stop: CancellationToken) -> Self {
        Self { stop, drain: Self::DRAIN, deadline: Self::DEADLINE, shared: Arc::default() }
    }

    /// Stops when a signal asks this process to end: TERM, INT (Ctrl-C) or HUP. On Windows, only
    /// Ctrl-C.
    ///
    /// The signals are caught from this call on, until the process ends: from then on, the process
    /// ends only by code that notices the stop, or by KILL. So call it in `main` when such code is
    /// next, for example after `start`, and keep the value to the end.
    ///
    /// INT and HUP stay ignored if the process was started to ignore them: HUP by `nohup`, and INT
    /// by a script that starts a program with `&`. Only Linux says whether it was; elsewhere they
    /// always stop. Call this before other code catches these signals, because a signal that is
    /// caught is no longer ignored.
    ///
    /// Signals after the first one have no effect: wrappers often pass on a Ctrl-C that the
    /// terminal has already sent. The [deadline](Self::deadline) begins at the first one, and
    /// limits the end.
    ///
    /// A process that reloads its configuration at HUP waits for its signals itself, and uses
    /// [`when`](Self::when).
    ///
    /// # Errors
    /// The errors of the operating system.
    ///
    /// # Panics
    /// Panics outside a tokio runtime whose I/O is enabled.
    #[cfg(feature = "signal")]
    pub fn on_signals() -> std::io::Result<Self> {
        let mut signals = zk_curator::internal::CaughtSignals::that_end()?;
        Ok(Self::when(async move { signals.next().await }))
    }

    /// Stops when a future resolves, for example a signal of the process or the `cancelled_owned`
    /// of a `CancellationToken`. A task waits for it, so a run that begins in the same moment may
    /// take an item although the future has already resolved; call [`begin`](Self::begin) if it is
    /// known to. The future is dropped with the last clone. A future that panics, or whose runtime
    /// ends, stops too.
    ///
    /// # Panics
    /// Panics outside a tokio runtime.
    pub fn when(stopped: impl Future<Output = ()> + Send + 'static) -> Self {
        let unused = CancellationToken::new();
        let _when = Some(unused.clone().drop_guard());
        let shared = Arc::new(ShutdownShared { _when, ..ShutdownShared::default() });
        let shutdown = Self { shared, ..Self::on(CancellationToken::new()) };
        let (stop, shared) = (shutdown.stop.clone(), Arc::downgrade(&shutdown.shared));
        tokio::spawn(async move {
            // Also if the future panics: nothing else would stop the runs.
            let _begins = stop.drop_guard();
            tokio::select! {
                biased;
                () = unused.cancelled() => return,
                () = stopped => {}
            }
            if let Some(shared) = shared.upgrade() {
                shared.since();
            }
        });
        shutdown
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

    /// Stops now, as a signal would, for a process that ends for another reason.
    pub fn begin(&self) {
        self.shared.since();
        self.stop.cancel();
    }

    /// Returns `true` after the stop. A readiness probe should fail then.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        let has_begun = self.stop.is_cancelled();
        if has_begun {
            self.shared.since();
        }
        has_begun
    }

    /// Waits for the stop.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    pub async fn begun(&self) {
        self.stop.cancelled().await;
        self.shared.since();
    }

    /// Performs a step of the end of a process, such as `registration.drain()`,
    /// `registration.unregister()` or `guard.release()`. Returns its result, or `None` if it has
    /// not ended at the deadline. The step is dropped then; the futures of this crate continue in
    /// the background as they document, until the framework is closed.
    ///
    /// The deadline begins when the stop is noticed by any clone, at the latest with the first
    /// step.
    ///
    /// # Cancel safety
    /// As that of the step.
    pub async fn step<F: IntoFuture>(&self, step: F) -> Option<F::Output> {
        let end = self.shared.since() + bounded(self.deadline);
        tokio::select! {
            biased;
            output = step.into_future() => Some(output),
            () = sleep_until(end) => None,
        }
    }

    /// Closes the framework, for all clones of its handle. Returns `true` if a server has confirmed
    /// the end of the session, and all cleanup is done. Otherwise it logs the reason as a warning,
    /// and the servers delete the ephemeral nodes when the session expires; a process needs to do
    /// no more. After the deadline it does not wait.
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

    /// The time to drain.
    pub(crate) const fn time(&self) -> Duration {
        self.drain
    }

    /// The end of one run.
    pub(crate) const fn ending(self) -> RunEnding {
        RunEnding { shutdown: self, since: OnceLock::new() }
    }
}

impl ShutdownShared {
    /// Returns the time of the stop. If it was not noticed yet, it is now.
    fn since(&self) -> Instant {
        *self.since.get_or_init(Instant::now)
    }
}

impl Default for Shutdown {
    fn default() -> Self {
        Self::new()
    }
}

/// The end of one run, from the stop on.
pub(crate) struct RunEnding {
    shutdown: Shutdown,
    /// When this run has noticed the stop.
    since: OnceLock<Instant>,
}

impl RunEnding {
    pub(crate) fn has_begun(&self) -> bool {
        let has_begun = self.shutdown.has_begun();
        if has_begun {
            self.notice();
        }
        has_begun
    }

    fn notice(&self) {
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

#[cfg(test)]
mod tests {
    use std::future::pending;

    use zk_curator_testing::wait::{past, settled};

    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    #[tokio::test(start_paused = true)]
    async fn the_deadline_begins_at_the_stop() {
        let stop = CancellationToken::new();
        let shutdown = Shutdown::when(stop.clone().cancelled_owned()).deadline(HOUR);
        settled().await;
        assert!(!shutdown.has_begun());
        let stopped = Instant::now();
        stop.cancel();
        past(HOUR / 2).await;
        assert!(shutdown.step(pending::<()>()).await.is_none());
        assert_eq!(stopped.elapsed(), HOUR);
        assert!(shutdown.has_begun());
    }

    #[tokio::test]
    async fn a_future_that_panics_stops() {
        let shutdown = Shutdown::when(async { panic!("as the test wants it") });
        shutdown.begun().await;
        assert!(shutdown.has_begun());
    }

    #[tokio::test]
    async fn begin_stops_all_clones() {
        let shutdown = Shutdown::new();
        assert!(!shutdown.has_begun());
        shutdown.clone().begin();
        assert!(shutdown.has_begun());
        shutdown.begun().await;
    }

    #[tokio::test(start_paused = true)]
    async fn the_wait_ends_with_the_last_clone() {
        let held = Arc::new(());
        let waiting = Arc::downgrade(&held);
        let shutdown = Shutdown::when(async move {
            let _held = held;
            pending::<()>().await;
        });
        let clone = shutdown.clone();
        drop(shutdown);
        settled().await;
        assert!(waiting.upgrade().is_some());
        drop(clone);
        settled().await;
        assert!(waiting.upgrade().is_none());
    }
}
