use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use zk_curator::internal::Locked;
use zk_curator::path::ZPath;
use zk_curator::typed::{Typed, ZNode};
use zk_curator::value::{FromData, ToData};
use zk_curator::{Error, Stat};

use super::node::TypedNode;
use crate::cache::handle::cache::CuratorCache;
use crate::cache::state::{CachedNode, Lookup};
use crate::cache::told::Contents;

impl CuratorCache {
    /// Returns a view of the nodes as values of a type. It writes nodes as
    /// [`Typed`] does by default: persistent ones, with the ACL of the provider.
    pub fn typed<T>(&self) -> TypedCache<T> {
        let zk = match self.shared.decompressed {
            Some(true) => self.shared.zk.compressed(),
            Some(false) => self.shared.zk.uncompressed(),
            None => self.shared.zk.clone(),
        };
        TypedCache::new(self.clone(), zk.typed())
    }
}

/// A [`CuratorCache`] whose nodes are values of a type. Cheap to clone.
///
/// A node whose data cannot be decoded stays in the cache, and is returned with its error. A value
/// is decoded on the first request, once for each version of the node, and shared by all handles of
/// the cache. With several types for the same nodes, only the first requested one is kept.
#[doc(alias = "CachedModeledFramework")]
#[must_use = "dropping the last handle stops the cache"]
pub struct TypedCache<T> {
    cache: CuratorCache,
    typed: Typed<T>,
    /// The nodes as this client has written them, until the cache shows them.
    own: Arc<Locked<BTreeMap<Box<str>, CachedNode>>>,
}

impl<T> TypedCache<T> {
    pub(crate) fn new(cache: CuratorCache, typed: Typed<T>) -> Self {
        Self { cache, typed, own: Arc::new(Locked::new(BTreeMap::new())) }
    }

    /// Returns the cache with undecoded nodes.
    pub const fn cache(&self) -> &CuratorCache {
        &self.cache
    }
}

impl<T: FromData + Send + Sync + 'static> TypedCache<T> {
    /// Returns the node at a path, as [`CuratorCache::get`] does.
    #[must_use]
    pub fn get(&self, path: &str) -> Lookup<TypedNode<T>> {
        self.cache.get(path).map(TypedNode::of)
    }

    /// Returns the node at a path: from memory if the cache is fresh and knows it, and otherwise
    /// from the server, as [`CuratorCache::get_through`] does.
    ///
    /// # Errors
    /// As [`CuratorCache::get_through`].
    ///
    /// # Cancel safety
    /// Nothing is changed.
    #[doc(alias = "readThrough")]
    #[doc(alias = "read_through")]
    pub async fn get_through(&self, path: &str) -> Result<Option<TypedNode<T>>, Error> {
        Ok(self.cache.get_through(path).await?.map(TypedNode::of))
    }

    /// Returns the children of a node, as [`CuratorCache::children_of`] does.
    #[must_use]
    pub fn children_of(&self, path: &str) -> Vec<TypedNode<T>> {
        self.cache.children_of(path).into_iter().map(TypedNode::of).collect()
    }

    /// Returns all nodes in the cache: parents before their children, and children sorted by name.
    #[doc(alias = "list")]
    #[must_use]
    pub fn all(&self) -> Vec<TypedNode<T>> {
        let nodes: Vec<_> = self.cache.read(|view| view.nodes().cloned().collect());
        nodes.into_iter().map(TypedNode::of).collect()
    }
}

