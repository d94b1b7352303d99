use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use zk_curator::Stat;

/// A node as it was read last.
#[doc(alias = "ChildData")]
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CachedNode {
    /// The path, within the namespace.
    pub path: Box<str>,
    /// The data; empty with [`without_data`](super::CacheBuilder::without_data).
    pub data: Bytes,
    /// The stat of the same read. A watch does not report later changes of `num_children`, `cversion`, `pzxid` and
    /// `aversion`: use [`children_of`](super::CuratorCache::children_of).
    pub stat: Stat,
}

impl CachedNode {
    /// The last component of the path; empty for the root of ZooKeeper.
    #[must_use]
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }

    /// Whether it is the same node with the same data.
    pub(super) const fn is_same(&self, other: &Self) -> bool {
        self.stat.czxid == other.stat.czxid && self.stat.mzxid == other.stat.mzxid
    }
}

impl fmt::Debug for CachedNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CachedNode")
            .field("path", &self.path)
            .field("data", &self.data)
            .field("czxid", &self.stat.czxid)
            .field("mzxid", &self.stat.mzxid)
            .finish_non_exhaustive()
    }
}

/// The answer of a cache for one path.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "there is no fourth answer")]
pub enum Lookup<T = Arc<CachedNode>> {
    /// The node exists.
    Present(T),
    /// The node does not exist.
    Absent,
    /// The cache cannot tell: the path is not loaded yet, could not be read, or is not covered by the cache.
    Unknown,
}

impl<T> Lookup<T> {
    /// The node, if it is present.
    pub fn present(self) -> Option<T> {
        match self {
            Self::Present(node) => Some(node),
            Self::Absent | Self::Unknown => None,
        }
    }

    /// Whether the node exists for certain.
    pub const fn is_present(&self) -> bool {
        matches!(self, Self::Present(_))
    }

    /// Whether the node does not exist for certain.
    pub const fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }

    /// Maps the node.
    pub fn map<U>(self, map: impl FnOnce(T) -> U) -> Lookup<U> {
        match self {
            Self::Present(node) => Lookup::Present(map(node)),
            Self::Absent => Lookup::Absent,
            Self::Unknown => Lookup::Unknown,
        }
    }
}
