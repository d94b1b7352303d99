//! Transactions: the checks and the changes of a write, and the undo of a failed multi.

use std::sync::Arc;

use bytes::Bytes;
use zk_curator_proto::ErrorCode;
use zk_curator_proto::records::{
    Acl, CheckVersionRequest, Create2Response, CreateMode, CreateRequest, DeleteRequest, MultiOp,
    MultiResult, Permissions, SetAclRequest, SetDataRequest, Stat,
};

use super::node::{Node, length, stored};
use super::owner::Owner;
use super::path;
use super::quota::Usage;
use super::store::Tree;
use super::undo::{Change, Journal, Undo};
use crate::access::{self, Identity};
use crate::version::{SequenceOverflow, ZooKeeperVersion};

/// The context of a write.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Txn<'a> {
    /// The session that writes.
    pub(crate) session: i64,
    /// The identities of the connection.
    pub(crate) identities: &'a [Identity],
    /// The zxid of the transaction.
    pub(crate) zxid: i64,
    /// The time, in milliseconds since the Unix epoch.
    pub(crate) time: i64,
}

struct NewNode {
    path: String,
    data: Option<Bytes>,
    acl: Vec<Acl>,
    mode: CreateMode,
    owner: Owner,
}

impl Tree {
    /// Applies one operation.
    pub(crate) fn apply(
        &mut self,
        op: MultiOp,
        txn: Txn<'_>,
    ) -> Result<(MultiResult, Vec<Change>), ErrorCode> {
        let mut journal = Journal::default();
        let result = self.step(op, txn, &mut journal)?;
        self.count_usages(&journal.usages);
        Ok((result, journal.changes))
    }

    /// Applies all operations or none. Each operation sees the effects of the earlier ones. The
    /// returned error is one of the request, not of an operation.
    pub(crate) fn apply_multi(
        &mut self,
        ops: Vec<MultiOp>,
        txn: Txn<'_>,
    ) -> Result<(Vec<MultiResult>, Vec<Change>), ErrorCode> {
        let mut journal = Journal::default();
        let mut results = Vec::with_capacity(ops.len());
        let count = ops.len();
        let (is_3_8, version) = (self.version == ZooKeeperVersion::V3_8, self.version);
        if !is_3_8 && ops.iter().any(|op| is_create_without_ttl(op) || has_unknown_flags(op)) {
            return Err(ErrorCode::MarshallingError);
        }
        for op in ops {
            // 3.8 detects this only when it applies the operation.
            if is_3_8 && is_create_without_ttl(&op) {
                self.take_back(journal);
                return Err(ErrorCode::MarshallingError);
            }
            match self.step(as_in_multi(op, version), txn, &mut journal) {
                Ok(result) => results.push(result),
                Err(code) => {
                    self.take_back(journal);
                    let failed_at = results.len();
                    let outcome = |index: usize| match index.cmp(&failed_at) {
                        std::cmp::Ordering::Less => None,
                        std::cmp::Ordering::Equal => Some(code),
                        std::cmp::Ordering::Greater => Some(ErrorCode::RuntimeInconsistency),
                    };
                    let results =
                        (0..count).map(|index| MultiResult::Error(outcome(index))).collect();
                    return Ok((results, Vec::new()));
                }
            }
        }
        self.count_usages(&journal.usages);
        Ok((results, journal.changes))
    }

    /// Replaces an ACL. This triggers no watch.
    pub(crate) fn set_acl(&mut self, body: SetAclRequest, txn: Txn<'_>) -> Result<Stat, ErrorCode> {
        path::validate(&body.path)?;
        let acl = access::expand(body.acl, txn.identities, self.version)?;
        let node = self.node(&body.path)?;
        access::check(&node.acl, Permissions::ADMIN, txn.identities)?;
        let aversion = next_version(node.aversion, body.version)?;
        let acl = self.acls.share(acl);
        let node = self.node_mut(&body.path)?;
        node.aversion = aversion;
        node.acl = acl;
        Ok(node.stat())
    }

    /// Deletes everything a session owns.
    pub(crate) fn close_session(&mut self, session: i64, zxid: i64) -> Vec<Change> {
        let mut journal = Journal::default();
        for path in self.ephemerals.remove(&session).unwrap_or_default() {
            self.unlink(&path, zxid, &mut journal);
        }
        self.count_usages(&journal.usages);
        journal.changes
    }

    /// Deletes a container or a node with a time to live, if it is still one and has no children.
    pub(crate) fn reap(&mut self, path: &Arc<str>, zxid: i64) -> Result<Vec<Change>, ErrorCode> {
        let node = self.node(path)?;
        if node.has_children() {
            return Err(ErrorCode::NotEmpty);
        }
        if matches!(node.owner(), Owner::Session(_)) {
            return Err(ErrorCode::BadVersion);
        }
        let mut journal = Journal::default();
        self.unlink(path, zxid, &mut journal);
        self.count_usages(&journal.usages);
        Ok(journal.changes)
    }

