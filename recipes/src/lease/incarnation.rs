use std::collections::BTreeSet;

use tracing::info;
use zk_curator::op::{ChildData, fan_out};
use zk_curator::path::ZPath;
use zk_curator::{CuratorFramework, Error, ErrorKind, SessionId};

use crate::path::child;

/// The number of nodes that are deleted at a time.
const DELETES_AT_ONCE: usize = 64;

/// Deletes the ephemeral nodes that a former process of the same id has left behind, before its
/// session expires.
///
/// A process that is killed and restarted, such as the pod of a stateful set, otherwise waits for
/// its own locks and memberships until the session of the former process has expired.
///
/// # Layout
/// No node of its own. Below each of the [given parents](Self::below) it deletes children
/// * that are ephemeral nodes of another session, and
/// * whose data are the id, such as the label of a lock, or whose name is the id, such as that of a
///   [`GroupMember`](crate::group::GroupMember).
///
/// # Protocol
/// 1. List the children of each parent, behind a transaction to which a quorum has responded, and
///    read their data.
/// 2. Delete each match, if its version and its `czxid` are those of the read.
///
/// # Guarantees
/// * Nodes that were created before the call are found, even if the server lags.
/// * Nodes of the present session, of the sessions to [keep](Self::keep), with another id, and
///   persistent nodes stay.
///
/// # Assumptions
/// **The id is unique: no other living process has it.** A living process with the same id loses
/// its locks. It cannot be told from a dead one before its session expires, therefore this is never
/// done unless it is called. Its fenced writes are refused, like those of every deleted lock.
///
/// Call it before the recipes of this process start: a node of a fixed name that is created between
/// the read and the delete may be mistaken for the former one.
///
/// # Connection loss
/// As for deletes of the framework: they are retried as its policy says.
///
/// # Cancel safety
/// Dropping the future leaves the remaining nodes.
///
/// # Errors
/// Those of the framework.
///
/// # Example
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = zk_curator_testing::TestServer::start().await;
/// # let killed = zk_curator::CuratorFramework::builder().connect_string(server.connect_string()).build()?;
/// # killed.start().await?;
/// # let zk = zk_curator::CuratorFramework::builder().connect_string(server.connect_string()).build()?;
/// # zk.start().await?;
/// use zk_curator_recipes::lease::PreviousIncarnation;
/// use zk_curator_recipes::lock::InterProcessMutex;
///
/// // Of a process that was killed.
/// let lost = InterProcessMutex::new(&killed, "/locks/orders").label("worker-7").acquire().await?;
///
/// // The same worker, restarted.
/// let former = PreviousIncarnation::of(&zk, "worker-7").below("/locks/orders");
/// assert_eq!(former.delete().await?, [lost.path()]);
/// let lock = InterProcessMutex::new(&zk, "/locks/orders").label("worker-7");
/// assert!(lock.try_acquire().await?.is_some());
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
#[must_use = "nothing is done until `delete` is awaited"]
pub struct PreviousIncarnation {
    zk: CuratorFramework,
    id: String,
    parents: Vec<String>,
    kept: BTreeSet<i64>,
}

impl PreviousIncarnation {
    /// The former process with this id. Nothing is sent until [`delete`](Self::delete) is awaited.
    pub fn of(zk: &CuratorFramework, id: impl Into<String>) -> Self {
        Self { zk: zk.clone(), id: id.into(), parents: Vec::new(), kept: BTreeSet::new() }
    }

    /// Looks at the children of this node: the path of a lock, an election or a group; of a
    /// semaphore its `leases` and `locks`. It may be called several times. A node that does not
    /// exist has no children. Default: none.
    pub fn below(mut self, parent: impl Into<String>) -> Self {
        self.parents.push(parent.into());
        self
    }

    /// Keeps the nodes of a session too, such as that of a
    /// [`SessionLease`](super::SessionLease::session_id) of this process. The session of the
    /// framework is always kept.
    pub fn keep(mut self, session: SessionId) -> Self {
        self.kept.insert(session.get());
        self
    }

    /// Deletes the nodes. Returns their paths, in the order of the parents and their names,
    /// including nodes that were gone before they could be deleted. A node that was written since
    /// it was read stays: its process is alive. So does a node that this client may not read.
    ///
    /// # Errors
    /// As reads and deletes of the framework; `InvalidArgument` for an empty id, which would match
    /// nodes without data. Some nodes may be deleted.
    ///
    /// # Cancel safety
    /// Some nodes may be deleted.
    pub async fn delete(&self) -> Result<Vec<String>, Error> {
        const OP: &str = "previous_incarnation";
        if self.id.is_empty() {
            return Err(Error::invalid_argument(OP, "", "the id is empty"));
        }
        let present = self.zk.wait_connected().await?.session.map(|session| session.id.get());
        let mut found = Vec::new();
        for parent in &self.parents {
            let parent = ZPath::for_operation(OP, parent.as_str())?;
            // 1. A lagging server may not show nodes that the former process has just created.
            let read = self.zk.uncompressed().children_with_data(parent.as_str()).linearizable();
            let children = match read.readable_only().await {
                Ok(children) => children,
                Err(error) if error.kind() == ErrorKind::NoNode => continue,
                Err(error) => return Err(error),
            };
            let former = children.into_iter().filter(|node| self.is_former(node, present));
            found.extend(former.map(|node| (child(&parent, &node.name), node.stat)));
        }
        // 2
        let deletes = found.iter().map(|(path, stat)| {
            let delete = self.zk.delete(path).czxid(stat.czxid).version(stat.version);
            delete.quietly()
        });
        let results = fan_out(DELETES_AT_ONCE, deletes).await;
        let mut deleted = Vec::with_capacity(found.len());
        for (result, (path, stat)) in results.into_iter().zip(&found) {
            match result {
                Ok(()) => {
                    let session = SessionId::new(stat.ephemeral_owner);
                    info!(id = self.id, path, %session, "deleted a node of a former process");
                    deleted.push(path.clone());
                }
                // The data were changed: its process is alive.
                Err(error) if error.kind() == ErrorKind::BadVersion => {}
                Err(error) => return Err(error),
            }
        }
        Ok(deleted)
    }

    fn is_former(&self, node: &ChildData, present: Option<i64>) -> bool {
        let owner = node.stat.ephemeral_owner;
        node.stat.is_ephemeral()
            && Some(owner) != present
            && !self.kept.contains(&owner)
            && (node.data == self.id.as_bytes() || node.name == self.id)
    }
}
