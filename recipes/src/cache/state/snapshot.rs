use std::sync::Arc;

use zk_curator::ErrorKind;

use super::node::CachedNode;

/// The nodes of a cache at one moment. The nodes are shared with the cache, not copied.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Snapshot<N = Arc<CachedNode>> {
    /// The contents are not older than this transaction. In a result of
    /// [`exact`](crate::cache::CuratorCache::exact), this transaction was the server's last one.
    pub zxid: i64,
    /// The nodes, parents before their children, and children sorted by name.
    pub nodes: Vec<N>,
    /// The paths that could not be read, with the reasons.
    pub unreadable: Vec<(String, ErrorKind)>,
    /// The paths that are being read: nodes that may exist, or may have more children. A covered
    /// path without a node is absent if it is neither listed here nor at or below an unreadable
    /// path. Empty in a result of [`exact`](crate::cache::CuratorCache::exact).
    pub undecided: Vec<String>,
}

impl<N> Snapshot<N> {
    /// Maps the nodes.
    pub fn map<M>(self, map: impl FnMut(N) -> M) -> Snapshot<M> {
        let Self { zxid, nodes, unreadable, undecided } = self;
        Snapshot { zxid, nodes: nodes.into_iter().map(map).collect(), unreadable, undecided }
    }
}
