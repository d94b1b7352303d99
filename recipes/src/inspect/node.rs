use bytes::Bytes;
use zk_curator::Stat;

use crate::path::child;

/// A node of a snapshot, with the nodes below it: the input of [`recognise`](super::recognise).
///
/// ```
/// use zk_curator_recipes::inspect::{Node, RecipeKind, recognise};
///
/// let lock = Node::new("/locks/orders").child("lock-0000000007", "worker-1");
/// let finding = recognise(&lock);
/// assert_eq!(finding.kind, RecipeKind::Mutex);
/// assert_eq!(finding.holders[0].label_str(), "worker-1");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Node {
    /// The absolute path.
    pub path: String,
    /// The data; empty if they were not read.
    pub data: Bytes,
    /// The metadata; `None` if they were not read, so that only the name is known.
    pub stat: Option<Stat>,
    /// The children that were read, in any order.
    pub children: Vec<Self>,
}

impl Node {
    /// Returns a node of which only the path is known.
    #[must_use]
    pub fn new(path: impl Into<String>) -> Self {
        Self { path: path.into(), data: Bytes::new(), stat: None, children: Vec::new() }
    }

    /// Sets the data.
    #[must_use]
    pub fn data(mut self, data: impl Into<Bytes>) -> Self {
        self.data = data.into();
        self
    }

    /// Sets the metadata.
    #[must_use]
    pub const fn stat(mut self, stat: Stat) -> Self {
        self.stat = Some(stat);
        self
    }

    /// Adds a child with this name and these data, without metadata.
    #[must_use]
    pub fn child(self, name: &str, data: impl Into<Bytes>) -> Self {
        let node = Self::new(child(&self.path, name)).data(data);
        self.with(node)
    }

    /// Adds a child.
    #[must_use]
    pub fn with(mut self, child: Self) -> Self {
        self.children.push(child);
        self
    }

    /// Returns the last component of the path; empty for the root.
    #[must_use]
    pub fn name(&self) -> &str {
        self.path.rsplit_once('/').map_or(&*self.path, |(_, name)| name)
    }

    /// Returns the child with this name, if it was read.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Self> {
        self.children.iter().find(|child| child.name() == name)
    }

    /// Returns `true` if the node was read and belongs to a session.
    #[must_use]
    pub fn is_ephemeral(&self) -> bool {
        self.stat.is_some_and(|stat| stat.is_ephemeral())
    }

    /// Returns `true` if the node was read and belongs to no session.
    #[must_use]
    pub fn is_persistent(&self) -> bool {
        self.stat.is_some_and(|stat| !stat.is_ephemeral())
    }

    /// Returns `true` if the node has children that were not read.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        self.stat.is_some_and(|stat| {
            usize::try_from(stat.num_children).is_ok_and(|all| all > self.children.len())
        })
    }

    /// The transaction that created the node.
    pub(super) fn czxid(&self) -> Option<i64> {
        self.stat.map(|stat| stat.czxid)
    }
}
