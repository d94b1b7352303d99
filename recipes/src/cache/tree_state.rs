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

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::ops::{Bound, RangeInclusive};
use std::sync::Arc;

use zk_curator::{ErrorKind, EventType, WatchedEvent};

use super::node::{CachedNode, Lookup};
use super::tree::Tree;
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

/// A transaction that the server does not tell: newer than every other.
const UNKNOWN: i64 = i64::MAX;

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

/// The kinds of reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    Data,
    Names,
}

/// A read to perform.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Job {
    id: u64,
    pub(super) path: Box<str>,
    pub(super) what: What,
}

/// The answer to a [`Job`].
#[derive(Debug)]
pub(super) enum Answer {
    Data(CachedNode),
    Names(Vec<String>),
    Missing,
    /// An error of this node, which does not pass by itself.
    Failed(ErrorKind),
}

/// A node whose state has changed, and its last state; `None` for a node that was absent.
pub(super) type Change = (Box<str>, Option<Arc<CachedNode>>);

/// Whether a read is needed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Need {
    #[default]
    Idle,
    Wanted,
    Reading {
        id: u64,
        /// Whether the node has changed meanwhile.
        again: bool,
    },
}

/// The reads of one path.
#[derive(Debug, Default)]
struct Work {
    data: Need,
    names: Need,
    /// Whether the children may have changed without an event.
    sweeps: bool,
    /// Whether nothing but an audit asks for the reads.
    audits: bool,
    /// The last change that was reported during the read of the data: its transaction, or [`UNKNOWN`].
    changed: i64,
    /// The last deletion that was reported during the read of the data, as well.
    deleted: Option<i64>,
}

impl Work {
    const fn need(&mut self, what: What) -> &mut Need {
        match what {
            What::Data => &mut self.data,
            What::Names => &mut self.names,
        }
    }

    fn is_done(&self) -> bool {
        self.data == Need::Idle && self.names == Need::Idle
    }
}

/// The state of a cache.
#[derive(Debug)]
pub(super) struct TreeState {
    tree: Tree,
    scope: Scope,
    works: BTreeMap<Box<str>, Work>,
    /// How many of the works are audits.
    audits: usize,
    /// Whether changes may have been missed for which there was no sweep yet.
    has_missed: bool,
    /// The transaction of the last event.
    last_event: i64,
    /// The transactions whose events may have been heard in part: from the last one before the first time that changes may have
    /// been missed since everything was read, to the last one before the latest.
    split: RangeInclusive<i64>,
    /// The reads that were asked for, in their order. Some may not be needed any more.
    wanted: VecDeque<(Box<str>, What)>,
    unreadable: BTreeMap<Box<str>, ErrorKind>,
    /// Whether every node has watches of its own, which the reads leave.
    watches_each: bool,
    last_id: u64,
    /// Number and size of the nodes that were read.
    seen: (usize, usize),
}

impl TreeState {
    pub(super) fn new(root: String, scope: Scope) -> Self {
        Self {
            tree: Tree::new(root),
            scope,
            works: BTreeMap::new(),
            audits: 0,
            has_missed: false,
            last_event: 0,
            split: 0..=0,
            wanted: VecDeque::new(),
            unreadable: BTreeMap::new(),
            watches_each: false,
            last_id: 0,
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
        self.works.len() == self.audits
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
        for path in self.tree.places() {
            self.want_data(&path, true, false);
        }
        let root = self.tree.root().to_owned();
        if self.tree.node(&root).is_none() && self.lists(&root) {
            // Probably it has children: in one request, so in one flight, with its data.
            self.want_names(&root, false);
        }
    }

    /// Asks for a read of everything, without doubt in the present state. Lists are read as well: what a child that must not be
    /// read has changed in its parent is hidden by the next change that is reported.
    pub(super) fn audit(&mut self) {
        for path in self.tree.places() {
            if let Some(dir) = self.tree.entry_mut(&path).and_then(|entry| entry.dir.as_mut()) {
                dir.listed = None;
            }
            self.want_data(&path, true, true);
        }
    }

    /// Asks for reads of nodes that have changed without an event, and of those that could not be read.
    pub(super) fn doubt<'a>(&mut self, changed: impl IntoIterator<Item = &'a str>) {
        self.has_missed = false;
        for path in changed {
            if self.covers(path) && self.tree.entry(path).is_some() {
                self.want_data(path, true, false);
            }
        }
        let unreadable: Vec<_> = self.unreadable.keys().cloned().collect();
        for path in unreadable {
            self.want_data(&path, true, false);
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

    /// A watch has fired.
    pub(super) fn event(&mut self, event: &WatchedEvent, changes: &mut Vec<Change>) {
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
                    && !self.works.contains_key(path);
                self.want_parents(path);
                if self.tree.make(path).is_some() {
                    self.want_data(path, sweeps, false);
                    self.note_change(path, zxid);
                }
            }
            EventType::NodeDeleted => {
                self.remove(path, changes);
                self.note_child(path, zxid);
                if let Some(work) = self.works.get_mut(path) {
                    work.names = Need::Idle;
                    if let Need::Reading { again, .. } = &mut work.data {
                        *again = true;
                        work.deleted = Some(zxid.unwrap_or(UNKNOWN));
                    } else {
                        work.data = Need::Idle;
                    }
                }
                self.note_change(path, zxid);
                self.finish(path);
            }
            EventType::NodeChildrenChanged if self.lists(path) => self.want_names(path, false),
            _ => {}
        }
    }

