//! Transactions: what a write checks, what it changes, and how a failed multi is taken back.

use std::sync::Arc;

use bytes::Bytes;
use zk_curator_proto::ErrorCode;
use zk_curator_proto::records::{
    Acl, CheckVersionRequest, Create2Response, CreateMode, CreateRequest, DeleteRequest, MultiOp,
    MultiResult, SetDataRequest, Stat,
};

use super::owner::Owner;
use super::{Node, Tree, path};

/// Who writes, and when.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Txn {
    /// The session that writes.
    pub(crate) session: i64,
    /// The number of the transaction.
    pub(crate) zxid: i64,
    /// Milliseconds since the Unix epoch.
    pub(crate) time: i64,
}

/// What a transaction did to one node; what watches are triggered by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change {
    /// The node was created, and its parent has a new child.
    Created(Arc<str>),
    /// The node was deleted, and its parent has a child less.
    Deleted(Arc<str>),
    /// The data were set.
    DataChanged(Arc<str>),
}

/// How to take back one operation.
#[derive(Debug)]
enum Undo {
    Create { path: Arc<str>, parent_counter: i32, parent_pzxid: i64 },
    Delete { path: Arc<str>, node: Box<Node>, parent_pzxid: i64 },
    SetData { path: Arc<str>, data: Option<Bytes>, version: i32, mzxid: i64, mtime: i64 },
}

/// What the operations of one transaction have done so far.
#[derive(Debug, Default)]
struct Journal {
    changes: Vec<Change>,
    undo: Vec<Undo>,
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
    pub(crate) fn apply(&mut self, op: MultiOp, txn: Txn) -> Result<(MultiResult, Vec<Change>), ErrorCode> {
        let mut journal = Journal::default();
        let result = self.step(op, txn, &mut journal)?;
        Ok((result, journal.changes))
    }

    /// Applies all operations, each seeing the effects of those before it, or none.
    pub(crate) fn apply_multi(&mut self, ops: Vec<MultiOp>, txn: Txn) -> (Vec<MultiResult>, Vec<Change>) {
        let mut journal = Journal::default();
        let mut results = Vec::with_capacity(ops.len());
        let count = ops.len();
        for op in ops {
            match self.step(as_in_multi(op), txn, &mut journal) {
                Ok(result) => results.push(result),
                Err(code) => {
                    for undo in journal.undo.into_iter().rev() {
                        self.take_back(undo);
                    }
                    let failed_at = results.len();
                    let outcome = |index: usize| match index.cmp(&failed_at) {
                        std::cmp::Ordering::Less => None,
                        std::cmp::Ordering::Equal => Some(code),
                        std::cmp::Ordering::Greater => Some(ErrorCode::RuntimeInconsistency),
                    };
                    return (
                        (0..count).map(|index| MultiResult::Error(outcome(index))).collect(),
                        Vec::new(),
                    );
                }
            }
        }
        (results, journal.changes)
    }

    /// Deletes everything a session owns.
    pub(crate) fn close_session(&mut self, session: i64, zxid: i64) -> Vec<Change> {
        let mut journal = Journal::default();
        for path in self.ephemerals.remove(&session).unwrap_or_default() {
            self.unlink(&path, zxid, &mut journal);
        }
        journal.changes
    }

    /// Deletes a container or a node with a time to live, if it is still one and has no children.
    pub(crate) fn reap(&mut self, path: &Arc<str>, zxid: i64) -> Result<Vec<Change>, ErrorCode> {
        let node = self.node(path)?;
        if !node.children.is_empty() {
            return Err(ErrorCode::NotEmpty);
        }
        if matches!(node.owner, Owner::Session(_)) {
            return Err(ErrorCode::BadVersion);
        }
        let mut journal = Journal::default();
        self.unlink(path, zxid, &mut journal);
        Ok(journal.changes)
    }

