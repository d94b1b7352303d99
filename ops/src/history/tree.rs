//! The tree of a server, which transactions change.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;

use zk_curator::Permissions;
use zk_curator_proto::OpCode;

use super::acls::{AclId, AclTable, UNKNOWN};
use super::arena::{Arena, ArenaNode, NONE, NodeId};
use super::digest::node_digest;
use super::error::Damage;
use super::lists::AclList;
use super::lookup::Lookup;
use super::records::{CreateTxn, Record, SetAclTxn, SetDataTxn, Txn, TxnHeader};
use super::scope::{Scope, canonical};
use super::snapshot::{SnapshotNode, SnapshotSession};
use super::stat::{Owner, StoredStat};

/// The root, which a tree always contains.
pub(super) const ROOT: NodeId = 0;

/// The tree of nodes and the open sessions of a server, at one transaction.
///
/// A node takes 112 bytes, about 8 in the table of names, and its name and data in one allocation.
/// ACLs are stored once each.
///
/// The data of the nodes `zookeeper_stats` below `/zookeeper/quota` is as it was created or as a
/// snapshot has it: servers count the statistics of quotas by themselves, without transactions.
pub struct Tree {
    pub(super) nodes: Arena,
    names: Lookup,
    acls: AclTable,
    /// The session timeouts, in milliseconds.
    pub(super) sessions: BTreeMap<i64, i32>,
    pub(super) ephemerals: HashMap<i64, HashSet<NodeId>>,
    /// The digest of the tree, if it is computed.
    digest: Option<u64>,
    pub(super) scope: Scope,
    /// The memory of the nodes, in bytes.
    bytes: usize,
    /// The parent of the last node that came from a snapshot.
    last_parent: (String, NodeId),
}

impl Tree {
    /// Returns a tree with only a root.
    ///
    /// A tree that does not contain all nodes has no digest.
    pub(super) fn new(scope: Scope, has_digest: bool) -> Self {
        let mut tree = Self {
            nodes: Arena::new(),
            names: Lookup::new(),
            acls: AclTable::default(),
            sessions: BTreeMap::new(),
            ephemerals: HashMap::new(),
            digest: (has_digest && scope.is_all()).then_some(0),
            scope,
            bytes: 0,
            last_parent: (String::new(), ROOT),
        };
        let acl = tree.acls.intern(AclList::null());
        tree.nodes.insert(ArenaNode::new(NONE, "", Some(b""), acl, StoredStat::default()));
        tree.update(ROOT, "", |_| {});
        tree
    }

    /// Returns the tree of a server before its first transaction.
    pub(super) fn initial(scope: Scope, has_digest: bool) -> Self {
        let mut tree = Self::new(scope, has_digest);
        let open = tree.acls.intern(AclList::null());
        let read_only = tree.acls.intern(AclList::of(&read_only_list()));
        let stat = StoredStat::default();
        // A server sets the ACL of its configuration with this version.
        let of_config = StoredStat { aversion: -1, ..stat };
        for (path, acl, stat) in [
            ("/zookeeper", open, stat),
            ("/zookeeper/quota", open, stat),
            ("/zookeeper/config", read_only, of_config),
        ] {
            if let Some((parent, name)) = tree.place(path) {
                tree.insert(path, ArenaNode::new(parent, name, Some(b""), acl, stat));
            }
        }
        tree
    }

    /// Returns the sum of the digests of the nodes, as ZooKeeper 3.6 to 3.9 compute it. `None` if
    /// the tree is restricted to some paths, or if digests were not requested.
    #[must_use]
    pub const fn digest(&self) -> Option<u64> {
        self.digest
    }

    /// Returns the memory of the nodes, in bytes.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds a node of a snapshot.
    pub(super) fn load(&mut self, node: &SnapshotNode<'_>) -> Result<(), Damage> {
        let acl = node.acl.map_or(UNKNOWN, |acl| self.acls.intern(acl));
        if node.path.is_empty() {
            self.update(ROOT, "", |root| {
                (root.stat, root.acl) = (node.stat, acl);
                root.set_data(node.data);
            });
            return Ok(());
        }
        if !self.scope.keeps(node.path) {
            return Ok(());
        }
        let no_parent = || Damage::NoParent { path: node.path.to_owned() };
        let (parent, name) = node.path.rsplit_once('/').ok_or_else(no_parent)?;
        if self.last_parent.0 != parent {
            let id = self.find(parent).ok_or_else(no_parent)?;
            self.last_parent = (parent.to_owned(), id);
        }
        let parent = self.last_parent.1;
        if self.child(parent, name).is_some() {
            return Err(Damage::DuplicateNode { path: node.path.to_owned() });
        }
        self.insert(node.path, ArenaNode::new(parent, name, node.data, acl, node.stat));
        Ok(())
    }

    /// Adds a session of a snapshot.
    pub(super) fn load_session(&mut self, session: &SnapshotSession) {
        self.sessions.insert(session.id.get(), session.timeout_ms);
    }

