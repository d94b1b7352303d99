//! `run` costs as much as a loop of `next`, and counts only deliveries that a body has received.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use tokio::time::{Instant, timeout};
use zk_curator::CuratorFramework;
use zk_curator_proto::OpCode;
use zk_curator_recipes::Shutdown;
use zk_curator_recipes::queue::jobs::{JobTask, Jobs};
use zk_curator_recipes::queue::{DistributedQueue, Error, ErrorMode, LockingQueue};
use zk_curator_testing::TestServer;
use zk_curator_testing::wait::{past, spend};
use zk_curator_tests::{
    builder, cancel, in_memory, simulated, simulated_steps, simulated_with, start, stopped_by,
};

use crate::queue_cost::KINDS;

const QUEUE: &str = "/queue";
const LOCKS: &str = "/queue-locks";
const DEAD: &str = "/queue-dead";
const HOUR: Duration = Duration::from_secs(3600);
/// If no item arrives within this time, the queue is empty.
const IDLE: Duration = Duration::from_secs(10);
const ONE_WAY: Duration = Duration::from_millis(5);
const ITEMS: usize = 100;
const LIMIT: usize = 16;
/// After this number of deliveries an item becomes a dead letter.
const MOST: u32 = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// With dead letters, so deliveries are counted.
    Curator,
    /// Its items were delivered once before, because only a redelivery writes the item.
    Locking,
    Jobs,
    /// Its items are removed before they are delivered.
    AutoAck,
}

/// The numbers of the deliveries that bodies have received, by item.
type Got = RefCell<BTreeMap<Bytes, Vec<u32>>>;

impl Kind {
    const ALL: [Self; 4] = [Self::Curator, Self::Locking, Self::Jobs, Self::AutoAck];
    const CLAIMING: [Self; 3] = [Self::Curator, Self::Locking, Self::Jobs];

    fn curator(zk: &CuratorFramework) -> DistributedQueue {
        DistributedQueue::new(zk, QUEUE)
    }

    fn locking(zk: &CuratorFramework) -> LockingQueue {
        LockingQueue::new(zk, QUEUE).max_deliveries(MOST)
    }

    fn jobs(zk: &CuratorFramework) -> Jobs {
        Jobs::new(zk, QUEUE).max_attempts(MOST)
    }

    /// Puts items, and delivers those of a `LockingQueue` once.
    async fn put(self, zk: &CuratorFramework, items: usize) {
        for number in 0..items {
            let item = number.to_string();
            match self {
                Self::Curator | Self::AutoAck => Self::curator(zk).put(item).await.unwrap(),
                Self::Locking => Self::locking(zk).put(item).await.unwrap(),
                Self::Jobs => drop(Self::jobs(zk).submit(item).await.unwrap()),
            }
        }
        if self == Self::Locking {
            let mut consumer = Self::locking(zk).consumer();
            let mut delivered = Vec::new();
            for _ in 0..items {
                delivered.push(consumer.next().await.unwrap());
            }
            drop((delivered, consumer));
            assert!(zk.wait_until_released().await);
        }
    }

    /// Returns the number of deliveries before a test.
    const fn before(self) -> u32 {
        if matches!(self, Self::Locking) { 1 } else { 0 }
    }

    /// Processes the items one after the other. `run` drops a body whose claim is deleted, so this
    /// loop also polls `lost`.
    async fn loop_of_next(self, zk: &CuratorFramework, items: usize) {
        match self {
            Self::Curator => {
                let mut consumer = Self::curator(zk).consumer(LOCKS).dead_letters(DEAD, MOST);
                for _ in 0..items {
                    consumer.next().await.unwrap().ack().await.unwrap();
                }
            }
            Self::Locking => {
                let mut consumer = Self::locking(zk).consumer();
                for _ in 0..items {
                    let item = consumer.next().await.unwrap();
                    assert!(item.lost().now_or_never().is_none());
                    item.ack().await.unwrap();
                }
            }
            Self::Jobs => {
                let mut worker = Self::jobs(zk).worker("w");
                for _ in 0..items {
                    let job = worker.next().await.unwrap();
                    assert!(job.lost().now_or_never().is_none());
                    job.complete().await.unwrap();
                }
            }
            Self::AutoAck => {
                let mut consumer = Self::curator(zk).auto_ack_consumer();
                for _ in 0..items {
                    drop(consumer.next().await.unwrap());
                }
            }
        }
    }