    fn step(&mut self, op: MultiOp, txn: Txn, journal: &mut Journal) -> Result<MultiResult, ErrorCode> {
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
            MultiOp::Check(body) => self.check(&body),
            _ => Err(ErrorCode::Unimplemented),
        }
    }

    fn create(&mut self, new: NewNode, txn: Txn, journal: &mut Journal) -> Result<(String, Stat), ErrorCode> {
        let (parent_path, _) = path::split(&new.path)?;
        let parent_path = parent_path.to_owned();
        if new.acl.is_empty() {
            return Err(ErrorCode::InvalidAcl);
        }
        let parent = self.node(&parent_path)?;
        let mut path = new.path;
        if new.mode.is_sequential() {
            path.push_str(&sequence_suffix(parent.created_children));
        }
        path::validate(&path)?;
        if self.nodes.contains_key(path.as_str()) {
            return Err(ErrorCode::NodeExists);
        }
        if matches!(parent.owner, Owner::Session(_)) {
            return Err(ErrorCode::NoChildrenForEphemerals);
        }

        let key: Arc<str> = path.as_str().into();
        let (_, name) = path::split(&path)?;
        let parent = self.node_mut(&parent_path)?;
        let undo = Undo::Create {
            path: Arc::clone(&key),
            parent_counter: parent.created_children,
            parent_pzxid: parent.pzxid,
        };
        parent.created_children = parent.created_children.wrapping_add(1);
        parent.pzxid = txn.zxid;
        parent.children.insert(name.into());
        let node = Node::new(new.data, new.acl.into(), new.owner, txn.zxid, txn.time);
        let stat = node.stat();
        self.register(&key, new.owner);
        self.nodes.insert(Arc::clone(&key), node);
        journal.undo.push(undo);
        journal.changes.push(Change::Created(key));
        Ok((path, stat))
    }

    fn delete(
        &mut self,
        body: &DeleteRequest,
        txn: Txn,
        journal: &mut Journal,
    ) -> Result<MultiResult, ErrorCode> {
        let (parent, _) = path::split(&body.path)?;
        if path::SPECIAL.contains(&body.path.as_str()) {
            return Err(ErrorCode::BadArguments);
        }
        self.node(parent)?;
        let node = self.node(&body.path)?;
        next_version(node.version, body.version)?;
        if !node.children.is_empty() {
            return Err(ErrorCode::NotEmpty);
        }
        self.unlink(&body.path.as_str().into(), txn.zxid, journal);
        Ok(MultiResult::Delete)
    }

    fn set_data(
        &mut self,
        body: SetDataRequest,
        txn: Txn,
        journal: &mut Journal,
    ) -> Result<MultiResult, ErrorCode> {
        path::validate(&body.path)?;
        let node = self.node_mut(&body.path)?;
        let version = next_version(node.version, body.version)?;
        let path: Arc<str> = body.path.into();
        journal.undo.push(Undo::SetData {
            path: Arc::clone(&path),
            data: node.data.take(),
            version: node.version,
            mzxid: node.mzxid,
            mtime: node.mtime,
        });
        node.data = body.data;
        node.version = version;
        node.mzxid = txn.zxid;
        node.mtime = txn.time;
        journal.changes.push(Change::DataChanged(path));
        Ok(MultiResult::SetData(node.stat()))
    }

    fn check(&self, body: &CheckVersionRequest) -> Result<MultiResult, ErrorCode> {
        path::validate(&body.path)?;
        next_version(self.node(&body.path)?.version, body.version)?;
        Ok(MultiResult::Check)
    }

    /// Removes a node that exists, has no children and is not special.
    fn unlink(&mut self, path: &Arc<str>, zxid: i64, journal: &mut Journal) {
        let Some(node) = self.nodes.remove(path) else {
            return;
        };
        self.unregister(path, node.owner);
        let mut parent_pzxid = 0;
        if let (Ok((_, name)), Some(parent)) = (path::split(path), self.nodes.get_mut(path::parent(path))) {
            parent.children.remove(name);
            parent_pzxid = parent.pzxid;
            parent.pzxid = zxid;
        }
        journal.undo.push(Undo::Delete { path: Arc::clone(path), node: Box::new(node), parent_pzxid });
        journal.changes.push(Change::Deleted(Arc::clone(path)));
    }

    fn take_back(&mut self, undo: Undo) {
        match undo {
            Undo::Create { path, parent_counter, parent_pzxid } => {
                if let Some(node) = self.nodes.remove(&path) {
                    self.unregister(&path, node.owner);
                }
                if let (Ok((_, name)), Some(parent)) =
                    (path::split(&path), self.nodes.get_mut(path::parent(&path)))
                {
                    parent.children.remove(name);
                    parent.created_children = parent_counter;
                    parent.pzxid = parent_pzxid;
                }
            }
            Undo::Delete { path, node, parent_pzxid } => {
                self.register(&path, node.owner);
                if let (Ok((_, name)), Some(parent)) =
                    (path::split(&path), self.nodes.get_mut(path::parent(&path)))
                {
                    parent.children.insert(name.into());
                    parent.pzxid = parent_pzxid;
                }
                self.nodes.insert(path, *node);
            }
            Undo::SetData { path, data, version, mzxid, mtime } => {
                if let Some(node) = self.nodes.get_mut(&path) {
                    node.data = data;
                    node.version = version;
                    node.mzxid = mzxid;
                    node.mtime = mtime;
                }
            }
        }
    }

    fn register(&mut self, path: &Arc<str>, owner: Owner) {
        match owner {
            Owner::None => {}
            Owner::Session(id) => {
                self.ephemerals.entry(id).or_default().insert(Arc::clone(path));
            }
            Owner::Container => {
                self.containers.insert(Arc::clone(path));
            }
            Owner::Ttl(_) => {
                self.ttls.insert(Arc::clone(path));
            }
        }
    }

    fn unregister(&mut self, path: &Arc<str>, owner: Owner) {
        match owner {
            Owner::None => {}
            Owner::Session(id) => {
                if let Some(paths) = self.ephemerals.get_mut(&id) {
                    paths.remove(path);
                    if paths.is_empty() {
                        self.ephemerals.remove(&id);
                    }
                }
            }
            Owner::Container => {
                self.containers.remove(path);
            }
            Owner::Ttl(_) => {
                self.ttls.remove(path);
            }
        }
    }
}

