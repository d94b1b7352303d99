//! The signal that ends a run, and the time that bodies have then.

use std::sync::OnceLock;
use std::time::Duration;

use tokio::time::Instant;
use zk_curator::CancellationToken;
use zk_curator::internal::sleep_until;

/// Decides when `run_until` of a consumer, a worker, a schedule, an election or a sharder stops,
/// and for how long bodies may then continue.
///
/// Made of a [`CancellationToken`], by [`into`](Into) or with [`on`](Self::on). Cheap to clone: one
/// serves all runs of a process. It contains only the settings that all of these share; the number
/// of concurrent bodies is an argument where it applies.
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
/// mails.consumer().run_until(shutdown, 4, |mail| {
///     println!("{:?}", mail.data);
///     stop.cancel();
///     async { Ok::<_, std::io::Error>(()) }
/// }).await?;
/// assert_eq!(mails.count().await?, 0);
/// # zk.close().await?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
#[must_use = "it does nothing unless it is passed to a run"]
pub struct Shutdown {
    stop: CancellationToken,
    drain: Duration,
}

impl Shutdown {
    /// The time to drain by default: 20 s. Of the 30 s that Kubernetes gives a process, this leaves
    /// 10 s to close the session.
    pub const DRAIN: Duration = Duration::from_secs(20);

    /// Stops when this token is cancelled. A run with a token that is cancelled already begins
    /// nothing.
    pub const fn on(stop: CancellationToken) -> Self {
        Self { stop, drain: Self::DRAIN }
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
            self.since.get_or_init(Instant::now);
        }
        has_begun
    }

    /// Resolves at the stop.
    pub(crate) async fn begun(&self) {
        self.shutdown.begun().await;
        self.since.get_or_init(Instant::now);
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