    /// The next reads to send in one request; none if there is nothing to read.
    pub(super) fn next_batch(&mut self) -> Vec<Job> {
        let (mut jobs, mut size, mean) = (Vec::new(), 0, self.mean_size());
        let most = if self.watches_each { MOST_SINGLE } else { MOST_READS };
        while size < ANSWER && jobs.len() < most {
            let Some((path, what)) = self.wanted.pop_front() else { break };
            let Some(work) = self.works.get_mut(&path) else { continue };
            let need = work.need(what);
            if *need != Need::Wanted {
                continue;
            }
            self.last_id += 1;
            *need = Need::Reading { id: self.last_id, again: false };
            size += match what {
                What::Data => self.tree.node(&path).map_or(mean, |node| size_of(node)),
                What::Names => mean,
            };
            jobs.push(Job { id: self.last_id, path, what });
        }
        jobs
    }

    /// Reads were not answered.
    pub(super) fn unanswered(&mut self, jobs: &[Job]) {
        for Job { id, path, what } in jobs {
            let Some(work) = self.works.get_mut(path) else { continue };
            let need = work.need(*what);
            if matches!(need, Need::Reading { id: reading, .. } if reading == id) {
                *need = Need::Wanted;
                if *what == What::Data {
                    (work.changed, work.deleted) = (0, None);
                }
                self.wanted.push_back((path.clone(), *what));
            }
        }
    }

    /// The session is over, and no read that was sent will be answered.
    pub(super) fn forget_reads(&mut self) {
        self.missed();
        for (path, work) in &mut self.works {
            for what in [What::Data, What::Names] {
                let need = work.need(what);
                if matches!(need, Need::Reading { .. }) {
                    *need = Need::Wanted;
                    self.wanted.push_back((path.clone(), what));
                }
            }
            (work.changed, work.deleted) = (0, None);
        }
    }

