mod task;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::future::{Future, pending, ready};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};
use zk_curator::path::ZPath;
use zk_curator::{CuratorFramework, Signal};

use self::task::{Allocate, Known, Task};
use super::error::Error;
use super::layout::at_least_one;
use crate::health::{HealthReporter, HealthWatch};
use crate::leader::LeaderLatch;
use crate::path::child;
use crate::random::{fraction, index};

/// Several queues as one: puts go to a random queue that is not full, and a leader adds a queue when all are. Apache
/// Curator's `QueueSharder`.
///
/// The order of items is kept within each queue and not across them. One queue of Curator's family is slow with more than
/// some 10,000 items, because each listing of it has all names; several are not.
///
/// # Layout
/// ```text
/// <queue path>                         container
///   └─ queue-<uuid>                    persistent: a queue, with its items
/// <leader path>                        as of a LeaderLatch: who adds queues
/// ```
/// That of Apache Curator: sharders in Java and in Rust can share queues and the election.
///
/// # Protocol
/// 1. List the queues. If there is none, create one.
/// 2. Join the election.
/// 3. Whenever the list changes, and after every [interval](QueueSharderBuilder::check_every): list the queues, and count
///    their items. One with the threshold or more is full; with half of the threshold or less it is free again.
/// 4. When all are full and there are fewer than [the most](QueueSharderBuilder::max_queues): the leader creates another, in
///    a transaction that is only applied while it leads. Curator's leader adds one at every check at which some queue is full.
///
/// # Guarantees
/// * A queue that is created by anybody is known to all sharders soon, at the latest after the interval.
/// * A queue is never removed by a sharder. One that an operator deletes is not used any more after the next check.
/// * The numbers of items are those of the last check: a queue may grow beyond the threshold in between.
/// * Those that start at the same moment without any queue may create one each, as in Curator.
///
/// # Assumptions
/// All sharders of one path have the same settings. Consumers with claims need a lock path for each queue: items of two queues
/// may have the same name.
///
/// # Connection loss
/// * SUSPENDED, LOST: [`queue`](Self::queue) chooses among the queues that are known. Checks go on with the connection, and
///   the leader adds no queue without its leadership.
///
/// # Cancel safety
/// Dropping it ends its background task and leaves the election. Queues that it has handed out go on.
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
/// let sharder = QueueSharder::builder(&zk, "/queues", "/leader", allocate).max_queues(4).start().await?;
/// sharder.queue().put("one").await?;
///
/// // One consumer for every queue, and for those that are added later.
/// let consume = sharder.run(|queue: DistributedQueue| async move {
///     let item = queue.auto_ack_consumer().next().await?;
///     assert_eq!(item.items, ["one"]);
///     Err::<(), zk_curator_recipes::queue::Error>(zk_curator_recipes::queue::Error::Empty) // It is enough.
/// });
/// assert!(consume.await.is_err());
/// sharder.close().await?;
/// # zk.close().await?;
/// # Ok(()) }
/// ```
pub struct QueueSharder<Q> {
    zk: CuratorFramework,
    known: Arc<Signal<Known<Q>>>,
    health: HealthWatch,
    _stop: DropGuard,
    stop: CancellationToken,
}

