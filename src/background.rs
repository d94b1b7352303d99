//! Tasks that run while nobody awaits them, and their failures.

use std::sync::Arc;

use tokio::time::timeout;
use tracing::Instrument;

use crate::core::Core;
use crate::error::{Error, ErrorKind};
use crate::framework::CuratorFramework;
use crate::state::BackgroundErrors;

impl CuratorFramework {
    /// Follows what fails in the background, where no caller waits for it: cleanup that is not possible (with the path
    /// on the server), sessions that cannot be opened, credentials that are refused, an ensemble that cannot be followed,
    /// background tasks that end early.
    #[must_use]
    pub fn background_errors(&self) -> BackgroundErrors {
        BackgroundErrors::new(self.core().errors.subscribe(), self.core().ended.clone())
    }

    /// Tells those who follow [`background_errors`](Self::background_errors) of an error: for recipes that work in the
    /// background, where no caller waits for them.
    pub fn report_background_error(&self, error: Error) {
        self.core().report_background_error(error);
    }

    /// Waits until the ephemeral nodes whose guards were dropped before this call, and which the janitor is to delete, are gone or
    /// their session is over. So what they stood for, locks, leases, claims, is free for others. Returns `false` when that takes
    /// longer than twice the session timeout, because a session lives whose requests are not answered: the janitor goes on. A node that
    /// the servers do not let us delete, for `NoAuth`, is told of by [`background_errors`](Self::background_errors), and not waited for.
    ///
    /// For the end of a service, before [`close`](Self::close), and for tests. Guards have a method of their own that waits for the
    /// answer, such as `release`, which says whether it went well.
    ///
    /// # Cancel safety
    /// Nothing is changed: the janitor goes on.
    pub async fn wait_released(&self) -> bool {
        let core = self.core();
        let granted = self.session().map(|session| session.timeout);
        let longest = granted.unwrap_or(core.settings.session.session_timeout);
        timeout(longest * 2, core.held.released()).await.is_ok()
    }

    /// Starts a task where the background tasks of the framework run: on its
    /// [spawner](crate::CuratorFrameworkBuilder::spawner), or else on the present tokio runtime. For recipes that have to work
    /// while nobody awaits them. Such a task ends by itself, at the latest when the framework is closed:
    /// [`StateWatch`](crate::state::StateWatch) tells it. One that panics, or whose runtime ends before the framework is closed, is told of by
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

    pub(crate) fn start_task(&self, task: impl Future<Output = ()> + Send + 'static) {
        let task = task.instrument(self.core().background());
        match &self.core().settings.spawner {
            Some(spawner) => spawner.spawn(Box::pin(task)),
            None => drop(tokio::spawn(task)),
        }
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
        core.report_background_error(Error::new(ErrorKind::Closed, "spawn", "").with_source(why));
    }
}
