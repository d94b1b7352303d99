//! Runs that last until an error, or until a stop.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use zk_curator::internal::Locked;

use crate::shutdown::{RunEnding, Shutdown};

/// A run of a consumer, a worker, a schedule, a member, a candidate or a sharder, which lasts until
/// an error or [the stop](Self::until). Nothing happens before it is polled.
///
/// # Panics
/// When it is polled, as the method says that returned it.
///
/// # Cancel safety
/// As that method says.
#[must_use = "nothing runs until it is awaited"]
pub struct Run<F> {
    future: Pin<Box<F>>,
    stop: RunStop,
}

/// The end of a run, from the moment when it begins.
#[derive(Debug, Clone, Default)]
pub(crate) struct RunStop(Arc<Locked<Option<Shutdown>>>);

impl RunStop {
    /// The end of the run that begins now.
    pub(crate) fn shutdown(&self) -> Shutdown {
        self.0.lock().take().unwrap_or_default()
    }

    pub(crate) fn ending(&self) -> RunEnding {
        self.shutdown().ending()
    }
}

impl<F: Future> Run<F> {
    pub(crate) fn new(run: impl FnOnce(RunStop) -> F) -> Self {
        let stop = RunStop::default();
        Self { future: Box::pin(run(stop.clone())), stop }
    }

    /// Ends the run at the stop of `shutdown`. Bodies may then continue for its time to drain; the
    /// method that returned this run says what else happens. Without effect on a run that was
    /// already polled. Default: never.
    pub fn until(self, shutdown: Shutdown) -> Self {
        *self.stop.0.lock() = Some(shutdown);
        self
    }
}

impl<F: Future> Future for Run<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        self.future.as_mut().poll(cx)
    }
}

impl<F> fmt::Debug for Run<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").finish_non_exhaustive()
    }
}
