mod task;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};
use zk_curator::CuratorFramework;
use zk_curator::internal::Signal;
use zk_curator::path::ZPath;

use self::task::{Allocate, SharderState, SharderTask};
use crate::health::{HealthReporter, HealthWatch};
use crate::leader::LeaderLatch;
use crate::path::child;
use crate::queue::error::Error;
use crate::queue::wire::layout::at_least_one;
use crate::random::{fraction, index};
use crate::run::Run;
use crate::shutdown::Shutdown;

/// Several queues as one: puts go to a random queue that is not full, and a leader adds a queue
/// when all are. Apache Curator's `QueueSharder`.
///
/// The order of items is kept within each queue, but not across queues. One of Curator's queues is
/// slow with more than about 10,000 items, because each listing contains all names; several queues
/// are not.
///
/// # Layout
/// ```text
/// <queue path>                         container
///   └─ queue-<uuid>                    persistent: a queue, with its items
/// <leader path>                        as of a LeaderLatch: who adds queues
/// ```
/// The layout of Apache Curator: sharders in Java and in Rust can share queues and the election.
///
/// # Protocol
/// 1. List the queues. If there is none, create one.
/// 2. Join the election.
/// 3. Whenever the list changes, and after every [interval](QueueSharderBuilder::check_every): list
///    the queues, and count their items. A queue with at least the threshold is full; with at most
///    half of the threshold it has room again.
/// 4. If all are full and there are fewer than [`max_queues`](QueueSharderBuilder::max_queues), the
///    leader creates another one, in a transaction that is applied only while it leads. Curator's
///    leader adds one at every check that finds a full queue.
///
/// # Guarantees
/// * All sharders know of a new queue soon, after the interval at the latest, no matter who created
///   it.
/// * A sharder never removes a queue. A queue that an operator deletes is no longer used after the
///   next check.
/// * The numbers of items are from the last check, so a queue may grow beyond the threshold in
///   between.
/// * Sharders that start at the same moment without any queue may create one each, as in Curator.
///
/// # Assumptions
/// All sharders of one path must have the same settings. Consumers with claims need a lock path for
/// each queue: items of two queues may have the same name.
///
/// # Connection loss
/// * SUSPENDED, LOST: [`queue`](Self::queue) chooses among the known queues. Checks continue when
///   the connection is back. A leader that has lost its leadership adds no queue.
///
/// # Cancel safety
/// Dropping it ends its background task and leaves the election. Queues that it has returned
/// continue to work.
///
/// # Example
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = zk_curator_testing::TestServer::start().await;
/// # let zk = zk_curator::CuratorFramework::builder().connect_string(server.connect_string()).build()?;
/// # zk.start().await?;
/// use zk_curator_recipes::queue::{DistributedQueue, QueueSharder};
///
/// let allocate = |zk: &_, path: &str| DistributedQueue::new(zk, path);
/// let sharder = QueueSharder::builder(&zk, "/queues", "/leader", allocate).max_queues(4).open().await?;
/// sharder.queue().put("one").await?;
///
/// // One consumer for every queue, and for those that are added later.
/// let consume = sharder.run(|queue: DistributedQueue| async move {
///     let item = queue.auto_ack_consumer().next().await?;
///     assert_eq!(item.items, ["one"]);
///     let path = queue.path().to_owned();
///     Err::<(), _>(zk_curator_recipes::queue::Error::Empty { path }) // It is enough.
/// });
/// assert!(consume.await.is_err());
/// sharder.close().await?;
/// # zk.close().await?;
/// # Ok(()) }
/// ```
pub struct QueueSharder<Q> {
    zk: CuratorFramework,
    known: Arc<Signal<SharderState<Q>>>,
    health: HealthWatch,
    _stop: DropGuard,
    stop: CancellationToken,
}

/// Settings of a [`QueueSharder`].
#[must_use = "nothing is done until it is opened"]
pub struct QueueSharderBuilder<Q> {
    zk: CuratorFramework,
    path: String,
    leader_path: String,
    allocate: Allocate<Q>,
    threshold: u32,
    interval: Duration,
    max_queues: usize,
}

