//! The tasks of a client, and futures that it drops before they are ready.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;

use tokio::sync::oneshot;
use tokio::time::timeout;

use super::client::Client;
use super::exhaust::PointRecorder;

impl Client {
    /// Starts a task of this process. It ends at the latest with the process. A panic in it fails
    /// the run.
    pub fn spawn<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> Task<T> {
        let (done, result) = oneshot::channel();
        let ending = Arc::clone(self.ending());
        let task = Box::pin(async move {
            let mut task = Box::pin(task);
            tokio::select! {
                biased;
                () = ending.frozen.cancelled() => ending.over.cancelled().await,
                // The receiver may be dropped.
                output = &mut task => drop(done.send(output)),
            }
        });
        match &self.parts.spawner {
            Some(spawner) => spawner.spawn(task),
            None => drop(tokio::spawn(task)),
        }
        Task(result)
    }

    /// Awaits a future, or drops it before it is ready: after a random number of polls, or after a
    /// random time of up to a session timeout. Returns `None` if it dropped the future. The
    /// probability is one of the faults of the run; in most runs it is zero.
    ///
    /// # Cancel safety
    /// As that of the future.
    pub async fn maybe_cancel<F: Future>(&self, future: F) -> Option<F::Output> {
        let future = pin!(future);
        if let Some(points) = &self.run().shared.points {
            let output = self.unless_dropped(points, future).await;
            if output.is_none() {
                self.run().shared.cancelled.fetch_add(1, Ordering::Relaxed);
            }
            return output;
        }
        let one_in = self.run().shared.cancelling.load(Ordering::Relaxed);
        let mut rng = self.rng();
        if one_in == 0 || rng.u32(..one_in) > 0 {
            return Some(future.await);
        }
        let output = if rng.bool() {
            polled(future, rng.u32(0..8)).await
        } else {
            timeout(self.moment(self.session_timeout()), future).await.ok()
        };
        if output.is_none() {
            self.run().shared.cancelled.fetch_add(1, Ordering::Relaxed);
        }
        output
    }

    /// Awaits a future, or drops it at one of its decision points.
    async fn unless_dropped<F: Future>(
        &self,
        points: &PointRecorder,
        mut future: Pin<&mut F>,
    ) -> Option<F::Output> {
        let (client, number) = (self.number(), points.next_future(self.number()));
        let mut polls = 0;
        poll_fn(|cx| {
            if points.polls(client, number, polls) {
                return Poll::Ready(None);
            }
            polls += 1;
            future.as_mut().poll(cx).map(Some)
        })
        .await
    }
}

/// A task of a [`Client`]: a future of its result. The result is `None` if the task panicked or its
/// process was killed. Dropping it does not stop the task.
#[derive(Debug)]
#[must_use = "the task runs on without it, but its result is lost"]
pub struct Task<T>(oneshot::Receiver<T>);

impl<T> Future for Task<T> {
    type Output = Option<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> Poll<Option<T>> {
        Pin::new(&mut self.0).poll(cx).map(Result::ok)
    }
}

/// Polls a future at most `polls` times.
async fn polled<F: Future>(future: F, mut polls: u32) -> Option<F::Output> {
    let mut future = pin!(future);
    poll_fn(|cx| {
        if polls == 0 {
            return Poll::Ready(None);
        }
        polls -= 1;
        match future.as_mut().poll(cx) {
            Poll::Pending if polls == 0 => Poll::Ready(None),
            poll => poll.map(Some),
        }
    })
    .await
}