impl<T: FromData + ToData + Send + Sync + 'static> TypedCache<T> {
    /// Creates a node, or replaces its value unconditionally, and waits until the cache shows that
    /// write or a later state of the node. Returns the stat of the write.
    ///
    /// Costs the round trips of [`Typed::put`], and the read of the node by the cache. Without a
    /// connection the call waits, because the cache cannot show the write: use
    /// `tokio::time::timeout`.
    ///
    /// # Errors
    /// `InvalidPath` for a path that is not valid, and `InvalidArgument` for one that the cache
    /// does not cover, or for a value that cannot be encoded; nothing was sent. As [`Typed::put`].
    /// An error of [`reflects`](CuratorCache::reflects), for example if the cache is closed: the
    /// write was applied, so the error has [`may_have_applied`](Error::may_have_applied).
    ///
    /// # Cancel safety
    /// Once the future was polled, the value may be replaced.
    pub async fn put(&self, path: impl Into<String>, value: &T) -> Result<Stat, Error> {
        let path = path.into();
        self.check_covered("typed_put", &path)?;
        let stat = self.typed.put(path, value).await?;
        self.cache.reflects(stat.mzxid).await.map_err(Error::of_unknown_outcome)?;
        Ok(stat)
    }

    /// Replaces the value of a node by the result of `change`, and repeats that if another client
    /// has replaced the value in between. Returns the node as it was written.
    ///
    /// Begins with the value in memory, if the cache is fresh and has one. So this costs one round
    /// trip if no other client has written the node in the meantime, and otherwise those of
    /// [`Typed::modify`] in addition. The next call begins with the result of this one, even before
    /// the cache shows it. To wait until the cache shows it, use `reflects(node.stat.mzxid)`.
    ///
    /// The write is conditional on the version, so no other write of the same node is lost. Servers
    /// cannot compare the identity of a node, neither in a write nor in a transaction. If the node
    /// in memory was deleted, and the node that was created in its place has been written as often,
    /// its version is the same, and its value is replaced. The response of the write shows that:
    /// the call fails with `BadVersion` and [`may_have_applied`](Error::may_have_applied), and is
    /// not repeated. The replaced value is lost. This is possible from the deletion until the cache
    /// shows it, which takes longer than between the read and the write of [`Typed::modify`]. It is
    /// impossible if clients do not create such nodes again, and in the spaces of
    /// [`stm`](crate::stm).
    ///
    /// # Errors
    /// As [`Typed::modify`]; `InvalidPath` for a path that is not valid, and `InvalidArgument` for
    /// one that the cache does not cover.
    ///
    /// # Cancel safety
    /// Once the future was polled, the value may be replaced.
    pub async fn modify(
        &self,
        path: impl Into<String>,
        change: impl FnMut(T) -> T + Send + 'static,
    ) -> Result<ZNode<T>, Error> {
        let path = path.into();
        self.check_covered("typed_modify", &path)?;
        let node = match self.known(&path) {
            Some(known) => self.typed.modify_from(known, change).await?,
            None => self.typed.modify(path, change).await?,
        };
        // The value was encoded before. It is not remembered if that fails now.
        let data = node.value.to_data();
        if let Ok(data) = data {
            self.remember(CachedNode::new(&node.path, data, node.stat));
        }
        Ok(node)
    }

    /// Returns the newest known state of a node, if its value can be decoded.
    fn known(&self, path: &str) -> Option<ZNode<T>> {
        let (zxid, cached) = self.look_if_fresh(|contents| {
            contents.state.lookup(path, contents.is_loaded).present().cloned()
        })?;
        let own = {
            let mut own = self.own.lock();
            own.retain(|_, node| node.stat.mzxid > zxid);
            own.get(path).cloned()
        };
        let newest = match (own, cached.as_deref()) {
            (Some(own), Some(cached)) if own.stat.mzxid < cached.stat.mzxid => cached.clone(),
            (Some(own), _) => own,
            (None, cached) => cached?.clone(),
        };
        let value = T::from_data(&newest.data).ok()?;
        Some(ZNode::new(path, newest.stat, value))
    }

    /// Remembers a write of this client until the cache is known to show it. Remembers nothing
    /// while the values in memory are not used: without a fresh cache, nothing would be forgotten.
    fn remember(&self, node: CachedNode) {
        let Some((zxid, ())) = self.look_if_fresh(|_| ()) else { return };
        let mut own = self.own.lock();
        own.retain(|_, node| node.stat.mzxid > zxid);
        let other = own.get(&node.path).map_or(zxid, |other| other.stat.mzxid);
        if node.stat.mzxid > other {
            own.insert(node.path.clone(), node);
        }
    }

    /// Returns a transaction that the contents are not older than, and the result of `look`. `None`
    /// if the values in memory cannot be used: the cache keeps no data, or is not fresh.
    fn look_if_fresh<R>(&self, look: impl FnOnce(&Contents) -> R) -> Option<(i64, R)> {
        if !self.cache.shared.keeps_data {
            return None;
        }
        self.cache.shared.look(|contents| {
            let zxid = contents.freshness.zxid().filter(|_| contents.freshness.is_fresh())?;
            Some((zxid, look(contents)))
        })
    }

    fn check_covered(&self, operation: &'static str, path: &str) -> Result<(), Error> {
        ZPath::for_operation(operation, path)?;
        let is_covered = |path| {
            self.cache
                .shared
                .look(|contents| contents.state.covers(path) && contents.state.keeps(path))
        };
        if is_covered(path) {
            return Ok(());
        }
        Err(Error::invalid_argument(operation, path, "the cache does not cover this path"))
    }
}

impl<T> Clone for TypedCache<T> {
    fn clone(&self) -> Self {
        let (cache, typed) = (self.cache.clone(), self.typed.clone());
        Self { cache, typed, own: Arc::clone(&self.own) }
    }
}

impl<T> fmt::Debug for TypedCache<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The number of writes that the cache may not show yet.
        f.debug_struct("TypedCache")
            .field("cache", &self.cache)
            .field("own_writes", &self.own.lock().len())
            .finish()
    }
}