impl<Q: Clone + Send + Sync + 'static> QueueSharder<Q> {
    /// Builds a sharder of the queues below a path, with an election at another path. `allocate`
    /// creates the queue for a path, as [`DistributedQueue::new`](super::DistributedQueue) does;
    /// callers get clones of it. Nothing is sent until it is [opened](QueueSharderBuilder::open).
    pub fn builder(
        zk: &CuratorFramework,
        path: impl Into<String>,
        leader_path: impl Into<String>,
        allocate: impl Fn(&CuratorFramework, &str) -> Q + Send + Sync + 'static,
    ) -> QueueSharderBuilder<Q> {
        QueueSharderBuilder {
            zk: zk.clone(),
            path: path.into(),
            leader_path: leader_path.into(),
            allocate: Arc::new(allocate),
            threshold: 10_000,
            interval: Duration::from_secs(30),
            max_queues: 10,
        }
    }

    /// Returns a random queue with room, or any queue if all are full. Call it for every put,
    /// because another queue may be better for the next one.
    ///
    /// # Panics
    /// Never, because at least one queue is known.
    #[must_use]
    pub fn queue(&self) -> Q {
        let chance = fraction(&self.zk);
        self.known.look(|known| {
            let free = known.free.iter().filter_map(|name| known.queues.get(name));
            let free: Vec<&Q> = free.collect();
            let chosen = match free.get(index(chance, free.len())) {
                Some(queue) => Some(*queue),
                None => known.queues.values().nth(index(chance, known.queues.len())),
            };
            chosen.cloned().expect("invariant: a sharder knows one queue at least")
        })
    }

    /// Returns the queues, by their names below the path.
    #[must_use]
    pub fn queues(&self) -> BTreeMap<String, Q> {
        self.known.look(|known| known.queues.clone())
    }

    /// Runs `body` for every queue, including queues that become known later, until one fails, the
    /// sharder is closed, or its background task has ended early; [`close`](Self::close) returns
    /// the reason. A `body` that has ended is not run again for its queue. `body` is dropped when
    /// its queue no longer exists.
    ///
    /// [Until a stop](Run::until): after it, `body` is not started for further queues; running
    /// bodies may continue for the time to drain, and are then dropped. The run returns when
    /// everything that they held is released: see
    /// [`wait_until_released`](CuratorFramework::wait_until_released). A body that consumes its
    /// queue needs a clone of the shutdown: see [the graceful stop](super#a-graceful-stop).
    ///
    /// # Errors
    /// The first error of a `body`; the other bodies are dropped.
    ///
    /// # Cancel safety
    /// The error of `body`.
    pub fn run<F, Fut, E>(&self, body: F) -> Run<impl Future<Output = Result<(), E>>>
    where
        F: Fn(Q) -> Fut,
        Fut: Future<Output = Result<(), E>>,
    {
        Run::new(|stop| async move { self.run_bodies(&stop.shutdown(), body).await })
    }

    async fn run_bodies<F, Fut, E>(&self, shutdown: &Shutdown, body: F) -> Result<(), E>
    where
        F: Fn(Q) -> Fut,
        Fut: Future<Output = Result<(), E>>,
    {
        let mut begun = BTreeSet::new();
        let mut running = FuturesUnordered::new();
        while !shutdown.has_begun() {
            for (name, queue) in self.queues() {
                if begun.insert(name.clone()) {
                    let work = body(queue);
                    let gone = async move {
                        self.known.until(|known| !known.queues.contains_key(&name)).await;
                        name
                    };
                    running.push(async move {
                        tokio::select! {
                            biased;
                            name = gone => Ok(Some(name)),
                            done = work => done.map(|()| None),
                        }
                    });
                }
            }
            let is_news = |known: &SharderState<Q>| {
                known.end.is_some() || known.queues.keys().any(|name| !begun.contains(name))
            };
            let gone = tokio::select! {
                biased;
                () = shutdown.begun() => break,
                Some(done) = running.next(), if !running.is_empty() => done?,
                () = self.known.until(is_news) => {
                    if self.known.look(|known| known.end.is_some()) {
                        return Ok(());
                    }
                    None
                }
            };
            if let Some(name) = gone {
                begun.remove(&name);
            }
        }
        let rest = async {
            while let Some(done) = running.next().await {
                done?;
            }
            Ok(())
        };
        let ended = timeout(shutdown.time(), rest).await;
        drop(running);
        let _: bool = self.zk.wait_until_released().await;
        ended.unwrap_or(Ok(()))
    }

    /// Follows the health of the background task: [`Working`](crate::health::Health::Working) after
    /// a check of the queues has succeeded.
    pub fn health(&self) -> HealthWatch {
        self.health.restarted()
    }

    /// Ends the background task, and leaves the election.
    ///
    /// # Errors
    /// [`Error::Framework`] if it is unknown whether the node of the election was deleted; the
    /// janitor continues. With the kind `Closed` if the background task has panicked or its runtime
    /// has ended.
    ///
    /// # Cancel safety
    /// Once the future was polled, the sharder is closed even if the future is dropped.
    pub async fn close(&self) -> Result<(), Error> {
        self.stop.cancel();
        self.known.find(|known| known.end.clone()).await
    }
}