    fn step(
        &mut self,
        op: MultiOp,
        txn: Txn<'_>,
        journal: &mut Journal,
    ) -> Result<MultiResult, ErrorCode> {
        match op {
            MultiOp::Create(body) => {
                let new = plain(body, txn.session)?;
                self.create(new, txn, journal).map(|(path, _)| MultiResult::Create(path))
            }
            MultiOp::Create2(body) => {
                let new = plain(body, txn.session)?;
                self.create(new, txn, journal).map(created)
            }
            MultiOp::CreateContainer(body) => {
                let mut new = plain(body, txn.session)?;
                new.owner = Owner::Container;
                self.create(new, txn, journal).map(created)
            }
            MultiOp::CreateTtl(body) => {
                let mode = mode(body.flags)?;
                if !mode.is_ttl() {
                    return Err(ErrorCode::BadArguments);
                }
                let owner = Owner::ttl(body.ttl)?;
                let new = NewNode { path: body.path, data: body.data, acl: body.acl, mode, owner };
                self.create(new, txn, journal).map(created)
            }
            MultiOp::Delete(body) => self.delete(&body, txn, journal),
            MultiOp::SetData(body) => self.set_data(body, txn, journal),
            MultiOp::Check(body) => self.check(&body, txn),
            _ => Err(ErrorCode::Unimplemented),
        }
    }

    fn create(
        &mut self,
        new: NewNode,
        txn: Txn<'_>,
        journal: &mut Journal,
    ) -> Result<(String, Stat), ErrorCode> {
        let (parent_path, _) = path::split(&new.path)?;
        let parent_path = parent_path.to_owned();
        let acl = access::expand(new.acl, txn.identities, self.version)?;
        let parent = self.node(&parent_path)?;
        access::check(&parent.acl, Permissions::CREATE, txn.identities)?;
        // Within a multi, the counter continues from operation to operation, even where the counter
        // of the tree does not.
        let number = journal.counters.get(&parent_path).copied().unwrap_or(parent.created_children);
        let mut path = new.path;
        if new.mode.is_sequential() {
            path.push_str(&sequence_suffix(number));
        }
        path::validate(&path)?;
        if self.get(&path).is_some() {
            return Err(ErrorCode::NodeExists);
        }
        if matches!(parent.owner(), Owner::Session(_)) {
            return Err(ErrorCode::NoChildrenForEphemerals);
        }
        let bytes = length(new.data.as_deref());
        self.check_quota(&path, bytes, 1)?;

        let key: Arc<str> = path.as_str().into();
        let (next, overflow) = (number.wrapping_add(1), self.sequence_overflow);
        let (_, name) = path::split(&path)?;
        let acl = self.acls.share(acl);
        let node = Node::new(new.data.map(stored), Arc::clone(&acl), new.owner, txn.zxid, txn.time);
        let stat = node.stat();
        let parent = self.node_mut(&parent_path)?;
        journal.undo.push(Undo::Create {
            path: Arc::clone(&key),
            parent_counter: parent.created_children,
            parent_pzxid: parent.pzxid,
        });
        // The counter of the tree never goes down, and pzxid stays with it.
        if next > parent.created_children || overflow == SequenceOverflow::WrapsAround {
            parent.created_children = next;
            parent.pzxid = txn.zxid;
        }
        journal.changes.push(Change::created(&key, &node, Arc::clone(&parent.acl)));
        parent.link(name, Arc::new(node));
        journal.counters.insert(parent_path, next);
        // A node deleted and created again in one multi counts from zero again.
        journal.counters.remove(&path);
        self.count += 1;
        self.register(&key, new.owner);
        self.note(&key, bytes, 1, journal);
        Ok((path, stat))
    }

    fn delete(
        &mut self,
        body: &DeleteRequest,
        txn: Txn<'_>,
        journal: &mut Journal,
    ) -> Result<MultiResult, ErrorCode> {
        let (parent, _) = path::split(&body.path)?;
        if path::SPECIAL.contains(&body.path.as_str()) {
            return Err(ErrorCode::BadArguments);
        }
        access::check(&self.node(parent)?.acl, Permissions::DELETE, txn.identities)?;
        let node = self.node(&body.path)?;
        next_version(node.version, body.version)?;
        if node.has_children() {
            return Err(ErrorCode::NotEmpty);
        }
        self.unlink(&body.path.as_str().into(), txn.zxid, journal);
        Ok(MultiResult::Delete)
    }

    fn set_data(
        &mut self,
        body: SetDataRequest,
        txn: Txn<'_>,
        journal: &mut Journal,
    ) -> Result<MultiResult, ErrorCode> {
        path::validate(&body.path)?;
        let node = self.node(&body.path)?;
        access::check(&node.acl, Permissions::WRITE, txn.identities)?;
        let bytes = length(body.data.as_deref()) - length(node.data());
        self.check_quota(&body.path, bytes, 0)?;
        let version = next_version(node.version, body.version)?;
        let path: Arc<str> = body.path.into();
        let node = self.node_mut(&path)?;
        journal.undo.push(Undo::SetData {
            path: Arc::clone(&path),
            data: node.data.take(),
            version: node.version,
            mzxid: node.mzxid,
            mtime: node.mtime,
        });
        node.data = body.data.map(stored);
        node.version = version;
        node.mzxid = txn.zxid;
        node.mtime = txn.time;
        let stat = node.stat();
        journal.changes.push(Change::data_changed(&path, node));
        self.note(&path, bytes, 0, journal);
        Ok(MultiResult::SetData(stat))
    }