    /// Passes the items to `body` until `stop`. A failed item returns to its place without a delay.
    async fn consume<Fut>(
        self,
        zk: &CuratorFramework,
        limit: usize,
        stop: Shutdown,
        got: &Got,
        body: impl Fn(Bytes) -> Fut,
    ) -> Result<(), Error>
    where
        Fut: Future<Output = Result<(), &'static str>>,
    {
        let shutdown = stop.drain(HOUR);
        let begin =
            |item: &Bytes, attempt| got.borrow_mut().entry(item.clone()).or_default().push(attempt);
        match self {
            Self::Curator => {
                let consumer = Self::curator(zk).consumer(LOCKS).dead_letters(DEAD, MOST);
                let consumer = consumer.redeliver_after(Duration::ZERO, Duration::ZERO);
                let body = |item| {
                    // Bodies of Curator's queues do not get the number of the delivery.
                    begin(&item, 0);
                    body(item)
                };
                consumer.on_error(ErrorMode::Return).run(limit, body).until(shutdown).await
            }
            Self::Locking => {
                let consumer =
                    Self::locking(zk).consumer().redeliver_after(Duration::ZERO, Duration::ZERO);
                let body = |message: zk_curator_recipes::queue::Message| {
                    begin(&message.data, message.attempt);
                    body(message.data)
                };
                consumer.run(limit, body).until(shutdown).await
            }
            Self::Jobs => {
                let worker =
                    Self::jobs(zk).worker("w").redeliver_after(Duration::ZERO, Duration::ZERO);
                let body = |task: JobTask| {
                    begin(&task.data, task.attempt);
                    let work = body(task.data);
                    async { work.await.map(|()| None) }
                };
                worker.run(limit, body).until(shutdown).await
            }
            Self::AutoAck => {
                let body = |item: Bytes| {
                    begin(&item, 1);
                    body(item)
                };
                Self::curator(zk).auto_ack_consumer().run(limit, body).until(shutdown).await
            }
        }
    }

    /// Returns the number of the next delivery of each remaining item, as another process sees it.
    async fn left(self, zk: &CuratorFramework) -> BTreeMap<Bytes, u32> {
        let mut left = BTreeMap::new();
        match self {
            Self::Curator => {
                let mut consumer = Self::curator(zk).consumer(LOCKS);
                while let Ok(item) = timeout(IDLE, consumer.next()).await {
                    let item = item.unwrap();
                    left.insert(item.items()[0].clone(), item.attempt());
                    item.ack().await.unwrap();
                }
            }
            Self::Locking => {
                let mut consumer = Self::locking(zk).consumer();
                while let Ok(item) = timeout(IDLE, consumer.next()).await {
                    let item = item.unwrap();
                    left.insert(item.data().clone(), item.attempt());
                    item.ack().await.unwrap();
                }
            }
            Self::Jobs => {
                let mut worker = Self::jobs(zk).worker("other");
                while let Ok(job) = timeout(IDLE, worker.next()).await {
                    let job = job.unwrap();
                    left.insert(job.data().clone(), job.attempt());
                    job.complete().await.unwrap();
                }
            }
            Self::AutoAck => {
                let mut consumer = Self::curator(zk).auto_ack_consumer();
                while let Some(item) = consumer.try_next().await.unwrap() {
                    left.insert(item.items[0].clone(), 1);
                }
            }
        }
        left
    }
}

/// Returns a framework with network latency.
async fn distant(server: &TestServer) -> CuratorFramework {
    let connector = server.connector();
    connector.set_latency(0, ONE_WAY..=ONE_WAY, 0);
    start(builder(server).connector(Arc::new(connector))).await
}

