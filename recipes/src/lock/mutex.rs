use bytes::Bytes;
use zk_curator::CuratorFramework;

use super::{Guard, QueueLock, tag};
use crate::order::{Blocker, Rule, Tag};

/// A lock with one holder at a time, granted in the order of arrival.
///
/// # Layout
/// ```text
/// /locks/orders                            container, made on first use
///   ├─ _c_<uuid>-lock-0000000007           ephemeral, sequential: the holder; data: its label
///   └─ _c_<uuid>-lock-0000000009           waits for …0007, with a getData watch
/// ```
/// That of Apache Curator's `InterProcessMutex`: Java and Rust can share one lock. Children with other
/// names are ignored.
///
/// # Protocol
/// The lock of [ZooKeeper's recipes](https://zookeeper.apache.org/doc/current/recipes.html#sc_recipes_Locks):
/// 1. Create the node.
/// 2. List the children, in the same flight.
/// 3. The lowest number holds.
/// 4. Everybody else watches the one before it, and the one before that: when the latter is gone, it lists again.
/// 5. When the one before it is gone, go to 2; but hold at once if it was the first, for then nothing lower is left.
///
/// An acquire without contention takes one flight, a hand-over takes one from the delete to the notification.
///
/// # Guarantees
/// * At most one guard exists whose node exists: as long as a [`fenced`](MutexGuard::fenced) transaction
///   succeeds, nobody else holds the lock.
/// * [Fencing tokens](MutexGuard::fencing_token) grow from holder to holder.
/// * A grant needs a node that belongs to the present session (CURATOR-604).
/// * The order is that of the creates, also after 2^31 of them, when the numbers repeat or turn negative.
///   Curator's order breaks there.
///
/// # Assumptions
/// Only locks write here. The holder stops when [`lost`](MutexGuard::lost) resolves, or fences its writes.
///
/// # Connection loss
/// * SUSPENDED: waiters go on waiting; a holder holds on, until its session is lost.
/// * LOST: `lost()` of the holder resolves; waiters enter the queue anew, at its end, in the next session.
/// * RECONNECTED in the same session: nothing has happened; watches fire for what did meanwhile.
///
/// # Cancel safety
/// Every future may be dropped at any point: no node stays behind.
///
/// # Re-entrance
/// There is none, for tasks have no identity: a second acquire waits for the first guard.
///
/// # Example
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = zk_curator_testing::TestServer::start().await;
/// # let zk = zk_curator::CuratorFramework::builder().connect_string(server.connect_string()).build()?;
/// # zk.start().await?;
/// use zk_curator_recipes::lock::InterProcessMutex;
///
/// let lock = InterProcessMutex::new(&zk, "/locks/orders").label("worker-1");
/// zk.create("/orders").await?;
///
/// let guard = lock.acquire().await?;
/// guard.fenced().set_data("/orders", "mine").commit().await?;
/// guard.release().await?;
///
/// let answer = lock.with(|held| async move { held.fencing_token() }).await?;
/// # assert!(answer.get() > 0);
/// # zk.close().await?;
/// # Ok(()) }
/// ```
pub type InterProcessMutex = QueueLock<Exclusive>;

/// Holds an [`InterProcessMutex`].
pub type MutexGuard = Guard<Exclusive>;

/// The kind of an [`InterProcessMutex`].
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Exclusive;

impl InterProcessMutex {
    /// The lock at a path. Nothing is sent; a path that is not valid is refused when the lock is used.
    pub fn new(zk: &CuratorFramework, path: impl Into<String>) -> Self {
        Self {
            zk: zk.uncompressed(),
            path: path.into(),
            label: Bytes::new(),
            rule: Rule::exclusive(tag::LOCK),
            kind: Exclusive,
            recipe: "mutex",
        }
    }

    /// The part of the names of our nodes between the protection and the number: Curator's `lockName`. All that
    /// contend for the lock must have the same. One with a slash is refused when the lock is used. Default: `lock-`.
    #[must_use]
    pub fn lock_name(mut self, name: impl Into<String>) -> Self {
        let extra = self.rule.waits_for.split_off(1);
        let parent_stays = self.rule.parent_stays;
        self.rule = Rule { parent_stays, ..Rule::exclusive(Tag::Owned(name.into())) };
        self.rule.waits_for.extend(extra);
        self
    }

    /// Shares the lock with kazoo's `Lock` and `Election`, which need no settings for it: names our nodes as kazoo does,
    /// `_c_<uuid>-__lock__<number>`, and waits for kazoo's, and for nodes with the name by default as well. All Rust contenders have to
    /// set it. Java contenders cannot: they compare names as strings.
    ///
    /// The parent is a persistent node, and not a container: a kazoo `Lock` does not create it again. Delete it before it has given
    /// 2^31 numbers: kazoo compares later ones as strings, and grants itself the lock while others hold it.
    #[must_use]
    pub fn with_kazoo(self) -> Self {
        let mut lock = self.lock_name("__lock__").extra_lock_patterns([tag::LOCK]);
        lock.rule.parent_stays = true;
        lock
    }

    /// Waits for nodes with these names too: kazoo's `extra_lock_patterns`; for kazoo's own see [`with_kazoo`](Self::with_kazoo).
    /// Default: none.
    #[must_use]
    pub fn extra_lock_patterns<P: Into<String>>(mut self, patterns: impl IntoIterator<Item = P>) -> Self {
        let blocker = |pattern: P| Blocker { tag: Tag::Owned(pattern.into()), can_be_replaced: false };
        self.rule.waits_for.extend(patterns.into_iter().map(blocker));
        self
    }
}
