//! Warnings about likely mistakes with locks, each once for a framework, and about waits that have
//! no end, each once for a node.

use std::future::{Future, pending};
use std::pin::pin;
use std::time::Duration;

use tokio::time::{Instant, timeout};
use tracing::warn;
use zk_curator::internal::{holds_child, is_first, report_persistent, sleep_until};
use zk_curator::op::fan_out;
use zk_curator::path::{SequenceSuffix, ZPath};
use zk_curator::{CuratorFramework, OwnedNode, Stat};

use crate::lock::tag;
use crate::order::{OrderRule, comes_before};
use crate::path::child;

/// The tags of kazoo's `Lock` and `WriteLock`, and of its `ReadLock`.
const KAZOO: [&str; 2] = [tag::KAZOO, tag::KAZOO_READ];
/// The time after which a wait reads the nodes that it waits for.
pub(crate) const LONG: Duration = Duration::from_secs(60);
/// The most nodes that are read for that, and the longest time that the reads may take.
const READS: (usize, Duration) = (64, Duration::from_secs(5));

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

/// The waits of one call for other nodes. After a long time in total, these are read once.
#[derive(Debug)]
pub(crate) struct LongWait {
    /// The time of the reads; `None` after them.
    looks_at: Option<Instant>,
}

impl LongWait {
    /// Begins now.
    pub(crate) fn begin() -> Self {
        Self { looks_at: Some(Instant::now() + LONG) }
    }

    /// Waits until the call has waited long, reads these children of a node, and reports those that
    /// no session will ever remove: a restored node, for example. Never returns a second time.
    ///
    /// # Cancel safety
    /// If the future is dropped during the reads, the next call reads again.
    pub(crate) async fn look(
        &mut self,
        zk: &CuratorFramework,
        operation: &'static str,
        parent: &ZPath,
        names: &[String],
    ) {
        let Some(looks_at) = self.looks_at else { return pending().await };
        sleep_until(looks_at).await;
        of_persistent(zk, operation, names.iter().map(|name| child(parent, name))).await;
        self.looks_at = None;
    }
}

/// Waits for a node. If that takes long, reads the node once, and reports it if no session will
/// ever remove it: a restored node, for example.
pub(crate) async fn long_wait<T>(
    zk: &CuratorFramework,
    operation: &'static str,
    path: &str,
    wait: impl Future<Output = T>,
) -> T {
    let mut wait = pin!(wait);
    if let Ok(done) = timeout(LONG, &mut wait).await {
        return done;
    }
    tokio::select! {
        biased;
        done = &mut wait => return done,
        () = of_persistent(zk, operation, [path.to_owned()]) => {}
    }
    wait.await
}

/// Reads nodes that a recipe waits for, and reports those that no session will ever remove.
pub(crate) async fn of_persistent(
    zk: &CuratorFramework,
    operation: &'static str,
    paths: impl IntoIterator<Item = String>,
) {
    let (most, longest) = READS;
    let paths: Vec<String> = paths.into_iter().take(most).collect();
    let reads = fan_out(most, paths.iter().map(|path| zk.exists(path.as_str())));
    let Ok(read) = timeout(longest, reads).await else { return };
    for (path, stat) in paths.iter().zip(read) {
        if let Ok(Some(stat)) = stat {
            of_node(zk, operation, path, &stat);
        }
    }
}

/// Reports a node that a recipe waits for, if no session will ever remove it.
pub(crate) fn of_node(zk: &CuratorFramework, operation: &'static str, path: &str, stat: &Stat) {
    if !stat.is_ephemeral() {
        report_persistent(zk, operation, path);
    }
}
