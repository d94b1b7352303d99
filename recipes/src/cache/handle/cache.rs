use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::oneshot;
use tokio::time::timeout;
use zk_curator::internal::sleep;
use zk_curator::path::ZPath;
use zk_curator::{Error, ErrorKind};

use super::events::CacheEvents;
use super::freshness_watch::FreshnessWatch;
use super::view::TreeView;
use crate::cache::state::{CachedNode, Freshness, Lookup, Snapshot};
use crate::cache::task::{Alive, CacheShared, Prover};
use crate::cache::told::{Contents, Delivered};
use crate::health::HealthWatch;

/// The pause between two checks for a transaction that the servers have not committed yet.
const PAUSE: Duration = Duration::from_millis(500);

/// An in-memory copy of a subtree that knows how fresh it is. Cheap to clone. Dropping the last
/// handle, event stream and typed view stops the cache and removes its watch. See the
/// [module](crate::cache).
#[doc(alias = "TreeCache")]
#[doc(alias = "PathChildrenCache")]
#[doc(alias = "NodeCache")]
#[derive(Debug, Clone)]
#[must_use = "dropping the last handle stops the cache"]
pub struct CuratorCache {
    pub(crate) shared: Arc<CacheShared>,
    pub(crate) alive: Alive,
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
    /// Returns the path of the root.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.shared.root
    }

    /// Waits until the first load is complete. Nodes that cannot be read do not prevent that.
    ///
    /// # Errors
    /// `InvalidPath`. A permanent error, such as `NoAuth`, while the cache keeps retrying.
    /// `NotStarted` if the framework was not started. `Closed` if the cache or the framework is
    /// closed.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn loaded(&self) -> Result<Loaded, Error> {
        self.shared.zk.check_started("loaded", &self.shared.root)?;
        self.shared.find(|contents| self.has_loaded(contents)).await
    }

    fn has_loaded(&self, contents: &Contents) -> Option<Result<Loaded, Error>> {
        if contents.is_loaded {
            let state = &contents.state;
            return Some(Ok(Loaded {
                nodes: state.tree().len(),
                unreadable: state.unreadable().len(),
            }));
        }
        match &contents.failed {
            Some(error) => Some(Err(error.clone())),
            None if contents.ended => Some(Err(self.end(contents))),
            None => None,
        }
    }

    /// Returns the reason why a cache that has ended returns nothing.
    fn end(&self, contents: &Contents) -> Error {
        contents.failed.clone().unwrap_or_else(|| Error::closed("cache", &self.shared.root))
    }

    /// Returns how fresh the contents are.
    #[must_use]
    pub fn freshness(&self) -> Freshness {
        self.shared.look(|contents| contents.freshness)
    }

    /// Returns how fresh a state is that is derived from the events of a subscriber of this cache
    /// up to this position. As [`freshness`](Self::freshness), but never newer than these events:
    /// the cache may show changes that the subscriber has not received.
    #[must_use]
    pub fn freshness_of(&self, delivered: Delivered) -> Freshness {
        self.shared.look(|contents| contents.freshness_of(delivered))
    }

    /// Follows the freshness.
    pub fn freshness_changes(&self) -> FreshnessWatch {
        FreshnessWatch { shared: Arc::clone(&self.shared), alive: self.alive.clone(), told: None }
    }

    /// Follows the health of the background task: [`Working`](crate::health::Health::Working) while
    /// the cache is fresh.
    pub fn health(&self) -> HealthWatch {
        self.shared.health.restarted()
    }

    /// Returns the node at a path, from memory. While the cache is stale, this is its last known
    /// state: see [`freshness`](Self::freshness).
    #[doc(alias = "getCurrentData")]
    #[must_use]
    pub fn get(&self, path: &str) -> Lookup {
        self.shared.look(|contents| match contents.state.lookup(path, contents.is_loaded) {
            Lookup::Present(node) => Lookup::Present(Arc::clone(node)),
            Lookup::Absent => Lookup::Absent,
            Lookup::Unknown => Lookup::Unknown,
        })
    }

    /// Returns the node at a path: from memory if the cache is fresh and knows it, and otherwise
    /// from the server. The response of the server is not stored. It is decompressed, or has no
    /// data, like the nodes in the cache.
    ///
    /// # Errors
    /// As a read of the framework; `InvalidPath` for a path that is not valid, and
    /// `InvalidArgument` for one that is not at or below the root.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    #[doc(alias = "readThrough")]
    pub async fn get_through(&self, path: &str) -> Result<Option<Arc<CachedNode>>, Error> {
        ZPath::for_operation("get_through", path)?;
        let known =
            self.shared.look(|contents| match contents.state.lookup(path, contents.is_loaded) {
                _ if !contents.freshness.is_fresh() => None,
                Lookup::Present(node) => Some(Some(Arc::clone(node))),
                Lookup::Absent => Some(None),
                Lookup::Unknown => None,
            });
        if let Some(known) = known {
            return Ok(known);
        }
        if self.shared.look(|contents| contents.state.tree().relative(path).is_none()) {
            return Err(Error::invalid_argument(
                "get_through",
                path,
                "the path is not below the root of the cache",
            ));
        }
        let mut read = self.shared.zk.get_data(path).with_stat();
        match self.shared.decompressed {
            Some(true) => read = read.decompressed(),
            Some(false) => read = read.undecompressed(),
            None => {}
        }
        match read.await {
            Ok((data, stat)) => {
                let data = if self.shared.keeps_data { data } else { Bytes::new() };
                Ok(Some(Arc::new(CachedNode::new(path, data, stat))))
            }
            Err(error) if error.kind() == ErrorKind::NoNode => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the children of a node that are in the cache, sorted by name.
    #[doc(alias = "getCurrentChildren")]
    #[must_use]
    pub fn children_of(&self, path: &str) -> Vec<Arc<CachedNode>> {
        self.read(|view| view.children_of(path).cloned().collect())
    }

    /// Calls `look` with the contents at one moment, without a copy. `look` runs under a lock that
    /// the cache needs for its updates: it must be short, and must not block or use the cache.
    pub fn read<R>(&self, look: impl FnOnce(&TreeView<'_>) -> R) -> R {
        self.shared.look(|contents| look(&TreeView::new(contents)))
    }

    /// Returns the number of nodes in the cache.
    #[must_use]
    pub fn len(&self) -> usize {
        self.read(|view| view.len())
    }

    /// Returns `true` if there are no nodes in the cache.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the paths that exist, or may exist, but could not be read, with the reasons. They
    /// are read again after every outage, after every reported change, by
    /// [`refresh`](Self::refresh), and in every [audit](crate::cache::CacheBuilder::audit_every).
    /// Unless the reason lasts (`NoAuth`, `ResponseTooLarge`, `Undecodable` and settings of this
    /// client), they are also read again after pauses of 1 to 60 seconds.
    #[must_use]
    pub fn unreadable(&self) -> Vec<(String, ErrorKind)> {
        self.read(|view| view.unreadable().map(|(path, kind)| (path.to_owned(), *kind)).collect())
    }

    /// Waits until the cache shows everything that any client had committed when this was called.
    /// Returns a transaction; the contents are not older than it.
    ///
    /// Costs one round trip, the work of a write for the ensemble, because the response needs a
    /// quorum, and the reads of changed nodes. Calls during the request of another call share the
    /// next request.
    ///
    /// # Errors
    /// As [`loaded`](Self::loaded), and errors of a read of the root, such as `NoAuth`.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn synced(&self) -> Result<i64, Error> {
        self.shared.zk.check_started("synced", &self.shared.root)?;
        let (done, synced) = oneshot::channel();
        self.shared.wants.sync(done);
        self.answer(synced).await
    }

    async fn answer(&self, answer: oneshot::Receiver<Result<i64, Error>>) -> Result<i64, Error> {
        match answer.await {
            Ok(result) => result,
            // The task has ended.
            Err(_) => Err(self.shared.look(|contents| self.end(contents))),
        }
    }

    /// Reads a node and everything below it again, and waits until this is done. Returns a
    /// transaction; the contents are not older than it. Use it for changes that servers do not
    /// report, such as those of ACLs.
    ///
    /// Costs the reads of all these nodes and of the lists of their children. During the call,
    /// absent children may be [unknown](Lookup::Unknown). The responses come from the connected
    /// server, which may lag: call [`synced`](Self::synced) first if this matters.
    ///
    /// # Errors
    /// As [`loaded`](Self::loaded); `InvalidPath` for a path that is not valid, and
    /// `InvalidArgument` for one that the cache does not cover.
    ///
    /// # Cancel safety
    /// Nothing is lost. The nodes may still be read.
    #[doc(alias = "rebuildNode")]
    pub async fn refresh(&self, path: impl Into<String>) -> Result<i64, Error> {
        let path = path.into();
        ZPath::for_operation("refresh", path.as_str())?;
        self.shared.zk.check_started("refresh", &path)?;
        if self.shared.look(|contents| !contents.state.covers(&path)) {
            return Err(Error::invalid_argument(
                "refresh",
                path,
                "the cache does not cover this path",
            ));
        }
        let (done, refreshed) = oneshot::channel();
        self.shared.wants.refresh(path, done);
        self.answer(refreshed).await
    }

    /// [Refreshes](Self::refresh) everything. The contents stay visible during the call.
    ///
    /// # Errors
    /// As [`loaded`](Self::loaded).
    ///
    /// # Cancel safety
    /// As [`refresh`](Self::refresh).
    #[doc(alias = "clearAndRefresh")]
    pub async fn rebuild(&self) -> Result<i64, Error> {
        self.refresh(self.path()).await
    }

    /// Waits until the cache shows a transaction. To read a write of this client, call
    /// `cache.reflects(stat.mzxid)`. Costs no request if the response to the write came in the
    /// session of the cache.
    ///
    /// Waits forever for a transaction that is never committed.
    ///
    /// # Errors
    /// As [`synced`](Self::synced).
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn reflects(&self, zxid: i64) -> Result<(), Error> {
        loop {
            self.loaded().await?;
            let is_shown = |contents: &Contents| match contents.freshness {
                Freshness::Fresh { zxid: shown, .. } => shown >= zxid,
                _ => false,
            };
            if self.shared.look(is_shown) {
                return Ok(());
            }
            if self.shared.zk.last_zxid_seen().is_some_and(|seen| seen >= zxid) {
                // Its change has been reported, and must only be read.
                self.shared.wants.check();
                let shown = self.shared.find(|contents| {
                    (is_shown(contents) || contents.ended || !contents.freshness.is_fresh())
                        .then(|| is_shown(contents))
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

    /// Waits until `ready` returns a result. It is called when the cache is loaded, and after every
    /// change. It runs under a lock, as in [`read`](Self::read).
    ///
    /// # Errors
    /// As [`loaded`](Self::loaded).
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn wait_for<R>(
        &self,
        mut ready: impl FnMut(&TreeView<'_>) -> Option<R>,
    ) -> Result<R, Error> {
        self.loaded().await?;
        let found = self.shared.find(|contents| {
            let found = ready(&TreeView::new(contents));
            found.map(Ok).or_else(|| contents.ended.then(|| Err(self.end(contents))))
        });
        found.await
    }

    /// Returns the nodes in a state that the server really had, with the transaction of that state.
    /// `None` if there is no such state `within` this time, because there is no connection, or
    /// because changes are reported faster than they can be read.
    ///
    /// Costs no request in a quiet tree, and one after a change. Changes that the cache does not
    /// cover do not count. The state is that of the connected server, which may lag: call
    /// [`synced`](Self::synced) first if this matters. Nodes that cannot be read are
    /// [listed](Snapshot::unreadable).
    ///
    /// # Errors
    /// As [`loaded`](Self::loaded).
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn exact(&self, within: Duration) -> Result<Option<Snapshot>, Error> {
        let exact = async {
            self.loaded().await?;
            let _prover = Prover::new(Arc::clone(&self.shared));
            let snapshot = self.shared.find(|contents| match contents.exact {
                Some(zxid) if contents.freshness.is_fresh() => {
                    Some(Ok(Snapshot { zxid, ..contents.snapshot() }))
                }
                _ => contents.ended.then(|| Err(self.end(contents))),
            });
            snapshot.await
        };
        timeout(within, exact).await.map_or(Ok(None), |snapshot| snapshot.map(Some))
    }

    /// Returns the changes, beginning with the loaded state.
    #[doc(alias = "CuratorCacheListener")]
    #[must_use = "streams do nothing unless polled"]
    pub fn events(&self) -> CacheEvents {
        CacheEvents::new(Arc::clone(&self.shared), self.alive.clone(), true)
    }

    /// Returns the changes from now on, or from the end of the first load on.
    #[must_use = "streams do nothing unless polled"]
    pub fn events_from_now(&self) -> CacheEvents {
        CacheEvents::new(Arc::clone(&self.shared), self.alive.clone(), false)
    }

    /// Stops the cache for all handles, and does not wait for its end. The contents stay readable,
    /// and are stale.
    pub fn stop(&self) {
        self.shared.stop.cancel();
    }

    /// Stops the cache for all handles, and waits until its watch is removed. The contents stay
    /// readable, and are stale.
    ///
    /// # Cancel safety
    /// Once the future was polled, the cache is stopped even if the future is dropped.
    pub async fn close(&self) {
        self.stop();
        self.shared.find(|contents| contents.ended.then_some(())).await;
        // The server responds to requests in their order, so the watch was removed before this
        // response. Without a connection there is no watch.
        drop(self.shared.zk.exists(self.path()).deadline(PAUSE).await);
    }
}
