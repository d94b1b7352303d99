use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use zk_curator::CuratorFramework;

use super::driver::Driver;
use super::handle::CuratorCache;
use super::options::{Options, ServerDiff};
use super::shared::{Alive, Shared};
use super::tree_state::{Scope, TreeState};
use crate::health::HealthReporter;

impl CuratorCache {
    /// A cache of a node and everything below it. The node need not exist.
    pub fn tree(zk: &CuratorFramework, path: impl Into<String>) -> CacheBuilder {
        CacheBuilder::new(zk, path.into(), None)
    }

    /// A cache of a node and its children.
    pub fn children(zk: &CuratorFramework, path: impl Into<String>) -> CacheBuilder {
        CacheBuilder::new(zk, path.into(), Some(1))
    }

    /// A cache of one node.
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
    scope: Scope,
    options: Options,
}

impl CacheBuilder {
    pub(super) fn new(zk: &CuratorFramework, root: String, max_depth: Option<usize>) -> Self {
        let options = Options {
            keeps_data: true,
            decompressed: None,
            spread: None,
            server_diff: ServerDiff::default(),
            audit_every: None,
            parallel: 4,
        };
        Self { zk: zk.clone(), root, scope: Scope { max_depth, filter: None }, options }
    }

    /// The number of levels below the root; 0 for the root alone. Default: that of the constructor.
    pub const fn max_depth(mut self, levels: usize) -> Self {
        self.scope.max_depth = Some(levels);
        self
    }

    /// Covers only the nodes below the root for whose path the filter returns `true`, and of these only the ones whose parents
    /// pass it too. The others are neither read nor stored. Default: all.
    ///
    /// The filter must always give the same answer for a path. It is called often, and under a lock: it must not block nor use
    /// the cache.
    #[doc(alias = "TreeCacheSelector")]
    pub fn filter(mut self, filter: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        self.scope.filter = Some(Arc::new(filter));
        self
    }

    /// Stores no data, only stats. The data are transferred all the same: ZooKeeper has no request for many stats. Default:
    /// stores data.
    pub const fn without_data(mut self) -> Self {
        self.options.keeps_data = false;
        self
    }

    /// Decompresses the data; a node whose data cannot be decompressed is [unreadable](CuratorCache::unreadable). Default: as
    /// the [framework](zk_curator::CuratorFrameworkBuilder::enable_compression) does.
    pub const fn decompressed(mut self) -> Self {
        self.options.decompressed = Some(true);
        self
    }

    /// Stores the data as the server has them, also where the framework decompresses.
    #[doc(alias = "DO_NOT_DECOMPRESS")]
    pub const fn undecompressed(mut self) -> Self {
        self.options.decompressed = Some(false);
        self
    }

    /// The longest pause before a resync, of which each takes a random part: so the caches of many clients do not read all at
    /// once after an election. A call of [`synced`](CuratorCache::synced) ends the pause. Default: 20 microseconds a node, 2
    /// seconds at most.
    pub const fn resync_spread(mut self, most: Duration) -> Self {
        self.options.spread = Some(most);
        self
    }

    /// Whether the server computes which nodes have changed during an outage, over a session of its own that is closed
    /// afterwards. That sends every path once, but only the data of changed nodes. Default: [`ServerDiff::Auto`].
    pub const fn server_diff(mut self, when: ServerDiff) -> Self {
        self.options.server_diff = when;
        self
    }

    /// Reads everything again from time to time: for trees whose ACLs change, because a server does not report changes of nodes
    /// that the client may not read at that moment. From 1 second. Default: never.
    pub fn audit_every(mut self, period: Duration) -> Self {
        self.options.audit_every = Some(period.max(Duration::from_secs(1)));
        self
    }

    /// The number of requests under way during a load or a resync, from 1: zero counts as 1. Default: 4.
    pub fn parallel(mut self, requests: usize) -> Self {
        self.options.parallel = requests.max(1);
        self
    }

    /// Starts the task of the cache and returns at once: [`loaded`](CuratorCache::loaded) waits for the first load. A path that
    /// is not valid is told there.
    pub fn start(self) -> CuratorCache {
        let Self { zk, root, scope, options } = self;
        let stop = CancellationToken::new();
        let (sender, commands) = mpsc::unbounded_channel();
        let health = HealthReporter::default();
        let state = TreeState::new(root, scope);
        let shared = Shared::new(zk.clone(), state, stop.clone(), sender, health.watch());
        let shared = Arc::new(shared);
        zk.spawn(Driver::new(Arc::clone(&shared), options, commands, health).run());
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