/// Returns the number of requests, without pings.
fn requests(server: &TestServer) -> u64 {
    let probe = server.probe();
    KINDS
        .into_iter()
        .chain([OpCode::SetData, OpCode::RemoveWatches])
        .map(|kind| probe.requests(kind))
        .sum()
}

/// Returns the requests and the simulated time of `work`, which processes all items.
async fn cost(kind: Kind, work: impl AsyncFnOnce(&CuratorFramework)) -> (u64, Duration) {
    let (server, near) = in_memory().await;
    kind.put(&near, ITEMS).await;
    let zk = distant(&server).await;
    let (before, began) = (requests(&server), Instant::now());
    work(&zk).await;
    (requests(&server) - before, began.elapsed())
}

/// Bodies of 0 to 40 ms end while the next item is being claimed.
#[test]
fn run_costs_what_a_loop_of_next_costs() {
    for kind in Kind::ALL {
        simulated(async move {
            let looped = cost(kind, async |zk| kind.loop_of_next(zk, ITEMS).await).await;
            let got = Got::default();
            let run = cost(kind, async |zk| {
                let (stop, done) = (Shutdown::new(), Cell::new(0));
                let body = async |item: Bytes| {
                    let number: u64 = std::str::from_utf8(&item).unwrap().parse().unwrap();
                    spend(Duration::from_millis(number * 7 % 41)).await;
                    done.set(done.get() + 1);
                    if done.get() == ITEMS {
                        stop.begin();
                    }
                    Ok(())
                };
                kind.consume(zk, LIMIT, stop.clone(), &got, body).await.unwrap();
            })
            .await;
            assert_eq!(got.borrow().len(), ITEMS, "{kind:?}");
            assert!(
                got.borrow().values().all(|deliveries| deliveries.len() == 1),
                "{kind:?}: {got:?}"
            );
            // One receipt for each concurrent acknowledgement, and the listing after the last item.
            let more = LIMIT as u64 + 4;
            assert!(
                run.0 <= looped.0 + more,
                "{kind:?}: {} requests, and {} in a loop",
                run.0,
                looped.0
            );
            let late = Duration::from_millis(100);
            assert!(
                run.1 <= looped.1 + late,
                "{kind:?}: {:?}, and {:?} in a loop",
                run.1,
                looped.1
            );
        });
    }
}

/// Two in three bodies fail, so the items are redelivered many times.
#[test]
fn run_dead_letters_only_items_that_bodies_have_received() {
    for kind in Kind::CLAIMING {
        simulated_with(async move |server, near| {
            kind.put(&near, ITEMS / 2).await;
            let zk = distant(&server).await;
            let got = Got::default();
            let body = async |item: Bytes| {
                let number: u64 = std::str::from_utf8(&item).unwrap().parse().unwrap();
                spend(Duration::from_millis(number * 7 % 41)).await;
                if number.is_multiple_of(3) { Ok(()) } else { Err("not today") }
            };
            let run =
                async |stop: Shutdown| kind.consume(&zk, LIMIT, stop, &got, body).await.unwrap();
            stopped_by(past(IDLE), run).await;
            assert_eq!(kind.left(&near).await, BTreeMap::new(), "{kind:?}");
            for (item, deliveries) in got.into_inner() {
                let number: u64 = std::str::from_utf8(&item).unwrap().parse().unwrap();
                let expected = if number.is_multiple_of(3) { 1 } else { MOST - kind.before() };
                assert_eq!(
                    deliveries.len(),
                    expected as usize,
                    "{kind:?}: {number}, {deliveries:?}"
                );
                if kind != Kind::Curator {
                    let numbers = kind.before() + 1..=kind.before() + expected;
                    assert_eq!(deliveries, numbers.collect::<Vec<_>>(), "{kind:?}: {number}");
                }
            }
        });
    }
}

