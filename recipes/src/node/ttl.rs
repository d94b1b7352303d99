use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tracing::debug;
use zk_curator::internal::{Setbacks, Signal, sleep};
use zk_curator::path::ZPath;
use zk_curator::{CreateMode, CuratorFramework, Error, ErrorKind};

use super::keeper::KeptNodeState;
use super::persistent::is_present;
use super::{PersistentNode, PersistentNodeBuilder};
use crate::health::{Health, HealthReporter, HealthWatch};
use crate::path::child;

/// Keeps a node in existence that outlives its process for a while: longer than a session, but not
/// forever. Apache Curator's class of that name.
///
/// # Layout
/// ```text
/// /services/worker-7                    with a time to live: the node
///   └─ touch                            with the same time to live, no data: written twice in that time
/// ```
///
/// # Protocol
/// 1. Keep the node, as [`PersistentNode`] does.
/// 2. Write the child `touch`, and create it if it is not there, again and again. Watches on the
///    data of the node do not fire for that.
/// 3. Without further writes, the server removes the child after its time to live, and then the
///    node.
///
/// # Guarantees
/// If the process ends between 1 and 2, the node is removed nevertheless, since it has a time to
/// live itself (GH-1258). Of Curator before 5.9 the node is a container, and stays forever then.
///
/// # Assumptions
/// The servers are started with `zookeeper.extendedTypesEnabled=true`; else
/// [`created`](Self::created) fails with `Unimplemented`. By default they check for nodes to remove
/// once a minute.
///
/// # Connection loss
/// The node stays while it can be touched at least once in its time to live.
///
/// # Cancel safety
/// Dropping it ends the touching; the node stays for its time to live. All futures may be dropped
/// at any point.
///
/// # Errors
/// As [`PersistentNode`].
///
/// # Example
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = zk_curator_testing::TestServer::start().await;
/// # let zk = zk_curator::CuratorFramework::builder().connect_string(server.connect_string()).build()?;
/// # zk.start().await?;
/// use std::time::Duration;
/// use zk_curator_recipes::node::PersistentTtlNode;
///
/// let ttl = Duration::from_secs(600);
/// let node = PersistentTtlNode::builder(&zk, "/services/worker-7", ttl).data("10.0.0.7").start();
/// node.created().await?;
/// drop(node); // it stays for ten minutes
/// # zk.close().await?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[must_use = "dropping it ends the touching of the node"]
pub struct PersistentTtlNode {
    /// Or the error that every operation returns, and the data that were to be kept.
    node: Result<PersistentNode, (Error, Bytes)>,
    health: HealthWatch,
}

/// Builds a [`PersistentTtlNode`].
#[derive(Debug, Clone)]
#[must_use = "nothing is done until it is started"]
pub struct PersistentTtlNodeBuilder {
    zk: CuratorFramework,
    path: String,
    node: PersistentNodeBuilder,
    ttl: Duration,
    touch: String,
    factor: u32,
}

impl PersistentTtlNode {
    /// A node with this time to live, from 1 ms to 2^40 - 1 ms. Nothing is sent until it is
    /// [started](PersistentTtlNodeBuilder::start).
    pub fn builder(
        zk: &CuratorFramework,
        path: impl Into<String>,
        ttl: Duration,
    ) -> PersistentTtlNodeBuilder {
        let path = path.into();
        let node = PersistentNode::builder(zk, path.as_str(), CreateMode::PersistentWithTtl)
            .ttl(ttl)
            .left_at_end();
        PersistentTtlNodeBuilder {
            zk: zk.clone(),
            path,
            node,
            ttl,
            touch: "touch".to_owned(),
            factor: 2,
        }
    }

    /// Waits until the node exists: its path.
    ///
    /// # Errors
    /// * `InvalidPath` if the path of the node or of its child is invalid; `InvalidArgument` for
    ///   zero [`touches`](PersistentTtlNodeBuilder::touches): the node is never created.
    /// * As [`PersistentNode::created`].
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn created(&self) -> Result<String, Error> {
        self.node()?.created().await
    }

    /// Follows the health of the background tasks: [`Working`](Health::Working) while the node
    /// exists and is touched.
    pub fn health(&self) -> HealthWatch {
        self.health.restarted()
    }

    /// The data that were set last.
    #[must_use]
    pub fn data(&self) -> Bytes {
        match &self.node {
            Ok(node) => node.data(),
            Err((_, data)) => data.clone(),
        }
    }

    /// Replaces the data, and waits until the server has them.
    ///
    /// # Errors
    /// As [`PersistentNode::set_data`].
    ///
    /// # Cancel safety
    /// Once polled, the data are written in the background in any case.
    pub async fn set_data(&self, data: impl Into<Bytes>) -> Result<(), Error> {
        self.node()?.set_data(data).await
    }

