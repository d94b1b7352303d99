use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use zk_curator::value::{Failure, FromData};

use super::cache::CuratorCache;
use crate::cache::state::{CachedNode, Lookup};

impl CuratorCache {
    /// Returns a view of the nodes as values of a type.
    pub fn typed<T: FromData>(&self) -> TypedCache<T> {
        TypedCache::new(self.clone())
    }
}

/// A [`CuratorCache`] whose nodes are values of a type. A node whose data cannot be decoded stays
/// in the cache, and is returned with its error. Values are decoded on request.
pub struct TypedCache<T> {
    cache: CuratorCache,
    value: PhantomData<fn() -> T>,
}

/// A node and its value.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TypedNode<T> {
    /// The node.
    pub node: Arc<CachedNode>,
    /// The value, or the error of its decoding.
    pub value: Result<T, Failure>,
}

impl<T: FromData> TypedNode<T> {
    /// Decodes a node.
    #[must_use]
    pub fn of(node: Arc<CachedNode>) -> Self {
        let value = T::from_data(&node.data);
        Self { node, value }
    }
}

impl<T: FromData> TypedCache<T> {
    pub(crate) const fn new(cache: CuratorCache) -> Self {
        Self { cache, value: PhantomData }
    }

    /// Returns the cache with undecoded nodes.
    pub const fn cache(&self) -> &CuratorCache {
        &self.cache
    }

    /// Returns the node at a path, as [`CuratorCache::get`] does.
    #[must_use]
    pub fn get(&self, path: &str) -> Lookup<TypedNode<T>> {
        self.cache.get(path).map(TypedNode::of)
    }

    /// Returns the children of a node, as [`CuratorCache::children_of`] does.
    #[must_use]
    pub fn children_of(&self, path: &str) -> Vec<TypedNode<T>> {
        self.cache.children_of(path).into_iter().map(TypedNode::of).collect()
    }
}

impl<T> Clone for TypedCache<T> {
    fn clone(&self) -> Self {
        Self { cache: self.cache.clone(), value: PhantomData }
    }
}

impl<T> fmt::Debug for TypedCache<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TypedCache").field(&self.cache).finish()
    }
}
