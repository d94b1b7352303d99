//! Many consumers and many claims: the cost of an item, and the time until a returned item is
//! noticed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;
use zk_curator_recipes::queue::jobs::Jobs;
use zk_curator_recipes::queue::{DistributedQueue, LockingQueue};
use zk_curator_testing::TestServer;
use zk_curator_testing::wait::{idle, spend};

use crate::queue_cost::{Cost, LOCKS, QUEUE, distant, fill};
use zk_curator_tests::{connected, simulated, simulated_from, simulated_with, size, until};

const CONSUMERS: usize = 50;
const LINE: &str = "/queue-line";

#[derive(Debug, Clone, Copy)]
enum Kind {
    Locking,
    Curator,
    Jobs,
}

const KINDS: [Kind; 3] = [Kind::Locking, Kind::Curator, Kind::Jobs];

/// Returns the path at which consumers wait in line.
fn line(kind: Kind) -> &'static str {
    match kind {
        Kind::Curator => LINE,
        Kind::Locking | Kind::Jobs => "/queue/line",
    }
}

/// Counts the items that are settled.
#[derive(Default)]
struct Settled {
    count: AtomicUsize,
    changed: Notify,
}

impl Settled {
    fn one_more(&self) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.changed.notify_waiters();
    }

    async fn until(&self, count: usize) {
        loop {
            let changed = self.changed.notified();
            if self.count.load(Ordering::Relaxed) >= count {
                return;
            }
            changed.await;
        }
    }
}

async fn put(server: &TestServer, kind: Kind, items: usize) {
    let zk = connected(server).await;
    match kind {
        Kind::Locking => {
            let queue = LockingQueue::new(&zk, QUEUE);
            for item in 0..items {
                queue.put(item.to_string()).await.unwrap();
            }
            queue.flush().await.unwrap();
        }
        Kind::Curator => fill(&zk, items).await,
        Kind::Jobs => {
            let jobs = Jobs::new(&zk, QUEUE);
            for item in 0..items {
                jobs.submit(item.to_string()).await.unwrap();
            }
            jobs.flush().await.unwrap();
        }
    }
    zk.close().await.unwrap();
}

/// Consumes items in an endless loop, and settles each after some time.
async fn consume(server: Arc<TestServer>, kind: Kind, work: Duration, settled: Arc<Settled>) {
    let zk = distant(&server).await;
    match kind {
        Kind::Locking => {
            let mut consumer = LockingQueue::new(&zk, QUEUE).consumer();
            loop {
                let item = consumer.next().await.unwrap();
                spend(work).await;
                item.ack().await.unwrap();
                settled.one_more();
            }
        }
        Kind::Curator => {
            let mut consumer = DistributedQueue::new(&zk, QUEUE).fair_waiting(LINE).consumer(LOCKS);
            loop {
                let item = consumer.next().await.unwrap();
                spend(work).await;
                item.ack().await.unwrap();
                settled.one_more();
            }
        }
        Kind::Jobs => {
            let mut worker = Jobs::new(&zk, QUEUE).worker("worker");
            loop {
                let job = worker.next().await.unwrap();
                spend(work).await;
                job.complete().await.unwrap();
                settled.one_more();
            }
        }
    }
}

/// Starts the consumers, all at the same moment.
fn start(
    server: &Arc<TestServer>,
    kind: Kind,
    work: Duration,
    settled: &Arc<Settled>,
) -> JoinSet<()> {
    let mut consumers = JoinSet::new();
    for _ in 0..CONSUMERS {
        consumers.spawn(consume(Arc::clone(server), kind, work, Arc::clone(settled)));
    }
    consumers
}

/// Returns the requests per item of a queue that is filled before its consumers start. The requests
/// of their start are included.
async fn of_a_backlog(kind: Kind, items: usize, work: Duration) -> f64 {
    let server = Arc::new(TestServer::in_memory().await);
    connected(&server).await.create(LOCKS).await.unwrap();
    put(&server, kind, items).await;
    let settled = Arc::new(Settled::default());
    let cost = Cost::since_now(&server);
    let _consumers = start(&server, kind, work, &settled);
    settled.until(items).await;
    each(cost.requests(), items)
}

/// Returns the requests per item of a queue with waiting consumers, without the requests of the
/// puts. `together` items are put at a time.
async fn of_new_items(kind: Kind, items: usize, together: usize, work: Duration) -> f64 {
    let server = Arc::new(TestServer::in_memory().await);
    let settled = Arc::new(Settled::default());
    let _consumers = start(&server, kind, work, &settled);
    until(&server, |probe| probe.children(line(kind)).len() == CONSUMERS).await;
    let mut requests = 0;
    for round in 1..=items / together {
        let cost = Cost::since_now(&server);
        put(&server, kind, together).await;
        let puts = cost.requests();
        settled.until(round * together).await;
        requests += cost.requests() - puts;
    }
    each(requests, items)
}

