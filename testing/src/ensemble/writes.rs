//! [`NodeWrite`]: the record of changes to nodes.

use tokio::time::Instant;

use crate::tree::{Change, ChangeKind};

/// The kind of a [`NodeWrite`].
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteKind {
    /// The node was created.
    Created,
    /// The data were set.
    DataSet,
    /// The node was deleted.
    Deleted,
}

/// A change of one node by one transaction, see [`TestServer::writes`](crate::TestServer::writes).
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeWrite {
    /// The zxid of the transaction.
    pub zxid: i64,
    /// The session that requested or ended with the transaction; zero for the server itself.
    pub session: i64,
    /// `true` if the transaction ended a session.
    pub ends_session: bool,
    /// The kind of change.
    pub kind: WriteKind,
    /// The node.
    pub path: String,
    /// The zxid of the transaction that created the node.
    pub czxid: i64,
    /// `true` if the node is ephemeral.
    pub is_ephemeral: bool,
    /// The time at which the first server applied the transaction.
    pub at: Instant,
}

/// The recorded changes of all nodes, in order.
#[derive(Debug, Default)]
pub(crate) struct Writes {
    list: Vec<NodeWrite>,
}

impl Writes {
    /// Records a transaction when the first server has applied it.
    pub(crate) fn add(
        &mut self,
        zxid: i64,
        session: i64,
        ends_session: bool,
        changes: Vec<Change>,
    ) {
        if self.list.last().is_some_and(|last| last.zxid >= zxid) {
            return;
        }
        let at = Instant::now();
        self.list.extend(changes.into_iter().map(|change| {
            let Change { kind, path, czxid, is_ephemeral, .. } = change;
            let kind = match kind {
                ChangeKind::Created => WriteKind::Created,
                ChangeKind::DataChanged => WriteKind::DataSet,
                ChangeKind::Deleted => WriteKind::Deleted,
            };
            let path = path.to_string();
            NodeWrite { zxid, session, ends_session, kind, path, czxid, is_ephemeral, at }
        }));
    }

    pub(crate) fn list(&self) -> &[NodeWrite] {
        &self.list
    }
}
