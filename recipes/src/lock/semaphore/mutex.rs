//! The lock that is a semaphore with one permit.

use std::future::Future;

use async_trait::async_trait;
use bytes::Bytes;
use zk_curator::{CuratorFramework, Ownership};

use super::{InterProcessSemaphore, Permit, PermitLimit};
use crate::lock::{AnyGuard, Error, Guard, InterProcessLock};
use crate::participant::Participant;

/// The name in metrics.
const RECIPE: &str = "semaphore_mutex";

/// A lock with one holder at a time that is a semaphore with one permit, wire-compatible with
/// Apache Curator's `InterProcessSemaphoreMutex`. Where no Java contends for it,
/// [`InterProcessMutex`](crate::lock::InterProcessMutex) does the same with half the requests.
///
/// Layout, protocol, guarantees, connection loss and cancel safety are those of
/// [`InterProcessSemaphore`].
///
/// # Example
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = zk_curator_testing::TestServer::start().await;
/// # let zk = zk_curator::CuratorFramework::builder().connect_string(server.connect_string()).build()?;
/// # zk.start().await?;
/// use zk_curator_recipes::lock::InterProcessSemaphoreMutex;
///
/// let lock = InterProcessSemaphoreMutex::new(&zk, "/locks/orders");
/// let guard = lock.acquire().await?;
/// assert!(lock.try_acquire().await?.is_none());
/// guard.release().await?;
/// # zk.close().await?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct InterProcessSemaphoreMutex {
    semaphore: InterProcessSemaphore,
}

impl InterProcessSemaphoreMutex {
    /// The lock at a path. Nothing is sent; a path that is not valid is refused when the lock is
    /// used.
    pub fn new(zk: &CuratorFramework, path: impl Into<String>) -> Self {
        Self::within(zk, path, RECIPE)
    }

    /// The lock at a path, as a part of another recipe, which has this name in metrics.
    pub(crate) fn within(
        zk: &CuratorFramework,
        path: impl Into<String>,
        recipe: &'static str,
    ) -> Self {
        let limit = PermitLimit::Constant(1);
        Self { semaphore: InterProcessSemaphore::limited(zk, path.into(), limit, recipe) }
    }

    /// The data of our nodes, for people who look who holds. Default: none.
    #[must_use]
    pub fn label(mut self, label: impl Into<Bytes>) -> Self {
        self.semaphore = self.semaphore.label(label);
        self
    }

    /// The path of the lock.
    #[must_use]
    pub fn path(&self) -> &str {
        self.semaphore.path()
    }

    /// Acquires the lock, however long it takes: see [`InterProcessSemaphore::acquire`].
    ///
    /// # Errors
    /// [`Error::Framework`]; nothing stays behind.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the queue.
    pub async fn acquire(&self) -> Result<Permit, Error> {
        self.semaphore.acquire().await
    }

    /// Acquires the lock if it is free; `None` if it is not. Never waits for other clients.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    /// Nothing stays behind.
    pub async fn try_acquire(&self) -> Result<Option<Permit>, Error> {
        self.semaphore.try_acquire().await
    }

    /// Acquires the lock, runs `body`, and releases the lock on every way out: see
    /// [`InterProcessSemaphore::with`].
    ///
    /// # Errors
    /// * [`Error::Lost`] when the lock was lost before `body` was done, or before it was released.
    /// * As [`acquire`](Self::acquire); then `body` did not run.
    ///
    /// # Panics
    /// Panics if `body` panics; the lock is released.
    ///
    /// # Cancel safety
    /// Dropping the future drops `body` and releases the lock in the background.
    pub async fn with<F, Fut>(&self, body: F) -> Result<Fut::Output, Error>
    where
        F: FnOnce(Ownership) -> Fut,
        Fut: Future,
    {
        self.semaphore.with(body).await
    }

    /// Returns the holder: see [`InterProcessSemaphore::participants`].
    ///
    /// # Errors
    /// As every read of the framework.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn participants(&self) -> Result<Vec<Participant>, Error> {
        self.semaphore.participants().await
    }
}

#[async_trait]
impl InterProcessLock for InterProcessSemaphoreMutex {
    fn path(&self) -> &str {
        self.path()
    }

    fn server_path(&self) -> String {
        self.semaphore.zk.server_path(self.path())
    }

    async fn acquire(&self) -> Result<AnyGuard, Error> {
        Ok(self.acquire().await?.into_any())
    }

    async fn try_acquire(&self) -> Result<Option<AnyGuard>, Error> {
        Ok(self.try_acquire().await?.map(Guard::into_any))
    }
}
