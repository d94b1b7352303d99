//! A second, simple implementation of the tree, and a generator of the logs of a server.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;
use zk_curator::{Acl, Permissions};

use super::super::stat::{Owner, StoredStat};
use super::writer::{Op, SnapshotContent, StoredNode, TestTxn, crc32};

/// A node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ModelNode {
    pub(super) data: Option<Vec<u8>>,
    pub(super) acl: Vec<Acl>,
    pub(super) stat: StoredStat,
}

/// The state of a server. The path of the root is empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Model {
    pub(super) nodes: BTreeMap<String, ModelNode>,
    pub(super) sessions: BTreeMap<i64, i32>,
    pub(super) zxid: i64,
}

/// A number that the generator turns into a valid request.
pub(super) type Choice = (u8, u8, u8);

pub(super) fn choices(most: usize) -> impl Strategy<Value = Vec<Choice>> {
    vec(any::<Choice>(), 0..most)
}

impl Model {
    /// Returns the state of a new server.
    pub(super) fn new() -> Self {
        let node = |acl, aversion| ModelNode {
            data: Some(Vec::new()),
            acl,
            stat: StoredStat { aversion, ..StoredStat::default() },
        };
        let nodes = ["", "/zookeeper", "/zookeeper/quota"]
            .map(|path| (path.to_owned(), node(Acl::open_unsafe(), 0)));
        let config = ("/zookeeper/config".to_owned(), node(Acl::read_unsafe(), -1));
        let nodes = nodes.into_iter().chain([config]).collect();
        Self { nodes, sessions: BTreeMap::new(), zxid: 0 }
    }

    /// Applies choices as requests, and returns the log of the server.
    pub(super) fn run(&mut self, choices: &[Choice], has_digests: bool) -> Vec<TestTxn> {
        choices.iter().map(|choice| self.step(*choice, has_digests)).collect()
    }

    fn step(&mut self, (kind, x, y): Choice, has_digests: bool) -> TestTxn {
        let mut txn = TestTxn::new(self.zxid + 1, Op::Error { code: -101 });
        if let Some((session, _)) = nth(&self.sessions, x) {
            txn.session = *session;
        }
        txn.op = self.request(kind, x, y, &mut txn.session, has_digests);
        self.apply(&txn);
        txn.digest = has_digests.then(|| self.digest());
        txn
    }

    /// Returns a request that succeeds in this state, or an error.
    fn request(&self, kind: u8, x: u8, y: u8, session: &mut i64, has_paths: bool) -> Op {
        let error = Op::Error { code: -101 };
        match kind % 12 {
            0..=4 => self.create(kind, x, y, *session).unwrap_or(error),
            5 => match self.leaves().nth(usize::from(x) % self.nodes.len()) {
                Some(path) if y.is_multiple_of(2) => Op::Delete { path },
                Some(path) => Op::DeleteContainer { path },
                None => error,
            },
            6 => self.set_data(x, y),
            7 => {
                let (path, node) = nth(&self.nodes, x).unwrap();
                let version = node.stat.aversion + 1;
                Op::SetAcl { path: shown(path), acl: vec![acl(y)], version }
            }
            8 => {
                *session = 1 + i64::from(x % 5);
                match self.sessions.contains_key(session) {
                    true => error,
                    false => Op::CreateSession { timeout: 1000 + i32::from(y) },
                }
            }
            9 => match nth(&self.sessions, x) {
                Some((id, _)) => {
                    *session = *id;
                    let paths = has_paths.then(|| self.owned_by(*id));
                    Op::CloseSession { paths }
                }
                None => error,
            },
            10 => self.multi(x, y, *session),
            _ => Op::Multi(vec![
                Op::SetData { path: "/never".to_owned(), data: None, version: 1 },
                Op::Error { code: -101 },
                Op::Error { code: -2 },
            ]),
        }
    }

    fn create(&self, kind: u8, x: u8, y: u8, session: i64) -> Option<Op> {
        let (parent, node) = nth(&self.nodes, x)?;
        if matches!(node.stat.owner(), Owner::Session(_)) || parent.starts_with("/zookeeper") {
            return None;
        }
        let path = format!("{parent}/{}", ["a", "bb", "c-0000000001"][usize::from(y) % 3]);
        if self.nodes.contains_key(&path) {
            return None;
        }
        let cversion = node.stat.cversion + 1;
        let data = (!y.is_multiple_of(4)).then(|| vec![y; usize::from(x) % 40]);
        let acl = vec![acl(x)];
        let ephemeral = kind % 12 == 1 && self.sessions.contains_key(&session);
        Some(match kind % 12 {
            0 | 1 => Op::Create { path, data, acl, ephemeral, cversion },
            2 => Op::Create2 { path, data, acl, ephemeral, cversion },
            3 => Op::Container { path, data, acl, cversion },
            _ => Op::Ttl { path, data, acl, cversion, ttl: 1 + i64::from(y) },
        })
    }

