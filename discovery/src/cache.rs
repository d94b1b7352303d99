//! An in-memory copy of the instances of a service.
//!
//! A [`ServiceCache`] decodes the nodes of a [`CuratorCache`], and has the same guarantees. A node
//! that is not a readable instance does not hide the others: [`ServiceCache::undecodable`] lists
//! it.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use futures_util::stream::{Stream, unfold};
use serde::de::DeserializeOwned;
use tokio::time::Instant;
use tokio_util::sync::DropGuard;
use zk_curator::Error;
use zk_curator::certain::is_receipt;
use zk_curator::internal::CancellationToken;
use zk_curator_recipes::cache::{
    CacheEvent, CacheEvents, CachedNode, CuratorCache, Delivered, Freshness, StaleCause,
};
use zk_curator_recipes::health::HealthWatch;

use crate::discovery::ServiceDiscovery;
use crate::instance::ServiceInstance;
use crate::measure::InstanceCounts;
use crate::query::{Reason, Undecodable, decode};
use crate::versioned::Versioned;

/// An instance in a cache, with its node.
#[derive(Debug)]
pub(crate) struct CachedInstance<P> {
    pub(crate) path: Box<str>,
    /// The transaction that created its node.
    pub(crate) czxid: i64,
    pub(crate) instance: Arc<ServiceInstance<P>>,
}

impl<P> Clone for CachedInstance<P> {
    fn clone(&self) -> Self {
        let Self { path, czxid, instance } = self;
        Self { path: path.clone(), czxid: *czxid, instance: Arc::clone(instance) }
    }
}

/// The state that a cache shows.
struct ServiceView<P> {
    is_loaded: bool,
    /// The position in the changes of the nodes that this is the state of.
    delivered: Delivered,
    /// The time at which the task ended, after which nothing changes here.
    ended: Option<Instant>,
    members: BTreeMap<Box<str>, InstanceNode<P>>,
    list: Arc<[CachedInstance<P>]>,
}

/// A node of the service.
struct InstanceNode<P> {
    /// `None` if it can no longer be read.
    mzxid: Option<i64>,
    decoded: Result<CachedInstance<P>, Undecodable>,
}

impl<P> Default for ServiceView<P> {
    fn default() -> Self {
        Self {
            is_loaded: false,
            delivered: Delivered::default(),
            ended: None,
            members: BTreeMap::new(),
            list: Vec::new().into(),
        }
    }
}

/// An in-memory copy of the instances of a service, as of the last change that was received. Cheap
/// to clone; dropping the last handle stops the cache. See the [module](self).
#[must_use = "dropping the last handle stops the cache"]
pub struct ServiceCache<P> {
    name: Arc<str>,
    cache: CuratorCache,
    view: Arc<Versioned<ServiceView<P>>>,
    /// The error of every operation, if the name of the service cannot be the name of a node.
    refused: Option<Error>,
    _alive: Arc<DropGuard>,
}

impl<P: DeserializeOwned + Send + Sync + 'static> ServiceDiscovery<P> {
    /// Starts a cache of the instances of a service, which need not exist.
    /// [`loaded`](ServiceCache::loaded) waits for the first load, and reports a name that cannot be
    /// the name of a node.
    ///
    /// # Panics
    /// Outside a tokio runtime, if the framework has no spawner.
    #[doc(alias = "serviceCacheBuilder")]
    pub fn cache(&self, name: impl Into<String>) -> ServiceCache<P> {
        let name: Arc<str> = name.into().into();
        let (path, refused) = match self.paths.service("cache", &name) {
            Ok(path) => (path.into(), None),
            // This path is invalid, so the cache reads nothing.
            Err(error) => (String::new(), Some(error)),
        };
        let cache = CuratorCache::children(&self.zk, path).start();
        let view = Arc::new(Versioned::new(ServiceView::default()));
        let stop = CancellationToken::new();
        let follower = CacheFollower {
            name: Arc::clone(&name),
            root: cache.path().to_owned(),
            events: cache.events(),
            view: Arc::clone(&view),
            measured: InstanceCounts::begin(&self.zk, cache.path()),
            unread: 0,
        };
        let (ending, token, read) = (Arc::clone(&view), stop.clone(), cache.clone());
        self.zk.spawn_then(
            async move {
                tokio::select! {
                    biased;
                    () = token.cancelled() => {}
                    () = follower.run() => {}
                }
            },
            move |_| {
                ending.show(|view| view.ended = Some(Instant::now()));
                read.stop();
            },
        );
        ServiceCache { name, cache, view, refused, _alive: Arc::new(stop.drop_guard()) }
    }
}

