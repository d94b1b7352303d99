use tokio::time::Instant;
use zk_curator::ErrorKind;

/// The freshness of the contents of a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Freshness {
    /// The first load is not complete: a node that is not in the cache may exist.
    Loading,
    /// The cache follows every change: its contents are not older than `zxid`, and later reported
    /// changes are being read.
    ///
    /// The client notices a cut connection after two thirds of the session timeout at the latest.
    /// Until then the cache counts as fresh: use [`synced`](crate::cache::CuratorCache::synced)
    /// where this is not sufficient.
    Fresh {
        /// The contents are not older than this transaction.
        zxid: i64,
        /// The number of exceptions: nodes that cannot be read. See
        /// [`unreadable`](crate::cache::CuratorCache::unreadable).
        unreadable: usize,
    },
    /// Changes may have been missed. The contents are from the time before.
    Stale {
        /// The time at which the cache became stale.
        since: Instant,
        /// The contents are not older than this transaction.
        zxid: i64,
        /// The reason.
        cause: StaleCause,
    },
}

/// The reason why a cache is stale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StaleCause {
    /// The connection is lost. The cache catches up after the reconnect.
    Suspended,
    /// The session is over. The cache catches up in the next session.
    SessionLost,
    /// The watch was removed by [`remove_watches`](zk_curator::CuratorFramework::remove_watches).
    WatchRemoved,
    /// A permanent error; the cache still retries.
    Failed(ErrorKind),
    /// The server refuses to read a changed node for a reason that does not concern the node, such
    /// as overload. The cache retries after 100 milliseconds, and then with longer pauses of up to
    /// 3 seconds.
    Refused(ErrorKind),
    /// The cache or the framework is closed.
    Closed,
}

impl Freshness {
    /// Returns `true` if the cache is fresh and every node can be read.
    #[must_use]
    pub const fn is_complete(self) -> bool {
        matches!(self, Self::Fresh { unreadable: 0, .. })
    }

    /// Returns `true` if the cache is fresh. Nodes that cannot be read do not count.
    #[must_use]
    pub const fn is_fresh(self) -> bool {
        matches!(self, Self::Fresh { .. })
    }

    /// Returns a transaction that the contents are not older than; `None` during the first load.
    #[must_use]
    pub const fn zxid(self) -> Option<i64> {
        match self {
            Self::Loading => None,
            Self::Fresh { zxid, .. } | Self::Stale { zxid, .. } => Some(zxid),
        }
    }

    /// Returns `true` if they differ at most in the transaction.
    pub(crate) fn is_alike(self, other: Self) -> bool {
        match (self, other) {
            (Self::Stale { cause, .. }, Self::Stale { cause: other, .. }) => cause == other,
            (Self::Fresh { unreadable, .. }, Self::Fresh { unreadable: other, .. }) => {
                unreadable == other
            }
            (Self::Loading, Self::Loading) => true,
            _ => false,
        }
    }
}