/// Settings of a [`QueueSharder`].
#[must_use = "nothing is done until it is started"]
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
    /// A sharder of the queues below a path, with an election at another one. `allocate` makes the queue at a path, as
    /// [`DistributedQueue::new`](super::DistributedQueue) does; clones of it are handed out. Nothing is sent until it is
    /// [started](QueueSharderBuilder::start).
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

    /// A random queue of those that are not full, or of all if all are: for one put, as another one may be the better choice
    /// for the next.
    ///
    /// # Panics
    /// Never: one queue is known from the start on.
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

    /// The names of the queues below the path, and the queues.
    #[must_use]
    pub fn queues(&self) -> BTreeMap<String, Q> {
        self.known.look(|known| known.queues.clone())
    }

    /// Runs `body` for every queue, also for those that become known later, until one fails or the sharder is closed. Once
    /// `body` is done with a queue, it is not run for it again. It is dropped when its queue is not there any more.
    ///
    /// # Errors
    /// The first error of `body`; the others are dropped.
    ///
    /// # Cancel safety
    /// That of `body`.
    pub async fn run<F, Fut, E>(&self, body: F) -> Result<(), E>
    where
        F: Fn(Q) -> Fut,
        Fut: Future<Output = Result<(), E>>,
    {
        self.run_until(pending(), Duration::ZERO, body).await
    }

    /// As [`run`](Self::run), until `stop`: `body` is run for no other queue after that, and may go on for as long as `drain` where it
    /// runs. Then it is dropped. Returns when what it has held is given back, as [`wait_released`](CuratorFramework::wait_released)
    /// says. A body that consumes its queue has to be told of `stop` itself: see [the graceful stop](super#a-graceful-stop).
    ///
    /// # Errors
    /// As [`run`](Self::run).
    ///
    /// # Cancel safety
    /// As [`run`](Self::run).
    pub async fn run_until<F, Fut, E>(
        &self,
        stop: impl Future<Output = ()>,
        drain: Duration,
        body: F,
    ) -> Result<(), E>
    where
        F: Fn(Q) -> Fut,
        Fut: Future<Output = Result<(), E>>,
    {
        let mut stop = pin!(stop);
        let mut begun = BTreeSet::new();
        let mut running = FuturesUnordered::new();
        loop {
            let is_stopped = tokio::select! {
                biased;
                () = &mut stop => true,
                () = ready(()) => false,
            };
            if is_stopped {
                break;
            }
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
            let is_news = |known: &Known<Q>| {
                known.end.is_some() || known.queues.keys().any(|name| !begun.contains(name))
            };
            let gone = tokio::select! {
                biased;
                () = &mut stop => break,
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
        let ended = timeout(drain, rest).await;
        drop(running);
        let _: bool = self.zk.wait_released().await;
        ended.unwrap_or(Ok(()))
    }

    /// Follows the health of the background task: [`Working`](crate::health::Health::Working) after a check of the queues has succeeded.
    pub fn health(&self) -> HealthWatch {
        self.health.restarted()
    }

    /// Ends the background task, and leaves the election.
    ///
    /// # Errors
    /// [`Error::Framework`] when it cannot be known whether the node of the election is gone. The janitor goes on.
    ///
    /// # Cancel safety
    /// It is closed all the same, once this was polled.
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
    /// The number of items, from 1, with which a queue is full. Default: 10,000, as of Curator.
    pub fn new_queue_threshold(mut self, items: u32) -> Self {
        self.threshold = items;
        self
    }

    /// The time from one check to the next, more than zero. Default: 30 s, as of Curator.
    #[doc(alias = "thresholdCheckMs")]
    pub fn check_every(mut self, interval: Duration) -> Self {
        self.interval = interval;
        self
    }

    /// The number of queues, from 1, to which none is added. Default: 10, as of Curator.
    pub fn max_queues(mut self, queues: usize) -> Self {
        self.max_queues = queues;
        self
    }

    /// Finds the queues, or creates the first, and begins to watch them in a background task. What fails there is told by
    /// [`background_errors`](CuratorFramework::background_errors), and tried again.
    ///
    /// # Errors
    /// * [`Error::Zero`] for a setting.
    /// * [`Error::LeaderPath`] when the election is at the path of the queues, or below.
    /// * [`Error::Framework`] when a path is not valid, or the queues cannot be listed or created.
    ///
    /// # Panics
    /// Outside a tokio runtime, if the framework has no spawner.
    ///
    /// # Cancel safety
    /// A first queue may have been created.
    pub async fn start(self) -> Result<QueueSharder<Q>, Error> {
        let Self { zk, path, leader_path, allocate, threshold, interval, max_queues } = self;
        at_least_one("new_queue_threshold", threshold)?;
        at_least_one("check_every", interval)?;
        at_least_one("max_queues", max_queues)?;
        let path = ZPath::for_operation("queue sharder", path)?;
        let below = child(&path, "");
        if leader_path == path.as_str() || leader_path.starts_with(&below) {
            return Err(Error::LeaderPath { path: leader_path });
        }
        let leader_path = ZPath::for_operation("queue sharder", leader_path)?;
        let known = Known { queues: BTreeMap::new(), free: BTreeSet::new(), end: None };
        let known = Arc::new(Signal::new(known));
        let mut task = Task {
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
        let candidate = LeaderLatch::new(&zk, leader_path).join();
        let stop = CancellationToken::new();
        let health = task.health.watch();
        zk.spawn(task.run(candidate, stop.clone()));
        Ok(QueueSharder { zk, known, health, _stop: stop.clone().drop_guard(), stop })
    }
}

impl<Q> fmt::Debug for QueueSharderBuilder<Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("QueueSharderBuilder");
        debug.field("path", &self.path).field("leader_path", &self.leader_path).finish_non_exhaustive()
    }
}
