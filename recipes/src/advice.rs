//! Warnings about likely mistakes with locks, each once for a framework.

use tracing::warn;
use zk_curator::internal::{holds_child, is_first};
use zk_curator::path::{SequenceSuffix, ZPath};
use zk_curator::{CuratorFramework, OwnedNode};

use crate::lock::tag;
use crate::order::{OrderRule, comes_before};

/// The tags of kazoo's `Lock` and `WriteLock`, and of its `ReadLock`.
const KAZOO: [&str; 2] = [tag::KAZOO, tag::KAZOO_READ];

/// Warns of nodes of kazoo's locks that a lock does not wait for: nor does kazoo wait for its own.
pub(crate) fn of_kazoo(
    zk: &CuratorFramework,
    parent: &ZPath,
    rule: &OrderRule,
    siblings: &[String],
) {
    if rule.waits_for.iter().any(|blocker| blocker.tag == KAZOO[0]) {
        return;
    }
    let is_kazoos = |name: &String| {
        // Cheap, for the names of all that wait.
        name.contains("lock__")
            && KAZOO.iter().any(|tag| SequenceSuffix::after(name, tag).is_some())
    };
    if is_first(zk, "kazoo", || siblings.iter().any(is_kazoos)) {
        warn!(
            framework = zk.name(),
            path = parent.as_str(),
            "kazoo's locks have nodes here, and this lock and theirs do not exclude each other: \
             use InterProcessMutex::with_kazoo in all Rust contenders (logged once)"
        );
    }
}

/// Warns of a wait for a node of our own session: if the task that waits holds that one, it waits
/// for itself.
pub(crate) fn of_own_session(
    zk: &CuratorFramework,
    parent: &ZPath,
    rule: &OrderRule,
    node: &OwnedNode,
    siblings: &[String],
) {
    let session = node.ownership().session_epoch();
    let is_ours = |name: &str| {
        comes_before(rule, name, node.name()) && siblings.iter().any(|sibling| sibling == name)
    };
    if rule.warns_of_itself
        && is_first(zk, "own session", || holds_child(zk, parent, session, is_ours))
    {
        warn!(
            framework = zk.name(),
            path = parent.as_str(),
            "an acquire waits for a node of its own session: the lock is not re-entrant, so a task that holds it \
             waits for itself; see ReentrantMutex, or HandoverMutex where several tasks contend (logged once)"
        );
    }
}
