use std::sync::Arc;

use zk_curator::ErrorKind;

#[cfg(doc)]
use super::handle::CuratorCache;
use super::node::CachedNode;

/// The nodes of a cache at one moment. The nodes are shared with the cache, not copied.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Snapshot {
    /// The contents are not older than this transaction. Of [`exact`](super::CuratorCache::exact): this transaction was the
    /// server's last one.
    pub zxid: i64,
    /// The nodes, parents before their children, and these in the order of their names.
    pub nodes: Vec<Arc<CachedNode>>,
    /// The paths that could not be read, and why.
    pub unreadable: Vec<(String, ErrorKind)>,
}
