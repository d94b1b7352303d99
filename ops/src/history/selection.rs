//! The changes that an index selects, with the states of their nodes.

use std::collections::{HashSet, VecDeque};

use bytes::Bytes;
use zk_curator::SessionId;
use zk_curator_proto::OpCode;

use super::arena::NodeId;
use super::change::{Change, DeletionCause, Moment, MultiPlace, NodeState, Operation, SessionEnd};
use super::lists::AclList;
use super::records::{Record, Txn, TxnHeader};
use super::scope::Scope;
use super::stat::Owner;
use super::tree::Tree;

/// The filter of an index.
#[derive(Debug, Clone)]
pub(super) struct Selection {
    pub(super) scope: Scope,
    pub(super) session: Option<SessionId>,
    /// The first and the last time, in milliseconds since 1970.
    pub(super) times: (i64, i64),
    /// The first and the last transaction.
    pub(super) zxids: (i64, i64),
    /// The operations; `None` for all but errors.
    pub(super) operations: Option<Vec<Operation>>,
    pub(super) with_data: bool,
}

impl Default for Selection {
    fn default() -> Self {
        Self {
            scope: Scope::default(),
            session: None,
            times: (i64::MIN, i64::MAX),
            zxids: (i64::MIN, i64::MAX),
            operations: None,
            with_data: false,
        }
    }
}

/// A tree, and the transactions that it may contain changes of.
#[derive(Debug)]
pub(super) struct Tracked {
    pub(super) tree: Tree,
    /// The tree contains the changes of all transactions up to this one.
    pub(super) zxid: i64,
    /// The tree may contain changes up to this one. `None` if that is unknown.
    pub(super) fuzzy_until: Option<i64>,
}

impl Tracked {
    /// Returns the known part of the state of a node before a transaction.
    fn state(&self, path: &str, zxid: i64, with_data: bool) -> NodeState {
        let is_settled = self.fuzzy_until.is_some_and(|until| zxid > until);
        let Some(id) = self.tree.find(path) else { return NodeState::default() };
        let node = &self.tree.nodes[id];
        // Within the range of a fuzzy snapshot, the node may be a later one, or have later data.
        if !is_settled && node.stat.czxid >= zxid {
            return NodeState::default();
        }
        let owner = Some(node.stat.owner());
        // An ACL that was never changed is that of the creation.
        let acl = self.tree.acl(node.acl).filter(|_| is_settled || node.stat.aversion == 0);
        if !is_settled && node.stat.mzxid >= zxid {
            return NodeState { owner, ..NodeState::default() };
        }
        NodeState {
            version: Some(node.stat.version),
            aversion: is_settled.then_some(node.stat.aversion),
            size: Some(node.data().map_or(0, <[u8]>::len)),
            data: node.data().filter(|_| with_data).map(Bytes::copy_from_slice),
            owner,
            anyone_reads: acl.map(AclList::lets_anyone_read),
        }
    }

    /// Returns the ephemeral nodes of a session before a transaction, sorted. A fuzzy snapshot may
    /// contain later ones.
    fn ephemerals(&self, header: &TxnHeader) -> Vec<String> {
        let is_older = |id: NodeId| self.tree.nodes[id].stat.czxid < header.zxid;
        let mut paths = self.tree.ephemerals(header.session);
        paths.retain(|path| self.tree.find(path).is_some_and(is_older));
        paths
    }
}

impl Selection {
    /// Returns `true` if the header passes the filter.
    fn admits(&self, header: &TxnHeader) -> bool {
        (self.zxids.0..=self.zxids.1).contains(&header.zxid)
            && (self.times.0..=self.times.1).contains(&header.time_ms)
            && self.session.is_none_or(|session| session == header.session)
    }

    fn has(&self, operation: Operation) -> bool {
        match &self.operations {
            None => operation != Operation::Error,
            Some(operations) => operations.contains(&operation),
        }
    }

    /// Adds the selected changes of a transaction, and applies it to the tree.
    pub(super) fn collect(
        &self,
        record: &Record<'_>,
        mut tracked: Option<&mut Tracked>,
        changes: &mut VecDeque<Change>,
    ) {
        let header = &record.header;
        let admits = self.admits(header);
        if admits
            && let Txn::Multi(multi) = record.txn
            && multi.is_failed()
        {
            // The first error is the reason; the others follow from it.
            let is_error = |txn: &Txn<'_>| matches!(txn, Txn::Error { code } if *code != 0);
            let error = multi.parts().find(|(_, txn)| is_error(txn));
            let txn = error.map_or(Txn::Error { code: 0 }, |(_, txn)| txn);
            changes.extend(self.change(OpCode::Error, header, &txn, None));
        }
        let count = if let Txn::Multi(multi) = record.txn { Some(multi.len()) } else { None };
        for (index, (op, txn)) in record.applied().enumerate() {
            if admits {
                let multi = count.map(|count| MultiPlace { index, count });
                let change = self.change(op, header, &txn, tracked.as_deref());
                changes.extend(change.map(|change| Change { multi, ..change }));
                if let Txn::CloseSession(_) = txn {
                    self.deletions(header, &txn, tracked.as_deref(), changes);
                }
            }
            if let Some(tracked) = tracked.as_deref_mut() {
                tracked.tree.apply_one(op, header, &txn);
            }
        }
    }

