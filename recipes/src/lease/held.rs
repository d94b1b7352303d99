use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;
use zk_curator::internal::suspended;
use zk_curator::{CuratorFramework, FencingToken};

use crate::path::child;

/// kazoo's name of the node with the data of a lease.
pub(super) const HOLDER: &str = "lease_holder";

/// The beginning of the name of the node that tells a lease from another one at its path. A GUID
/// follows.
///
/// Versions cannot: those of a lease that was deleted and taken again may be the same. No two of
/// these nodes have the same name, and a node cannot be deleted before its children.
pub(super) const IDENTITY: &str = "_i_";

/// A lease that is held, as it was written last.
#[derive(Debug)]
pub(super) struct HeldLease {
    pub(super) path: String,
    /// The path of its [identity](IDENTITY).
    pub(super) identity: String,
    /// The data of the parent, which every change writes back.
    pub(super) data: Bytes,
    pub(super) version: i32,
    pub(super) holder_version: i32,
    /// The ends of renewals whose outcome is not known.
    pub(super) unknown: Vec<i64>,
    /// The number of its [take](super::takes::Takes).
    pub(super) number: u64,
    pub(super) token: FencingToken,
    /// In seconds since the Unix epoch, by the leader's clock.
    pub(super) end: i64,
    /// Without the takes after it.
    pub(super) deadline: LeaseDeadline,
}

impl HeldLease {
    pub(super) fn holder(&self) -> String {
        child(&self.path, HOLDER)
    }
}

/// The end of a lease by the clock of this process.
#[derive(Debug, Clone, Copy)]
pub(super) struct LeaseDeadline {
    pub(super) since: Instant,
    /// The time for which the machine had been suspended before.
    pub(super) suspended: Duration,
    pub(super) lasts: Duration,
}

impl LeaseDeadline {
    pub(super) fn left(&self, zk: &CuratorFramework) -> Duration {
        let suspended = suspended(zk).unwrap_or(self.suspended).saturating_sub(self.suspended);
        self.lasts.saturating_sub(self.since.elapsed().saturating_add(suspended))
    }

    /// A deadline that has passed.
    pub(super) fn over() -> Self {
        Self { since: Instant::now(), suspended: Duration::ZERO, lasts: Duration::ZERO }
    }

    pub(super) fn earlier(self, other: Self, zk: &CuratorFramework) -> Self {
        if other.left(zk) < self.left(zk) { other } else { self }
    }

    pub(super) fn is_over(&self, zk: &CuratorFramework) -> bool {
        self.left(zk).is_zero()
    }
}