    fn set_data(&self, x: u8, y: u8) -> Op {
        let (path, node) = nth(&self.nodes, x).unwrap();
        let data = (!y.is_multiple_of(5)).then(|| vec![y; usize::from(y) % 30]);
        Op::SetData { path: shown(path), data, version: node.stat.version + 1 }
    }

    /// Returns a multi whose parts depend on each other.
    fn multi(&self, x: u8, y: u8, session: i64) -> Op {
        let mut after = self.clone();
        let mut parts = Vec::new();
        for (kind, x, y) in [(0, x, y), (6, y, x), (2, x, y.wrapping_add(1)), (5, y, x)] {
            let mut session = session;
            let op = after.request(kind, x, y, &mut session, false);
            if !matches!(op, Op::Error { .. }) {
                after.apply(&TestTxn::new(self.zxid + 1, op.clone()));
                after.zxid = self.zxid;
                parts.push(op);
            }
        }
        Op::Multi(parts)
    }

    /// Applies a transaction that fits the state.
    pub(super) fn apply(&mut self, txn: &TestTxn) {
        self.zxid = txn.zxid;
        let parts = match &txn.op {
            Op::Multi(parts) if parts.iter().any(|part| matches!(part, Op::Error { .. })) => return,
            Op::Multi(parts) => parts.as_slice(),
            single => std::slice::from_ref(single),
        };
        for part in parts {
            self.apply_one(txn, part);
        }
    }

    fn apply_one(&mut self, txn: &TestTxn, op: &Op) {
        match op {
            Op::Create { path, data, acl, ephemeral, cversion }
            | Op::Create2 { path, data, acl, ephemeral, cversion } => {
                let owner = if *ephemeral { txn.session } else { 0 };
                self.add(txn, path, data, acl, *cversion, owner);
            }
            Op::CreateV0 { path, data, acl, ephemeral } => {
                let owner = if *ephemeral { txn.session } else { 0 };
                let cversion = self.nodes[parent(path)].stat.cversion + 1;
                self.add(txn, path, data, acl, cversion, owner);
            }
            Op::Container { path, data, acl, cversion } => {
                self.add(txn, path, data, acl, *cversion, i64::MIN);
            }
            Op::Ttl { path, data, acl, cversion, ttl } => {
                self.add(txn, path, data, acl, *cversion, (0xff_i64 << 56) | *ttl);
            }
            Op::Delete { path } | Op::DeleteContainer { path } => self.remove(txn, path),
            Op::SetData { path, data, version } | Op::Reconfig { path, data, version } => {
                let node = self.nodes.get_mut(stored(path)).unwrap();
                node.data = data.clone();
                (node.stat.mzxid, node.stat.mtime) = (txn.zxid, txn.time);
                node.stat.version = *version;
            }
            Op::SetAcl { path, acl, version } => {
                let node = self.nodes.get_mut(stored(path)).unwrap();
                (node.acl, node.stat.aversion) = (acl.clone(), *version);
            }
            Op::CreateSession { timeout } => {
                self.sessions.insert(txn.session, *timeout);
            }
            Op::CloseSession { .. } => {
                self.sessions.remove(&txn.session);
                for path in self.owned_by(txn.session) {
                    self.remove(txn, &path);
                }
            }
            Op::Check { .. } | Op::Error { .. } | Op::Multi(_) => {}
        }
    }

    fn add(
        &mut self,
        txn: &TestTxn,
        path: &str,
        data: &Option<Vec<u8>>,
        acl: &[Acl],
        cversion: i32,
        owner: i64,
    ) {
        let above = self.nodes.get_mut(parent(path)).unwrap();
        (above.stat.cversion, above.stat.pzxid) = (cversion, txn.zxid);
        let stat = StoredStat {
            czxid: txn.zxid,
            mzxid: txn.zxid,
            pzxid: txn.zxid,
            ctime: txn.time,
            mtime: txn.time,
            ephemeral_owner: owner,
            ..StoredStat::default()
        };
        let node = ModelNode { data: data.clone(), acl: acl.to_vec(), stat };
        assert!(self.nodes.insert(path.to_owned(), node).is_none(), "{path}");
    }

