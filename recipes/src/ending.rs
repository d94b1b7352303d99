//! The end of one run of a handle, which goes on without it.

use std::future::{Future, pending};
use std::sync::OnceLock;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

/// Says when a run is to end: nothing new begins then, and what runs may go on for a while.
pub(crate) struct Ending {
    begun: CancellationToken,
    since: OnceLock<Instant>,
    /// The time for which the present work may go on.
    drain: Duration,
}

impl Ending {
    pub(crate) fn new(drain: Duration) -> Self {
        Self { begun: CancellationToken::new(), since: OnceLock::new(), drain }
    }

    /// For a run that nobody stops.
    pub(crate) fn never() -> Self {
        Self::new(Duration::ZERO)
    }

    /// Does the work; the ending begins when `stop` resolves meanwhile.
    pub(crate) async fn during<T>(&self, stop: impl Future<Output = ()>, work: impl Future<Output = T>) -> T {
        let stopped = async {
            stop.await;
            self.since.get_or_init(Instant::now);
            self.begun.cancel();
            pending().await
        };
        tokio::select! {
            biased;
            never = stopped => never,
            done = work => done,
        }
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.begun.is_cancelled()
    }

    /// Resolves when the ending begins.
    pub(crate) async fn begun(&self) {
        self.begun.cancelled().await;
    }

    /// Resolves when the time to drain has passed.
    pub(crate) async fn drained(&self) {
        self.begun().await;
        match self.since.get().and_then(|since| since.checked_add(self.drain)) {
            Some(end) => sleep_until(end).await,
            None => pending().await,
        }
    }
}