impl<P> Versioned<ServiceView<P>> {
    /// Changes the view. What `change` returns, payloads for example, is dropped without the lock.
    fn show<T>(&self, change: impl FnOnce(&mut ServiceView<P>) -> T) {
        drop(self.change(|view| {
            let old = change(view);
            (old, view.list())
        }));
    }
}

/// The task of a cache.
struct CacheFollower<P> {
    name: Arc<str>,
    root: String,
    events: CacheEvents,
    view: Arc<Versioned<ServiceView<P>>>,
    measured: InstanceCounts,
    /// The nodes that could not be read at the load or at the last catch-up.
    unread: usize,
}

impl<P: DeserializeOwned> CacheFollower<P> {
    async fn run(mut self) {
        while let Some(event) = self.events.next().await {
            match event {
                CacheEvent::Loaded(snapshot) => {
                    self.unread = snapshot.unreadable.len();
                    self.put(&snapshot.nodes, true);
                }
                CacheEvent::Fresh { unreadable, .. } => {
                    self.unread = unreadable;
                    self.show(|_| ());
                }
                CacheEvent::Created(node)
                | CacheEvent::Changed { new: node, .. }
                | CacheEvent::Replaced { new: node, .. } => self.put(&[node], false),
                CacheEvent::Deleted(node) => {
                    self.show(|view| view.members.remove(&node.path));
                }
                CacheEvent::Unreadable { old, error } if is_instance(&self.root, &old) => {
                    let (path, reason) = (old.path.to_string(), Reason::Unreadable(error));
                    let decoded = Err(Undecodable { path, reason });
                    let member = InstanceNode { mzxid: None, decoded };
                    self.show(|view| view.members.insert(old.path.clone(), member));
                }
                _ => self.show(|_| ()),
            }
            self.measured.shows(|| self.view.look(|view| view.numbers(self.unread)));
        }
    }

    /// Decodes nodes, and shows them.
    fn put(&self, nodes: &[Arc<CachedNode>], is_loaded: bool) {
        let nodes = nodes.iter().filter(|node| is_instance(&self.root, node));
        let members: Vec<_> = nodes
            .map(|node| {
                let decoded =
                    decode(&self.name, &node.path, &node.data).map(|instance| CachedInstance {
                        path: node.path.clone(),
                        czxid: node.stat.czxid,
                        instance: Arc::new(instance),
                    });
                (node.path.clone(), InstanceNode { mzxid: Some(node.stat.mzxid), decoded })
            })
            .collect();
        self.show(|view| {
            view.is_loaded |= is_loaded;
            let old = members.into_iter().map(|(path, member)| view.members.insert(path, member));
            old.collect::<Vec<_>>()
        });
    }

    /// Changes the view as the last event says.
    fn show<T>(&self, change: impl FnOnce(&mut ServiceView<P>) -> T) {
        let delivered = self.events.delivered();
        self.view.show(|view| {
            view.delivered = delivered;
            change(view)
        });
    }
}

/// Returns `true` for a child of the root that may be an instance.
fn is_instance(root: &str, node: &CachedNode) -> bool {
    *node.path != *root && !is_receipt(node.name())
}

impl<P> ServiceView<P> {
    /// Makes the list again, and returns the old one.
    fn list(&mut self) -> Arc<[CachedInstance<P>]> {
        let decoded = self.members.values().filter_map(|member| member.decoded.as_ref().ok());
        let list = decoded.cloned().collect();
        std::mem::replace(&mut self.list, list)
    }

    /// Returns the numbers of enabled instances, drained instances, and nodes that are not readable
    /// instances.
    fn numbers(&self, unread: usize) -> [usize; 3] {
        let up = self.list.iter().filter(|listed| listed.instance.enabled).count();
        let undecodable = self.readable().count() - self.list.len();
        let unread = unread.max(self.members.len() - self.readable().count());
        [up, self.list.len() - up, undecodable + unread]
    }

