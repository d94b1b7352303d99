//! Searches nodes by their names, kinds, ages and sizes.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = zk_curator_testing::TestServer::start().await;
//! # let zk = zk_curator::CuratorFramework::builder().connect_string(server.connect_string()).build()?;
//! # zk.start().await?;
//! # zk.create("/a/tmp-1").creating_parents().data("xyz").await?;
//! # zk.create("/a/tmp-2").await?;
//! use zk_curator_ops::tree::find::FindCriteria;
//!
//! let criteria = FindCriteria::new().name("tmp-*".parse()?).larger(2);
//! let found = criteria.find(&zk, "/a").await?;
//! assert_eq!(found.nodes[0].path, "/a/tmp-1");
//! assert_eq!((found.nodes.len(), found.unreadable.len()), (1, 0));
//! # Ok(()) }
//! ```

use std::time::Duration;

use regex::Regex;
use zk_curator::{CuratorFramework, Error, SessionId, Stat};

use super::unreadable::UnreadableNodes;
use super::walk::{self, ListedNode, WalkNode};
use crate::pattern::NamePattern;
use crate::{node, path, text};

/// A kind of node, as far as servers tell it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "servers tell no others")]
pub enum FindKind {
    /// Persistent nodes, containers, and nodes with a time to live.
    Persistent,
    /// Ephemeral nodes.
    Ephemeral,
}

/// The criteria of a search. Without one, every node of a subtree is found.
#[derive(Debug, Clone, Default)]
pub struct FindCriteria {
    name: Option<NamePattern>,
    regex: Option<Regex>,
    kind: Option<FindKind>,
    owner: Option<SessionId>,
    older: Option<Duration>,
    newer: Option<Duration>,
    larger: Option<usize>,
    empty: bool,
    depth: Option<usize>,
    prune: Vec<NamePattern>,
    stats: bool,
}

/// The nodes that were found.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct FindResult {
    /// The nodes, name by name: sequential names by their numbers, all others by name.
    pub nodes: Vec<FoundNode>,
    /// The nodes that could not be read. They, and nodes below them, may match.
    pub unreadable: UnreadableNodes,
}

/// A node that was found.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct FoundNode {
    /// The path.
    pub path: String,
    /// The stat; `None` if the criteria do not need it, and it was not
    /// [requested](FindCriteria::with_stats).
    pub stat: Option<Stat>,
}

impl FindCriteria {
    /// Finds every node.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Finds nodes whose names match.
    #[must_use]
    pub fn name(mut self, pattern: NamePattern) -> Self {
        self.name = Some(pattern);
        self
    }

    /// Finds nodes whose paths match.
    #[must_use]
    pub fn regex(mut self, regex: Regex) -> Self {
        self.regex = Some(regex);
        self
    }

    /// Finds nodes of this kind.
    #[must_use]
    pub const fn kind(mut self, kind: FindKind) -> Self {
        self.kind = Some(kind);
        self
    }

    /// Finds the ephemeral nodes of this session.
    #[must_use]
    pub const fn owner(mut self, owner: SessionId) -> Self {
        self.owner = Some(owner);
        self
    }

    /// Finds nodes whose data have not been changed for this time, by the clock here.
    #[must_use]
    pub const fn older(mut self, least: Duration) -> Self {
        self.older = Some(least);
        self
    }

    /// Finds nodes whose data were changed within this time, by the clock here.
    #[must_use]
    pub const fn newer(mut self, most: Duration) -> Self {
        self.newer = Some(most);
        self
    }

    /// Finds nodes with more than this many bytes of data.
    #[must_use]
    pub const fn larger(mut self, bytes: usize) -> Self {
        self.larger = Some(bytes);
        self
    }

    /// Finds nodes without children.
    #[must_use]
    pub const fn empty(mut self) -> Self {
        self.empty = true;
        self
    }

    /// Sets the greatest depth below the root; 0 is the root alone. Default: unlimited.
    #[must_use]
    pub const fn depth(mut self, depth: usize) -> Self {
        self.depth = Some(depth);
        self
    }

    /// Does not visit nodes whose names match, or anything below them. May be called several times.
    #[must_use]
    pub fn prune(mut self, pattern: NamePattern) -> Self {
        self.prune.push(pattern);
        self
    }

    /// Reads the stats of all nodes that are found. Default: only if a criterion needs them. They
    /// are read together with the data.
    #[must_use]
    pub const fn with_stats(mut self) -> Self {
        self.stats = true;
        self
    }

    /// Searches at a node and below it.
    ///
    /// # Errors
    /// Those of the framework. A node that cannot be read is not an error, unless it is the root.
    pub async fn find(&self, zk: &CuratorFramework, root: &str) -> Result<FindResult, Error> {
        let keep = |path: &str| {
            let name = path::split(path).1;
            !self.prune.iter().any(|pattern| pattern.is_match(name))
        };
        let depth = self.depth.unwrap_or(usize::MAX);
        let nodes = walk::list(zk, root, depth, keep).await?;
        // The children of the deepest nodes are not asked for, unless by `empty`.
        let asked = |node: &&ListedNode| self.empty || node.depth < depth;
        let mut unreadable = walk::hidden(nodes.iter().filter(asked));
        let mut paths: Vec<_> = nodes
            .into_iter()
            .filter(|node| !self.empty || node.hidden.is_none() && node.children.is_empty())
            .map(|node| node.path)
            .filter(|path| self.selects_path(path))
            .collect();
        paths.sort_by(|a, b| node::compare(a, b));
        if !self.needs_stats() {
            let nodes = paths.into_iter().map(|path| FoundNode { path, stat: None }).collect();
            return Ok(FindResult { nodes, unreadable });
        }
        let now = text::now_ms();
        let mut found = Vec::new();
        let unread = walk::read(zk, &paths, |node| {
            if self.selects(&node, now) {
                found.push(FoundNode { path: node.path, stat: Some(node.stat) });
            }
        });
        unreadable.extend(unread.await?);
        Ok(FindResult { nodes: found, unreadable })
    }

    /// Returns `true` if the nodes must be read, and not only listed.
    const fn needs_stats(&self) -> bool {
        self.stats
            || self.kind.is_some()
            || self.owner.is_some()
            || self.older.is_some()
            || self.newer.is_some()
            || self.larger.is_some()
    }

    fn selects_path(&self, path: &str) -> bool {
        self.name.as_ref().is_none_or(|pattern| pattern.is_match(path::split(path).1))
            && self.regex.as_ref().is_none_or(|regex| regex.is_match(path))
    }

    fn selects(&self, node: &WalkNode, now: i64) -> bool {
        let stat = &node.stat;
        let age = text::since(stat.mtime, now);
        let is_kind = |kind| (kind == FindKind::Ephemeral) == stat.is_ephemeral();
        self.kind.is_none_or(is_kind)
            && self.owner.is_none_or(|owner| node::session(stat) == Some(owner))
            && self.older.is_none_or(|least| age >= least)
            && self.newer.is_none_or(|most| age <= most)
            && self.larger.is_none_or(|most| node.data.len() > most)
    }
}
