use std::fmt;
use std::future::IntoFuture;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{self, Stream};
use zk_curator::internal::{Setbacks, Signal};
use zk_curator::op::Authorship;
use zk_curator::{CreateMode, CuratorFramework, Error, ErrorKind};

use super::keeper::{KeptNodeState, NodeHold, NodeReconciler, Spec};
use crate::health::{HealthReporter, HealthWatch};

/// Keeps a node in existence: creates it, and creates it again with the same path and data when its
/// session is over or another client deletes it. Apache Curator's class of that name.
///
/// # Layout
/// ```text
/// /services/orders                      container, made on first use
///   └─ worker-7                         the node; `_c_<uuid>-worker-7` if protected, and with a number if sequential
/// ```
///
/// # Protocol
/// 1. Create the node. If an ephemeral node exists, wait until it is gone, even if an earlier
///    session or another guard of this session has created it. A persistent one is adopted, even if
///    another client created it: its data are replaced, and it counts as present once they are.
/// 2. Leave an `exists` watch on it. When it is deleted, or its session is lost, go to 1.
/// 3. A sequential node is created with a number once. From then on it is created at the path that
///    it had, so that the prefix of a protected one and the number stay unchanged.
///
/// # Guarantees
/// * While it is [present](Self::is_present) the node belongs to the present session (if it is
///   ephemeral), and had data that were [set](Self::set_data) here: the last that the server
///   accepted. Data that other clients write into it stay.
/// * It neither deletes nor writes another ephemeral node: not a node that another guard or another
///   call of the same session has created at its path. Its own node is known by the transaction
///   that created it, also after a lost response. In a session that was
///   [taken up](zk_curator::CuratorFrameworkBuilder::resume), nodes of the framework before are
///   replaced.
/// * Two nodes of one process with the same path, like two of different processes, take turns: the
///   second one is created when the first is gone.
///
/// # Assumptions
/// A background task does this. It runs on the
/// [spawner](zk_curator::CuratorFrameworkBuilder::spawner) of the framework and ends with it. An
/// unprotected sequential node may exist twice after a lost reply, until the session ends: protect
/// it.
///
/// # Connection loss
/// * SUSPENDED: nothing is done; the node exists as long as its session.
/// * LOST: the node is not present; it is created when a server is reached in the next session.
///
/// # Cancel safety
/// Dropping it deletes the node in the background. All futures may be dropped at any point.
///
/// # Errors
/// [`created`](Self::created) and [`health`](Self::health) report failures other than connection
/// loss. They are retried after pauses that grow from half a second to 30 seconds, and
/// [`background_errors`](CuratorFramework::background_errors) reports each reason once until the
/// node exists.
///
/// # Example
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = zk_curator_testing::TestServer::start().await;
/// # let zk = zk_curator::CuratorFramework::builder().connect_string(server.connect_string()).build()?;
/// # zk.start().await?;
/// use zk_curator::CreateMode;
/// use zk_curator_recipes::node::PersistentNode;
///
/// let node = PersistentNode::builder(&zk, "/services/worker-7", CreateMode::Ephemeral).data("10.0.0.7").start();
/// assert_eq!(node.created().await?, "/services/worker-7");
/// node.set_data("10.0.0.8").await?;
/// node.close().await?;
/// # zk.close().await?;
/// # Ok(()) }
/// ```
#[doc(alias = "PersistentEphemeralNode")]
#[must_use = "dropping it deletes the node in the background"]
pub struct PersistentNode {
    zk: CuratorFramework,
    /// The path that was asked for.
    asked: String,
    deleted_at_end: bool,
    pub(super) known: Arc<Signal<KeptNodeState>>,
    health: HealthWatch,
}

/// Builds a [`PersistentNode`].
#[derive(Debug, Clone)]
#[must_use = "nothing is done until it is started"]
pub struct PersistentNodeBuilder {
    zk: CuratorFramework,
    spec: Spec,
    pub(super) data: Bytes,
}

impl PersistentNode {
    /// A node of this kind. Nothing is sent until it is [started](PersistentNodeBuilder::start).
    pub fn builder(
        zk: &CuratorFramework,
        path: impl Into<String>,
        mode: CreateMode,
    ) -> PersistentNodeBuilder {
        let path = path.into();
        let spec = Spec {
            path,
            mode,
            ttl: None,
            protected: false,
            parents: true,
            parents_stay: false,
            deleted_at_end: true,
        };
        PersistentNodeBuilder { zk: zk.clone(), spec, data: Bytes::new() }
    }

