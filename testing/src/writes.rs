//! [`NodeWrite`]: what transactions have done to which nodes, and whose they were.

use crate::tree::{Change, ChangeKind};

/// What a transaction did to a node.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteKind {
    /// It was created.
    Created,
    /// Its data were set.
    DataSet,
    /// It was deleted.
    Deleted,
}

/// A change of one node by one transaction, see [`TestServer::writes`](crate::TestServer::writes).
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeWrite {
    /// The transaction.
    pub zxid: i64,
    /// The session that has asked for it, or whose end it was; zero of the server itself.
    pub session: i64,
    /// Whether it was the end of a session.
    pub ends_session: bool,
    /// What was done.
    pub kind: WriteKind,
    /// To which node.
    pub path: String,
    /// The transaction that had created the node.
    pub czxid: i64,
    /// Whether the node goes with a session.
    pub is_ephemeral: bool,
}

/// The changes of all nodes, in order, where they are kept.
#[derive(Debug, Default)]
pub(crate) struct Writes {
    list: Vec<NodeWrite>,
}

impl Writes {
    /// Takes note of a transaction when the first server has applied it.
    pub(crate) fn add(&mut self, zxid: i64, session: i64, ends_session: bool, changes: Vec<Change>) {
        if self.list.last().is_some_and(|last| last.zxid >= zxid) {
            return;
        }
        self.list.extend(changes.into_iter().map(|change| {
            let Change { kind, path, czxid, is_ephemeral, .. } = change;
            let kind = match kind {
                ChangeKind::Created => WriteKind::Created,
                ChangeKind::DataChanged => WriteKind::DataSet,
                ChangeKind::Deleted => WriteKind::Deleted,
            };
            NodeWrite { zxid, session, ends_session, kind, path: path.to_string(), czxid, is_ephemeral }
        }));
    }

    pub(crate) fn list(&self) -> &[NodeWrite] {
        &self.list
    }
}
