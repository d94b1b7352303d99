use std::fmt;

use bytes::Bytes;
use zk_curator::path::ZPath;
use zk_curator::{CuratorFramework, OwnedNode};

use super::{Error, Guard};
use crate::contender::{Contender, KeptWatch};
use crate::measure::WaitMeasure;
use crate::order::OrderRule;
use crate::participant::{Participant, participants};

/// A lock whose holders and waiters are nodes in one queue. `K` is the kind of its guards.
#[derive(Clone)]
pub(super) struct QueueLock<K> {
    pub(super) zk: CuratorFramework,
    pub(super) path: String,
    pub(super) label: Bytes,
    pub(super) rule: OrderRule,
    pub(super) kind: K,
    /// The name in metrics.
    pub(super) recipe: &'static str,
}

impl<K: Clone> QueueLock<K> {
    /// Acquires the lock, however long it takes.
    pub(super) async fn acquire(&self) -> Result<Guard<K>, Error> {
        let path = self.parent("acquire")?;
        let waiting = WaitMeasure::begin();
        // On the heap, for futures of callers that are small.
        let turn = Box::pin(async { self.enter(&path).await?.turn().await }).await?;
        waiting.over(&self.zk, self.recipe);
        Ok(self.guard(turn.into_parts()))
    }

    /// As [`acquire`](Self::acquire), but calls `waits` as soon as it is known that it must wait
    /// for other contenders.
    pub(super) async fn acquire_telling(&self, waits: impl FnOnce()) -> Result<Guard<K>, Error> {
        let path = self.parent("acquire")?;
        let waiting = WaitMeasure::begin();
        let turn = async {
            let contender = self.enter(&path).await?;
            if !contender.is_turn().await? {
                waits();
            }
            contender.turn().await
        };
        let turn = Box::pin(turn).await?;
        waiting.over(&self.zk, self.recipe);
        Ok(self.guard(turn.into_parts()))
    }

    /// Acquires the lock if it is free, in one round trip.
    pub(super) async fn try_acquire(&self) -> Result<Option<Guard<K>>, Error> {
        let path = self.parent("try_acquire")?;
        let node = self.enter(&path).await?.turn_now().await?;
        Ok(node.map(|node| self.guard((node, None))))
    }

    pub(super) async fn participants(&self) -> Result<Vec<Participant>, Error> {
        Ok(participants(&self.zk, &self.parent("participants")?, &self.rule.tag).await?)
    }

    fn parent(&self, operation: &'static str) -> Result<ZPath, Error> {
        if self.rule.tag.contains('/') {
            let name = self.rule.tag.to_string();
            return Err(Error::InvalidName { path: self.path.clone(), name });
        }
        Ok(ZPath::for_operation(operation, self.path.as_str())?)
    }

    pub(super) async fn enter<'a>(
        &'a self,
        parent: &'a ZPath,
    ) -> Result<Contender<'a>, zk_curator::Error> {
        Contender::enter(&self.zk, parent, &self.rule, &self.label).await
    }

    fn guard(&self, (node, kept): (OwnedNode, Option<KeptWatch>)) -> Guard<K> {
        let kept = kept.map(Box::new);
        Guard { kept, ..Guard::new(&self.zk, node, self.kind.clone(), self.recipe) }
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

/// The methods of a lock with a field `queue`, which is a [`QueueLock`].
macro_rules! queue_lock {
    ($lock:ident, $guard:ident) => {
        impl $lock {
            /// The data of our nodes, so that operators can see who holds the lock and who waits.
            /// Default: none.
            #[must_use]
            pub fn label(mut self, label: impl Into<bytes::Bytes>) -> Self {
                self.queue.label = label.into();
                self
            }

            /// The path of the lock.
            #[must_use]
            pub fn path(&self) -> &str {
                &self.queue.path
            }

            /// Acquires the lock, however long it takes. Compose with `tokio::time::timeout`.
            ///
            /// # Errors
            /// * [`Error::Framework`](super::Error::Framework) when the path is not valid, or an
            ///   operation fails for longer than the retry policy allows. Nothing stays behind.
            /// * [`Error::InvalidName`](super::Error::InvalidName) when the
            ///   [lock name](super::InterProcessMutex::lock_name) has a slash in it.
            ///
            /// # Cancel safety
            /// Dropping the future leaves the queue.
            pub async fn acquire(&self) -> Result<$guard, super::Error> {
                self.queue.acquire().await
            }

            /// Acquires the lock if it is free, in one round trip; `None` if it is not. Never waits
            /// for other clients.
            ///
            /// # Errors
            /// As [`acquire`](Self::acquire).
            ///
            /// # Cancel safety
            /// Nothing stays behind.
            pub async fn try_acquire(&self) -> Result<Option<$guard>, super::Error> {
                self.queue.try_acquire().await
            }

            /// Acquires the lock, runs `body`, and releases the lock on every way out.
            ///
            /// `body` gets an [`Ownership`](zk_curator::Ownership), for its fencing token and
            /// fenced transactions. It is dropped when the lock is lost. Noticing a deletion of the
            /// node costs one request.
            ///
            /// # Errors
            /// * [`Error::Lost`](super::Error::Lost) when the lock was lost before `body` was done,
            ///   or before it was released.
            /// * [`Error::Framework`](super::Error::Framework) as [`acquire`](Self::acquire); then
            ///   `body` did not run.
            ///
            /// # Panics
            /// Panics if `body` panics; the lock is released.
            ///
            /// # Cancel safety
            /// Dropping the future drops `body` and releases the lock in the background.
            pub async fn with<F, Fut>(&self, body: F) -> Result<Fut::Output, super::Error>
            where
                F: FnOnce(zk_curator::Ownership) -> Fut,
                Fut: Future,
            {
                super::guard::with_guard(self.acquire().await?, body).await
            }

            /// Returns the holders, then the waiters in their order, including those of Java's
            /// Curator. For a read lock these are the readers, for a write lock the writers. For a
            /// mutex, contenders with
            /// [other patterns](super::InterProcessMutex::extra_lock_patterns) are not included.
            ///
            /// # Errors
            /// As every read of the framework. A lock that does not exist yet has no participants.
            ///
            /// # Cancel safety
            /// Nothing is changed.
            pub async fn participants(&self) -> Result<Vec<super::Participant>, super::Error> {
                self.queue.participants().await
            }
        }

        #[async_trait::async_trait]
        impl super::InterProcessLock for $lock {
            fn path(&self) -> &str {
                self.path()
            }

            fn server_path(&self) -> String {
                self.queue.zk.server_path(self.path())
            }

            async fn acquire(&self) -> Result<super::AnyGuard, super::Error> {
                Ok(self.acquire().await?.into_any())
            }

            async fn try_acquire(&self) -> Result<Option<super::AnyGuard>, super::Error> {
                Ok(self.try_acquire().await?.map(super::Guard::into_any))
            }
        }

        impl std::fmt::Debug for $lock {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($lock))
                    .field("path", &self.path())
                    .finish_non_exhaustive()
            }
        }
    };
}
pub(super) use queue_lock;