    /// Waits until the node exists with its data: its path. Returns immediately if it exists.
    ///
    /// # Errors
    /// The reason why it does not exist, or could not be given its data, unless it is the
    /// connection; it is tried again in any case, after pauses that grow from half a second to 30
    /// seconds. `NodeExists` if a persistent node is in the place of an ephemeral one. `NotStarted`
    /// when the framework was not started, `Closed` when it is closed, `SessionExpired` if the
    /// handle is [bound](CuratorFramework::bound_to_session) to a session that is over.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    #[doc(alias = "waitForInitialCreate")]
    pub async fn created(&self) -> Result<String, Error> {
        let look = |known: &KeptNodeState| match (&known.error, &known.path) {
            _ if known.ended => Some(None),
            (Some(error), _) => Some(Some(Err(error.clone()))),
            (None, Some(path)) if is_present(known) => Some(Some(Ok(path.clone()))),
            _ => None,
        };
        self.zk.check_started("created", &self.asked)?;
        match self.known.find(look).await {
            Some(result) => result,
            None => Err(self.ended("created")),
        }
    }

    /// The path of the node, once it has existed.
    #[doc(alias = "getActualPath")]
    #[must_use]
    pub fn path(&self) -> Option<String> {
        self.known.look(|known| known.path.clone())
    }

    /// The data that were set last.
    #[must_use]
    pub fn data(&self) -> Bytes {
        self.known.look(|known| known.data.clone())
    }

    /// Returns `true` if the node exists, as far as this client knows.
    #[must_use]
    pub fn is_present(&self) -> bool {
        self.known.look(is_present)
    }

    /// Replaces the data, of this node and of its successors, and waits until the
    /// server has them.
    ///
    /// # Errors
    /// As [`created`](Self::created); the data are written when that is over.
    ///
    /// # Cancel safety
    /// Once polled, the data are written in the background in any case.
    pub async fn set_data(&self, data: impl Into<Bytes>) -> Result<(), Error> {
        let data = data.into();
        let wanted = self.known.modify(|known| {
            known.data = data;
            known.wanted += 1;
            // The failure of an earlier attempt says nothing about this one.
            known.error = None;
            known.wanted
        });
        let look = |known: &KeptNodeState| match &known.error {
            _ if known.ended => Some(None),
            _ if known.written >= wanted => Some(Some(Ok(()))),
            Some(error) => Some(Some(Err(error.clone()))),
            None => None,
        };
        self.zk.check_started("set_data", &self.asked)?;
        match self.known.find(look).await {
            Some(result) => result,
            None => Err(self.ended("set_data")),
        }
    }

    /// Follows the health of the background task: [`Working`](crate::health::Health::Working) while
    /// the node exists and there is a connection. Without a connection it is
    /// [`Waiting`](crate::health::Health::Waiting): whether the node still exists is not known. It
    /// is [`Failed`](crate::health::Health::Failed) with `NodeExists` while a persistent node is in
    /// the place of an ephemeral one, for example after a restore: no session will ever remove it.
    /// The stream ends with the task.
    pub fn health(&self) -> HealthWatch {
        self.health.restarted()
    }

    /// Returns the path whenever the node was created, beginning with the current one. Several
    /// creations between two calls are reported once. Ends when the framework is closed.
    pub fn creations(&self) -> impl Stream<Item = String> + Send + use<> {
        stream::unfold((Arc::clone(&self.known), 0), async |(known, seen)| {
            let look = |known: &KeptNodeState| match &known.path {
                Some(path) if known.creations > seen => Some(Some((path.clone(), known.creations))),
                _ if known.ended => Some(None),
                _ => None,
            };
            let (path, seen) = known.find(look).await?;
            Some((path, (known, seen)))
        })
    }