impl<Q> fmt::Debug for QueueSharder<Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.known.look(|known| known.queues.keys().cloned().collect());
        f.debug_struct("QueueSharder").field("queues", &names).finish_non_exhaustive()
    }
}

impl<Q: Clone + Send + Sync + 'static> QueueSharderBuilder<Q> {
    /// Sets the number of items, from 1, with which a queue is full. Default: 10,000, as in
    /// Curator.
    pub fn new_queue_threshold(mut self, items: u32) -> Self {
        self.threshold = items;
        self
    }

    /// Sets the time from one check to the next, more than zero. Default: 30 s, as in Curator.
    #[doc(alias = "thresholdCheckMs")]
    pub fn check_every(mut self, interval: Duration) -> Self {
        self.interval = interval;
        self
    }

    /// Sets the maximum number of queues, from 1. Default: 10, as in Curator.
    pub fn max_queues(mut self, queues: usize) -> Self {
        self.max_queues = queues;
        self
    }

    /// Finds the queues, or creates the first, and begins to watch them in a background task.
    /// [`background_errors`](CuratorFramework::background_errors) reports permanent errors of this
    /// task, such as `NoAuth`, once for each reason until a check succeeds. It retries after the
    /// interval, or after pauses that grow to 30 seconds if these are longer.
    ///
    /// # Errors
    /// * [`Error::Zero`] for a setting of zero.
    /// * [`Error::LeaderPath`] if the path of the election is the path of the queues, or below it.
    /// * [`Error::Framework`] if a path is invalid, or the queues cannot be listed or created.
    ///
    /// # Panics
    /// Outside a tokio runtime, if the framework has no spawner.
    ///
    /// # Cancel safety
    /// A first queue may have been created.
    pub async fn open(self) -> Result<QueueSharder<Q>, Error> {
        let Self { zk, path, leader_path, allocate, threshold, interval, max_queues } = self;
        at_least_one(&path, "new_queue_threshold", threshold)?;
        at_least_one(&path, "check_every", interval)?;
        at_least_one(&path, "max_queues", max_queues)?;
        let path = ZPath::for_operation("queue sharder", path)?;
        let below = child(&path, "");
        if leader_path == path.as_str() || leader_path.starts_with(&below) {
            return Err(Error::LeaderPath { path: leader_path });
        }
        let leader_path = ZPath::for_operation("queue sharder", leader_path)?;
        let known = SharderState { queues: BTreeMap::new(), free: BTreeSet::new(), end: None };
        let known = Arc::new(Signal::new(known));
        let mut task = SharderTask {
            zk: zk.clone(),
            path,
            allocate,
            threshold,
            interval,
            max_queues,
            known: Arc::clone(&known),
            watch: None,
            health: HealthReporter::default(),
        };
        if task.list().await?.is_empty() {
            let name = task.create_first().await?;
            task.adopt(vec![name]);
            task.list().await?;
        }
        let candidate = LeaderLatch::within(&zk, leader_path, "sharder").join();
        let stop = CancellationToken::new();
        let health = task.health.watch();
        let (ending, of) = (Arc::clone(&known), task.path.to_string());
        zk.spawn_then(task.run(candidate, stop.clone()), move |end| {
            let end = end.unwrap_or_else(|why| Err(why.of_operation("queue sharder", of).into()));
            ending.modify(|known| known.end = Some(end));
        });
        Ok(QueueSharder { zk, known, health, _stop: stop.clone().drop_guard(), stop })
    }
}

impl<Q> fmt::Debug for QueueSharderBuilder<Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("QueueSharderBuilder");
        debug
            .field("path", &self.path)
            .field("leader_path", &self.leader_path)
            .finish_non_exhaustive()
    }
}