    /// A read was answered.
    pub(super) fn answered(&mut self, job: &Job, answer: Answer, changes: &mut Vec<Change>) {
        let Job { id, path, what } = job;
        let Some(work) = self.works.get_mut(path) else { return };
        let again = match *work.need(*what) {
            Need::Reading { id: reading, again } if reading == *id => again,
            _ => return,
        };
        let (mut deleted, mut again) = (None, again);
        if *what == What::Data {
            deleted = work.deleted.take();
            let changed = std::mem::take(&mut work.changed);
            // The answer shows the last change already.
            again &= !matches!(&answer, Answer::Data(node) if node.stat.mzxid >= changed);
        }
        let need = work.need(*what);
        *need = if again { Need::Wanted } else { Need::Idle };
        let sweeps = work.sweeps;
        if again {
            self.wanted.push_back((path.clone(), *what));
        }
        match (what, answer) {
            // Perhaps of the node before it was deleted. One of the same transaction was created after that.
            (What::Data, Answer::Data(node)) if deleted.is_some_and(|deleted| node.stat.czxid < deleted) => {}
            (What::Data, Answer::Data(node)) => self.found(node, sweeps, changes),
            (What::Names, Answer::Names(names)) => self.listed(path, &names),
            // Perhaps from before the event that asks for another read: that one tells.
            (What::Data, Answer::Missing) if again => {}
            (What::Data, Answer::Missing) => {
                self.remove(path, changes);
                if let Some(work) = self.works.get_mut(path) {
                    work.names = Need::Idle;
                }
            }
            // Perhaps from before the node was created, or read by another request: only the absence of its data counts.
            (What::Names, Answer::Missing) => {
                if self.tree.node(path).is_some() {
                    self.want_data(path, true, false);
                }
            }
            (_, Answer::Failed(kind)) => self.failed(path, *what, kind, changes),
            // Not an answer to this read.
            (What::Data, Answer::Names(_)) | (What::Names, Answer::Data(_)) => {
                self.failed(path, *what, ErrorKind::Malformed, changes);
            }
        }
        if *what == What::Data
            && !again
            && let Some(work) = self.works.get_mut(path)
        {
            work.sweeps = false;
        }
        self.finish(path);
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
        let is_open = self.works.get(place).is_some_and(|work| {
            // An audit does not doubt that there is none.
            !work.audits
                && (work.names != Need::Idle || (work.data != Need::Idle && self.tree.node(place).is_none()))
        });
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
    fn found(&mut self, node: CachedNode, sweeps: bool, changes: &mut Vec<Change>) {
        let (path, stat) = (node.path.clone(), node.stat);
        self.seen = (self.seen.0 + 1, self.seen.1 + size_of(&node));
        let known = self.tree.node(&path).cloned();
        // Of a node that is known, it is the list that could not be read.
        let sweeps = sweeps | self.unreadable.remove(&path).is_some();
        let is_same_node = known.as_ref().is_some_and(|known| known.stat.czxid == stat.czxid);
        if known.is_some() && !is_same_node {
            self.forget_older_below(&path, stat.czxid, changes);
        }
        let is_news = !known.as_ref().is_some_and(|known| known.is_same(&node));
        let old = self.tree.put(Arc::new(node));
        if is_news {
            changes.push((path.clone(), old));
        }
        self.note_child(&path, Some(stat.czxid));
        let may_have_others = sweeps || !is_same_node;
        if !may_have_others || !self.lists(&path) {
            return;
        }
        // A list that is under way is as new: later changes are reported.
        let (is_asked, audits) =
            self.works.get(&path).map_or((false, false), |work| (work.names != Need::Idle, work.audits));
        if self.watches_each {
            if !is_asked {
                self.want_names(&path, audits);
            }
            return;
        }
        let is_filtered = self.scope.filter.is_some();
        let Some(entry) = self.tree.entry_mut(&path) else { return };
        let known_children = entry.child_count();
        let there = usize::try_from(stat.num_children).unwrap_or(0);
        let is_listed = entry.dir.as_ref().map_or(there == 0, |dir| {
            // One that was created while it could not be read was not reported.
            let has_others = sweeps && !is_filtered && known_children != there;
            let is_split = stat.pzxid != 0 && self.split.contains(&stat.pzxid);
            dir.listed == Some(stat.pzxid) && !is_split && !has_others
        });
        // A node that came with an event: its children come with theirs, unless some were missed.
        let are_reported = !sweeps && !self.has_missed && known_children >= there;
        if !is_listed {
            entry.dir_mut().listed = Some(stat.pzxid);
            if there > 0 && !are_reported && !is_asked {
                self.want_names(&path, audits);
            }
        }
    }

    /// The children of a node were listed.
    fn listed(&mut self, path: &str, names: &[String]) {
        if self.tree.node(path).is_some() {
            self.unreadable.remove(path);
        }
        let Some(entry) = self.tree.entry_mut(path) else { return };
        let mut missing: BTreeSet<String> =
            entry.dir_mut().children.keys().map(|name| name.to_string()).collect();
        let unread: Vec<_> =
            names.iter().filter(|name| !missing.remove(*name)).map(|name| child(path, name)).collect();
        for path in unread {
            if self.scope.filter.as_ref().is_none_or(|filter| filter(&path))
                && self.tree.make(&path).is_some()
            {
                self.want_data(&path, true, false);
            }
        }
        // A list may be older than a child that was created meanwhile: a read tells.
        for name in missing {
            self.want_data(&child(path, &name), true, false);
        }
    }

    fn failed(&mut self, path: &str, what: What, kind: ErrorKind, changes: &mut Vec<Change>) {
        self.unreadable.insert(path.into(), kind);
        match what {
            What::Data => {
                // Its place stays, or is made after a deletion that came first: it is read again with the others.
                self.tree.make(path);
                changes.extend(self.tree.take(path).map(|old| (path.into(), Some(old))));
                // The names of its children can be read all the same, unless both are forbidden.
                if kind != ErrorKind::NoAuth && self.lists(path) {
                    let audits = self.works.get(path).is_some_and(|work| work.audits);
                    self.want_names(path, audits);
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
        self.unreadable.remove(path);
        changes.extend(self.tree.remove(path).into_iter().map(|old| (old.path.clone(), Some(old))));
    }

    fn forget_below(&mut self, path: &str, changes: &mut Vec<Change>) {
        let range = below(path);
        let gone: Vec<_> = self.works.range::<str, _>(bounds(&range)).map(|(path, _)| path.clone()).collect();
        for path in gone {
            if let Some(work) = self.works.remove(&path) {
                self.audits -= usize::from(work.audits);
            }
        }
        let gone: Vec<_> =
            self.unreadable.range::<str, _>(bounds(&range)).map(|(path, _)| path.clone()).collect();
        for path in gone {
            self.unreadable.remove(&path);
        }
        changes.extend(self.tree.remove_below(path).into_iter().map(|old| (old.path.clone(), Some(old))));
    }

    /// Removes the nodes below a path that were created before its present node: they belong to an earlier one.
    fn forget_older_below(&mut self, path: &str, czxid: i64, changes: &mut Vec<Change>) {
        let is_older = |node: &&Arc<CachedNode>| node.stat.czxid < czxid && *node.path != *path;
        let older: Vec<_> = self.tree.walk(path).filter(is_older).cloned().collect();
        for node in older {
            self.tree.take(&node.path);
            // Another one may be there.
            self.want_data(&node.path, true, false);
            changes.push((node.path.clone(), Some(node)));
        }
    }

    fn want_data(&mut self, path: &str, sweeps: bool, audits: bool) {
        let is_wanted = {
            let work = self.work(path, audits);
            work.sweeps |= sweeps;
            match &mut work.data {
                Need::Idle => {
                    work.data = Need::Wanted;
                    true
                }
                Need::Wanted => false,
                Need::Reading { again, .. } => {
                    *again = true;
                    if sweeps {
                        work.changed = UNKNOWN;
                    }
                    false
                }
            }
        };
        if is_wanted {
            self.wanted.push_back((path.into(), What::Data));
        }
    }

    /// Asks for reads of the parents of a path that were not known: their creation was not reported, and a list that
    /// comes later finds them known.
    fn want_parents(&mut self, path: &str) {
        let mut place = path;
        while let Some(parent) = parent(place).filter(|_| place != self.tree.root()) {
            if self.tree.entry(parent).is_some() {
                break;
            }
            self.want_data(parent, true, false);
            place = parent;
        }
    }

    /// Notes the transaction by which a child was created or deleted, in its parent.
    fn note_child(&mut self, path: &str, zxid: Option<i64>) {
        let Some(parent) = parent(path).filter(|_| path != self.tree.root()) else { return };
        // Others may have been missed before this one: only a list tells.
        if self.has_missed || self.works.get(parent).is_some_and(|work| work.sweeps) {
            return;
        }
        if let Some(dir) = self.tree.entry_mut(parent).and_then(|entry| entry.dir.as_mut()) {
            dir.listed = dir.listed.zip(zxid).map(|(listed, zxid)| listed.max(zxid));
        }
    }

    /// Notes the transaction of an event of a node whose data are being read.
    fn note_change(&mut self, path: &str, zxid: Option<i64>) {
        if let Some(work) = self.works.get_mut(path)
            && matches!(work.data, Need::Reading { .. })
        {
            work.changed = work.changed.max(zxid.unwrap_or(UNKNOWN));
        }
    }

    fn want_names(&mut self, path: &str, audits: bool) {
        let is_wanted = {
            let work = self.work(path, audits);
            match &mut work.names {
                Need::Idle => {
                    work.names = Need::Wanted;
                    true
                }
                Need::Wanted => false,
                Need::Reading { again, .. } => {
                    *again = true;
                    false
                }
            }
        };
        if is_wanted {
            self.wanted.push_back((path.into(), What::Names));
        }
    }

    /// The work of a path; it is an audit only if nothing else asks for it.
    fn work(&mut self, path: &str, audits: bool) -> &mut Work {
        if !self.works.contains_key(path) {
            self.audits += usize::from(audits);
            self.works.insert(path.into(), Work { audits, ..Work::default() });
        }
        let work = self.works.get_mut(path).expect("invariant: inserted if it was missing");
        if work.audits && !audits {
            work.audits = false;
            self.audits -= 1;
        }
        work
    }

    /// Drops the work of a path if nothing is left to do.
    fn finish(&mut self, path: &str) {
        if self.works.get(path).is_some_and(Work::is_done)
            && let Some(work) = self.works.remove(path)
        {
            self.audits -= usize::from(work.audits);
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

/// The first path below this one, and the first path after all of these.
fn below(path: &str) -> (String, String) {
    let path = path.trim_end_matches('/');
    // The character after the slash.
    (format!("{path}/"), format!("{path}0"))
}

fn bounds((first, end): &(String, String)) -> (Bound<&str>, Bound<&str>) {
    // Not the root of ZooKeeper itself, whose path is that of its children without a name.
    let first = if first == "/" { Bound::Excluded("/") } else { Bound::Included(first.as_str()) };
    (first, Bound::Excluded(end.as_str()))
}
