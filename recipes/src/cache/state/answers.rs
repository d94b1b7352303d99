//! The responses to reads: their effects on the state, and the reads that they require.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use zk_curator::ErrorKind;

use super::batches::size_of;
use super::need::{AnsweredRead, CacheRead, CacheReadAnswer, Cause, ReadKind};
use super::node::CachedNode;
use super::pace::rank;
use super::tree::parent;
use super::tree_state::{TreeChange, TreeState};
use crate::path::child;

impl TreeState {
    /// Processes the response to a read.
    pub(crate) fn answered(
        &mut self,
        job: &CacheRead,
        answer: CacheReadAnswer,
        changes: &mut Vec<TreeChange>,
    ) {
        self.landed(job, Some(&answer));
        let Some(AnsweredRead { cause, deleted, again }) = self.reads.answered(job, &answer) else {
            return;
        };
        let CacheRead { path, what, .. } = job;
        match (what, answer) {
            // The response may show the node before its deletion. A node with the same transaction
            // id was created after the deletion.
            (ReadKind::Data, CacheReadAnswer::Data(node))
                if deleted.is_some_and(|deleted| node.stat.czxid < deleted) => {}
            (ReadKind::Data, CacheReadAnswer::Data(node)) => self.found(node, cause, changes),
            (ReadKind::Names, CacheReadAnswer::Names(names)) => self.listed(path, &names, cause),
            // The response may be older than the event that requires another read, which decides.
            (ReadKind::Data, CacheReadAnswer::Missing) if again => {}
            (ReadKind::Data, CacheReadAnswer::Missing) => {
                self.remove(path, changes);
                self.reads.forget_names(path);
            }
            // The response may be older than the creation of the node, or than another read. Only a
            // response without data proves absence.
            (ReadKind::Names, CacheReadAnswer::Missing) => {
                if self.tree.node(path).is_some() {
                    self.reads.want_data(path, cause.sweeping().in_doubt());
                }
            }
            (_, CacheReadAnswer::Failed(kind)) => self.failed(path, *what, kind, cause, changes),
            // This response belongs to another read.
            (ReadKind::Data, CacheReadAnswer::Names(_))
            | (ReadKind::Names, CacheReadAnswer::Data(_)) => {
                self.failed(path, *what, ErrorKind::Malformed, cause, changes);
            }
        }
        self.reads.finish(path);
    }

    /// Processes a node that was read.
    fn found(&mut self, mut node: CachedNode, cause: Cause, changes: &mut Vec<TreeChange>) {
        let (path, stat) = (node.path.clone(), node.stat);
        if !self.keeps(&path) {
            (node.data, node.is_kept) = (Bytes::new(), false);
        }
        self.seen = (self.seen.0 + 1, self.seen.1 + size_of(&node));
        let known = self.tree.node(&path).cloned();
        // Nodes that could not be read were left out of the checkpoints. For a known node, this was
        // its list.
        let is_back = self.unreadable.remove(&path);
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
        // An audit assumes that no other children exist. For an unknown node nothing is known.
        let cause = if is_same_node { cause } else { cause.in_doubt() };
        if self.watches_each {
            return self.reads.want_names_once(&path, cause);
        }
        let is_filtered = self.scope.filter.is_some();
        let Some(entry) = self.tree.entry_mut(&path) else { return };
        let known_children = entry.child_count();
        let there = usize::try_from(stat.num_children).unwrap_or(0);
        let is_listed = entry.dir.as_ref().map_or(there == 0, |dir| {
            // A node that was created while it could not be read was not reported.
            let has_others = cause.sweeps && !is_filtered && known_children != there;
            let is_split = stat.pzxid != 0 && self.split.contains(&stat.pzxid);
            dir.listed == Some(stat.pzxid) && !is_split && !has_others
        });
        // An event has reported this node. Events report its children, too, unless some were
        // missed.
        let are_reported = !cause.sweeps && !self.has_missed && known_children >= there;
        if is_listed {
            // Or it is being listed, perhaps for an audit.
            self.reads.backdate_names(&path, cause);
        } else {
            entry.dir_mut().listed = Some(stat.pzxid);
            if there > 0 && !are_reported {
                self.reads.want_names_once(&path, cause);
            }
        }
    }

