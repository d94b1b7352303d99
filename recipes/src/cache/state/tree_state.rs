//! The state of a cache: the known nodes, and the nodes to read. Pure: events and responses in,
//! reads and changes out.
//!
//! # Rules
//! 1. The watch is armed before the first read, so a change after a read is reported.
//! 2. A node that was created or changed is read, unless the event is not newer than the known
//!    state.
//! 3. A deletion removes the node and everything below it. Otherwise only a read removes a node: if
//!    a list lacks a child, that child is read.
//! 4. At most one read of each kind is in flight for a path. A change during the read requires
//!    another one.
//! 5. A response is not applied if it may be older than a deletion that was reported during the
//!    read. An absence is not applied if another read was requested in between. If a list finds no
//!    node, its data are read.
//! 6. A node with another `czxid` is another node: the children of the earlier one no longer exist.
//! 7. The children of a new node are reported, so it is not listed, except after an outage until
//!    everything was read again.

use std::collections::{BTreeMap, VecDeque};
use std::ops::RangeInclusive;
use std::sync::Arc;

use zk_curator::{ErrorKind, EventType, WatchedEvent};

use super::need::Cause;
use super::node::CachedNode;
use super::pace::ReadPace;
use super::reads::ReadsInFlight;
use super::route::Tour;
use super::scope::CacheScope;
use super::tree::CacheTree;
use super::unreadable::UnreadablePaths;

/// The maximum number of places that are visited under one lock.
const AT_A_TIME: usize = 1_000;
/// The size of all data, in bytes, above which the server compares; with many nodes, the size of
/// each.
const LARGE: usize = 64 * 1024 * 1024;
const MANY: usize = 5_000;
const LARGE_MEAN: usize = 1_024;

/// A node whose state has changed, and its last state; `None` for a node that was absent, or
/// unreadable.
pub(crate) type TreeChange = (Box<str>, Option<Arc<CachedNode>>);

/// The reads that are left.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadsLeft {
    /// The contents show everything that was reported before the checkpoints up to this number.
    pub(crate) reached: u64,
    /// `true` if every reported change has been read.
    pub(crate) is_settled: bool,
    /// `true` if a read that a caller has requested is not in flight yet.
    pub(crate) is_refreshing: bool,
    /// `true` if the server refuses reads that are needed.
    pub(crate) is_refused: bool,
}

/// The state of a cache.
#[derive(Debug)]
pub(crate) struct TreeState {
    pub(crate) tree: CacheTree,
    pub(super) scope: CacheScope,
    pub(crate) reads: ReadsInFlight,
    pub(super) pace: ReadPace,
    /// Everything that must still be requested.
    pub(crate) tours: VecDeque<Tour>,
    /// The maximum number of places that are visited under one lock.
    pub(crate) at_a_time: usize,
    /// `true` if changes may have been missed, and not all reads for them are requested.
    pub(crate) has_missed: bool,
    /// The transaction of the last event.
    pub(super) last_event: i64,
    /// The transactions whose events may have arrived only in part: from the last one before the
    /// first possible miss since everything was read, to the last one before the latest possible
    /// miss.
    pub(super) split: RangeInclusive<i64>,
    pub(super) unreadable: UnreadablePaths,
    /// `true` if every node has watches of its own, which the reads set.
    pub(super) watches_each: bool,
    /// The number and the size of the nodes that were read.
    pub(super) seen: (usize, usize),
}

impl TreeState {
    /// Returns the state before the load. It reads at most `most_bytes` bytes at a time.
    pub(crate) fn new(root: String, scope: CacheScope, most_bytes: usize) -> Self {
        Self {
            tree: CacheTree::new(root),
            scope,
            reads: ReadsInFlight::default(),
            pace: ReadPace::new(most_bytes),
            tours: VecDeque::new(),
            at_a_time: AT_A_TIME,
            has_missed: false,
            last_event: 0,
            split: 0..=0,
            unreadable: UnreadablePaths::default(),
            watches_each: false,
            seen: (0, 0),
        }
    }

    pub(crate) const fn tree(&self) -> &CacheTree {
        &self.tree
    }

    /// Returns the paths that could not be read.
    pub(crate) const fn unreadable(&self) -> &BTreeMap<Box<str>, ErrorKind> {
        self.unreadable.kinds()
    }

    /// Returns `true` if some of them must be read again.
    pub(crate) const fn has_passing(&self) -> bool {
        self.unreadable.has_passing()
    }

    /// Requests reads of these.
    pub(crate) fn retry_passing(&mut self) {
        for path in self.unreadable.passing() {
            self.reads.want_data(&path, ReadsInFlight::audit());
        }
    }