/// In a multi the flags say what a create is and its opcode does not: released servers read all of them into
/// one record, answer `create2` as `create`, and make a container of any that has the container flag.
pub(super) fn as_in_multi(op: MultiOp) -> MultiOp {
    let body = match op {
        MultiOp::Create(body) | MultiOp::Create2(body) | MultiOp::CreateContainer(body) => body,
        MultiOp::CreateTtl(body) if !mode(body.flags).is_ok_and(CreateMode::is_ttl) => {
            CreateRequest { path: body.path, data: body.data, acl: body.acl, flags: body.flags }
        }
        other => return other,
    };
    if body.flags == CreateMode::Container.flags() {
        MultiOp::CreateContainer(body)
    } else {
        MultiOp::Create(body)
    }
}

fn mode(flags: i32) -> Result<CreateMode, ErrorCode> {
    CreateMode::try_from(flags).map_err(|_| ErrorCode::BadArguments)
}

/// A node as `create` and `create2` make it. The container flag has no effect there: only the opcode
/// `createContainer` makes a container. A time to live cannot be given, so its modes are refused.
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

/// Java's `%010d`: ten characters, of which a minus sign is one; more when the number needs them.
fn sequence_suffix(counter: i32) -> String {
    format!("{counter:010}")
}

/// The version after a write that expects `expected`. Skips -1, which as an expectation means "any".
const fn next_version(current: i32, expected: i32) -> Result<i32, ErrorCode> {
    if expected != -1 && expected != current {
        return Err(ErrorCode::BadVersion);
    }
    match current.wrapping_add(1) {
        -1 => Ok(0),
        next => Ok(next),
    }
}