    fn check(&self, body: &CheckVersionRequest, txn: Txn<'_>) -> Result<MultiResult, ErrorCode> {
        path::validate(&body.path)?;
        let node = self.node(&body.path)?;
        access::check(&node.acl, Permissions::READ, txn.identities)?;
        next_version(node.version, body.version)?;
        Ok(MultiResult::Check)
    }

    /// Removes a node that exists, has no children and is not special.
    fn unlink(&mut self, path: &Arc<str>, zxid: i64, journal: &mut Journal) {
        let Ok(parent) = self.node_mut(path::parent(path)) else { return };
        let Some(node) = parent.unlink(path::name(path)) else { return };
        let parent_pzxid = parent.pzxid;
        parent.pzxid = parent.pzxid.max(zxid);
        let parent_acl = Arc::clone(&parent.acl);
        self.count -= 1;
        self.unregister(path, node.owner());
        journal.changes.push(Change::deleted(path, &node, parent_acl));
        self.note(path, -length(node.data()), -1, journal);
        journal.undo.push(Undo::Delete { path: Arc::clone(path), node, parent_pzxid });
    }

    fn note(&self, path: &Arc<str>, bytes: i64, nodes: i64, journal: &mut Journal) {
        if self.counts(path) {
            journal.usages.push(Usage { path: Arc::clone(path), bytes, nodes });
        }
    }
}

/// Returns `true` for a create whose flags ask for a time to live that its record has no field for.
/// Released servers fail on it.
fn is_create_without_ttl(op: &MultiOp) -> bool {
    match op {
        MultiOp::Create(body) | MultiOp::Create2(body) | MultiOp::CreateContainer(body) => {
            mode(body.flags).is_ok_and(CreateMode::is_ttl)
        }
        _ => false,
    }
}

/// Returns `true` for a create with unknown flags, which 3.9 refuses to decode.
fn has_unknown_flags(op: &MultiOp) -> bool {
    match op {
        MultiOp::Create(body) | MultiOp::Create2(body) | MultiOp::CreateContainer(body) => {
            mode(body.flags).is_err()
        }
        _ => false,
    }
}

/// Returns the meaning of a create in a multi. The container flag always makes a container.
/// Otherwise 3.8 follows the flags, and responds to `create2` as to `create`, while 3.9 follows the
/// opcode.
pub(super) fn as_in_multi(op: MultiOp, version: ZooKeeperVersion) -> MultiOp {
    let (body, plain): (_, fn(CreateRequest) -> MultiOp) = match op {
        MultiOp::Create2(body) if version != ZooKeeperVersion::V3_8 => (body, MultiOp::Create2),
        MultiOp::CreateContainer(body) if version != ZooKeeperVersion::V3_8 => {
            (body, MultiOp::CreateContainer)
        }
        MultiOp::Create(body) | MultiOp::Create2(body) | MultiOp::CreateContainer(body) => {
            (body, MultiOp::Create)
        }
        MultiOp::CreateTtl(body) if !mode(body.flags).is_ok_and(CreateMode::is_ttl) => {
            let body = CreateRequest {
                path: body.path,
                data: body.data,
                acl: body.acl,
                flags: body.flags,
            };
            (body, MultiOp::Create)
        }
        other => return other,
    };
    if body.flags == CreateMode::Container.flags() {
        MultiOp::CreateContainer(body)
    } else {
        plain(body)
    }
}

fn mode(flags: i32) -> Result<CreateMode, ErrorCode> {
    CreateMode::try_from(flags).map_err(|_| ErrorCode::BadArguments)
}

/// Returns the node of a `create` or `create2`. The container flag has no effect there: only the
/// opcode `createContainer` makes a container. A time to live cannot be set, so its modes are
/// refused.
fn plain(body: CreateRequest, session: i64) -> Result<NewNode, ErrorCode> {
    let mode = mode(body.flags)?;
    if mode.is_ttl() {
        return Err(ErrorCode::BadArguments);
    }
    let owner = if mode.is_ephemeral() { Owner::Session(session) } else { Owner::None };
    Ok(NewNode { path: body.path, data: body.data, acl: body.acl, mode, owner })
}

fn created((path, stat): (String, Stat)) -> MultiResult {
    MultiResult::Create2(Create2Response { path, stat })
}

/// Formats a number as Java's `%010d`: at least ten characters, including the minus sign.
fn sequence_suffix(counter: i32) -> String {
    format!("{counter:010}")
}

/// Returns the version after a write that expects `expected`. Skips -1, which means "any" in an
/// expectation.
const fn next_version(current: i32, expected: i32) -> Result<i32, ErrorCode> {
    if expected != -1 && expected != current {
        return Err(ErrorCode::BadVersion);
    }
    match current.wrapping_add(1) {
        -1 => Ok(0),
        next => Ok(next),
    }
}
