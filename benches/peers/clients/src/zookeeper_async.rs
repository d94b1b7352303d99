//! `zookeeper-async`. Its locks are released by the drop of their guard alone, its leader latch
//! cannot be waited for, and its cache cannot be closed.

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::yield_now;
use zookeeper_async::recipes::cache::{PathChildrenCache, PathChildrenCacheEvent};
use zookeeper_async::recipes::distributed_queue::DistributedQueue;
use zookeeper_async::recipes::leader_latch::LeaderLatch;
use zookeeper_async::recipes::shared_lock::{self, LockGuard};
use zookeeper_async::{Acl, CreateMode, WatchedEvent, ZkState, ZooKeeper};

use crate::shared::fleet::{self, Reports};
use crate::shared::locks::{self, Mutex, Release};
use crate::shared::measure::{Outcome, Result, Samples};
use crate::shared::session::numbered;
use crate::shared::{Session, Stage, queues};

/// The nodes of the cache that is changed.
const NODES: usize = 100;

pub(crate) async fn run() -> Result<()> {
    // Among more than two contenders, its lock searches a list that is sorted by number for a name,
    // and panics when it does not find it (`recipes/shared_lock.rs`). So it has no hand-over and no
    // shared locks here.
    let names = [
        "mutex-drop",
        "leader",
        "queue-simple-put",
        "queue-simple-take",
        "cache-load",
        "cache-change",
        "fleet-return",
    ];
    crate::run::<Connection>(&names, async |stage| match stage.workload.as_str() {
        "mutex-drop" => locks::alone(stage, Lock::new, true).await,
        "leader" => fail_over(stage).await,
        "queue-simple-put" => {
            let queue = queue(stage).await?;
            queues::put(stage, async |item| put(&queue, item).await).await
        }
        "queue-simple-take" => {
            let queue = queue(stage).await?;
            let take = async || Ok(queue.try_take().await?.ok_or("the queue is empty")?);
            queues::take(stage, async |item| put(&queue, item).await, take).await
        }
        "cache-load" => load(stage).await,
        "cache-change" => change(stage).await,
        "fleet-return" => fleet::come_back(stage).await,
        _ => crate::unknown(stage),
    })
    .await
}

#[derive(Clone)]
struct Connection {
    zk: Arc<ZooKeeper>,
    states: watch::Receiver<ZkState>,
}

impl Session for Connection {
    type Data = Vec<u8>;

    async fn open(connect: &str, timeout: Duration) -> Result<Self> {
        let zk = ZooKeeper::connect(connect, timeout, |_: WatchedEvent| ()).await?;
        let (state, states) = watch::channel(ZkState::Connecting);
        zk.add_listener(move |new| {
            state.send_replace(new);
        });
        Ok(Self { zk: Arc::new(zk), states })
    }

    fn closed(&self) -> Pin<Box<dyn Future<Output = ()>>> {
        // `close` returns when it is.
        Box::pin(async {})
    }

    async fn close(&self) -> Result<()> {
        Ok(self.zk.close().await?)
    }

    async fn create(&self, path: &str, data: &[u8], is_ephemeral: bool) -> Result<()> {
        let mode = if is_ephemeral { CreateMode::Ephemeral } else { CreateMode::Persistent };
        self.zk.create(path, data.to_vec(), Acl::open_unsafe().clone(), mode).await?;
        Ok(())
    }

    async fn get(&self, path: &str) -> Result<Vec<u8>> {
        Ok(self.zk.get_data(path, false).await?.0)
    }

    async fn watch(
        &self,
        path: &str,
    ) -> Result<(Vec<u8>, impl Future<Output = Result<()>> + use<>)> {
        let (fired, watch) = oneshot::channel();
        // Nobody may wait for it any more.
        let fire = |_| {
            fired.send(()).ok();
        };
        let (data, _) = self.zk.get_data_w(path, fire).await?;
        Ok((data, async move {
            watch.await?;
            Ok(())
        }))
    }

    async fn set(&self, path: &str, data: &[u8]) -> Result<i32> {
        Ok(self.zk.set_data(path, data.to_vec(), None).await?.version)
    }

    async fn delete(&self, path: &str) -> Result<()> {
        Ok(self.zk.delete(path, None).await?)
    }

    async fn exists(&self, path: &str) -> Result<bool> {
        Ok(self.zk.exists(path, false).await?.is_some())
    }

    async fn children(&self, path: &str) -> Result<Vec<String>> {
        Ok(self.zk.get_children(path, false).await?)
    }
}

impl Reports for Connection {
    fn lost_and_back(&self) -> impl Future<Output = Result<()>> + use<> {
        let mut states = self.states.clone();
        states.mark_unchanged();
        async move {
            states.changed().await?;
            states.wait_for(|state| *state == ZkState::Connected).await?;
            Ok(())
        }
    }
}

struct Lock {
    zk: Arc<ZooKeeper>,
    path: String,
}

impl Lock {
    fn new(connection: &Connection, path: &str) -> Self {
        Self { zk: Arc::clone(&connection.zk), path: path.to_owned() }
    }
}