    /// Returns the reason why the server refuses reads that are needed, if it does.
    pub(crate) fn refusal(&mut self) -> Option<ErrorKind> {
        self.reads.refusal()
    }

    /// From now on every node has watches of its own, which the reads set.
    pub(crate) const fn watch_each(&mut self) {
        self.watches_each = true;
    }

    /// Returns `true` if every reported change has been read.
    pub(crate) fn is_settled(&self) -> bool {
        self.reads.are_done() && !self.is_sweeping()
    }

    /// Begins a checkpoint. The contents [reach](ReadsLeft::reached) it when all reads that are
    /// needed now are done.
    pub(crate) const fn checkpoint(&mut self) -> u64 {
        self.reads.checkpoint()
    }

    /// Returns the progress of the pending reads, for the checkpoints.
    pub(crate) fn progress(&mut self) -> ReadsLeft {
        ReadsLeft {
            reached: if self.is_sweeping() { 0 } else { self.reads.reached() },
            is_settled: self.is_settled(),
            is_refreshing: self.is_refreshing(),
            is_refused: self.refusal().is_some(),
        }
    }

    /// Notes that changes may have been missed, so a sweep must follow.
    pub(crate) fn missed(&mut self) {
        let is_first = !self.has_missed && self.is_settled();
        let first = if is_first { self.last_event } else { *self.split.start() };
        self.split = first..=self.last_event;
        self.has_missed = true;
        self.tours.clear();
    }

    /// Requests reads of nodes that have changed without an event, and of nodes that could not be
    /// read.
    pub(crate) fn doubt<'a>(&mut self, changed: impl IntoIterator<Item = &'a str>) {
        self.has_missed = false;
        let cause = self.reads.news().sweeping();
        self.reads.want_sent_again(cause);
        for path in changed {
            if self.covers(path) && self.tree.entry(path).is_some() {
                self.reads.want_data(path, cause);
            }
        }
        for path in self.unreadable.kinds().keys() {
            self.reads.want_data(path, cause);
        }
    }

    /// The paths whose data a server compares for a [`doubt`](Self::doubt), and those whose
    /// children it compares: a node without children may have some now. At most `count`, from the
    /// one after `last` on.
    pub(crate) fn compared_paths(
        &self,
        last: Option<&str>,
        most: usize,
    ) -> (Vec<String>, Vec<String>) {
        let places = self.tree.places_after(self.tree.root(), last, most);
        let may_have_children = |path: &&String| {
            self.lists(path)
                && self.tree.node(path).is_none_or(|node| node.stat.ephemeral_owner == 0)
        };
        let children = places.iter().filter(may_have_children).cloned().collect();
        (places, children)
    }

    /// Returns `true` if a comparison is cheaper than reading everything.
    pub(crate) fn is_large(&self) -> bool {
        let nodes = self.tree.len();
        let mean = self.seen.1.checked_div(self.seen.0).unwrap_or(0);
        mean.saturating_mul(nodes) > LARGE || (nodes > MANY && mean > LARGE_MEAN)
    }

    /// The cause of the present findings.
    pub(crate) const fn news(&self) -> Cause {
        self.reads.news()
    }

    /// Processes a fired watch. It has not fired before this cause.
    pub(crate) fn event(
        &mut self,
        event: &WatchedEvent,
        cause: Cause,
        changes: &mut Vec<TreeChange>,
    ) {
        let (path, zxid) = (event.path.as_str(), event.zxid());
        // A lagging server reports some of them again.
        self.last_event = self.last_event.max(zxid.unwrap_or(0));
        if !self.covers(path) {
            return;
        }
        match event.event_type {
            EventType::NodeCreated | EventType::NodeDataChanged => {
                let known = self.tree.node(path);
                // The state that was read is at least as new, so our own write, or an overlap, is
                // not read twice.
                if known.is_some_and(|known| zxid.is_some_and(|zxid| zxid <= known.stat.mzxid)) {
                    return;
                }
                // Events report all children only for a node that was created in between.
                let sweeps = event.event_type == EventType::NodeDataChanged
                    && known.is_none()
                    && !self.reads.contains(path);
                self.want_parents(path, cause);
                if self.tree.make(path).is_some() {
                    self.reads.want_data(path, if sweeps { cause.sweeping() } else { cause });
                    self.reads.changed(path, zxid);
                }
            }
            EventType::NodeDeleted => {
                self.remove(path, changes);
                self.note_child(path, zxid);
                self.reads.deleted(path, zxid, cause);
            }
            EventType::NodeChildrenChanged if self.lists(path) => {
                self.reads.want_names(path, cause);
            }
            _ => {}
        }
    }
}
