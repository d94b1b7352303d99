use std::sync::Arc;

use zk_curator::value::{Failure, FromData};

use crate::cache::state::CachedNode;

/// A node and its value. Cheap to clone.
#[derive(Debug)]
#[non_exhaustive]
pub struct TypedNode<T> {
    /// The node.
    pub node: Arc<CachedNode>,
    /// The value, or the error of its decoding. A node without data, such as a parent, is not a
    /// value of most types: see [`is_empty`](Self::is_empty).
    pub value: Result<Arc<T>, Failure>,
}

impl<T: FromData + Send + Sync + 'static> TypedNode<T> {
    /// Decodes a node, unless that was done before.
    #[must_use]
    pub fn of(node: Arc<CachedNode>) -> Self {
        let value = node.decoded();
        Self { node, value }
    }
}

impl<T> TypedNode<T> {
    /// Returns `true` if the node has no data. Parents that were created implicitly have none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.node.data.is_empty()
    }
}

impl<T> Clone for TypedNode<T> {
    fn clone(&self) -> Self {
        Self { node: Arc::clone(&self.node), value: self.value.clone() }
    }
}
