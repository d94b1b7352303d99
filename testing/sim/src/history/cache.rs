//! Events of caches.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::name::Name;

/// A state of a node, as a cache shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(
    clippy::exhaustive_structs,
    reason = "the identity of a state and its data: there is no more"
)]
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

/// Nodes and their states; `None` for an absent node. The state of all other nodes is unknown.
pub type Nodes = Vec<(Name, Option<NodeState>)>;

/// An event of a cache, or of the nodes that it shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Cache {
    /// An event of a cache.
    Step {
        /// The number of the cache, unique in the history.
        cache: u64,
        /// The event.
        step: CacheStep,
    },
    /// A response has shown that a transaction is committed.
    Committed {
        /// The transaction.
        zxid: i64,
    },
    /// A write has succeeded.
    Wrote {
        /// The node.
        path: Name,
        /// The state of the node after this write.
        node: NodeState,
    },
    /// A transaction of the servers has changed a node. Recorded at the end of the run, in the
    /// order of the transactions.
    Applied {
        /// The transaction.
        zxid: i64,
        /// The node.
        path: Name,
        /// The transaction that created the node; `None` if it was deleted.
        czxid: Option<i64>,
    },
}

names! { Cache:
    Step "cache", Committed "committed", Wrote "wrote", Applied "applied",
}

impl fmt::Display for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Step { cache, step } => write!(f, "cache {cache} {step}"),
            Self::Committed { zxid } => write!(f, "knows that {zxid:#x} is committed"),
            Self::Wrote { path, node } => write!(f, "has written {path}: {node}"),
            Self::Applied { zxid, path, czxid: None } => write!(f, "{zxid:#x} deleted {path}"),
            Self::Applied { zxid, path, czxid: Some(czxid) } if czxid == zxid => {
                write!(f, "{zxid:#x} created {path}")
            }
            Self::Applied { zxid, path, czxid: Some(czxid) } => {
                write!(f, "{zxid:#x} set the data of {path}, {czxid:#x}")
            }
        }
    }
}

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
        /// The number of the call, unique in the history.
        call: u64,
    },
    /// A client has read the contents.
    Looked {
        /// The promise that the cache makes about the contents.
        look: Look,
        /// The contents.
        nodes: Nodes,
    },
    /// A subscriber was notified of an event.
    Told {
        /// The number of the subscriber, unique in the history.
        subscriber: u64,
        /// The event.
        news: News,
    },
}

/// The promise that a cache makes about its contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Look {
    /// No promise: the cache is loading.
    Loading,
    /// The contents are up to date, as far as the cache knows, and not older than this transaction.
    Fresh(i64),
    /// The contents are not older than this transaction.
    Stale(i64),
    /// As [`Fresh`](Self::Fresh), at the end of a wait for everything that was committed.
    Synced {
        /// The number of the call, unique in the history.
        call: u64,
        /// The transaction that the contents are at least as new as.
        zxid: i64,
    },
    /// A wait for this transaction has ended.
    Reflects(i64),
    /// The contents are those of the servers directly after this transaction.
    Exact(i64),
    /// The subscriber with this number has received all events.
    Drained(u64),
}

/// An event that a subscriber of a cache receives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum News {
    /// The contents at the beginning.
    Loaded(Nodes),
    /// A node was created.
    Created(Name, NodeState),
    /// The data of a node were set: the last notified state, and the present one.
    Changed(Name, NodeState, NodeState),
    /// A node was replaced by another one: the last notified state, and the present one.
    Replaced(Name, NodeState, NodeState),
    /// A node was deleted: the last notified state.
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
            Self::Syncing { call } => write!(f, "begins to catch up, @{call}"),
            Self::Looked { look, nodes } => write!(f, "{look}: {}", Listed(nodes)),
            Self::Told { subscriber, news } => write!(f, "notifies ~{subscriber}: {news}"),
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
            Self::Drained(subscriber) => write!(f, "has sent ~{subscriber} all events"),
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

/// Nodes in one line, without the absent ones.
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
