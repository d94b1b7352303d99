use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use super::OpFuture;
use crate::error::Result;

/// The future of an operation whose first request is queued: see [`OpFuture::start`].
#[must_use = "the outcome is unknown unless awaited"]
pub struct Started<T> {
    future: Pin<Box<dyn Future<Output = T> + Send>>,
    /// The output, if the operation completed immediately.
    output: Option<T>,
}

impl<T> Started<T> {
    /// Starts a future that consists of several operations: queues its first requests.
    pub fn new(future: impl Future<Output = T> + Send + 'static) -> Self {
        Self::start(Box::pin(future))
    }

    fn start(mut future: Pin<Box<dyn Future<Output = T> + Send>>) -> Self {
        let output = match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        };
        Self { future, output }
    }
}

impl<T> OpFuture<T> {
    /// Queues the request now, ahead of everything that the session sends later. Otherwise it is
    /// queued when the future is first polled.
    ///
    /// Retries, and further requests of an operation with several, are sent only while the result
    /// is polled. Without a session nothing is queued.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = zk_curator_testing::TestServer::start().await;
    /// # let zk = zk_curator::CuratorFramework::builder().connect_string(server.connect_string()).build()?;
    /// # zk.start().await?;
    /// let created = zk.create("/a").data("1").into_future().start();
    /// // The server responds to a session in order: this read finds the node.
    /// assert_eq!(zk.get_data("/a").await?, "1");
    /// created.await?;
    /// # zk.close().await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Cancel safety
    /// As that of the operation, from now on: a dropped write may have been applied.
    pub fn start(self) -> Started<Result<T>> {
        Started::start(self.0)
    }
}

// The output is never pinned.
impl<T> Unpin for Started<T> {}

impl<T> Future for Started<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        match self.output.take() {
            Some(output) => Poll::Ready(output),
            None => self.future.as_mut().poll(cx),
        }
    }
}

impl<T> fmt::Debug for Started<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Started").field("is_over", &self.output.is_some()).finish_non_exhaustive()
    }
}