    /// Processes a list of the children of a node.
    fn listed(&mut self, path: &str, names: &[String], cause: Cause) {
        let is_back = self.tree.node(path).is_some() && self.unreadable.remove(path);
        let cause = if is_back { cause.overdue() } else { cause }.sweeping().in_doubt();
        let Some(entry) = self.tree.entry_mut(path) else { return };
        let mut missing: BTreeSet<String> =
            entry.dir_mut().children.keys().map(|name| name.to_string()).collect();
        let mut unread: Vec<_> = names
            .iter()
            .filter(|name| !missing.remove(*name))
            .map(|name| child(path, name))
            .collect();
        // The sizes of the first children that are read show how large the others may be.
        unread.sort_by_cached_key(|path| rank(path));
        for path in unread {
            if self.scope.filter.as_ref().is_none_or(|filter| filter(&path))
                && self.tree.make(&path).is_some()
            {
                self.reads.want_data(&path, cause);
            }
        }
        // A node that an event has named is already being read, but the event may not have been its
        // creation.
        self.reads.backdate_below(path, cause);
        // The list may be older than the creation of the child: a read decides.
        for name in missing {
            self.reads.want_data(&child(path, &name), cause);
        }
    }

    fn failed(
        &mut self,
        path: &str,
        what: ReadKind,
        kind: ErrorKind,
        cause: Cause,
        changes: &mut Vec<TreeChange>,
    ) {
        self.unreadable.insert(path, kind);
        match what {
            ReadKind::Data => {
                // Its place stays, or is created if a deletion came first. It is read again with
                // the other nodes.
                self.tree.make(path);
                changes.extend(self.tree.take(path).map(|old| (path.into(), Some(old))));
                // The names of its children can still be read, unless both are forbidden.
                if kind != ErrorKind::NoAuth && self.lists(path) {
                    self.reads.want_names(path, cause);
                }
            }
            ReadKind::Names => {
                if let Some(dir) = self.tree.entry_mut(path).and_then(|entry| entry.dir.as_mut()) {
                    dir.listed = None;
                }
            }
        }
    }

    /// Removes a deleted node and everything below it.
    pub(super) fn remove(&mut self, path: &str, changes: &mut Vec<TreeChange>) {
        self.forget_below(path, changes);
        if self.unreadable.remove(path) && self.tree.node(path).is_none() {
            changes.push((path.into(), None));
        }
        changes.extend(self.tree.remove(path).into_iter().map(|old| (old.path.clone(), Some(old))));
    }

    fn forget_below(&mut self, path: &str, changes: &mut Vec<TreeChange>) {
        self.reads.forget_below(path);
        let unreadable = self.unreadable.take_below(path).into_iter();
        changes.extend(
            unreadable.filter(|path| self.tree.node(path).is_none()).map(|path| (path, None)),
        );
        changes.extend(
            self.tree.remove_below(path).into_iter().map(|old| (old.path.clone(), Some(old))),
        );
    }

    /// Removes the nodes below a path that are older than its current node: they belong to an
    /// earlier node.
    fn forget_older_below(
        &mut self,
        path: &str,
        czxid: i64,
        cause: Cause,
        changes: &mut Vec<TreeChange>,
    ) {
        let cause = cause.sweeping().in_doubt();
        self.reads.replaced(path, czxid, cause);
        let is_older = |node: &&Arc<CachedNode>| node.stat.czxid < czxid && *node.path != *path;
        let older: Vec<_> = self.tree.walk(path).filter(is_older).cloned().collect();
        for node in older {
            self.tree.take(&node.path);
            // Another node may exist there.
            self.reads.want_data(&node.path, cause);
            changes.push((node.path.clone(), Some(node)));
        }
    }

    /// Requests reads of the unknown parents of a path: their creation was not reported, and a
    /// later list would find them known.
    pub(crate) fn want_parents(&mut self, path: &str, cause: Cause) {
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
    pub(super) fn note_child(&mut self, path: &str, zxid: Option<i64>) {
        let Some(parent) = parent(path).filter(|_| path != self.tree.root()) else { return };
        // Earlier changes may have been missed: only a list shows them.
        if self.has_missed || self.reads.sweeps(parent) {
            return;
        }
        if let Some(dir) = self.tree.entry_mut(parent).and_then(|entry| entry.dir.as_mut()) {
            dir.listed = dir.listed.zip(zxid).map(|(listed, zxid)| listed.max(zxid));
        }
    }
}