    fn node(&self) -> Result<&PersistentNode, Error> {
        self.node.as_ref().map_err(|(error, _)| error.clone())
    }
}

impl PersistentTtlNodeBuilder {
    /// The data. Default: none.
    pub fn data(mut self, data: impl Into<Bytes>) -> Self {
        self.node = self.node.data(data);
        self
    }

    /// The name of the child that is touched. Default: `touch`, as of Curator.
    pub fn touch_name(mut self, name: impl Into<String>) -> Self {
        self.touch = name.into();
        self
    }

    /// The number of times that the child is touched within the time to live, from 1. Default: 2,
    /// as of Curator.
    pub const fn touches(mut self, factor: u32) -> Self {
        self.factor = factor;
        self
    }

    /// Leaves missing parents missing: see [`PersistentNodeBuilder::without_parents`].
    pub fn without_parents(mut self) -> Self {
        self.node = self.node.without_parents();
        self
    }

    /// Begins to keep the node, in background tasks. See [`PersistentTtlNode::created`] for errors.
    ///
    /// # Panics
    /// Outside a tokio runtime, if the framework has no spawner.
    pub fn start(self) -> PersistentTtlNode {
        let touch = match self.touch_path() {
            Ok(touch) => touch,
            Err(error) => {
                let health = HealthWatch::refused(error.clone());
                return PersistentTtlNode { node: Err((error, self.node.data)), health };
            }
        };
        let Self { zk, node, ttl, factor, .. } = self;
        let node = node.start();
        let reporter = HealthReporter::default();
        let health = node.health().and(reporter.watch());
        let kept = Arc::clone(&node.known);
        let toucher = Toucher {
            zk: zk.uncompressed(),
            path: touch.into(),
            ttl,
            pause: ttl / factor,
            kept: Arc::clone(&kept),
            health: reporter,
        };
        zk.spawn(async move {
            tokio::select! {
                biased;
                // With the handle, or with the task that keeps the node.
                () = kept.until(|kept| kept.ended) => {}
                () = toucher.run() => {}
            }
        });
        PersistentTtlNode { node: Ok(node), health }
    }

    /// Returns the path of the child, if all settings are valid.
    fn touch_path(&self) -> Result<ZPath, Error> {
        let path = ZPath::for_operation("start", self.path.as_str())?;
        if self.factor == 0 {
            return Err(Error::invalid_argument("start", path.as_str(), "touches cannot be 0"));
        }
        ZPath::for_operation("start", child(&path, &self.touch))
    }
}

/// Touches the child.
struct Toucher {
    zk: CuratorFramework,
    path: String,
    ttl: Duration,
    pause: Duration,
    /// The node.
    kept: Arc<Signal<KeptNodeState>>,
    health: HealthReporter,
}

impl Toucher {
    /// Ends when the framework is closed.
    async fn run(self) {
        let mut states = self.zk.states();
        let mut setbacks = Setbacks::default();
        while states.until(|status| status.state.is_connected()).await.is_some() {
            let pause = match self.touch().await {
                Ok(()) => {
                    setbacks.over();
                    self.health.report(Health::Working);
                    self.pause
                }
                Err(error) if error.kind() == ErrorKind::Closed => return,
                Err(error) => self.not_touched(error, &mut setbacks).await,
            };
            sleep(pause.max(Duration::from_millis(1))).await;
        }
    }

    /// Returns the pause before the next attempt.
    async fn not_touched(&self, error: Error, setbacks: &mut Setbacks) -> Duration {
        debug!(path = self.path, %error, "not touched");
        let is_early = error.kind() == ErrorKind::NoNode;
        if !is_early && !error.is_transient() {
            setbacks.report(&self.zk, &error);
            self.health.report(Health::Failed(error));
            return setbacks.pause(&self.zk);
        }
        self.health.report(Health::Waiting);
        if is_early {
            // The parent of the child: it may be refused for as long as nobody repairs that.
            self.kept.until(is_present).await;
        }
        // Soon enough to try again before it is too late.
        self.pause / 8
    }

    async fn touch(&self) -> Result<(), Error> {
        match self.zk.set_data(self.path.as_str(), Bytes::new()).idempotent().await {
            Err(error) if error.kind() == ErrorKind::NoNode => {
                let create = self.zk.create(self.path.as_str()).mode(CreateMode::PersistentWithTtl);
                create.ttl(self.ttl).data(Bytes::new()).idempotent().or_set_data().await.map(|_| ())
            }
            touched => touched.map(|_| ()),
        }
    }
}
