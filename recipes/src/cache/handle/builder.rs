use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use zk_curator::CuratorFramework;

use super::cache::CuratorCache;
use crate::cache::state::{CacheScope, TreeState};
use crate::cache::task::{
    Alive, CacheDriver, CacheOptions, CacheShared, MOST_BYTES, ServerDiffMode,
};
use crate::health::HealthReporter;

impl CuratorCache {
    /// Builds a cache of a node and everything below it. The node need not exist.
    pub fn tree(zk: &CuratorFramework, path: impl Into<String>) -> CacheBuilder {
        CacheBuilder::new(zk, path.into(), None)
    }

    /// Builds a cache of a node and its children.
    ///
    /// Servers have no watch for exactly these nodes, so the client also receives a notification
    /// for every change deeper in the tree. The cache drops these: it wakes no caller and reads
    /// nothing.
    pub fn children(zk: &CuratorFramework, path: impl Into<String>) -> CacheBuilder {
        CacheBuilder::new(zk, path.into(), Some(1))
    }

    /// Builds a cache of one node.
    #[doc(alias = "SINGLE_NODE_CACHE")]
    pub fn node(zk: &CuratorFramework, path: impl Into<String>) -> CacheBuilder {
        CacheBuilder::new(zk, path.into(), Some(0))
    }
}

/// Builds a [`CuratorCache`].
#[derive(Clone)]
#[must_use = "nothing is sent until it is started"]
pub struct CacheBuilder {
    zk: CuratorFramework,
    root: String,
    scope: CacheScope,
    options: CacheOptions,
}

impl CacheBuilder {
    pub(crate) fn new(zk: &CuratorFramework, root: String, max_depth: Option<usize>) -> Self {
        let options = CacheOptions {
            keeps_data: true,
            decompressed: None,
            spread: None,
            server_diff: ServerDiffMode::default(),
            audit_every: None,
            parallel: 4,
            most_bytes: MOST_BYTES,
        };
        Self {
            zk: zk.clone(),
            root,
            scope: CacheScope { max_depth, ..CacheScope::default() },
            options,
        }
    }

    /// Sets the number of levels below the root; 0 for the root alone. Default: depends on the
    /// constructor.
    pub const fn max_depth(mut self, levels: usize) -> Self {
        self.scope.max_depth = Some(levels);
        self
    }

    /// Covers only the nodes below the root for whose path the filter returns `true`, and whose
    /// parents are covered as well. Other nodes are neither read nor stored. Default: all.
    ///
    /// The filter must always return the same result for a path. It is called often, and under a
    /// lock, so it must not block or use the cache.
    #[doc(alias = "TreeCacheSelector")]
    pub fn filter(mut self, filter: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        self.scope.filter = Some(Arc::new(filter));
        self
    }

    /// Keeps only the nodes for whose path the filter returns `true`. Unlike nodes that
    /// [`filter`](Self::filter) excludes, the other nodes are read, and their descendants are
    /// covered. But lookups return [unknown](crate::cache::Lookup::Unknown) for them, their data
    /// are not stored, and their changes are not reported. Default: keeps all covered nodes.
    ///
    /// The rules for the other filter apply to this one, too.
    #[doc(alias = "acceptChild")]
    pub fn keep(mut self, kept: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        self.scope.kept = Some(Arc::new(kept));
        self
    }

    /// Stores no data, only stats. The data are transferred nevertheless: ZooKeeper has no request
    /// for many stats. Default: stores data.
    pub const fn without_data(mut self) -> Self {
        self.options.keeps_data = false;
        self
    }

    /// Decompresses the data; a node whose data cannot be decompressed is
    /// [unreadable](CuratorCache::unreadable). Default: as the
    /// [framework](zk_curator::CuratorFrameworkBuilder::enable_compression) does.
    pub const fn decompressed(mut self) -> Self {
        self.options.decompressed = Some(true);
        self
    }

    /// Stores the data as the server has them, even if the framework decompresses.
    #[doc(alias = "DO_NOT_DECOMPRESS")]
    pub const fn undecompressed(mut self) -> Self {
        self.options.decompressed = Some(false);
        self
    }

    /// Sets the longest pause before a resync. Each resync waits for a random part of it, so that
    /// the caches of many clients do not all read at the same time after an election. A call of
    /// [`synced`](CuratorCache::synced) ends the pause. Default: 20 microseconds per node, at most
    /// 2 seconds.
    pub const fn resync_spread(mut self, most: Duration) -> Self {
        self.options.spread = Some(most);
        self
    }

    /// Decides if the server computes which nodes have changed during an outage. This uses a
    /// separate session, which is closed afterwards, and sends every path once, but only the data
    /// of changed nodes. Default: [`ServerDiffMode::Auto`].
    pub const fn server_diff(mut self, when: ServerDiffMode) -> Self {
        self.options.server_diff = when;
        self
    }

    /// Reads everything again with this period. Use it for trees whose ACLs change: a server does
    /// not report changes of nodes that the client may not read at that moment. Minimum: 1 second.
    /// Default: never.
    pub fn audit_every(mut self, period: Duration) -> Self {
        self.options.audit_every = Some(period.max(Duration::from_secs(1)));
        self
    }

    /// Sets the maximum number of concurrent requests during a load or a resync, from 1; zero
    /// counts as 1. Default: 4.
    pub fn parallel(mut self, requests: usize) -> Self {
        self.options.parallel = requests.max(1);
        self
    }

    /// Sets the maximum number of bytes that are requested at a time, from 1; zero counts as 1.
    /// Default: 8 MiB.
    ///
    /// A server holds all requested data in memory until they are sent. The size of a node is
    /// unknown before it is read. So the cache begins with a few nodes, and requests more as long
    /// as they are small. It estimates the sizes of the other nodes from a random sample of their
    /// siblings, and allows for a few that are as large as servers accept (1 MiB by default). A
    /// read whose estimate exceeds the limit is sent when no other read is in flight.
    pub fn most_bytes(mut self, bytes: usize) -> Self {
        self.options.most_bytes = bytes.max(1);
        self
    }

    /// Starts the task of the cache and returns immediately. [`loaded`](CuratorCache::loaded) waits
    /// for the first load, and reports an invalid path.
    pub fn start(self) -> CuratorCache {
        let Self { zk, root, scope, options } = self;
        let stop = CancellationToken::new();
        let health = HealthReporter::default();
        let state = TreeState::new(root, scope, options.most_bytes);
        let shared =
            Arc::new(CacheShared::new(zk.clone(), state, &options, stop.clone(), health.watch()));
        let ending = Arc::clone(&shared);
        let task = CacheDriver::new(Arc::clone(&shared), options, health).run();
        // This runs even if the runtime is shut down, or a filter of the user panics.
        zk.spawn_then(task, move |end| {
            let why = end.err().map(|why| why.of_operation("cache", ending.root.as_str()));
            ending.end(why);
        });
        CuratorCache { shared, alive: Alive::new(stop) }
    }
}

impl fmt::Debug for CacheBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CacheBuilder")
            .field("root", &self.root)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