    /// Applies a transaction as a server does that restores its tree.
    ///
    /// A fuzzy snapshot contains the effects of some of the transactions that follow it. Applying
    /// them again must not fail, and leads to the same tree. Returns `false` if the transaction
    /// does not fit the tree: outside the range of a fuzzy snapshot, something is missing then.
    pub(super) fn apply(&mut self, record: &Record<'_>) -> bool {
        let header = &record.header;
        record.applied().fold(true, |fits, (op, txn)| self.apply_one(op, header, &txn) && fits)
    }

    /// Applies one change of a transaction.
    pub(super) fn apply_one(&mut self, op: OpCode, header: &TxnHeader, txn: &Txn<'_>) -> bool {
        match txn {
            Txn::Create(create) => self.create(op, header, create),
            Txn::Delete { path } => self.delete(path, header.zxid),
            Txn::SetData(set) => self.set_data(header, set),
            Txn::SetAcl(set) => self.set_acl(set),
            Txn::CreateSession { timeout_ms } => {
                self.sessions.insert(header.session.get(), *timeout_ms);
                true
            }
            Txn::CloseSession(paths) => {
                let paths = paths.iter().flatten();
                self.close_session(header.session.get(), header.zxid, paths)
            }
            Txn::Check { .. } | Txn::Error { .. } | Txn::Multi(_) => true,
        }
    }

    fn create(&mut self, op: OpCode, header: &TxnHeader, create: &CreateTxn<'_>) -> bool {
        if !self.scope.keeps(create.path) {
            return true;
        }
        let Some((parent, name)) = self.place(create.path) else { return false };
        let parent_path = &create.path[..create.path.len() - name.len() - 1];
        let existing = self.child(parent, name);
        let is_new = existing.is_none();
        // The node exists if the snapshot is fuzzy. Servers correct the parent then, for the
        // operation `create` only.
        if is_new || op == OpCode::Create {
            self.raise_cversion(parent, parent_path, create.parent_cversion, header.zxid);
        }
        if let Some(id) = existing
            && self.nodes[id].acl == UNKNOWN
            && self.nodes[id].stat.czxid == header.zxid
        {
            // The snapshot was begun before this ACL existed, so its table lacks the ACL.
            self.nodes[id].acl = self.acls.intern(create.acl);
        }
        if is_new {
            let acl = self.acls.intern(create.acl);
            let owner = create.owner(header.session);
            let stat = StoredStat::created(header.zxid, header.time_ms, owner);
            self.insert(create.path, ArenaNode::new(parent, name, create.data, acl, stat));
        }
        is_new
    }

    /// Sets `cversion` and `pzxid` of a parent, unless a fuzzy snapshot has later ones.
    fn raise_cversion(&mut self, parent: NodeId, path: &str, cversion: i32, zxid: i64) {
        let before = self.nodes[parent].stat.cversion;
        let cversion = if cversion == -1 { before.wrapping_add(1) } else { cversion };
        if cversion > before {
            self.update(parent, path, |parent| {
                (parent.stat.cversion, parent.stat.pzxid) = (cversion, zxid);
            });
        }
    }

    fn delete(&mut self, path: &str, zxid: i64) -> bool {
        if !self.scope.keeps(path) {
            return true;
        }
        let Some((parent, name)) = self.place(path) else { return false };
        // The parent changes even if a fuzzy snapshot does not contain the node any more.
        if zxid > self.nodes[parent].stat.pzxid {
            let parent_path = &path[..path.len() - name.len() - 1];
            self.update(parent, parent_path, |parent| parent.stat.pzxid = zxid);
        }
        match self.child(parent, name) {
            Some(id) => {
                self.remove(id);
                true
            }
            None => false,
        }
    }

    fn set_data(&mut self, header: &TxnHeader, set: &SetDataTxn<'_>) -> bool {
        if !self.scope.keeps(set.path) {
            return true;
        }
        let Some(id) = self.find(set.path) else { return false };
        self.update(id, canonical(set.path), |node| {
            node.set_data(set.data);
            node.stat.mtime = header.time_ms;
            node.stat.mzxid = header.zxid;
            node.stat.version = set.version;
        });
        true
    }

    fn set_acl(&mut self, set: &SetAclTxn<'_>) -> bool {
        if !self.scope.keeps(set.path) {
            return true;
        }
        let Some(id) = self.find(set.path) else { return false };
        let acl = self.acls.intern(set.acl);
        self.update(id, canonical(set.path), |node| {
            node.stat.aversion = set.version;
            node.acl = acl;
        });
        true
    }

