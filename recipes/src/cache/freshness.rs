use tokio::time::Instant;
use zk_curator::ErrorKind;

/// How far the contents of a cache can be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Freshness {
    /// The first load is not complete: a node that is not in the cache may exist.
    Loading,
    /// The cache follows every change: what it shows is not older than `zxid`, and what was reported since is being read.
    ///
    /// A connection that is cut is found out after two thirds of the session timeout at the latest. Until then the cache is
    /// fresh as far as it knows: use [`synced`](super::CuratorCache::synced) where that is not enough.
    Fresh {
        /// The contents are not older than this transaction.
        zxid: i64,
    },
    /// Changes may have been missed. The contents are those of the time before.
    Stale {
        /// Since when.
        since: Instant,
        /// The contents are not older than this transaction.
        zxid: i64,
        /// Why.
        cause: StaleCause,
    },
}

/// Why a cache is stale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StaleCause {
    /// The connection is lost. The cache catches up after the reconnect.
    Suspended,
    /// The session is over. The cache catches up in the next session.
    SessionLost,
    /// The watch was removed by [`remove_watches`](zk_curator::CuratorFramework::remove_watches).
    WatchRemoved,
    /// An error that does not pass by itself; the cache tries again.
    Failed(ErrorKind),
    /// The cache or the framework is closed.
    Closed,
}

impl Freshness {
    /// Whether the cache is fresh.
    #[must_use]
    pub const fn is_fresh(self) -> bool {
        matches!(self, Self::Fresh { .. })
    }

    /// The transaction that the contents are not older than; `None` during the first load.
    #[must_use]
    pub const fn zxid(self) -> Option<i64> {
        match self {
            Self::Loading => None,
            Self::Fresh { zxid } | Self::Stale { zxid, .. } => Some(zxid),
        }
    }

    /// Whether it is the same but for the transaction.
    pub(super) fn is_alike(self, other: Self) -> bool {
        match (self, other) {
            (Self::Stale { cause, .. }, Self::Stale { cause: other, .. }) => cause == other,
            (Self::Loading, Self::Loading) | (Self::Fresh { .. }, Self::Fresh { .. }) => true,
            _ => false,
        }
    }
}
