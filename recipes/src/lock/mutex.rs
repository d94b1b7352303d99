use bytes::Bytes;
use zk_curator::CuratorFramework;

use super::queue_lock::{QueueLock, queue_lock};
use super::{Guard, tag};
use crate::measure;
use crate::order::{Blocker, NodeTag, OrderRule};

/// A lock with one holder at a time, granted in the order of arrival. **Not re-entrant**, unlike
/// Curator's: a task that holds it and acquires it again waits for itself.
///
/// For code that may already hold the lock, use [`ReentrantMutex`](super::ReentrantMutex). Its
/// owner is a value that you choose, because tasks, unlike Java's threads, have no identity. The
/// first acquire of a framework that waits for a node of its own session is logged at WARN.
///
/// # Layout
/// ```text
/// /locks/orders                            container, made on first use
///   ├─ _c_<uuid>-lock-0000000007           ephemeral, sequential: the holder; data: its label
///   └─ _c_<uuid>-lock-0000000009           waits for …0007, with a getData watch
/// ```
/// The layout of Apache Curator's `InterProcessMutex`: Java and Rust can share one lock. Children
/// with other names are ignored.
///
/// # Protocol
/// The lock of
/// [ZooKeeper's recipes](https://zookeeper.apache.org/doc/current/recipes.html#sc_recipes_Locks):
/// 1. Create the node.
/// 2. List the children, in the same round trip.
/// 3. The lowest number holds.
/// 4. Every other contender watches its predecessor, and the one before that: when the latter is
///    gone, it lists again. It also watches its own node: when that is gone, go to 1.
/// 5. When the predecessor is gone, go to 2. If the predecessor was the first, and its own node is
///    still there, the lock is held immediately, because no lower node is left.
///
/// An acquire without contention takes one round trip, a hand-over takes one from the delete to the
/// notification.
///
/// # Guarantees
/// * At most one guard has an existing node: if a [`fenced`](MutexGuard::fenced) transaction
///   succeeds, no other client holds the lock.
/// * [Fencing tokens](MutexGuard::fencing_token) grow from holder to holder.
/// * A grant needs a node that belongs to the present session (CURATOR-604), and that no operator
///   has deleted as far as the server has told.
/// * The lock is granted in the order of the creates, even after 2^31 creates, when the numbers
///   repeat or turn negative. Curator's order breaks there.
///
/// # Assumptions
/// Only locks write here. The holder stops when [`lost`](MutexGuard::lost) resolves, or fences its
/// writes.
///
/// # Connection loss
/// * SUSPENDED: waiters keep waiting; a holder keeps the lock until its session is lost.
/// * LOST: `lost()` of the holder resolves; waiters enter the queue again, at its end, in the next
///   session.
/// * RECONNECTED in the same session: nothing has happened to the nodes; watches fire for missed
///   changes.
///
/// # Cancel safety
/// Every future may be dropped at any point: no node stays behind.
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
#[derive(Clone)]
pub struct InterProcessMutex {
    pub(super) queue: QueueLock<Exclusive>,
}

/// Holds an [`InterProcessMutex`].
pub type MutexGuard = Guard<Exclusive>;

/// The name in metrics.
const RECIPE: &str = "mutex";

/// The kind of an [`InterProcessMutex`].
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Exclusive;

queue_lock!(InterProcessMutex, MutexGuard);

impl InterProcessMutex {
    /// The lock at a path. Nothing is sent; a path that is not valid is refused when the lock is
    /// used.
    pub fn new(zk: &CuratorFramework, path: impl Into<String>) -> Self {
        Self::within(zk, path, RECIPE)
    }

    /// The lock at a path, as a part of another recipe, which has this name in metrics.
    pub(crate) fn within(
        zk: &CuratorFramework,
        path: impl Into<String>,
        recipe: &'static str,
    ) -> Self {
        measure::lock(zk, recipe);
        let queue = QueueLock {
            zk: zk.uncompressed(),
            path: path.into(),
            label: Bytes::new(),
            rule: OrderRule { warns_of_itself: true, ..OrderRule::exclusive(tag::LOCK) },
            kind: Exclusive,
            recipe,
        };
        Self { queue }
    }

    /// The part of the names of our nodes between the protection and the number: Curator's
    /// `lockName`. All that contend for the lock must have the same. One with a slash is refused
    /// when the lock is used. Default: `lock-`.
    #[must_use]
    pub fn lock_name(mut self, name: impl Into<String>) -> Self {
        let name = NodeTag::Owned(name.into());
        self.queue.rule.waits_for[0].tag = name.clone();
        self.queue.rule.tag = name;
        self
    }

    /// Shares the lock with kazoo's `Lock` and `Election`, which need no settings for it. Nodes are
    /// named `_c_<uuid>-__lock__<number>`, which kazoo recognises, and the lock also waits for
    /// kazoo's nodes and for nodes with the default name. All Rust contenders have to set it. Java contenders cannot:
    /// they compare names as strings. Without it, the first acquire of a framework that sees
    /// kazoo's nodes logs that at WARN.
    ///
    /// The parent is a persistent node, and not a container: a kazoo `Lock` does not create it
    /// again. Delete it before it has assigned 2^31 numbers: kazoo compares later ones as strings,
    /// and acquires the lock while another client holds it.
    #[must_use]
    pub fn with_kazoo(self) -> Self {
        let mut lock = self.lock_name(tag::KAZOO).extra_lock_patterns([tag::LOCK]);
        lock.queue.rule.parent_stays = true;
        lock
    }

    /// Waits for nodes with these names too: kazoo's `extra_lock_patterns`; for kazoo's own see
    /// [`with_kazoo`](Self::with_kazoo). Default: none.
    #[must_use]
    pub fn extra_lock_patterns<P: Into<String>>(
        mut self,
        patterns: impl IntoIterator<Item = P>,
    ) -> Self {
        let blocker =
            |pattern: P| Blocker { tag: NodeTag::Owned(pattern.into()), can_be_replaced: false };
        self.queue.rule.waits_for.extend(patterns.into_iter().map(blocker));
        self
    }

    /// The lock, for a recipe whose users may contend with each other in one session: logs nothing
    /// of that.
    pub(crate) fn shared_in_session(mut self) -> Self {
        self.queue.rule.warns_of_itself = false;
        self
    }
}
