//! Tasks of a service, with a result.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::framework::CuratorFramework;

impl CuratorFramework {
    /// Starts a task where [`spawn`](Self::spawn) does, and returns a handle of its result. Dropping the handle aborts the task.
    ///
    /// A service that starts all its tasks here runs unchanged in a simulation, where they are stopped and killed with their
    /// process (`zk-curator-sim`). A panic is also told by [`background_errors`](Self::background_errors).
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
    /// Outside a tokio runtime, if there is no [spawner](crate::CuratorFrameworkBuilder::spawner).
    pub fn spawn_task<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> TaskHandle<T> {
        let (reply, result) = oneshot::channel();
        let (mut reply, stop) = (Reply(Some(reply)), CancellationToken::new());
        let stopped = stop.clone();
        self.spawn(async move {
            let output = stopped.run_until_cancelled_owned(task).await;
            reply.send(output.ok_or(TaskError::Aborted));
        });
        TaskHandle { result, stop }
    }
}

/// A task that was started with [`CuratorFramework::spawn_task`]: a future of its result.
///
/// # Cancel safety
/// Dropping the handle [aborts](Self::abort) the task. Awaiting `&mut handle` and dropping that future changes nothing.
#[must_use = "dropping it aborts the task; `CuratorFramework::spawn` starts one that runs on"]
pub struct TaskHandle<T> {
    result: oneshot::Receiver<Result<T, TaskError>>,
    stop: CancellationToken,
}

impl<T> TaskHandle<T> {
    /// Drops the future of the task at its next turn. A task that has ended by then keeps its result.
    pub fn abort(&self) {
        self.stop.cancel();
    }

    /// Whether the task has ended.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.result.is_terminated() || !self.result.is_empty()
    }
}

impl<T> Future for TaskHandle<T> {
    type Output = Result<T, TaskError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let result = Pin::new(&mut self.result).poll(cx);
        // The reply is sent when it is dropped, if not before.
        result.map(|result| result.unwrap_or(Err(TaskError::RuntimeEnded)))
    }
}

impl<T> Drop for TaskHandle<T> {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl<T> fmt::Debug for TaskHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskHandle").field("is_finished", &self.is_finished()).finish_non_exhaustive()
    }
}

/// The reason why a task has no result.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskError {
    /// [`TaskHandle::abort`] has ended it.
    Aborted,
    /// It panicked.
    Panicked,
    /// Its runtime ended first; in a simulation, its process.
    RuntimeEnded,
}

impl fmt::Display for TaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Aborted => "the task was aborted",
            Self::Panicked => "the task panicked",
            Self::RuntimeEnded => "the runtime of the task has ended",
        })
    }
}

impl std::error::Error for TaskError {}

/// The sender of a task's result. Dropped without a result, it sends the reason.
struct Reply<T>(Option<oneshot::Sender<Result<T, TaskError>>>);

impl<T> Reply<T> {
    fn send(&mut self, result: Result<T, TaskError>) {
        if let Some(reply) = self.0.take() {
            // Nobody may wait for it.
            drop(reply.send(result));
        }
    }
}

impl<T> Drop for Reply<T> {
    fn drop(&mut self) {
        let is_panic = std::thread::panicking();
        self.send(Err(if is_panic { TaskError::Panicked } else { TaskError::RuntimeEnded }));
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::Arc;

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
    async fn panic_is_told_to_the_handle_and_in_the_background() {
        let zk = framework();
        let mut errors = zk.background_errors();
        let task = zk.spawn_task(async { panic!("as the test wants it") });
        assert_eq!(task.await, Err(TaskError::Panicked));
        let error = errors.next().await.unwrap();
        assert!(format!("{error:?}").contains("a background task panicked"), "{error:?}");
    }

    #[test]
    fn end_of_the_runtime_is_told() {
        let runtime = Builder::new_current_thread().build().unwrap();
        let entered = runtime.enter();
        let task = framework().spawn_task(pending::<()>());
        drop(entered);
        drop(runtime);
        assert_eq!(futures_util::FutureExt::now_or_never(task), Some(Err(TaskError::RuntimeEnded)));
    }
}
