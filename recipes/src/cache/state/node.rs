use std::any::Any;
use std::error::Error;
use std::fmt;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use zk_curator::Stat;
use zk_curator::internal::unless_it_panics;
use zk_curator::value::{Failure, FromData};

/// A node in the state of its last read.
#[doc(alias = "ChildData")]
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CachedNode {
    /// The path, within the namespace.
    pub path: Box<str>,
    /// The data; empty with [`without_data`](crate::cache::CacheBuilder::without_data).
    pub data: Bytes,
    /// The stat of the same read. Watches do not report later changes of `num_children`,
    /// `cversion`, `pzxid` and `aversion`: use
    /// [`children_of`](crate::cache::CuratorCache::children_of).
    pub stat: Stat,
    /// `true` if users see it; `false` if it exists only for the nodes below it.
    pub(crate) is_kept: bool,
    decoded: Decoded,
}

/// The value of the data, once it was decoded. It does not count in comparisons, because it follows
/// from the data.
#[derive(Default)]
struct Decoded(OnceLock<Arc<dyn Any + Send + Sync>>);

impl Clone for Decoded {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl PartialEq for Decoded {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

impl Eq for Decoded {}

/// The reason why data whose decoding has panicked have no value.
fn panicked() -> Failure {
    let why: Box<dyn Error + Send + Sync> = "its `FromData` panicked".into();
    Failure::from(why)
}

impl CachedNode {
    pub(crate) fn new(path: &str, data: Bytes, stat: Stat) -> Self {
        Self { path: path.into(), data, stat, is_kept: true, decoded: Decoded::default() }
    }

    /// Returns the last component of the path; empty for the root of ZooKeeper.
    #[must_use]
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }

    /// Returns the value of the data, which is decoded once for the first type that is asked for.
    pub(crate) fn decoded<T>(&self) -> Result<Arc<T>, Failure>
    where
        T: FromData + Send + Sync + 'static,
    {
        let decode = || {
            // A reader of many nodes must not end with one of them.
            let decoded = unless_it_panics(|| T::from_data(&self.data));
            decoded.unwrap_or_else(|| Err(panicked())).map(Arc::new)
        };
        let slot = self.decoded.0.get_or_init(|| Arc::new(decode()));
        slot.downcast_ref::<Result<Arc<T>, Failure>>().cloned().unwrap_or_else(decode)
    }

    /// Returns `true` if it is the same node with the same data.
    pub(crate) const fn is_same(&self, other: &Self) -> bool {
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

/// The response of a cache for one path.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "there is no fourth answer")]
pub enum Lookup<T = Arc<CachedNode>> {
    /// The node exists.
    Present(T),
    /// The node does not exist.
    Absent,
    /// The cache does not know: the path is not loaded yet, could not be read, or is not covered by
    /// the cache.
    Unknown,
}

impl<T> Lookup<T> {
    /// Returns the node, if it is present.
    pub fn present(self) -> Option<T> {
        match self {
            Self::Present(node) => Some(node),
            Self::Absent | Self::Unknown => None,
        }
    }

    /// Returns `true` if the node exists for certain.
    pub const fn is_present(&self) -> bool {
        matches!(self, Self::Present(_))
    }

    /// Returns `true` if the node does not exist for certain.
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
