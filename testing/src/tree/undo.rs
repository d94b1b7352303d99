//! The changes of a transaction, and the undo of a failed one.

use std::sync::Arc;

use zk_curator_proto::records::Acl;

use super::node::Node;
use super::owner::Owner;
use super::path;
use super::quota::Usage;
use super::store::Tree;
use crate::collections::Map;

/// The kind of a change of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChangeKind {
    /// The node was created, and its parent has one more child.
    Created,
    /// The node was deleted, and its parent has one child less.
    Deleted,
    /// The data of the node were set.
    DataChanged,
}

/// A change of one node by a transaction, which triggers watches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) kind: ChangeKind,
    pub(crate) path: Arc<str>,
    /// The transaction that created the node.
    pub(crate) czxid: i64,
    /// `true` if the node is ephemeral.
    pub(crate) is_ephemeral: bool,
    /// The ACL of the node at that moment, which decides who may receive the event.
    pub(crate) acl: Arc<[Acl]>,
    /// The ACL of the parent, if the list of its children has changed.
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

/// The undo of one operation.
#[derive(Debug)]
pub(super) enum Undo {
    Create { path: Arc<str>, parent_counter: i32, parent_pzxid: i64 },
    Delete { path: Arc<str>, node: Arc<Node>, parent_pzxid: i64 },
    SetData { path: Arc<str>, data: Option<Box<[u8]>>, version: i32, mzxid: i64, mtime: i64 },
}

/// The changes of a transaction so far.
#[derive(Debug, Default)]
pub(super) struct Journal {
    pub(super) changes: Vec<Change>,
    pub(super) undo: Vec<Undo>,
    pub(super) usages: Vec<Usage>,
    /// The next sequence number of every parent with a new child.
    pub(super) counters: Map<String, i32>,
}

impl Tree {
    /// Undoes all changes of a failed transaction.
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