fn each(requests: u64, items: usize) -> f64 {
    f64::from(u32::try_from(requests).unwrap()) / f64::from(u32::try_from(items).unwrap())
}

fn at_most(limit: f64, requests: f64, what: &str) {
    assert!(requests <= limit, "{what}: {requests} requests an item");
}

const NO_WORK: Duration = Duration::ZERO;
const WORK: Duration = Duration::from_millis(100);

/// A worker sends some 20 requests before its first job, for example for the election of the
/// cleaner. These are not counted.
#[test]
fn fifty_consumers_of_a_long_queue_cost_six_requests_an_item() {
    let items = size(400, 1000);
    at_most(6.0, simulated(of_a_backlog(Kind::Locking, items, NO_WORK)), "without work");
    at_most(6.0, simulated(of_a_backlog(Kind::Curator, items, WORK)), "with work");
    at_most(6.0, simulated(of_new_items(Kind::Jobs, items, items, NO_WORK)), "jobs");
}

/// Returns the mean of some runs with different random choices.
fn of_a_short_queue(kind: Kind, work: Duration, runs: usize) -> f64 {
    // The seeds of two runs are further apart than those of the clients of one run.
    let seeds = (0..runs as u64).map(|run| run * 1000);
    let cost = |seed| match kind {
        Kind::Locking | Kind::Curator => simulated_from(seed, of_a_backlog(kind, 100, work)),
        Kind::Jobs => simulated_from(seed, of_new_items(kind, 100, 100, work)),
    };
    seeds.map(cost).sum::<f64>() / runs as f64
}

#[test]
fn fifty_consumers_of_a_short_queue_cost_ten_requests_an_item() {
    for kind in KINDS {
        for (work, runs) in [(NO_WORK, 1), (WORK, size(2, 4))] {
            at_most(10.0, of_a_short_queue(kind, work, runs), &format!("{kind:?}, {work:?}"));
        }
    }
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn fifty_consumers_cost_ten_requests_an_item_on_average() {
    for kind in KINDS {
        for work in [NO_WORK, WORK] {
            let requests = of_a_short_queue(kind, work, size(8, 40));
            eprintln!("{kind:?}, {work:?}: {requests:.2} requests an item");
            at_most(10.0, requests, &format!("{kind:?}, {work:?}"));
        }
    }
}

/// Each new item goes to the first consumer in line, which then enters the line again. Each of the
/// fifty lists the buckets again when the first one is created: 1.7 requests for each of thirty
/// items.
#[test]
fn an_item_with_fifty_waiting_consumers_costs_17_requests() {
    for kind in KINDS {
        for together in [1, 5] {
            let requests = simulated(of_new_items(kind, 30, together, WORK));
            at_most(17.0, requests, &format!("{kind:?}, {together} at a time"));
        }
    }
}

#[test]
fn a_returned_item_is_noticed_however_many_are_claimed() {
    for held in [70, 300] {
        simulated_with(async move |server, zk| {
            let queue = LockingQueue::new(&zk, QUEUE);
            let mut holder = queue.consumer();
            let mut items = Vec::new();
            for number in 0..held {
                queue.put(number.to_string()).await.unwrap();
                items.push(holder.next().await.unwrap());
            }
            let other = connected(&server).await;
            let mut consumer = LockingQueue::new(&other, QUEUE).consumer();
            let waiting =
                tokio::spawn(async move { consumer.next().await.unwrap().data().clone() });
            until(&server, |probe| !probe.children("/queue/line").is_empty()).await;
            idle(Duration::from_secs(30)).await;
            let began = Instant::now();
            drop(items.pop());
            assert_eq!(waiting.await.unwrap(), (held - 1).to_string());
            assert!(began.elapsed() <= Duration::from_secs(3), "{:?}", began.elapsed());
        });
        simulated_with(async move |server, zk| {
            fill(&zk, held).await;
            let mut holder = DistributedQueue::new(&zk, QUEUE).consumer(LOCKS);
            let mut items = Vec::new();
            for _ in 0..held {
                items.push(holder.next().await.unwrap());
            }
            let other = connected(&server).await;
            let mut consumer = DistributedQueue::new(&other, QUEUE).consumer(LOCKS);
            let waiting =
                tokio::spawn(async move { consumer.next().await.unwrap().items().concat() });
            until(&server, |probe| !probe.watches().is_empty()).await;
            idle(Duration::from_secs(30)).await;
            let began = Instant::now();
            drop(items.pop());
            assert_eq!(waiting.await.unwrap(), (held - 1).to_string().as_bytes());
            assert!(began.elapsed() <= Duration::from_secs(3), "{:?}", began.elapsed());
        });
    }
}