    /// Deletes the paths of the transaction, and the ephemeral nodes that the session still owns
    /// then. A server deletes a path of the transaction even if another session owns it.
    fn close_session<'a>(
        &mut self,
        session: i64,
        zxid: i64,
        paths: impl Iterator<Item = &'a str>,
    ) -> bool {
        self.sessions.remove(&session);
        let mut fits = true;
        for path in paths {
            fits &= self.delete(path, zxid);
        }
        let owned = self.ephemerals.get(&session).into_iter().flatten();
        let owned: Vec<_> = owned.map(|id| self.path(*id)).collect();
        for path in &owned {
            fits &= self.delete(path, zxid);
        }
        fits
    }

    /// Returns the node at a path.
    pub(super) fn find(&self, path: &str) -> Option<NodeId> {
        if canonical(path).is_empty() {
            return Some(ROOT);
        }
        let names = path.strip_prefix('/')?;
        names.split('/').try_fold(ROOT, |parent, name| self.child(parent, name))
    }

    pub(super) fn child(&self, parent: NodeId, name: &str) -> Option<NodeId> {
        self.names.find(&self.nodes, parent, name)
    }

    /// Returns the path of a node; empty for the root.
    pub(super) fn path(&self, id: NodeId) -> String {
        let mut names = Vec::new();
        let mut at = id;
        while at != ROOT {
            names.push(self.name(at));
            at = self.nodes[at].parent;
        }
        names.iter().rev().fold(String::new(), |path, name| path + "/" + name)
    }

    pub(super) fn name(&self, id: NodeId) -> &str {
        // Names come from strings.
        std::str::from_utf8(self.nodes[id].name()).unwrap_or_default()
    }

    /// Returns the parent and the name for a path; `None` if the parent does not exist.
    fn place<'a>(&self, path: &'a str) -> Option<(NodeId, &'a str)> {
        let (parent, name) = path.rsplit_once('/')?;
        Some((self.find(parent)?, name))
    }

    /// Adds a node to the children of its parent.
    fn insert(&mut self, path: &str, node: ArenaNode) {
        let (parent, owner) = (node.parent, node.stat.owner());
        self.bytes += node.memory();
        let id = self.nodes.insert(node);
        let first = self.nodes[parent].first_child;
        self.nodes[id].next = first;
        if first != NONE {
            self.nodes[first].previous = id;
        }
        self.nodes[parent].first_child = id;
        self.nodes[parent].children += 1;
        self.names.insert(&self.nodes, id);
        if let Owner::Session(session) = owner {
            self.ephemerals.entry(session.get()).or_default().insert(id);
        }
        self.update(id, path, |_| {});
    }

    /// Removes a node. It has children only within the range of a fuzzy snapshot, which contains
    /// children that are created later. They are removed as well, and created again.
    fn remove(&mut self, top: NodeId) {
        let ArenaNode { parent, previous, next, .. } = self.nodes[top];
        match previous {
            NONE => self.nodes[parent].first_child = next,
            previous => self.nodes[previous].next = next,
        }
        if next != NONE {
            self.nodes[next].previous = previous;
        }
        self.nodes[parent].children -= 1;
        let mut left = vec![top];
        while let Some(id) = left.pop() {
            let mut child = self.nodes[id].first_child;
            while child != NONE {
                left.push(child);
                child = self.nodes[child].next;
            }
            self.names.remove(&self.nodes, id);
            if let Owner::Session(session) = self.nodes[id].stat.owner()
                && let Some(owned) = self.ephemerals.get_mut(&session.get())
            {
                owned.remove(&id);
                if owned.is_empty() {
                    self.ephemerals.remove(&session.get());
                }
            }
            if let Some(digest) = &mut self.digest {
                *digest = digest.wrapping_sub(self.nodes[id].digest.into());
            }
            self.bytes = self.bytes.saturating_sub(self.nodes[id].memory());
            self.nodes.remove(id);
        }
        self.last_parent = (String::new(), ROOT);
    }

    /// Changes a node, and the digest with it.
    fn update(&mut self, id: NodeId, path: &str, change: impl FnOnce(&mut ArenaNode)) {
        let node = &mut self.nodes[id];
        let memory = node.memory();
        change(node);
        self.bytes = (self.bytes + node.memory()).saturating_sub(memory);
        if let Some(digest) = &mut self.digest {
            let after = node_digest(path, node.data(), &node.stat);
            let before = std::mem::replace(&mut node.digest, after);
            *digest = digest.wrapping_sub(before.into()).wrapping_add(after.into());
        }
    }

    /// Returns an ACL of a node.
    pub(super) fn acl(&self, id: AclId) -> Option<AclList<'_>> {
        self.acls.get(id)
    }
}

impl fmt::Debug for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tree")
            .field("nodes", &self.nodes.len())
            .field("sessions", &self.sessions.len())
            .field("digest", &self.digest)
            .finish_non_exhaustive()
    }
}

/// Returns the stored form of the ACL that every client may read.
fn read_only_list() -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend_from_slice(&1_i32.to_be_bytes());
    bytes.extend_from_slice(&Permissions::READ.bits().to_be_bytes());
    for text in ["world", "anyone"] {
        let length = i32::try_from(text.len()).unwrap_or(0);
        bytes.extend_from_slice(&length.to_be_bytes());
        bytes.extend_from_slice(text.as_bytes());
    }
    bytes
}
