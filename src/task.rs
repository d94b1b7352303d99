//! Tasks of a service, with a result.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::error::{Error, ErrorKind};
use crate::framework::CuratorFramework;

impl CuratorFramework {
    /// Starts a task where [`spawn`](Self::spawn) does, and returns a handle to its result.
    /// Dropping the handle aborts the task.
    ///
    /// A service that starts all its tasks here runs unchanged in a simulation, where they are
    /// stopped and killed with their process (`zk-curator-sim`).
    /// [`background_errors`](Self::background_errors) also reports a panic.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let zk = zk_curator::CuratorFramework::builder().connect_string("zk1:2181").build()?;
    /// let sum = zk.spawn_task(async { 1 + 1 });
    /// assert_eq!(sum.await?, 2);
    /// # Ok(()) }
    /// ```
    ///
    /// # Panics
    /// Panics outside a tokio runtime if there is no
    /// [spawner](crate::CuratorFrameworkBuilder::spawner).
    pub fn spawn_task<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> TaskHandle<T> {
        let (reply, result) = oneshot::channel();
        let stop = CancellationToken::new();
        let task = stop.clone().run_until_cancelled_owned(task);
        // An error here means that no caller waits for the result.
        self.spawn_then(task, |end| {
            drop(reply.send(end.and_then(|output| output.ok_or(TaskError::Aborted))));
        });
        TaskHandle { result, stop }
    }

    /// Starts a task where [`spawn`](Self::spawn) does. `then` is called once, after the future of
    /// the task was dropped. It gets the result of the task, or the reason why there is none: the
    /// task panicked, its runtime ended, perhaps before the first poll, or the session ended that
    /// this handle is bound to.
    ///
    /// It is for recipes with background tasks: `then` notifies callers that wait for such a task,
    /// however the task ends. `then` must not block or panic. It may run without a runtime.
    ///
    /// # Panics
    /// Panics outside a tokio runtime if there is no
    /// [spawner](crate::CuratorFrameworkBuilder::spawner). `then` is still called.
    pub fn spawn_then<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
        then: impl FnOnce(Result<T, TaskError>) + Send + 'static,
    ) {
        let mut then = Then(Some(then), PhantomData);
        let task = self.while_bound(task);
        self.spawn_unbound(async move {
            // If this future is dropped, the task is dropped first, because it is used first.
            let output = task.await;
            then.call(output);
        });
    }
}

/// A task that was started with [`CuratorFramework::spawn_task`]: a future of its result.
///
/// # Cancel safety
/// Dropping the handle [aborts](Self::abort) the task. Awaiting `&mut handle` and dropping that
/// future has no effect.
#[must_use = "dropping it aborts the task; `CuratorFramework::spawn` starts a task without a handle"]
pub struct TaskHandle<T> {
    result: oneshot::Receiver<Result<T, TaskError>>,
    stop: CancellationToken,
}

impl<T> TaskHandle<T> {
    /// Aborts the task: its future is dropped the next time it would run. A task that has already
    /// ended keeps its result.
    pub fn abort(&self) {
        self.stop.cancel();
    }

    /// Returns the result as a future whose drop does not abort the task, for work that must be
    /// completed even if no caller waits for it any more.
    ///
    /// # Cancel safety
    /// If the future is dropped, the task continues, and its result is dropped.
    pub fn detached(mut self) -> impl Future<Output = Result<T, TaskError>> {
        self.stop = CancellationToken::new();
        self
    }

    /// Returns `true` if the task has ended.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.result.is_terminated() || !self.result.is_empty()
    }
}

impl<T> Future for TaskHandle<T> {
    type Output = Result<T, TaskError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let result = Pin::new(&mut self.result).poll(cx);
        // The reply is sent at the latest when it is dropped.
        result.map(|result| result.unwrap_or(Err(TaskError::RuntimeEnded)))
    }
}

impl<T> Drop for TaskHandle<T> {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl TaskError {
    /// Returns the error of an operation that waited for the result of the task: of the kind
    /// `Closed`, or `SessionExpired` if that was the reason, with the reason as its source. The
    /// outcome is unknown, because the task may have sent requests.
    #[must_use]
    pub fn of_operation(self, operation: &'static str, path: impl Into<String>) -> Error {
        let kind = match self {
            Self::SessionExpired => ErrorKind::SessionExpired,
            Self::Aborted | Self::Panicked | Self::RuntimeEnded => ErrorKind::Closed,
        };
        Error::new(kind, operation, path).with_source(self).of_unknown_outcome()
    }
}

impl<T> fmt::Debug for TaskHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskHandle")
            .field("is_finished", &self.is_finished())
            .finish_non_exhaustive()
    }
}

/// The reason why a task has no result.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskError {
    /// [`TaskHandle::abort`] ended the task.
    Aborted,
    /// The task panicked.
    Panicked,
    /// The runtime of the task ended first; in a simulation, its process.
    RuntimeEnded,
    /// The session is over that the handle was [bound](CuratorFramework::bound_to_session) to.
    SessionExpired,
}