    /// Stops keeping the node, deletes it, and waits for the response.
    ///
    /// # Errors
    /// `ConnectionLoss` or `SessionExpired` if it is unknown whether the node was deleted; the
    /// janitor continues.
    ///
    /// # Cancel safety
    /// The node is deleted in any case.
    pub async fn close(self) -> Result<(), Error> {
        // The node of a create without a response may exist later.
        self.known.modify(|known| known.closing = true);
        self.known.until(|known| known.ended || !known.creating).await;
        let (hold, path) = self.end();
        let deleted = match hold {
            Some(NodeHold::Owned(node)) => node.delete().await,
            Some(NodeHold::Persistent { czxid }) if self.deleted_at_end => {
                self.zk.delete(path).czxid(czxid).guaranteed().quietly().await
            }
            _ => Ok(()),
        };
        match deleted {
            Err(error) if matches!(error.kind(), ErrorKind::NoNode | ErrorKind::SessionExpired) => {
                Ok(())
            }
            deleted => deleted,
        }
    }

    /// Ends the task; what exists, and where.
    fn end(&self) -> (Option<NodeHold>, String) {
        self.known.modify(|known| {
            known.ended = true;
            (known.hold.take(), known.path.clone().unwrap_or_default())
        })
    }

    /// Returns the error of an operation after the end of the task.
    fn ended(&self, operation: &'static str) -> Error {
        self.known.look(|known| match &known.ended_early {
            Some(why) => why.clone().of_operation(operation),
            None => Error::closed(operation, known.path.clone().unwrap_or_default()),
        })
    }
}

impl Drop for PersistentNode {
    fn drop(&mut self) {
        let (hold, path) = self.end();
        if let Some(NodeHold::Persistent { czxid }) = hold
            && self.deleted_at_end
        {
            // Dropped, it is left to the janitor.
            drop(self.zk.delete(path).czxid(czxid).guaranteed().quietly().into_future().start());
        }
    }
}

/// Returns `true` if the node exists, and its session is not over.
pub(super) fn is_present(known: &KeptNodeState) -> bool {
    known.hold.as_ref().is_some_and(NodeHold::is_alive)
}

impl PersistentNodeBuilder {
    /// The data. Default: none.
    pub fn data(mut self, data: impl Into<Bytes>) -> Self {
        self.data = data.into();
        self
    }

    /// Puts `_c_<uuid>-` in front of the name, as Curator does: a sequential node is then found
    /// after a lost reply. Default: it does not.
    pub const fn protected(mut self) -> Self {
        self.spec.protected = true;
        self
    }

    /// The time to live, for the modes that have one: from 1 ms to 2^40 - 1 ms.
    pub const fn ttl(mut self, ttl: Duration) -> Self {
        self.spec.ttl = Some(ttl);
        self
    }

    /// Does not create missing parents, which are otherwise created as containers. Then its members
    /// do not re-create a deleted tree (CURATOR-590, CURATOR-643).
    pub const fn without_parents(mut self) -> Self {
        self.spec.parents = false;
        self
    }

    /// Creates missing parents as persistent nodes.
    pub(crate) const fn with_persistent_parents(mut self) -> Self {
        self.spec.parents_stay = true;
        self
    }

    /// Leaves the node in place when it is no longer kept.
    pub(super) const fn left_at_end(mut self) -> Self {
        self.spec.deleted_at_end = false;
        self
    }

    /// Begins to keep the node, in a background task.
    ///
    /// # Panics
    /// Outside a tokio runtime, if the framework has no spawner.
    pub fn start(self) -> PersistentNode {
        let Self { zk, spec, data } = self;
        let known =
            Arc::new(Signal::new(KeptNodeState { data, wanted: 1, ..KeptNodeState::default() }));
        let (asked, deleted_at_end) = (spec.path.clone(), spec.deleted_at_end);
        let health = HealthReporter::default();
        let told = health.watch();
        let ending = Arc::clone(&known);
        let path = asked.clone();
        let author = Authorship::default();
        let keeper = NodeReconciler {
            zk: zk.clone(),
            spec,
            known: Arc::clone(&known),
            health,
            author,
            sent: None,
            setbacks: Setbacks::default(),
        };
        zk.spawn_then(keeper.run(), move |end| {
            ending.modify(|known| {
                known.ended = true;
                if let Err(why) = end {
                    known.ended_early = Some(why.of_operation("start", path));
                }
            });
        });
        PersistentNode { zk, asked, deleted_at_end, known, health: told }
    }
}

impl fmt::Debug for PersistentNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PersistentNode").field("known", &self.known).finish_non_exhaustive()
    }
}