    fn readable(&self) -> impl Iterator<Item = &InstanceNode<P>> {
        self.members.values().filter(|member| member.mzxid.is_some())
    }
}

impl<P> ServiceCache<P> {
    /// Returns the name of the service.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the path of the service; empty if the name cannot be the name of a node.
    #[must_use]
    pub fn path(&self) -> &str {
        self.cache.path()
    }

    /// Waits until the first load is complete.
    ///
    /// # Errors
    /// Those of [`CuratorCache::loaded`]; `InvalidArgument` if the name cannot be the name of a
    /// node.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn loaded(&self) -> Result<(), Error> {
        if let Some(refused) = &self.refused {
            return Err(refused.clone());
        }
        self.cache.loaded().await?;
        self.view.until(|view| view.is_loaded || view.ended.is_some()).await;
        Ok(())
    }

    /// Waits until the cache shows everything that had been committed when this was called.
    ///
    /// # Errors
    /// Those of [`CuratorCache::synced`]; `InvalidArgument` if the name cannot be the name of a
    /// node.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn synced(&self) -> Result<(), Error> {
        self.loaded().await?;
        self.cache.synced().await?;
        let (root, cache) = (self.cache.path(), &self.cache);
        let shown = self.view.find(|view| {
            let nodes = cache.children_of(root);
            let nodes = nodes.iter().filter(|node| is_instance(root, node));
            let is_shown = |node: &Arc<CachedNode>| {
                let member = view.members.get(&node.path);
                member.is_some_and(|member| member.mzxid == Some(node.stat.mzxid))
            };
            let mut count = 0;
            let all = nodes.inspect(|_| count += 1).all(is_shown);
            (view.ended.is_some() || all && count == view.readable().count()).then_some(())
        });
        shown.await;
        Ok(())
    }

    /// Returns the instances, sorted by id, including drained ones.
    #[doc(alias = "getInstances")]
    #[must_use]
    pub fn instances(&self) -> Vec<Arc<ServiceInstance<P>>> {
        self.listed().iter().map(|listed| Arc::clone(&listed.instance)).collect()
    }

    /// Returns the nodes that are not readable instances.
    #[must_use]
    pub fn undecodable(&self) -> Vec<Undecodable> {
        let root = self.cache.path();
        let unreadable = self.cache.unreadable().into_iter().filter(|(path, _)| path != root);
        let unreadable =
            unreadable.map(|(path, kind)| Undecodable { path, reason: Reason::Unreadable(kind) });
        let mut all: Vec<_> = self.view.look(|view| {
            view.readable().filter_map(|member| member.decoded.as_ref().err().cloned()).collect()
        });
        all.extend(unreadable);
        all
    }

    /// Returns how fresh the [instances](Self::instances) are: not the nodes that were read, of
    /// which some may not be decoded yet. [`Closed`](StaleCause::Closed) if the background task has
    /// ended, with the framework, its runtime or a panic in the drop of a payload.
    #[must_use]
    pub fn freshness(&self) -> Freshness {
        let (delivered, ended) = self.view.look(|view| (view.delivered, view.ended));
        let freshness = self.cache.freshness_of(delivered);
        match (freshness, ended) {
            (Freshness::Fresh { zxid, .. }, Some(since)) => {
                Freshness::Stale { since, zxid, cause: StaleCause::Closed }
            }
            _ => freshness,
        }
    }

    /// Follows the health of the background task.
    pub fn health(&self) -> HealthWatch {
        self.cache.health()
    }

    /// Returns the changes, beginning with the loaded instances. When an event is returned, the
    /// cache and its providers show this state, or a later one.
    #[doc(alias = "ServiceCacheListener")]
    pub fn events(&self) -> ServiceEvents<P> {
        ServiceEvents {
            cache: self.clone(),
            version: 0,
            told: BTreeMap::new(),
            ready: VecDeque::new(),
        }
    }

    pub(crate) fn listed(&self) -> Arc<[CachedInstance<P>]> {
        self.view.look(|view| Arc::clone(&view.list))
    }

    /// Returns the list, with a version that is not later.
    pub(crate) fn versioned(&self) -> (u64, Arc<[CachedInstance<P>]>) {
        self.view.versioned(|view| Arc::clone(&view.list))
    }

    /// Returns the number of changes of the view.
    pub(crate) fn version(&self) -> u64 {
        self.view.version()
    }

    /// Waits for a later version.
    pub(crate) async fn changed_since(&self, version: u64) {
        self.view.until(|_| self.version() != version).await;
    }

    pub(crate) fn is_loaded(&self) -> bool {
        self.view.look(|view| view.is_loaded)
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.view.look(|view| view.ended.is_some())
    }
}

