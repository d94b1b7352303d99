use std::time::Duration;

use zk_curator::Stat;

use super::buckets::{BucketChildren, BucketDeletion};

/// The options of a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ListingOptions {
    /// `true` if the caller is going to wait for changes.
    pub(crate) is_watched: bool,
    /// `true` if each listed name still belongs to the same node, or to none, when an item is
    /// taken.
    pub(crate) is_guarded: bool,
    /// The number of free items after which no more buckets are listed.
    pub(crate) enough: usize,
}

/// The part of the parent's stat that shows new items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ParentStat {
    pub(crate) czxid: i64,
    pub(crate) cversion: i32,
    pub(crate) children: i32,
}

impl From<&Stat> for ParentStat {
    fn from(stat: &Stat) -> Self {
        Self { czxid: stat.czxid, cversion: stat.cversion, children: stat.num_children }
    }
}

impl ParentStat {
    /// Returns the number of children that were created since an earlier read: the child version
    /// counts creates and deletes.
    pub(in crate::queue) const fn created_since(self, before: Self) -> i32 {
        let changes = self.cversion.wrapping_sub(before.cversion);
        let growth = self.children.wrapping_sub(before.children);
        changes.wrapping_add(growth) / 2
    }
}

/// A report of a driver.
#[derive(Debug)]
pub(crate) enum FeedInput {
    /// A caller wants to know the items.
    List(ListingOptions),
    /// The children of the parent; `None` if it does not exist.
    Parent(Option<(Vec<String>, ParentStat)>),
    /// `true` if the parent, which is watched now, exists.
    ParentExists(bool),
    /// The children of the buckets, in the order of the request.
    Buckets(Vec<(String, BucketChildren)>),
    /// The outcomes of the deletions of buckets.
    Deleted(Vec<(String, BucketDeletion)>),
    /// `true` if our node is among the items now.
    Guarded(bool),
    /// A caller wants to wait for changes.
    Wait,
    /// The versions of nodes that are watched from now on; `None` for nodes that do not exist.
    BlockedOn(Vec<(u64, Option<i32>)>),
    /// `true` for each node that exists.
    AreThere(Vec<bool>),
    /// Nothing has happened during the requested time.
    Quiet,
    /// A watch has fired, or an item is due.
    Woken,
}

/// The next step of a driver, which it reports.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FeedEffect {
    /// Lists the children of the parent.
    ListParent { is_watched: bool },
    /// Watches for the parent to be created.
    WatchParent,
    /// Lists these buckets, in one round trip.
    ListBuckets { names: Vec<String>, is_watched: bool },
    /// Deletes these buckets at these versions.
    DeleteBuckets(Vec<(String, i32)>),
    /// Creates our node among the items.
    CreateGuard,
    /// Watches these nodes, in one round trip.
    WatchBlocked(Vec<(u64, String)>),
    /// Checks whether these nodes exist, in one round trip.
    LookAt(Vec<String>),
    /// Waits for an event, or until an item is due, at most for this time.
    Wait { quiet: Option<Duration> },
    /// Returns to the caller.
    Done,
}

/// A node that is watched.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FeedWatchKey {
    Parent,
    Bucket(String),
    /// The node behind which an item is blocked, by its number.
    Blocked(u64),
}
