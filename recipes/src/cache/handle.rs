use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout_at};
use zk_curator::{Error, ErrorKind};

use super::events::CacheEvents;
use super::freshness::Freshness;
use super::node::{CachedNode, Lookup};
use super::shared::{Alive, Command, Inner, Shared};
use super::snapshot::Snapshot;
use super::view::TreeView;
use super::watch::FreshnessWatch;
use crate::health::HealthWatch;

/// The pause before another look for a transaction that the servers have not committed yet.
const PAUSE: Duration = Duration::from_millis(500);

/// A subtree in memory that says how fresh it is. Cheap to clone; the last handle, with the last of its events and typed
/// views, stops the cache and removes its watch. See the [module](super).
#[doc(alias = "TreeCache")]
#[doc(alias = "PathChildrenCache")]
#[doc(alias = "NodeCache")]
#[derive(Debug, Clone)]
pub struct CuratorCache {
    pub(super) shared: Arc<Shared>,
    pub(super) alive: Alive,
}

/// The result of the first load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Loaded {
    /// The number of nodes in the cache.
    pub nodes: usize,
    /// The number of nodes that could not be read: see [`CuratorCache::unreadable`].
    pub unreadable: usize,
}

impl CuratorCache {
    /// The path of the root.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.shared.root
    }

    /// Waits until the first load is complete. Nodes that cannot be read do not prevent that.
    ///
    /// # Errors
    /// `InvalidPath`; an error of the connection that does not pass by itself, such as `NoAuth`, while the cache goes on
    /// trying; `Closed` when the cache or the framework is closed.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn loaded(&self) -> Result<Loaded, Error> {
        self.shared.find(|inner| self.has_loaded(inner)).await
    }

    fn has_loaded(&self, inner: &Inner) -> Option<Result<Loaded, Error>> {
        if inner.is_loaded {
            let state = &inner.state;
            return Some(Ok(Loaded { nodes: state.tree().len(), unreadable: state.unreadable().len() }));
        }
        match &inner.failed {
            Some(error) => Some(Err(error.clone())),
            None if inner.ended => Some(Err(self.closed())),
            None => None,
        }
    }

    fn closed(&self) -> Error {
        Error::closed("cache", &self.shared.root)
    }

    /// How far the contents can be trusted now.
    #[must_use]
    pub fn freshness(&self) -> Freshness {
        self.shared.look(|inner| inner.freshness)
    }

    /// Follows the freshness.
    pub fn freshness_changes(&self) -> FreshnessWatch {
        FreshnessWatch { shared: Arc::clone(&self.shared), alive: self.alive.clone(), told: None }
    }

    /// Follows the health of the background task: [`Working`](crate::health::Health::Working) while the cache is fresh.
    pub fn health(&self) -> HealthWatch {
        self.shared.health.restarted()
    }

    /// The node at a path, from memory. While the cache is stale, it is the state from before: see
    /// [`freshness`](Self::freshness).
    #[doc(alias = "getCurrentData")]
    #[must_use]
    pub fn get(&self, path: &str) -> Lookup {
        self.shared.look(|inner| match inner.state.lookup(path, inner.is_loaded) {
            Lookup::Present(node) => Lookup::Present(Arc::clone(node)),
            Lookup::Absent => Lookup::Absent,
            Lookup::Unknown => Lookup::Unknown,
        })
    }

    /// The node at a path: from memory if the cache is fresh and knows it, and else from the server. What the server answers is
    /// not stored.
    ///
    /// # Errors
    /// As a read of the framework; `InvalidArgument` for a path that is not at or below the root.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    #[doc(alias = "readThrough")]
    pub async fn get_through(&self, path: &str) -> Result<Option<Arc<CachedNode>>, Error> {
        let known = self.shared.look(|inner| match inner.state.lookup(path, inner.is_loaded) {
            _ if !inner.freshness.is_fresh() => None,
            Lookup::Present(node) => Some(Some(Arc::clone(node))),
            Lookup::Absent => Some(None),
            Lookup::Unknown => None,
        });
        if let Some(known) = known {
            return Ok(known);
        }
        if self.shared.look(|inner| inner.state.tree().relative(path).is_none()) {
            return Err(Error::invalid_argument(
                "get_through",
                path,
                "the path is not below the root of the cache",
            ));
        }
        match self.shared.zk.get_data(path).with_stat().await {
            Ok((data, stat)) => Ok(Some(Arc::new(CachedNode { path: path.into(), data, stat }))),
            Err(error) if error.kind() == ErrorKind::NoNode => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The children of a node that are in the cache, in the order of their names.
    #[doc(alias = "getCurrentChildren")]
    #[must_use]
    pub fn children_of(&self, path: &str) -> Vec<Arc<CachedNode>> {
        self.read(|view| view.children_of(path).cloned().collect())
    }

    /// Looks at everything at one moment, without a copy. `look` runs under a lock that the cache needs for its updates: it must
    /// be short, must not block, and must not use the cache.
    pub fn read<R>(&self, look: impl FnOnce(&TreeView<'_>) -> R) -> R {
        self.shared.look(|inner| look(&TreeView::new(inner)))
    }

    /// The number of nodes in the cache.
    #[must_use]
    pub fn len(&self) -> usize {
        self.read(|view| view.len())
    }

    /// Whether there are no nodes in the cache.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The paths that exist, or may exist, and could not be read; and why. They are tried again after every outage, after every
    /// change that is reported, and in every [audit](super::CacheBuilder::audit_every).
    #[must_use]
    pub fn unreadable(&self) -> Vec<(String, ErrorKind)> {
        self.read(|view| view.unreadable().map(|(path, kind)| (path.to_owned(), *kind)).collect())
    }

    /// Waits until the cache shows everything that had been committed when this was called, by any client; returns the
    /// transaction that the contents are not older than.
    ///
    /// It costs one flight and, because the answer needs a quorum, as much as a write of the ensemble; and the reads of what has
    /// changed.
    ///
    /// # Errors
    /// As [`loaded`](Self::loaded), and `NoAuth` and others of a read of the root.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn synced(&self) -> Result<i64, Error> {
        let (done, synced) = oneshot::channel();
        // A failure means that the task has ended, as that of the answer does.
        drop(self.shared.commands.send(Command::Sync(done)));
        match synced.await {
            Ok(result) => result,
            Err(_) => Err(self.shared.look(|inner| inner.failed.clone()).unwrap_or_else(|| self.closed())),
        }
    }

    /// Waits until the cache shows a transaction: for reads of what this client has written,
    /// `cache.reflects(stat.mzxid)`. That costs no request if the answer of the write came in the session of the cache.
    ///
    /// It waits for ever for a transaction that is never committed.
    ///
    /// # Errors
    /// As [`synced`](Self::synced).
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn reflects(&self, zxid: i64) -> Result<(), Error> {
        loop {
            self.loaded().await?;
            let is_shown = |inner: &Inner| match inner.freshness {
                Freshness::Fresh { zxid: shown } => shown >= zxid,
                _ => false,
            };
            if self.shared.look(is_shown) {
                return Ok(());
            }
            if self.shared.zk.last_zxid_seen().is_some_and(|seen| seen >= zxid) {
                // Its change has been reported: it is only to be read.
                drop(self.shared.commands.send(Command::Check));
                let shown = self.shared.find(|inner| {
                    (is_shown(inner) || inner.ended || !inner.freshness.is_fresh()).then(|| is_shown(inner))
                });
                if shown.await {
                    return Ok(());
                }
            }
            if self.synced().await? >= zxid {
                return Ok(());
            }
            sleep(PAUSE).await;
        }
    }

    /// Waits until `ready` finds what it looks for. It is asked when the cache is loaded, and after every change; it runs under a
    /// lock, as in [`read`](Self::read).
    ///
    /// # Errors
    /// As [`loaded`](Self::loaded).
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn wait_for<R>(&self, mut ready: impl FnMut(&TreeView<'_>) -> Option<R>) -> Result<R, Error> {
        self.loaded().await?;
        let found = self.shared.find(|inner| {
            let found = ready(&TreeView::new(inner));
            found.map(Ok).or_else(|| inner.ended.then(|| Err(self.closed())))
        });
        found.await
    }

    /// The nodes in a state that the server really had, with the transaction of that state; `None` if there is no such moment
    /// `within` this time, because there is no connection, or because changes are reported faster than they can be read.
    ///
    /// It costs no request in a quiet tree. The state is that of the server of the connection, which may lag: call
    /// [`synced`](Self::synced) before if that matters. Nodes that cannot be read are
    /// [listed](Snapshot::unreadable).
    ///
    /// # Errors
    /// As [`loaded`](Self::loaded).
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn exact(&self, within: Duration) -> Result<Option<Snapshot>, Error> {
        let deadline = Instant::now() + within;
        let exact = async {
            self.loaded().await?;
            drop(self.shared.commands.send(Command::Prove));
            let snapshot = self.shared.find(|inner| match inner.exact {
                Some(zxid) if inner.freshness.is_fresh() => {
                    Some(Ok(Snapshot { zxid, ..Snapshot::of(inner) }))
                }
                _ => inner.ended.then(|| Err(self.closed())),
            });
            snapshot.await
        };
        timeout_at(deadline, exact).await.map_or(Ok(None), |snapshot| snapshot.map(Some))
    }

    /// The changes, beginning with the loaded state.
    #[doc(alias = "CuratorCacheListener")]
    #[must_use = "the events are told to whoever asks for them"]
    pub fn events(&self) -> CacheEvents {
        CacheEvents::new(Arc::clone(&self.shared), self.alive.clone(), true)
    }

    /// The changes from now on, or from the end of the first load on.
    #[must_use = "the events are told to whoever asks for them"]
    pub fn changes(&self) -> CacheEvents {
        CacheEvents::new(Arc::clone(&self.shared), self.alive.clone(), false)
    }

    /// Stops the cache for all handles, and waits until its watch is removed. The contents stay, and are stale.
    ///
    /// # Cancel safety
    /// Once polled, the cache is stopped all the same.
    pub async fn close(self) {
        self.shared.stop.cancel();
        self.shared.find(|inner| inner.ended.then_some(())).await;
        // Requests are answered in their order: the watch was removed before this one is answered. Without a connection there
        // is no watch either.
        drop(self.shared.zk.exists(self.path()).deadline(PAUSE).await);
    }
}