impl<P> Clone for ServiceCache<P> {
    fn clone(&self) -> Self {
        Self {
            name: Arc::clone(&self.name),
            cache: self.cache.clone(),
            view: Arc::clone(&self.view),
            refused: self.refused.clone(),
            _alive: Arc::clone(&self._alive),
        }
    }
}

impl<P> fmt::Debug for ServiceCache<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceCache")
            .field("name", &self.name)
            .field("freshness", &self.freshness())
            .finish_non_exhaustive()
    }
}

/// A change of the instances of a service.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ServiceEvent<P> {
    /// An instance was registered.
    Up(Arc<ServiceInstance<P>>),
    /// The record of an instance has changed, or it was registered again.
    Changed {
        /// The last reported state.
        old: Arc<ServiceInstance<P>>,
        /// The current state.
        new: Arc<ServiceInstance<P>>,
    },
    /// An instance is no longer registered. This is its last reported state.
    Down(Arc<ServiceInstance<P>>),
    /// A node is not a readable instance. If it was one before, it is no longer shown. Not sent for
    /// a node that could never be read: [`ServiceCache::undecodable`] lists it.
    Undecodable(Undecodable),
}

/// The changes of a [`ServiceCache`], for one subscriber. As with [`CacheEvents`], a slow
/// subscriber gets the latest states, not every step. Keeps the cache alive.
pub struct ServiceEvents<P> {
    cache: ServiceCache<P>,
    /// The version of the view that was compared last.
    version: u64,
    told: BTreeMap<Box<str>, ReportedState<P>>,
    ready: VecDeque<ServiceEvent<P>>,
}

/// The last reported state of a node.
struct ReportedState<P> {
    mzxid: Option<i64>,
    instance: Option<Arc<ServiceInstance<P>>>,
}

impl<P> ServiceEvents<P> {
    /// Waits for the next event; `None` when the cache has ended.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn next(&mut self) -> Option<ServiceEvent<P>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            let has_ended = self.compare();
            if self.ready.is_empty() {
                if has_ended {
                    return None;
                }
                self.cache.changed_since(self.version).await;
            }
        }
    }

    /// Compares the view with the reported states. Returns `true` if the view no longer changes.
    fn compare(&mut self) -> bool {
        let Self { cache, version, told, ready } = self;
        // Payloads are dropped without the lock.
        let mut dropped = Vec::new();
        cache.view.look(|view| {
            *version = cache.version();
            told.retain(|path, told| {
                let is_there = view.members.contains_key(path);
                if !is_there {
                    ready.extend(told.instance.take().map(ServiceEvent::Down));
                }
                is_there
            });
            for (path, InstanceNode { mzxid, decoded }) in &view.members {
                if told.get(path).is_some_and(|told| told.mzxid == *mzxid) {
                    continue;
                }
                let new = decoded.as_ref().map(|listed| Arc::clone(&listed.instance));
                let (mzxid, instance) = (*mzxid, new.clone().ok());
                let old = told.insert(path.clone(), ReportedState { mzxid, instance });
                ready.push_back(match (old.and_then(|old| old.instance), new) {
                    (old, Err(why)) => {
                        dropped.extend(old);
                        ServiceEvent::Undecodable(why.clone())
                    }
                    (Some(old), Ok(new)) => ServiceEvent::Changed { old, new },
                    (None, Ok(new)) => ServiceEvent::Up(new),
                });
            }
            view.ended.is_some()
        })
    }

    /// Returns the events as a stream.
    pub fn into_stream(self) -> impl Stream<Item = ServiceEvent<P>> + Send + 'static
    where
        P: Send + Sync + 'static,
    {
        unfold(self, async |mut events| events.next().await.map(|event| (event, events)))
    }
}

impl<P> fmt::Debug for ServiceEvents<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceEvents").field("name", &self.cache.name).finish_non_exhaustive()
    }
}
