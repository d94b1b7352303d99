//! Nodes of recipes, recognised by their names.

use zk_curator::path::SequenceSuffix;

/// The recipe that a node belongs to, by the form of its name.
///
/// If the session that owns the node deletes it, this is usually the recipe's own clean-up: a
/// lock is released, a waiting contender gives up, an item of a queue is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum RecipeNode {
    /// A contender of a lock, or of a leader election that uses a lock: `lock-` (Curator's
    /// `InterProcessMutex` and `LeaderSelector`), `__lock__` (kazoo's `Lock` and `Election`).
    Lock,
    /// A reader of a read/write lock: `__READ__` (Curator), `__rlock__` (kazoo).
    ReadLock,
    /// A writer of a read/write lock: `__WRIT__` (Curator). kazoo's writers look like
    /// [`Lock`](Self::Lock).
    WriteLock,
    /// A lease of a semaphore: `lease-` (Curator's `InterProcessSemaphoreV2`).
    Lease,
    /// A candidate of a leader election: `latch-` (Curator's `LeaderLatch`).
    LeaderLatch,
    /// An item of a queue: `queue-` (Curator's `DistributedQueue`), `qn-`
    /// (`SimpleDistributedQueue`).
    QueueItem,
}

/// The tags before the sequence numbers.
const TAGS: [(&str, RecipeNode); 9] = [
    ("__READ__", RecipeNode::ReadLock),
    ("__rlock__", RecipeNode::ReadLock),
    ("__WRIT__", RecipeNode::WriteLock),
    ("__lock__", RecipeNode::Lock),
    ("-lock-", RecipeNode::Lock),
    ("-lease-", RecipeNode::Lease),
    ("-latch-", RecipeNode::LeaderLatch),
    ("-queue-", RecipeNode::QueueItem),
    ("-qn-", RecipeNode::QueueItem),
];

impl RecipeNode {
    /// Recognises a node by the last part of its path.
    #[must_use]
    pub fn of(path: &str) -> Option<Self> {
        let name = path.rsplit('/').next().unwrap_or_default();
        // Protected nodes have a prefix that ends with a hyphen. Others begin with the tag.
        let name = format!("-{name}");
        let found = TAGS.iter().find(|(tag, _)| SequenceSuffix::after(&name, tag).is_some());
        found.map(|(_, recipe)| *recipe)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_recipes_are_recognised() {
        let guid = "_c_00000000-0000-0000-0000-000000000000-";
        for (name, expected) in [
            ("lock-0000000001", Some(RecipeNode::Lock)),
            ("latch-0000000001", Some(RecipeNode::LeaderLatch)),
            ("lease--000000005", Some(RecipeNode::Lease)),
            ("__READ__0000000001", Some(RecipeNode::ReadLock)),
            ("a1b2__rlock__0000000001", Some(RecipeNode::ReadLock)),
            ("a1b2__lock__0000000001", Some(RecipeNode::Lock)),
            ("qn-0000000001", Some(RecipeNode::QueueItem)),
            ("queue-0000000001", Some(RecipeNode::QueueItem)),
            ("deadlock-0000000001", None),
            ("lock-1", None),
            ("lock", None),
            ("", None),
        ] {
            assert_eq!(RecipeNode::of(&format!("/a/{name}")), expected, "{name}");
        }
        let protected = |name| RecipeNode::of(&format!("/a/{guid}{name}-0000000001"));
        assert_eq!(protected("lock"), Some(RecipeNode::Lock));
        assert_eq!(protected("lease"), Some(RecipeNode::Lease));
    }
}