    /// Returns the change of a transaction, if it is selected.
    fn change(
        &self,
        op: OpCode,
        header: &TxnHeader,
        txn: &Txn<'_>,
        tracked: Option<&Tracked>,
    ) -> Option<Change> {
        let operation = operation(op, txn)?;
        let is_selected = match txn.path() {
            Some(path) => self.scope.contains(path),
            None => self.scope.is_all(),
        };
        if !is_selected || !self.has(operation) {
            return None;
        }
        let mut change = bare(header, operation, txn.path());
        let before = |path: &str| {
            tracked.map_or_else(NodeState::default, |tracked| {
                tracked.state(path, header.zxid, self.with_data)
            })
        };
        match txn {
            Txn::Create(create) => {
                let owner = Some(create.owner(header.session));
                let (version, aversion) = (Some(0), Some(0));
                let anyone_reads = Some(create.acl.lets_anyone_read());
                let state =
                    NodeState { version, aversion, owner, anyone_reads, ..NodeState::default() };
                change.after = Some(self.with(state, create.data));
            }
            Txn::Delete { path } => {
                let before = before(path);
                change.deletion = Some(cause(op, header, before.owner));
                change.before = Some(before);
            }
            Txn::SetData(set) => {
                let mut before = before(set.path);
                let after = NodeState { version: Some(set.version), ..before.clone() };
                if op == OpCode::SetData && before.version.is_none() {
                    before.version = Some(set.version.wrapping_sub(1));
                }
                change.before = Some(before);
                change.after = Some(self.with(after, set.data));
            }
            Txn::SetAcl(set) => {
                let mut before = before(set.path);
                let (aversion, anyone_reads) =
                    (Some(set.version), Some(set.acl.lets_anyone_read()));
                let after = NodeState { aversion, anyone_reads, ..before.clone() };
                before.aversion = Some(set.version.wrapping_sub(1));
                (change.before, change.after) = (Some(before), Some(after));
            }
            Txn::CreateSession { timeout_ms } => change.session_timeout_ms = Some(*timeout_ms),
            Txn::CloseSession(_) => change.session_end = Some(SessionEnd::of(header)),
            Txn::Error { code } => change.error = Some(*code),
            Txn::Check { .. } | Txn::Multi(_) => return None,
        }
        Some(change)
    }

    /// Adds the deletions of the ephemeral nodes of a session that ends: those of the transaction,
    /// and the others that the tree knows. A server deletes them as well. Logs of ZooKeeper 3.5 and
    /// earlier have no paths.
    fn deletions(
        &self,
        header: &TxnHeader,
        txn: &Txn<'_>,
        tracked: Option<&Tracked>,
        changes: &mut VecDeque<Change>,
    ) {
        if !self.has(Operation::Delete) {
            return;
        }
        let mut add = |path: &str| {
            if !self.scope.contains(path) {
                return;
            }
            let mut change = bare(header, Operation::Delete, Some(path));
            let state = tracked.map(|tracked| tracked.state(path, header.zxid, self.with_data));
            let owner = Some(Owner::Session(header.session));
            change.before = Some(NodeState { owner, ..state.unwrap_or_default() });
            change.deletion = Some(DeletionCause::SessionEnd(SessionEnd::of(header)));
            changes.push_back(change);
        };
        let Txn::CloseSession(paths) = txn else { return };
        let mut listed = HashSet::new();
        for path in paths.iter().flatten() {
            listed.insert(path);
            add(path);
        }
        let owned = tracked.map(|tracked| tracked.ephemerals(header)).unwrap_or_default();
        owned.iter().filter(|path| !listed.contains(path.as_str())).for_each(|path| add(path));
    }

    /// Returns a state with the data of a transaction.
    fn with(&self, state: NodeState, data: Option<&[u8]>) -> NodeState {
        let size = Some(data.map_or(0, <[u8]>::len));
        let data = data.filter(|_| self.with_data).map(Bytes::copy_from_slice);
        NodeState { size, data, ..state }
    }
}

fn operation(op: OpCode, txn: &Txn<'_>) -> Option<Operation> {
    Some(match txn {
        Txn::Create(_) => Operation::Create,
        Txn::Delete { .. } => Operation::Delete,
        Txn::SetData(_) if op == OpCode::Reconfig => Operation::Reconfig,
        Txn::SetData(_) => Operation::SetData,
        Txn::SetAcl(_) => Operation::SetAcl,
        Txn::CreateSession { .. } => Operation::CreateSession,
        Txn::CloseSession(_) => Operation::CloseSession,
        Txn::Error { .. } => Operation::Error,
        Txn::Check { .. } | Txn::Multi(_) => return None,
    })
}

/// Returns the reason of a deletion. The leader sends `deleteContainer` without a session.
fn cause(op: OpCode, header: &TxnHeader, owner: Option<Owner>) -> DeletionCause {
    match owner {
        _ if op != OpCode::DeleteContainer || header.session.get() != 0 => DeletionCause::Request,
        Some(Owner::Container) => DeletionCause::Container,
        Some(Owner::Ttl { .. }) => DeletionCause::Ttl,
        _ => DeletionCause::Reaped,
    }
}

fn bare(header: &TxnHeader, operation: Operation, path: Option<&str>) -> Change {
    Change {
        at: Moment::of(header),
        session: header.session,
        cxid: header.cxid,
        operation,
        path: path.map(str::to_owned),
        multi: None,
        before: None,
        after: None,
        deletion: None,
        session_end: None,
        session_timeout_ms: None,
        error: None,
    }
}
