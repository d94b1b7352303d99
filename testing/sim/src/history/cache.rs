//! Events of caches.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Name;

/// A state of a node, as a cache shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "the identity of a state and its data: there is no more")]
pub struct NodeState {
    /// The transaction that created the node.
    pub czxid: i64,
    /// The transaction that last changed its data.
    pub mzxid: i64,
    /// The data.
    pub data: Name,
}

impl fmt::Display for NodeState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.czxid)?;
        if self.mzxid != self.czxid {
            write!(f, "/{:#x}", self.mzxid)?;
        }
        write!(f, " {:?}", self.data)
    }
}

/// Nodes and their states; `None` for a node that is absent. Other nodes are unknown.
pub type Nodes = Vec<(Name, Option<NodeState>)>;

/// An event of one cache.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum CacheStep {
    /// The cache was started.
    Began {
        /// The patterns of the paths that it covers.
        covers: Vec<Name>,
    },
    /// A client begins to wait until the cache shows everything that is committed.
    Syncing {
        /// Unique in the history.
        call: u64,
    },
    /// A client has looked at the contents.
    Looked {
        /// The promise that the contents are given with.
        look: Look,
        /// The contents.
        nodes: Nodes,
    },
    /// A subscriber was told something.
    Told {
        /// Unique in the history.
        subscriber: u64,
        /// The event.
        news: News,
    },
}

/// The promise that contents of a cache are given with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Look {
    /// None: the cache is loading.
    Loading,
    /// They are up to date, as far as the cache knows, and not older than this transaction.
    Fresh(i64),
    /// They are not older than this transaction.
    Stale(i64),
    /// As [`Fresh`](Self::Fresh), at the end of a wait for everything that was committed.
    Synced {
        /// Unique in the history.
        call: u64,
        /// The transaction that they are not older than.
        zxid: i64,
    },
    /// A wait for this transaction has ended.
    Reflects(i64),
    /// They are those of the servers after this transaction.
    Exact(i64),
    /// The subscriber with this number has been told everything.
    Drained(u64),
}

/// An event that a cache has told a subscriber.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum News {
    /// The contents at the begin.
    Loaded(Nodes),
    /// A node was created.
    Created(Name, NodeState),
    /// The data of a node were set: the state that was told last, and the present one.
    Changed(Name, NodeState, NodeState),
    /// A node was replaced by another one: the state that was told last, and the present one.
    Replaced(Name, NodeState, NodeState),
    /// A node was deleted: the state that was told last.
    Deleted(Name, NodeState),
    /// The contents may be stale.
    Stale,
    /// The contents are up to date again, and not older than this transaction.
    Fresh(i64),
}

impl fmt::Display for CacheStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Began { covers } => write!(f, "covers {}", covers.join(", ")),
            Self::Syncing { call } => write!(f, "is to catch up, @{call}"),
            Self::Looked { look, nodes } => write!(f, "{look}: {}", Listed(nodes)),
            Self::Told { subscriber, news } => write!(f, "tells ~{subscriber}: {news}"),
        }
    }
}

impl fmt::Display for Look {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Loading => f.write_str("loading"),
            Self::Fresh(zxid) => write!(f, "fresh at {zxid:#x}"),
            Self::Stale(zxid) => write!(f, "stale since {zxid:#x}"),
            Self::Synced { call, zxid } => write!(f, "has caught up with {zxid:#x}, @{call}"),
            Self::Reflects(zxid) => write!(f, "reflects {zxid:#x}"),
            Self::Exact(zxid) => write!(f, "exactly at {zxid:#x}"),
            Self::Drained(subscriber) => write!(f, "has told ~{subscriber} everything"),
        }
    }
}

impl fmt::Display for News {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Loaded(nodes) => write!(f, "loaded: {}", Listed(nodes)),
            Self::Created(path, node) => write!(f, "{path} created: {node}"),
            Self::Changed(path, old, new) => write!(f, "{path} changed: {old} to {new}"),
            Self::Replaced(path, old, new) => write!(f, "{path} replaced: {old} by {new}"),
            Self::Deleted(path, old) => write!(f, "{path} deleted: {old}"),
            Self::Stale => f.write_str("stale"),
            Self::Fresh(zxid) => write!(f, "fresh at {zxid:#x}"),
        }
    }
}

/// Nodes in one line; those that are absent are left out.
struct Listed<'a>(&'a Nodes);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (path, node) in self.0 {
            if let Some(node) = node {
                write!(f, "{separator}{path} {node}")?;
                separator = ", ";
            }
        }
        Ok(())
    }
}
