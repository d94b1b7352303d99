//! Kinds of watches.

use std::fmt;

/// The duration and scope of a watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WatchMode {
    /// Fires once.
    OneShot,
    /// Fires until it is removed.
    Persistent,
    /// Fires until it is removed, for the node and everything below it.
    Recursive,
}

/// The kind of a watch in a [`crate::Probe`].
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum WatchKind {
    /// One-shot, set by `exists` or `getData`.
    Data,
    /// One-shot, set by `getChildren`.
    Child,
    /// Persistent.
    Persistent,
    /// Persistent, for the node and everything below it.
    PersistentRecursive,
}

impl fmt::Display for WatchKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Data => "data",
            Self::Child => "child",
            Self::Persistent => "persistent",
            Self::PersistentRecursive => "persistent recursive",
        })
    }
}