impl fmt::Display for TaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Aborted => "the task was aborted",
            Self::Panicked => "the task panicked",
            Self::RuntimeEnded => "the runtime of the task has ended",
            Self::SessionExpired => "the session that the task was bound to is over",
        })
    }
}

impl std::error::Error for TaskError {}

/// Calls a function at the end of a task. If it is dropped before that, it calls the function with
/// the reason.
struct Then<T, F: FnOnce(Result<T, TaskError>)>(Option<F>, PhantomData<fn(T)>);

impl<T, F: FnOnce(Result<T, TaskError>)> Then<T, F> {
    fn call(&mut self, end: Result<T, TaskError>) {
        if let Some(then) = self.0.take() {
            then(end);
        }
    }
}

impl<T, F: FnOnce(Result<T, TaskError>)> Drop for Then<T, F> {
    fn drop(&mut self) {
        let is_panic = std::thread::panicking();
        self.call(Err(if is_panic { TaskError::Panicked } else { TaskError::RuntimeEnded }));
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::{Arc, Mutex};

    use tokio::runtime::Builder;

    use super::TaskError;
    use crate::CuratorFramework;

    fn framework() -> CuratorFramework {
        CuratorFramework::builder().connect_string("zk1:2181").build().unwrap()
    }

    #[tokio::test]
    async fn result_is_that_of_the_task() {
        let mut task = framework().spawn_task(async { 1 + 1 });
        assert!(!task.is_finished());
        assert_eq!((&mut task).await, Ok(2));
        assert!(task.is_finished());
    }

    #[tokio::test]
    async fn aborted_task_drops_its_future() {
        let owned = Arc::new(());
        let held = Arc::clone(&owned);
        let task = framework().spawn_task(async move {
            let _held = held;
            pending::<()>().await;
        });
        tokio::task::yield_now().await;
        assert_eq!(Arc::strong_count(&owned), 2);
        task.abort();
        assert_eq!(task.await, Err(TaskError::Aborted));
        assert_eq!(Arc::strong_count(&owned), 1);
    }

    #[tokio::test]
    async fn dropped_handle_aborts_the_task() {
        let owned = Arc::new(());
        let held = Arc::clone(&owned);
        drop(framework().spawn_task(async move {
            let _held = held;
            pending::<()>().await;
        }));
        tokio::task::yield_now().await;
        assert_eq!(Arc::strong_count(&owned), 1);
    }

    #[tokio::test]
    async fn panic_is_reported_by_the_handle_and_in_the_background() {
        let zk = framework();
        let mut errors = zk.background_errors();
        let task = zk.spawn_task(async { panic!("as the test wants it") });
        assert_eq!(task.await, Err(TaskError::Panicked));
        let error = errors.next().await.unwrap();
        assert!(format!("{error:?}").contains("a background task panicked"), "{error:?}");
    }

    /// Records when the future of a task is dropped.
    struct Held(Arc<Mutex<Vec<&'static str>>>);

    impl Drop for Held {
        fn drop(&mut self) {
            self.0.lock().unwrap().push("dropped");
        }
    }

    /// Runs a task to its end in a runtime of its own, which ends after `polls` polls.
    fn end_of(panics: bool, polls: usize) -> Vec<&'static str> {
        let told = Arc::new(Mutex::new(Vec::new()));
        let runtime = Builder::new_current_thread().build().unwrap();
        let (held, then) = (Held(Arc::clone(&told)), Arc::clone(&told));
        let entered = runtime.enter();
        framework().spawn_then(
            async move {
                let _held = held;
                assert!(!panics, "as the test wants it");
                pending::<()>().await;
            },
            move |end| {
                then.lock().unwrap().push(match end {
                    Err(TaskError::Panicked) => "panicked",
                    Err(TaskError::RuntimeEnded) => "runtime ended",
                    _ => "another end",
                });
            },
        );
        drop(entered);
        runtime.block_on(async {
            for _ in 0..polls {
                tokio::task::yield_now().await;
            }
        });
        drop(runtime);
        Arc::try_unwrap(told).unwrap().into_inner().unwrap()
    }

    #[test]
    fn every_end_is_reported_after_the_future_is_dropped() {
        assert_eq!(end_of(true, 2), ["dropped", "panicked"]);
        assert_eq!(end_of(false, 2), ["dropped", "runtime ended"]);
        // The task is never polled.
        assert_eq!(end_of(false, 0), ["dropped", "runtime ended"]);
    }

    #[test]
    fn end_of_the_runtime_is_reported() {
        let runtime = Builder::new_current_thread().build().unwrap();
        let entered = runtime.enter();
        let task = framework().spawn_task(pending::<()>());
        drop(entered);
        drop(runtime);
        assert_eq!(futures_util::FutureExt::now_or_never(task), Some(Err(TaskError::RuntimeEnded)));
    }
}
