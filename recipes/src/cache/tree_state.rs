//! The state of a cache: which nodes are known, and which have to be read. Pure: events and answers in, reads and
//! changes out.
//!
//! # Rules
//! 1. The watch is armed before the first read, so a change after a read is reported.
//! 2. A node that was created or changed is read, unless the event is not newer than the known state.
//! 3. A deletion removes the node and everything below it. Otherwise only a read removes a node: a list that lacks a
//!    child asks for a read of that child.
//! 4. At most one read of a kind is under way for each path. A change during the read asks for another one.
//! 5. An answer is not applied if it may be older than a deletion that was reported during the read; nor is an absence, if another
//!    read was asked for meanwhile. A list that finds no node asks for a read of its data.
//! 6. A node with another `czxid` is another node: the children of the earlier one are gone.
//! 7. The children of a new node are reported, so it is not listed: except after an outage, until everything was read again.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;

use zk_curator::{ErrorKind, EventType, WatchedEvent};

use super::node::{CachedNode, Lookup};
use super::reads::{Answer, Answered, Cause, Job, Reads, What};
use super::tree::{Tree, take_below};
use crate::path::child;

/// The most reads in one request.
const MOST_READS: usize = 1_000;
/// The most reads under way where each is a request.
const MOST_SINGLE: usize = 64;
/// The size of an answer that a request aims at, in bytes.
const ANSWER: usize = 256 * 1024;
/// The size of the stat of a node and the rest of its part of an answer, in bytes.
const OVERHEAD: usize = 80;
/// The size of all data, in bytes, beyond which a server compares; or with so many nodes, the size of each.
const LARGE: usize = 64 * 1024 * 1024;
const MANY: usize = 5_000;
const LARGE_MEAN: usize = 1_024;
/// The assumed size of a part of an answer before one was seen, in bytes.
const FIRST_GUESS: usize = 2_048;

/// Whether a path is covered.
type Filter = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// The paths that a cache covers.
#[derive(Clone, Default)]
pub(super) struct Scope {
    /// The number of levels below the root; `None` for all.
    pub(super) max_depth: Option<usize>,
    pub(super) filter: Option<Filter>,
}

impl fmt::Debug for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope").field("max_depth", &self.max_depth).finish_non_exhaustive()
    }
}

/// A node whose state has changed, and its last state; `None` for a node that was absent, or unreadable.
pub(super) type Change = (Box<str>, Option<Arc<CachedNode>>);

/// The state of a cache.
#[derive(Debug)]
pub(super) struct TreeState {
    tree: Tree,
    scope: Scope,
    reads: Reads,
    /// Whether changes may have been missed for which there was no sweep yet.
    has_missed: bool,
    /// The transaction of the last event.
    last_event: i64,
    /// The transactions whose events may have been heard in part: from the last one before the first time that changes may have
    /// been missed since everything was read, to the last one before the latest.
    split: RangeInclusive<i64>,
    unreadable: BTreeMap<Box<str>, ErrorKind>,
    /// Whether every node has watches of its own, which the reads leave.
    watches_each: bool,
    /// Number and size of the nodes that were read.
    seen: (usize, usize),
}

impl TreeState {
    pub(super) fn new(root: String, scope: Scope) -> Self {
        Self {
            tree: Tree::new(root),
            scope,
            reads: Reads::default(),
            has_missed: false,
            last_event: 0,
            split: 0..=0,
            unreadable: BTreeMap::new(),
            watches_each: false,
            seen: (0, 0),
        }
    }

    pub(super) const fn tree(&self) -> &Tree {
        &self.tree
    }

    /// The paths that could not be read.
    pub(super) const fn unreadable(&self) -> &BTreeMap<Box<str>, ErrorKind> {
        &self.unreadable
    }

    /// Whether it covers the root alone.
    pub(super) fn is_of_one_node(&self) -> bool {
        self.scope.max_depth == Some(0)
    }