/// Stops `run` at every step of a claim.
#[test]
fn stop_counts_only_deliveries_that_a_body_has_received() {
    for kind in Kind::CLAIMING {
        for stop in 0..40 {
            simulated_with(async move |server, near| {
                kind.put(&near, 4).await;
                let zk = distant(&server).await;
                let got = Got::default();
                let body = async |_| {
                    spend(Duration::from_millis(200)).await;
                    Err("not today")
                };
                let stopped = spend(Duration::from_millis(stop * 2));
                let run =
                    async |stop: Shutdown| kind.consume(&zk, 3, stop, &got, body).await.unwrap();
                stopped_by(stopped, run).await;
                let got = got.into_inner();
                let left = kind.left(&near).await;
                assert_eq!(left.len(), 4, "{kind:?} {stop}: {left:?}");
                for (item, attempt) in left {
                    let deliveries = got.get(&item).map_or(0, Vec::len) as u32;
                    assert_eq!(
                        attempt,
                        kind.before() + deliveries + 1,
                        "{kind:?} {stop}: {item:?}"
                    );
                }
            });
        }
    }
}

/// A dropped `next` keeps the delivery that it has counted, like the item that it has claimed.
#[test]
fn dropped_next_counts_only_received_deliveries() {
    for kind in [Kind::Curator, Kind::Locking] {
        simulated_steps(3, async |step, _server, zk| {
            kind.put(&zk, 1).await;
            let (is_done, attempt) = if kind == Kind::Curator {
                let mut consumer = Kind::curator(&zk).consumer(LOCKS).dead_letters(DEAD, MOST);
                match cancel::poll_then_drop(consumer.next(), step).await {
                    Some(item) => (true, item.unwrap().attempt()),
                    None => (false, consumer.next().await.unwrap().attempt()),
                }
            } else {
                let mut consumer = Kind::locking(&zk).consumer();
                match cancel::poll_then_drop(consumer.next(), step).await {
                    Some(item) => (true, item.unwrap().attempt()),
                    None => (false, consumer.next().await.unwrap().attempt()),
                }
            };
            assert_eq!(attempt, kind.before() + 1, "{kind:?}, step {step}");
            is_done
        });
    }
}

/// Consumers that have claimed items in advance are dropped repeatedly.
#[test]
fn claims_that_are_given_back_unseen_count_once_at_most() {
    simulated_with(async |_server, zk| {
        let queue = LockingQueue::new(&zk, QUEUE);
        queue.put_all((0..4_u8).map(|number| Bytes::from(vec![number]))).await.unwrap();
        for _ in 0..10 {
            let mut consumer = queue.consumer().prefetch(4);
            drop(consumer.next().await.unwrap());
            drop(consumer);
            assert!(zk.wait_until_released().await);
        }
        let mut consumer = queue.consumer();
        let mut attempts = Vec::new();
        for _ in 0..4 {
            let item = consumer.next().await.unwrap();
            attempts.push(item.attempt());
            item.ack().await.unwrap();
        }
        // The servers do not record whether the first claim was a delivery, so it counts as one.
        assert_eq!(attempts, [11, 2, 2, 2]);
    });
}

/// A consumer at its limit leaves the line to other consumers.
#[test]
fn run_at_its_limit_does_not_hold_the_line_up() {
    simulated_with(async |_server, zk| {
        let queue = LockingQueue::new(&zk, QUEUE);
        let consumer = queue.consumer();
        let busy = async {
            let body = async |_| {
                spend(HOUR).await;
                Ok::<_, Error>(())
            };
            consumer.run(1, body).await.unwrap();
        };
        let others = async {
            queue.put("one").await.unwrap();
            past(Duration::from_secs(1)).await;
            let mut other = queue.consumer();
            let put = async {
                past(Duration::from_secs(1)).await;
                queue.put("two").await.unwrap();
            };
            let taken = timeout(Duration::from_secs(60), async {
                tokio::join!(other.next(), put).0.unwrap()
            });
            assert_eq!(taken.await.unwrap().data(), "two");
        };
        tokio::select! {
            () = busy => panic!("it has ended"),
            () = others => {}
        }
    });
}
