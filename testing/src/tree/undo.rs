//! What a transaction has done so far, and how a failed one is taken back.

use std::sync::Arc;

use zk_curator_proto::records::Acl;

use super::node::Node;
use super::owner::Owner;
use super::path;
use super::quota::Usage;
use super::store::Tree;
use crate::collections::Map;

/// What happened to a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChangeKind {
    /// It was created, and its parent has a new child.
    Created,
    /// It was deleted, and its parent has a child less.
    Deleted,
    /// Its data were set.
    DataChanged,
}

/// What a transaction did to one node; what watches are triggered by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) kind: ChangeKind,
    pub(crate) path: Arc<str>,
    /// The transaction that has created it.
    pub(crate) czxid: i64,
    /// Whether it goes with a session.
    pub(crate) is_ephemeral: bool,
    /// Who may know: the ACL of the node at that moment.
    pub(crate) acl: Arc<[Acl]>,
    /// The same of its parent, when the list of its children has changed.
    pub(crate) parent_acl: Option<Arc<[Acl]>>,
}

impl Change {
    pub(super) fn created(path: &Arc<str>, node: &Node, parent_acl: Arc<[Acl]>) -> Self {
        Self::new(ChangeKind::Created, path, node, Some(parent_acl))
    }

    pub(super) fn deleted(path: &Arc<str>, node: &Node, parent_acl: Arc<[Acl]>) -> Self {
        Self::new(ChangeKind::Deleted, path, node, Some(parent_acl))
    }

    pub(super) fn data_changed(path: &Arc<str>, node: &Node) -> Self {
        Self::new(ChangeKind::DataChanged, path, node, None)
    }

    fn new(kind: ChangeKind, path: &Arc<str>, node: &Node, parent_acl: Option<Arc<[Acl]>>) -> Self {
        let is_ephemeral = matches!(node.owner(), Owner::Session(_));
        Self {
            kind,
            path: Arc::clone(path),
            czxid: node.czxid,
            is_ephemeral,
            acl: Arc::clone(&node.acl),
            parent_acl,
        }
    }
}

/// How to take back one operation.
#[derive(Debug)]
pub(super) enum Undo {
    Create { path: Arc<str>, parent_counter: i32, parent_pzxid: i64 },
    Delete { path: Arc<str>, node: Arc<Node>, parent_pzxid: i64 },
    SetData { path: Arc<str>, data: Option<Box<[u8]>>, version: i32, mzxid: i64, mtime: i64 },
}

/// What the operations of one transaction have done so far.
#[derive(Debug, Default)]
pub(super) struct Journal {
    pub(super) changes: Vec<Change>,
    pub(super) undo: Vec<Undo>,
    pub(super) usages: Vec<Usage>,
    /// The next number of every parent that has a new child.
    pub(super) counters: Map<String, i32>,
}

impl Tree {
    /// Takes back everything a failed transaction has done.
    pub(super) fn take_back(&mut self, journal: Journal) {
        for undo in journal.undo.into_iter().rev() {
            self.take_back_one(undo);
        }
    }

    fn take_back_one(&mut self, undo: Undo) {
        match undo {
            Undo::Create { path, parent_counter, parent_pzxid } => {
                let Ok(parent) = self.node_mut(path::parent(&path)) else { return };
                let node = parent.unlink(path::name(&path));
                parent.created_children = parent_counter;
                parent.pzxid = parent_pzxid;
                self.count -= 1;
                if let Some(node) = node {
                    self.unregister(&path, node.owner());
                }
            }
            Undo::Delete { path, node, parent_pzxid } => {
                self.register(&path, node.owner());
                let Ok(parent) = self.node_mut(path::parent(&path)) else { return };
                parent.link(path::name(&path), node);
                parent.pzxid = parent_pzxid;
                self.count += 1;
            }
            Undo::SetData { path, data, version, mzxid, mtime } => {
                if let Ok(node) = self.node_mut(&path) {
                    node.data = data;
                    node.version = version;
                    node.mzxid = mzxid;
                    node.mtime = mtime;
                }
            }
        }
    }
}