    /// Every node has watches of its own from now on, which the reads leave.
    pub(super) const fn watch_each(&mut self) {
        self.watches_each = true;
    }

    /// Whether every reported change has been read.
    pub(super) fn is_settled(&self) -> bool {
        self.reads.are_done()
    }

    /// Begins a checkpoint, which the contents [have reached](Self::has_reached) when everything that is needed now was read.
    pub(super) const fn checkpoint(&mut self) -> u64 {
        self.reads.checkpoint()
    }

    /// Whether the contents show everything that was reported before a checkpoint.
    pub(super) fn has_reached(&self, checkpoint: u64) -> bool {
        self.reads.has_reached(checkpoint)
    }

    /// The mean size of the nodes that were read, in bytes.
    pub(super) const fn mean_size(&self) -> usize {
        match self.seen {
            (0, _) => FIRST_GUESS,
            (count, size) => size / count,
        }
    }

    /// Changes may have been missed: a sweep has to follow.
    pub(super) fn missed(&mut self) {
        let is_first = !self.has_missed && self.is_settled();
        let first = if is_first { self.last_event } else { *self.split.start() };
        self.split = first..=self.last_event;
        self.has_missed = true;
    }

    /// Asks for a read of everything, because changes may have been missed. The first sweep is the load.
    pub(super) fn sweep(&mut self) {
        self.has_missed = false;
        let cause = self.reads.news().sweeping();
        // Also of nodes that have been deleted meanwhile, and may be there again.
        self.reads.want_sent_again(cause);
        for path in self.tree.places() {
            self.reads.want_data(&path, cause);
        }
        let root = self.tree.root().to_owned();
        if self.tree.node(&root).is_none() && self.lists(&root) {
            // Probably it has children: in one request, so in one flight, with its data.
            self.reads.want_names(&root, cause);
        }
    }

    /// Asks for a read of everything, without doubt in the present state. Lists are read as well: what a child that must not be
    /// read has changed in its parent is hidden by the next change that is reported.
    pub(super) fn audit(&mut self) {
        let cause = Reads::audit();
        for path in self.tree.places() {
            if let Some(dir) = self.tree.entry_mut(&path).and_then(|entry| entry.dir.as_mut()) {
                dir.listed = None;
            }
            self.reads.want_data(&path, cause);
        }
    }

