//! The items of queues, in the order of their recipes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use zk_curator::op::ReadResult;
use zk_curator::{CuratorFramework, Error};
use zk_curator_recipes::inspect::{self, RecipeKind, Role, recognise};

use crate::tree::unreadable::UnreadableNodes;
use crate::tree::walk::{self, ListedNode};
use crate::{node, path, text};

/// The directories of queues whose items are not the children of one node.
const DIRECTORIES: [&str; 3] = [ITEMS, "entries", TAKEN];
const ITEMS: &str = "items";
/// The directory of kazoo's claims, which have the names of the items.
const TAKEN: &str = "taken";
/// The prefix of the names of buckets, which are in such a directory.
const BUCKET: &str = "b-";
/// The name of the claim to an item, a child of its node.
const CLAIM: &str = "claim";
/// The levels below a queue down to its buckets.
const LEVELS: usize = 2;

/// The items of a queue.
#[derive(Debug)]
pub struct QueuedItems {
    /// Their paths, in the order in which consumers take them.
    pub paths: Vec<String>,
    /// The number of nodes that are not items.
    pub others: usize,
    /// The nodes that could not be listed. They may have items.
    pub unreadable: UnreadableNodes,
    kind: RecipeKind,
    /// Claimed items of kazoo.
    taken: BTreeSet<String>,
}

/// The state of an item of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub enum QueuedItemState {
    /// A consumer may take it.
    Waiting,
    /// A consumer has claimed it.
    Claimed,
    /// No consumer takes it before this time has passed.
    Due(Duration),
}

impl fmt::Display for QueuedItemState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Waiting => f.write_str("waiting"),
            Self::Claimed => f.write_str("claimed"),
            Self::Due(left) => write!(f, "due in {}", text::duration(*left)),
        }
    }
}

impl QueuedItems {
    /// Lists the items at a path. Below a node that is not a queue, all children are items, in the
    /// order of their names.
    ///
    /// # Errors
    /// Those of the framework. A node that cannot be read is not an error, unless it is the queue.
    pub async fn list(zk: &CuratorFramework, path: &str) -> Result<Self, Error> {
        let listed = walk::list(zk, path, LEVELS, is_directory).await?;
        let unreadable = walk::hidden(&listed);
        let taken = path::join(path, TAKEN);
        let taken = listed.iter().find(|node| node.path == taken);
        let taken = taken.map(|taken| taken.children.iter().cloned().collect()).unwrap_or_default();
        let mut root = tree(&listed, path);
        let directory = root.children.iter_mut().find(|child| child.name() == ITEMS);
        if let Some(directory) = directory {
            // The data say what it is, even if it is empty.
            let read = zk.multi_read().undecompressed().get_data(&directory.path).await?.pop();
            if let Some(Ok(ReadResult::Data { data, .. })) = read {
                directory.data = data;
            }
        }
        let finding = recognise(&root);
        let is_item = |role| matches!(role, Role::Item | Role::Job);
        let items = finding.waiting.into_iter().filter(|one| is_item(one.role));
        let (kind, mut paths): (_, Vec<_>) = (finding.kind, items.map(|one| one.path).collect());
        let mut others = finding.ignored.len();
        if !is_queue(kind) {
            paths = root.children.into_iter().map(|child| child.path).collect();
            paths.sort_by(|a, b| node::compare(a, b));
            others = 0;
        }
        Ok(Self { paths, others, unreadable, kind, taken })
    }

    /// Returns the states of items, which are some of the [paths](Self::paths).
    ///
    /// # Errors
    /// Those of the framework.
    pub async fn states(
        &self,
        zk: &CuratorFramework,
        items: &[String],
    ) -> Result<Vec<QueuedItemState>, Error> {
        let mut claims = BTreeSet::new();
        if self.kind == RecipeKind::LockingQueue {
            let mut lists = zk.multi_read();
            for path in items {
                lists = lists.children(path);
            }
            for (path, answer) in items.iter().zip(lists.await?) {
                let children = answer.ok().and_then(ReadResult::into_children).unwrap_or_default();
                let is_taken = self.taken.contains(path::split(path).1);
                if is_taken || children.iter().any(|child| child == CLAIM) {
                    claims.insert(path);
                }
            }
        }
        let now = text::now_ms();
        let state = |path: &String| match self.due(path) {
            _ if claims.contains(path) => QueuedItemState::Claimed,
            Some(due) if due > now => {
                QueuedItemState::Due(Duration::from_millis(due.abs_diff(now)))
            }
            _ => QueuedItemState::Waiting,
        };
        Ok(items.iter().map(state).collect())
    }

    /// Returns the time before which an item is not taken, in milliseconds since 1970.
    fn due(&self, path: &str) -> Option<i64> {
        let digits = path::split(path).1.split('|').nth(1);
        let digits = digits.filter(|_| self.kind == RecipeKind::DelayQueue)?;
        i64::from_str_radix(digits, 16).ok()
    }
}

const fn is_queue(kind: RecipeKind) -> bool {
    matches!(
        kind,
        RecipeKind::Queue
            | RecipeKind::SimpleQueue
            | RecipeKind::PriorityQueue
            | RecipeKind::DelayQueue
            | RecipeKind::IdQueue
            | RecipeKind::FifoQueue
            | RecipeKind::LockingQueue
            | RecipeKind::Jobs
    )
}

/// Returns `true` for the nodes whose children are items or buckets.
fn is_directory(path: &str) -> bool {
    let name = path::split(path).1;
    DIRECTORIES.contains(&name) || name.starts_with(BUCKET)
}

/// Returns the nodes by their names alone. The claims of kazoo are left out, so that claimed items
/// have their places among the others.
fn tree(listed: &[ListedNode], root: &str) -> inspect::Node {
    let taken = path::join(root, TAKEN);
    let others = listed.iter().filter(|node| node.path != taken);
    let children = others.map(|node| (node.path.as_str(), node.children.as_slice())).collect();
    below(&children, root)
}

fn below(children: &BTreeMap<&str, &[String]>, path: &str) -> inspect::Node {
    let node = inspect::Node::new(path);
    let names = children.get(path).copied().unwrap_or_default();
    names.iter().fold(node, |node, name| node.with(below(children, &path::join(path, name))))
}