impl Mutex for Lock {
    type Guard<'a> = Arc<LockGuard>;

    async fn acquire(&self) -> Result<Arc<LockGuard>> {
        Ok(shared_lock::lock(Arc::clone(&self.zk), self.path.clone()).await?)
    }
}

impl Release for Arc<LockGuard> {}

async fn queue(stage: &mut Stage<Connection>) -> Result<DistributedQueue> {
    let (connection, path) = (stage.client().await?, stage.below("queue"));
    connection.create_all(&path).await?;
    Ok(DistributedQueue::new(path, connection.zk))
}

async fn put(queue: &DistributedQueue, item: Vec<u8>) -> Result<()> {
    queue.put(item).await?;
    Ok(())
}

/// The next leader is asked whenever other tasks have run: the CPU time is that of the questions.
async fn fail_over(stage: &mut Stage<Connection>) -> Result<()> {
    let path = stage.below("leader");
    let contenders = stage.contenders().await?;
    let latch = |number: usize| {
        LeaderLatch::new(Arc::clone(&contenders[number].zk), number.to_string(), path.clone())
    };
    let mut latches = Vec::new();
    for number in 0..contenders.len() {
        let latch = latch(number);
        latch.start().await?;
        latches.push(latch);
    }
    let mut leader = 0;
    let run = async |operations: usize| {
        let (mut latencies, mut most) = (Samples::new(), 0);
        for _ in 0..operations {
            let began = Instant::now();
            let takes_over = async {
                loop {
                    let others = latches.iter().enumerate().filter(|(number, _)| *number != leader);
                    let leading: Vec<_> =
                        others.filter(|(_, latch)| latch.has_leadership()).collect();
                    if let Some((next, _)) = leading.first() {
                        latencies.push(began.elapsed());
                        return (*next, leading.len());
                    }
                    yield_now().await;
                }
            };
            let (stopped, (next, leading)) = join(latches[leader].stop(), takes_over).await;
            stopped?;
            most = most.max(leading);
            latches[leader] = latch(leader);
            latches[leader].start().await?;
            leader = next;
        }
        let check = format!("max_leaders={most} terms={}", latencies.len());
        Ok(Outcome { operations: latencies.len(), latencies, check })
    };
    stage.run_plain(run).await
}

/// A started cache, and its events from the first complete load on.
async fn cache(
    zk: &Connection,
    path: &str,
) -> Result<(PathChildrenCache, mpsc::UnboundedReceiver<PathChildrenCacheEvent>)> {
    let mut cache = PathChildrenCache::new(Arc::clone(&zk.zk), path).await?;
    let (told, mut events) = mpsc::unbounded_channel();
    cache.add_listener(move |event| drop(told.send(event)));
    cache.start()?;
    while !matches!(
        events.recv().await.ok_or("the cache has ended")?,
        PathChildrenCacheEvent::Initialized(_)
    ) {}
    Ok((cache, events))
}

/// Each cache has a session of its own, whose end ends it.
async fn load(stage: &mut Stage<Connection>) -> Result<()> {
    let (path, size, payload) = (stage.below("tree"), stage.size, stage.payload());
    stage.client().await?.plant_many(&path, size, &payload).await?;
    let mut sessions = Vec::new();
    for _ in 0..stage.warmup + stage.operations {
        sessions.push(stage.client().await?);
    }
    let mut sessions = sessions.into_iter();
    let run = async |operations: usize| {
        let (mut latencies, mut nodes) = (Samples::new(), 0);
        for _ in 0..operations {
            let zk = sessions.next().ok_or("each load has a session")?;
            let began = Instant::now();
            let (cache, _) = cache(&zk, &path).await?;
            latencies.push(began.elapsed());
            nodes += cache.get_current_data().await.len();
        }
        Ok(Outcome { operations, latencies, check: format!("nodes={nodes}") })
    };
    stage.run_plain(run).await
}

async fn change(stage: &mut Stage<Connection>) -> Result<()> {
    let (path, payload) = (stage.below("tree"), stage.payload());
    let (reading, writing) = (stage.client().await?, stage.client().await?);
    writing.plant_many(&path, NODES, &payload).await?;
    let (_cache, mut events) = cache(&reading, &path).await?;
    let run = async |operations| {
        let (mut latencies, mut seen) = (Samples::new(), 0);
        for turn in 0..operations {
            let node = numbered(&path, turn * NODES / operations);
            let told = async {
                // The nodes of the load are reported behind it.
                loop {
                    match events.recv().await.ok_or("the cache has ended")? {
                        PathChildrenCacheEvent::ChildAdded(..) => {}
                        event => return Result::Ok(event),
                    }
                }
            };
            let began = Instant::now();
            let (written, told) = join(writing.set(&node, &payload), told).await;
            written?;
            match told? {
                PathChildrenCacheEvent::ChildUpdated(path, _) if path == node => seen += 1,
                other => return Err(format!("{other:?} instead of a change of {node}").into()),
            }
            latencies.push(began.elapsed());
        }
        Ok(Outcome { operations, latencies, check: format!("changes={seen}") })
    };
    stage.run_plain(run).await
}