    /// Asks for reads of nodes that have changed without an event, and of those that could not be read.
    pub(super) fn doubt<'a>(&mut self, changed: impl IntoIterator<Item = &'a str>) {
        self.has_missed = false;
        let cause = self.reads.news().sweeping();
        self.reads.want_sent_again(cause);
        for path in changed {
            if self.covers(path) && self.tree.entry(path).is_some() {
                self.reads.want_data(path, cause);
            }
        }
        for path in self.unreadable.keys() {
            self.reads.want_data(path, cause);
        }
    }

    /// The paths whose data a server compares for a [`doubt`](Self::doubt), and those whose children it compares: a node without
    /// children may have got some.
    pub(super) fn compared_paths(&self) -> (Vec<String>, Vec<String>) {
        let places = self.tree.places();
        let may_have_children = |path: &&String| {
            self.lists(path) && self.tree.node(path).is_none_or(|node| node.stat.ephemeral_owner == 0)
        };
        let children = places.iter().filter(may_have_children).cloned().collect();
        (places, children)
    }

    /// Whether it is better to compare than to read everything.
    pub(super) fn is_large(&self) -> bool {
        let (nodes, mean) = (self.tree.len(), self.mean_size());
        mean.saturating_mul(nodes) > LARGE || (nodes > MANY && mean > LARGE_MEAN)
    }

    /// The cause of what is found out now.
    pub(super) const fn news(&self) -> Cause {
        self.reads.news()
    }

    /// A watch has fired, not before this cause.
    pub(super) fn event(&mut self, event: &WatchedEvent, cause: Cause, changes: &mut Vec<Change>) {
        let (path, zxid) = (event.path.as_str(), event.zxid());
        // A server that is behind tells some of them again.
        self.last_event = self.last_event.max(zxid.unwrap_or(0));
        if !self.covers(path) {
            return;
        }
        match event.event_type {
            EventType::NodeCreated | EventType::NodeDataChanged => {
                let known = self.tree.node(path);
                // The state that was read is at least as new: no second read of our own write, or of an overlap.
                if known.is_some_and(|known| zxid.is_some_and(|zxid| zxid <= known.stat.mzxid)) {
                    return;
                }
                // Only of a node that was created meanwhile are all children reported.
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
            EventType::NodeChildrenChanged if self.lists(path) => self.reads.want_names(path, cause),
            _ => {}
        }
    }

    /// The next reads to send in one request; none if there is nothing to read.
    pub(super) fn next_batch(&mut self) -> Vec<Job> {
        let (mut jobs, mut size, mean) = (Vec::new(), 0, self.mean_size());
        let most = if self.watches_each { MOST_SINGLE } else { MOST_READS };
        while size < ANSWER && jobs.len() < most {
            let Some(job) = self.reads.take_next() else { break };
            size += match job.what {
                What::Data => self.tree.node(&job.path).map_or(mean, |node| size_of(node)),
                What::Names => mean,
            };
            jobs.push(job);
        }
        jobs
    }

    /// Reads were not answered.
    pub(super) fn unanswered(&mut self, jobs: &[Job]) {
        self.reads.unanswered(jobs);
    }

    /// The session is over, and no read that was sent will be answered.
    pub(super) fn forget_reads(&mut self) {
        self.missed();
        self.reads.forget_sent();
    }

    /// A read was answered.
    pub(super) fn answered(&mut self, job: &Job, answer: Answer, changes: &mut Vec<Change>) {
        let Some(Answered { cause, deleted, again }) = self.reads.answered(job, &answer) else { return };
        let Job { path, what, .. } = job;
        match (what, answer) {
            // Perhaps of the node before it was deleted. One of the same transaction was created after that.
            (What::Data, Answer::Data(node)) if deleted.is_some_and(|deleted| node.stat.czxid < deleted) => {}
            (What::Data, Answer::Data(node)) => self.found(node, cause, changes),
            (What::Names, Answer::Names(names)) => self.listed(path, &names, cause),
            // Perhaps from before the event that asks for another read: that one tells.
            (What::Data, Answer::Missing) if again => {}
            (What::Data, Answer::Missing) => {
                self.remove(path, changes);
                self.reads.forget_names(path);
            }
            // Perhaps from before the node was created, or read by another request: only the absence of its data counts.
            (What::Names, Answer::Missing) => {
                if self.tree.node(path).is_some() {
                    self.reads.want_data(path, cause.sweeping().in_doubt());
                }
            }
            (_, Answer::Failed(kind)) => self.failed(path, *what, kind, cause, changes),
            // Not an answer to this read.
            (What::Data, Answer::Names(_)) | (What::Names, Answer::Data(_)) => {
                self.failed(path, *what, ErrorKind::Malformed, cause, changes);
            }
        }
        self.reads.finish(path);
    }

    /// The state of a path. `loaded` says whether the first load is complete.
    pub(super) fn lookup(&self, path: &str, loaded: bool) -> Lookup<&Arc<CachedNode>> {
        if let Some(node) = self.tree.node(path) {
            return Lookup::Present(node);
        }
        if !self.covers(path) {
            return Lookup::Unknown;
        }
        let mut place = path;
        while self.tree.entry(place).is_none() {
            let Some(parent) = parent(place) else { return Lookup::Unknown };
            place = parent;
        }
        let is_open = self.reads.doubts(place, self.tree.node(place).is_some());
        if loaded && !is_open && !self.unreadable.contains_key(place) {
            Lookup::Absent
        } else {
            Lookup::Unknown
        }
    }

    /// Whether a path is in the scope of the cache.
    pub(super) fn covers(&self, path: &str) -> bool {
        let Some(depth) = self.tree.depth(path) else { return false };
        if self.scope.max_depth.is_some_and(|most| depth > most) {
            return false;
        }
        let Some(filter) = &self.scope.filter else { return true };
        let mut place = path;
        while place != self.tree.root() {
            if !filter(place) {
                return false;
            }
            let Some(parent) = parent(place) else { break };
            place = parent;
        }
        true
    }

    /// Whether the children of a path are in the scope.
    fn lists(&self, path: &str) -> bool {
        let depth = self.tree.depth(path);
        depth.is_some_and(|depth| self.scope.max_depth.is_none_or(|most| depth < most))
    }

    /// A node was read.
    fn found(&mut self, node: CachedNode, cause: Cause, changes: &mut Vec<Change>) {
        let (path, stat) = (node.path.clone(), node.stat);
        self.seen = (self.seen.0 + 1, self.seen.1 + size_of(&node));
        let known = self.tree.node(&path).cloned();
        // What could not be read was left out of the checkpoints. Of a node that is known, it was the list.
        let is_back = self.unreadable.remove(&path).is_some();
        let cause = if is_back { cause.sweeping().overdue().in_doubt() } else { cause };
        let is_same_node = known.as_ref().is_some_and(|known| known.stat.czxid == stat.czxid);
        if known.is_some() && !is_same_node {
            self.forget_older_below(&path, stat.czxid, cause, changes);
        }
        let is_news = !known.as_ref().is_some_and(|known| known.is_same(&node));
        let old = self.tree.put(Arc::new(node));
        if is_news {
            changes.push((path.clone(), old));
        }
        self.note_child(&path, Some(stat.czxid));
        let may_have_others = cause.sweeps || !is_same_node;
        if !may_have_others || !self.lists(&path) {
            return;
        }
        // An audit does not doubt that there are no others; but of a node that was not known nothing is.
        let cause = if is_same_node { cause } else { cause.in_doubt() };
        if self.watches_each {
            return self.reads.want_names_once(&path, cause);
        }
        let is_filtered = self.scope.filter.is_some();
        let Some(entry) = self.tree.entry_mut(&path) else { return };
        let known_children = entry.child_count();
        let there = usize::try_from(stat.num_children).unwrap_or(0);
        let is_listed = entry.dir.as_ref().map_or(there == 0, |dir| {
            // One that was created while it could not be read was not reported.
            let has_others = cause.sweeps && !is_filtered && known_children != there;
            let is_split = stat.pzxid != 0 && self.split.contains(&stat.pzxid);
            dir.listed == Some(stat.pzxid) && !is_split && !has_others
        });
        // A node that came with an event: its children come with theirs, unless some were missed.
        let are_reported = !cause.sweeps && !self.has_missed && known_children >= there;
        if is_listed {
            // Or it is being listed, for an audit perhaps.
            self.reads.backdate_names(&path, cause);
        } else {
            entry.dir_mut().listed = Some(stat.pzxid);
            if there > 0 && !are_reported {
                self.reads.want_names_once(&path, cause);
            }
        }
    }

    /// The children of a node were listed.
    fn listed(&mut self, path: &str, names: &[String], cause: Cause) {
        let is_back = self.tree.node(path).is_some() && self.unreadable.remove(path).is_some();
        let cause = if is_back { cause.overdue() } else { cause }.sweeping().in_doubt();
        let Some(entry) = self.tree.entry_mut(path) else { return };
        let mut missing: BTreeSet<String> =
            entry.dir_mut().children.keys().map(|name| name.to_string()).collect();
        let unread: Vec<_> =
            names.iter().filter(|name| !missing.remove(*name)).map(|name| child(path, name)).collect();
        for path in unread {
            if self.scope.filter.as_ref().is_none_or(|filter| filter(&path))
                && self.tree.make(&path).is_some()
            {
                self.reads.want_data(&path, cause);
            }
        }
        // What an event has told of is being read already; but that was not its creation, perhaps.
        self.reads.backdate_below(path, cause);
        // A list may be older than a child that was created meanwhile: a read tells.
        for name in missing {
            self.reads.want_data(&child(path, &name), cause);
        }
    }

    fn failed(&mut self, path: &str, what: What, kind: ErrorKind, cause: Cause, changes: &mut Vec<Change>) {
        self.unreadable.insert(path.into(), kind);
        match what {
            What::Data => {
                // Its place stays, or is made after a deletion that came first: it is read again with the others.
                self.tree.make(path);
                changes.extend(self.tree.take(path).map(|old| (path.into(), Some(old))));
                // The names of its children can be read all the same, unless both are forbidden.
                if kind != ErrorKind::NoAuth && self.lists(path) {
                    self.reads.want_names(path, cause);
                }
            }
            What::Names => {
                if let Some(dir) = self.tree.entry_mut(path).and_then(|entry| entry.dir.as_mut()) {
                    dir.listed = None;
                }
            }
        }
    }

    /// Removes a node that is gone, and everything below it.
    fn remove(&mut self, path: &str, changes: &mut Vec<Change>) {
        self.forget_below(path, changes);
        if self.unreadable.remove(path).is_some() && self.tree.node(path).is_none() {
            changes.push((path.into(), None));
        }
        changes.extend(self.tree.remove(path).into_iter().map(|old| (old.path.clone(), Some(old))));
    }

    fn forget_below(&mut self, path: &str, changes: &mut Vec<Change>) {
        self.reads.forget_below(path);
        let unreadable = take_below(&mut self.unreadable, path).into_iter().map(|(path, _)| path);
        changes.extend(unreadable.filter(|path| self.tree.node(path).is_none()).map(|path| (path, None)));
        changes.extend(self.tree.remove_below(path).into_iter().map(|old| (old.path.clone(), Some(old))));
    }

    /// Removes the nodes below a path that were created before its present node: they belong to an earlier one.
    fn forget_older_below(&mut self, path: &str, czxid: i64, cause: Cause, changes: &mut Vec<Change>) {
        let cause = cause.sweeping().in_doubt();
        self.reads.replaced(path, czxid, cause);
        let is_older = |node: &&Arc<CachedNode>| node.stat.czxid < czxid && *node.path != *path;
        let older: Vec<_> = self.tree.walk(path).filter(is_older).cloned().collect();
        for node in older {
            self.tree.take(&node.path);
            // Another one may be there.
            self.reads.want_data(&node.path, cause);
            changes.push((node.path.clone(), Some(node)));
        }
    }

    /// Asks for reads of the parents of a path that were not known: their creation was not reported, and a list that
    /// comes later finds them known.
    fn want_parents(&mut self, path: &str, cause: Cause) {
        let mut place = path;
        while let Some(parent) = parent(place).filter(|_| place != self.tree.root()) {
            if self.tree.entry(parent).is_some() {
                break;
            }
            self.reads.want_data(parent, cause.sweeping());
            place = parent;
        }
    }

    /// Notes the transaction by which a child was created or deleted, in its parent.
    fn note_child(&mut self, path: &str, zxid: Option<i64>) {
        let Some(parent) = parent(path).filter(|_| path != self.tree.root()) else { return };
        // Others may have been missed before this one: only a list tells.
        if self.has_missed || self.reads.sweeps(parent) {
            return;
        }
        if let Some(dir) = self.tree.entry_mut(parent).and_then(|entry| entry.dir.as_mut()) {
            dir.listed = dir.listed.zip(zxid).map(|(listed, zxid)| listed.max(zxid));
        }
    }
}

/// The size of a node in an answer, in bytes.
fn size_of(node: &CachedNode) -> usize {
    usize::try_from(node.stat.data_length).unwrap_or(0) + OVERHEAD
}

/// The path of the parent; `None` for the root of ZooKeeper.
fn parent(path: &str) -> Option<&str> {
    match path.rsplit_once('/')? {
        ("", "") => None,
        ("", _) => Some("/"),
        (parent, _) => Some(parent),
    }
}
