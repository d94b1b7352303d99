//! A model of a server.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use zk_curator::{EventType, Stat, WatchedEvent};

use crate::cache::state::{CacheRead, CacheReadAnswer, CachedNode, ReadKind};

/// The paths below the root that are created and deleted.
pub(super) const BELOW: [&str; 10] =
    ["", "/a", "/b", "/c", "/a/a", "/a/b", "/b/a", "/c/a", "/a/a/a", "/a/a/b"];
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) czxid: i64,
    pub(super) mzxid: i64,
    pub(super) pzxid: i64,
}

pub(super) type Nodes = BTreeMap<String, Node>;

/// A write, of the path with this number.
#[derive(Debug, Clone, Copy)]
pub(super) enum Write {
    Create(usize),
    Set(usize),
    Delete(usize),
}

/// A server with one client.
pub(super) struct Server {
    root: &'static str,
    pub(super) zxid: i64,
    pub(super) nodes: Nodes,
    /// The nodes after each transaction.
    pub(super) history: Vec<Nodes>,
    /// Every state that a node has had: path, `czxid`, `mzxid`.
    pub(super) real: BTreeSet<(String, i64, i64)>,
}

impl Server {
    pub(super) fn new(root: &'static str) -> Self {
        let mut nodes = Nodes::new();
        if root == "/" {
            nodes.insert("/".into(), Node { czxid: 0, mzxid: 0, pzxid: 0 });
        }
        let real = nodes.keys().map(|path| (path.clone(), 0, 0)).collect();
        Self { root, zxid: 0, history: vec![nodes.clone()], nodes, real }
    }

    pub(super) fn path(&self, number: usize) -> String {
        match (self.root, BELOW[number]) {
            ("/", "") => "/".into(),
            ("/", below) => below.into(),
            (root, below) => format!("{root}{below}"),
        }
    }

    fn children<'a>(&'a self, path: &'a str) -> impl Iterator<Item = &'a str> {
        let parent = path.trim_end_matches('/');
        let names = self
            .nodes
            .keys()
            .filter_map(move |other| other.strip_prefix(parent)?.strip_prefix('/'));
        names.filter(|name| !name.is_empty() && !name.contains('/'))
    }

    /// One transaction; writes that are not possible are left out.
    pub(super) fn commit(&mut self, writes: &[Write]) -> Vec<WatchedEvent> {
        let (zxid, mut events) = (self.zxid + 1, Vec::new());
        for write in writes {
            let (Write::Create(number) | Write::Set(number) | Write::Delete(number)) = *write;
            let path = self.path(number);
            let parent =
                path.rsplit_once('/').map(|(parent, _)| parent).filter(|_| path != self.root);
            let parent = parent.map(|parent| if parent.is_empty() { "/" } else { parent });
            let has_parent = parent.is_none_or(|parent| self.nodes.contains_key(parent));
            let is_there = self.nodes.contains_key(&path);
            let kind = match write {
                Write::Create(_) if !is_there && has_parent => {
                    self.nodes.insert(path.clone(), Node { czxid: zxid, mzxid: zxid, pzxid: zxid });
                    EventType::NodeCreated
                }
                Write::Set(_) if is_there => {
                    self.nodes.get_mut(&path).unwrap().mzxid = zxid;
                    EventType::NodeDataChanged
                }
                Write::Delete(_)
                    if is_there && path != "/" && self.children(&path).next().is_none() =>
                {
                    self.nodes.remove(&path);
                    EventType::NodeDeleted
                }
                _ => continue,
            };
            if let Some(parent) = parent.filter(|_| kind != EventType::NodeDataChanged) {
                self.nodes.get_mut(parent).unwrap().pzxid = zxid;
            }
            if let Some(node) = self.nodes.get(&path) {
                self.real.insert((path.clone(), node.czxid, node.mzxid));
            }
            events.push(WatchedEvent::new(kind, path).with_zxid(Some(zxid)));
        }
        if !events.is_empty() {
            self.zxid = zxid;
            self.history.push(self.nodes.clone());
        }
        events
    }

    /// A transaction that changes none of the nodes.
    pub(super) fn write_elsewhere(&mut self) {
        self.zxid += 1;
        self.history.push(self.nodes.clone());
    }

    /// The writes that create a path with its parents.
    pub(super) fn create_all(&self, number: usize) -> Vec<Write> {
        let path = self.path(number);
        // The numbers are in the order of the levels.
        let numbers = (0..BELOW.len()).filter(|other| path.starts_with(&self.path(*other)));
        numbers.map(Write::Create).collect()
    }

    /// The writes that delete a path with everything below it.
    pub(super) fn delete_all(&self, number: usize) -> Vec<Write> {
        let path = self.path(number);
        let mut numbers: Vec<_> =
            (0..BELOW.len()).filter(|other| self.path(*other).starts_with(&path)).collect();
        numbers.sort_by_key(|number| std::cmp::Reverse(self.path(*number).len()));
        numbers.into_iter().map(Write::Delete).collect()
    }

    pub(super) fn answer(&self, job: &CacheRead, size: i32) -> CacheReadAnswer {
        let Some(node) = self.nodes.get(&*job.path) else { return CacheReadAnswer::Missing };
        if job.what == ReadKind::Names {
            return CacheReadAnswer::Names(self.children(&job.path).map(str::to_owned).collect());
        }
        let stat = Stat {
            czxid: node.czxid,
            mzxid: node.mzxid,
            pzxid: node.pzxid,
            num_children: i32::try_from(self.children(&job.path).count()).unwrap(),
            data_length: size,
            ..Stat::default()
        };
        CacheReadAnswer::Data(CachedNode::new(&job.path, Bytes::from(node.mzxid.to_string()), stat))
    }
}