    fn remove(&mut self, txn: &TestTxn, path: &str) {
        assert!(self.nodes.remove(path).is_some(), "{path}");
        self.nodes.get_mut(parent(path)).unwrap().stat.pzxid = txn.zxid;
    }

    fn owned_by(&self, session: i64) -> Vec<String> {
        let owned = self.nodes.iter().filter(|(_, node)| node.stat.ephemeral_owner == session);
        owned.map(|(path, _)| path.clone()).collect()
    }

    fn leaves(&self) -> impl Iterator<Item = String> {
        let has_children =
            move |path: &str| self.nodes.keys().any(|other| parent_of(other) == path);
        let own = self.nodes.keys().filter(|path| !path.starts_with("/zookeeper"));
        own.filter(move |path| !path.is_empty() && !has_children(path)).cloned()
    }

    /// Returns the digest of the tree, from its definition.
    pub(super) fn digest(&self) -> u64 {
        let digests = self.nodes.iter().map(|(path, node)| {
            if path.starts_with("/zookeeper/") {
                return 0;
            }
            let mut bytes = path.clone().into_bytes();
            bytes.extend(node.data.iter().flatten());
            let stat = &node.stat;
            for field in [stat.czxid, stat.mzxid, stat.pzxid, stat.ctime, stat.mtime] {
                bytes.extend(field.to_be_bytes());
            }
            for field in [stat.version, stat.cversion, stat.aversion] {
                bytes.extend(field.to_be_bytes());
            }
            bytes.extend(stat.ephemeral_owner.to_be_bytes());
            u64::from(crc32(&bytes))
        });
        digests.fold(0, u64::wrapping_add)
    }

    /// Returns the snapshot of this state.
    pub(super) fn snapshot(&self) -> SnapshotContent {
        fuzzy_snapshot(std::slice::from_ref(self), &[]).0
    }
}

/// Returns the snapshot of a server that applies transactions while it writes, and the index of the
/// last state that it may contain changes of. A server copies the names of the children with their
/// parent, and skips children that are gone later. `pace` is the number of transactions between two
/// nodes.
pub(super) fn fuzzy_snapshot(states: &[Model], pace: &[u8]) -> (SnapshotContent, usize) {
    let mut content = SnapshotContent {
        sessions: states[0].sessions.iter().map(|(id, timeout)| (*id, *timeout)).collect(),
        ..SnapshotContent::default()
    };
    let mut acls: Vec<Vec<Acl>> = Vec::new();
    for node in states.iter().flat_map(|state| state.nodes.values()) {
        if !acls.contains(&node.acl) {
            acls.push(node.acl.clone());
        }
    }
    let (mut now, mut left) = (0, vec![String::new()]);
    let mut pace = pace.iter();
    while let Some(path) = left.pop() {
        let state = &states[now];
        if let Some(node) = state.nodes.get(&path) {
            let acl = acls.iter().position(|acl| *acl == node.acl).unwrap();
            let children = state.nodes.keys().filter(|other| parent_of(other) == path);
            left.extend(children.cloned());
            content.nodes.push(StoredNode {
                path,
                data: node.data.clone(),
                acl: i64::try_from(acl).unwrap() + 1,
                stat: node.stat,
            });
        }
        let steps = usize::from(pace.next().copied().unwrap_or(0)) % 4;
        now = (now + steps).min(states.len() - 1);
    }
    content.acls = (1..).zip(acls).collect();
    (content, now)
}

/// Returns the parent; nothing for the root.
fn parent_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("none", |(parent, _)| parent)
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').unwrap().0
}

/// Returns the path as in a transaction.
fn shown(path: &str) -> String {
    if path.is_empty() { "/".to_owned() } else { path.to_owned() }
}

/// Returns the path as in a snapshot.
fn stored(path: &str) -> &str {
    if path == "/" { "" } else { path }
}

fn acl(number: u8) -> Acl {
    match number % 4 {
        0 => Acl::new(Permissions::ALL, "world", "anyone"),
        1 => Acl::new(Permissions::READ, "world", "anyone"),
        2 => Acl::new(Permissions::ALL, "digest", "ä:xyz"),
        _ => Acl::new(Permissions::WRITE, "ip", format!("10.0.0.{number}")),
    }
}

fn nth<K, V>(map: &BTreeMap<K, V>, number: u8) -> Option<(&K, &V)> {
    map.iter().nth(usize::from(number) % map.len().max(1))
}
