use std::fmt;
use std::future::Future;

use bytes::Bytes;
use zk_curator::path::ZPath;
use zk_curator::{CuratorFramework, OwnedNode, Ownership};

use super::guard::with_guard;
use super::{Error, Guard};
use crate::contender::Contender;
use crate::measure::Waiting;
use crate::order::Rule;
use crate::participant::{Participant, participants};

/// The path on the server, with the namespace of the framework.
pub(super) fn server_path(zk: &CuratorFramework, path: &str) -> String {
    match zk.namespace() {
        "" => path.to_owned(),
        namespace => format!("/{namespace}{path}"),
    }
}

/// A lock whose holders and waiters are nodes in one queue. Cheap to clone. `K` says what kind of lock it is:
/// [`InterProcessMutex`](super::InterProcessMutex), [`ReadLock`](super::ReadLock), [`WriteLock`](super::WriteLock).
#[derive(Clone)]
pub struct QueueLock<K> {
    pub(super) zk: CuratorFramework,
    pub(super) path: String,
    pub(super) label: Bytes,
    pub(super) rule: Rule,
    pub(super) kind: K,
    /// The name in metrics.
    pub(super) recipe: &'static str,
}

impl<K: Clone> QueueLock<K> {
    /// The data of our nodes, for people who look who holds and who waits. Default: none.
    #[must_use]
    pub fn label(mut self, label: impl Into<Bytes>) -> Self {
        self.label = label.into();
        self
    }

    /// The path of the lock.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    pub(super) fn server_path(&self) -> String {
        server_path(&self.zk, &self.path)
    }

    /// Acquires the lock, however long it takes. Compose with `tokio::time::timeout`.
    ///
    /// # Errors
    /// * [`Error::Framework`] when the path is not valid, or an operation fails for longer than the retry policy
    ///   allows. Nothing stays behind.
    /// * [`Error::InvalidName`] when the [lock name](super::InterProcessMutex::lock_name) has a slash in it.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the queue.
    pub async fn acquire(&self) -> Result<Guard<K>, Error> {
        let path = self.parent("acquire")?;
        let waiting = Waiting::begin();
        // On the heap, for futures of callers that are small.
        let node =
            Box::pin(async { self.enter(&path).await?.turn().await.map_err(Error::from) }).await?.into_node();
        waiting.over(self.recipe);
        Ok(self.guard(node))
    }

    /// Acquires the lock if it is free, in one round trip; `None` if it is not. Never waits for others.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    /// Nothing stays behind.
    pub async fn try_acquire(&self) -> Result<Option<Guard<K>>, Error> {
        let path = self.parent("try_acquire")?;
        let node = self.enter(&path).await?.turn_now().await?;
        Ok(node.map(|node| self.guard(node)))
    }

    /// Acquires the lock, runs `body`, and releases the lock on every way out.
    ///
    /// `body` gets an [`Ownership`], for its fencing token and fenced transactions. It is dropped when the lock
    /// is lost: to notice a node that somebody deletes costs one request.
    ///
    /// # Errors
    /// * [`Error::Lost`] when the lock was lost before `body` was done, or before it was released.
    /// * [`Error::Framework`] as [`acquire`](Self::acquire); then `body` did not run.
    ///
    /// # Panics
    /// When `body` does; the lock is released.
    ///
    /// # Cancel safety
    /// Dropping the future drops `body` and releases the lock in the background.
    pub async fn with<F, Fut>(&self, body: F) -> Result<Fut::Output, Error>
    where
        F: FnOnce(Ownership) -> Fut,
        Fut: Future,
    {
        with_guard(self.acquire().await?, body).await
    }

    /// Returns the holders, then the waiters in their order; those of Java's Curator too. Of a read lock the
    /// readers, of a write lock the writers; of a mutex not those of
    /// [other patterns](super::InterProcessMutex::extra_lock_patterns).
    ///
    /// # Errors
    /// As every read of the framework. A lock that nobody has used yet has no participants.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn participants(&self) -> Result<Vec<Participant>, Error> {
        Ok(participants(&self.zk, &self.parent("participants")?, &self.rule.tag).await?)
    }

    fn parent(&self, operation: &'static str) -> Result<ZPath, Error> {
        if self.rule.tag.contains('/') {
            return Err(Error::InvalidName { name: self.rule.tag.to_string() });
        }
        Ok(ZPath::for_operation(operation, self.path.as_str())?)
    }

    pub(super) async fn enter<'a>(&'a self, parent: &'a ZPath) -> Result<Contender<'a>, Error> {
        Ok(Contender::enter(&self.zk, parent, &self.rule, &self.label).await?)
    }

    pub(super) fn guard(&self, node: OwnedNode) -> Guard<K> {
        Guard::new(&self.zk, node, self.kind.clone(), self.recipe)
    }
}

impl<K> fmt::Debug for QueueLock<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueueLock")
            .field("path", &self.path)
            .field("tag", &self.rule.tag)
            .finish_non_exhaustive()
    }
}
