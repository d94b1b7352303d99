//! Tasks that run in the background, and their failures.

use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::time::timeout;
use tracing::Instrument;

use crate::core::Core;
use crate::error::{Error, ErrorKind};
use crate::framework::CuratorFramework;
use crate::state::BackgroundErrors;
use crate::task::TaskError;

impl CuratorFramework {
    /// Follows the failures in the background, for which no caller waits: impossible cleanup (with
    /// the path on the server), sessions that cannot be opened, refused credentials, an ensemble
    /// that cannot be followed, background tasks that end early.
    #[must_use]
    pub fn background_errors(&self) -> BackgroundErrors {
        BackgroundErrors::new(self.core().errors.subscribe(), self.core().ended.clone())
    }

    /// Reports an error to the followers of [`background_errors`](Self::background_errors), for
    /// recipes that work in the background without a waiting caller.
    pub fn report_background_error(&self, error: Error) {
        self.core().report_background_error(error);
    }

    /// Waits until the ephemeral nodes whose guards were dropped before this call are deleted, or
    /// their session is over. Other clients can then acquire the locks, leases and claims of these
    /// nodes. Returns `false` after twice the session timeout, if the session lives but its
    /// requests get no response; the janitor then continues. If the servers refuse a delete with
    /// `NoAuth`, [`background_errors`](Self::background_errors) reports the node, and this call
    /// does not wait for it.
    ///
    /// It is for the end of a service, before [`close`](Self::close), and for tests. Guards have a
    /// method of their own that waits for the response, such as `release`, and returns its result.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect: the janitor continues.
    pub async fn wait_until_released(&self) -> bool {
        let core = self.core();
        let granted = self.session().map(|session| session.timeout);
        let longest = granted.unwrap_or(core.settings.session.session_timeout);
        timeout(longest.saturating_mul(2), core.resources.released()).await.is_ok()
    }

    /// Starts a task where the background tasks of the framework run: on its
    /// [spawner](crate::CuratorFrameworkBuilder::spawner), or else on the present tokio runtime,
    /// or, outside of a runtime, on that of the framework. It is for recipes that work in the
    /// background. The task has to end by itself, at the latest when the framework is closed, which
    /// [`StateWatch`](crate::state::StateWatch) reports. If the task panics, or its runtime ends
    /// before the framework is closed, [`background_errors`](Self::background_errors) reports it.
    ///
    /// A task that is started through a handle that is [bound to a session](Self::bound_to_session)
    /// is dropped when that session is over, which is also reported: none of its later operations
    /// could succeed.
    ///
    /// # Panics
    /// Panics if there is [no place](Self::can_spawn) to run it.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let task = self.while_bound(task);
        self.spawn_unbound(async move {
            // The end of the session was reported.
            let (Ok(()) | Err(_)) = task.await;
        });
    }

    /// [`spawn`](Self::spawn), without the drop at the end of a session.
    pub(crate) fn spawn_unbound(&self, task: impl Future<Output = ()> + Send + 'static) {
        let unfinished = Unfinished(Some(Arc::clone(self.core())));
        self.start_task(async move {
            task.await;
            unfinished.finish();
        });
    }

    /// Runs a task, at most until the end of the session that this handle is bound to.
    pub(crate) fn while_bound<F: Future>(
        &self,
        task: F,
    ) -> impl Future<Output = Result<F::Output, TaskError>> + use<F> {
        let over = self.call().session_epoch.map(|bound| {
            let session = self.core().session("spawn", "").ok();
            session.filter(|session| session.epoch == bound).map(|session| session.lost.clone())
        });
        let core = Arc::clone(self.core());
        async move {
            let Some(over) = over else { return Ok(task.await) };
            let over = async {
                if let Some(lost) = over {
                    lost.cancelled().await;
                }
            };
            tokio::select! {
                biased;
                () = over => {
                    let ended = TaskError::SessionExpired.of_operation("spawn", "");
                    core.report_background_error(ended);
                    Err(TaskError::SessionExpired)
                }
                output = task => Ok(output),
            }
        }
    }

    /// Returns `true` if [`spawn`](Self::spawn) can start a task: there is a spawner, a runtime
    /// around the caller, or the runtime of a started framework.
    #[must_use]
    pub fn can_spawn(&self) -> bool {
        let core = self.core();
        core.settings.spawner.is_some()
            || Handle::try_current().is_ok()
            || core.runtime.get().is_some()
    }

    pub(crate) fn start_task(&self, task: impl Future<Output = ()> + Send + 'static) {
        let core = self.core();
        let task = task.instrument(core.background());
        match (&core.settings.spawner, core.runtime.get()) {
            (Some(spawner), _) => spawner.spawn(Box::pin(task)),
            (None, Some(runtime)) if Handle::try_current().is_err() => drop(runtime.spawn(task)),
            (None, _) => drop(tokio::spawn(task)),
        }
    }
}

/// Reports a task that has not run to its end, when it is dropped.
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
