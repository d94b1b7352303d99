//! Many items in each queue with a layout of our own: put and taken, with responses of 1 MiB at
//! most. The number of items changes neither the memory of a consumer nor the requests for an item:
//! with 100,000 items they are those with 50,000, and with `ZK_CURATOR_NIGHT=1` also with a
//! million. They take minutes without optimisation:
//! `cargo test --profile quick -p zk-curator-recipes --test million -- --nocapture`.
#![expect(clippy::print_stdout, reason = "the figures are for people")]
#![expect(clippy::unwrap_used, reason = "helpers of a test are not recognised as tests")]

use std::alloc::System;
use std::future::IntoFuture as _;
use std::sync::{Arc, Mutex};

use cap::Cap;

use futures_util::future::join_all;
use futures_util::stream::{StreamExt, iter};
use zk_curator::CuratorFramework;
use zk_curator_recipes::queue::jobs::Jobs;
use zk_curator_recipes::queue::{FifoQueue, LockingQueue};
use zk_curator_testing::TestServer;

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

/// Each test holds this lock, because allocations of other tests would be counted, too.
static ALONE: Mutex<()> = Mutex::new(());

/// The sizes of a queue: each is compared with the first. A consumer has less to remember of a
/// smaller queue than of these.
const SIZES: &[usize] = &[50_000, 100_000];
/// The sizes that a night compares.
const SIZES_OF_A_NIGHT: &[usize] = &[50_000, 200_000, 1_000_000];
/// The number of items put, or taken and not acknowledged, at a time.
const TOGETHER: usize = 64;
/// The number of memory measurements while items are taken.
const STEPS: usize = 100;
/// The most memory that a consumer may take, including requests in flight, in bytes.
const MEMORY: usize = 8 << 20;
/// The server has the jobs as children of one node, whose table shrinks in steps: it may have this
/// many bytes for each job to spare. The name of a job takes more than twice of that.
const TABLE: usize = 32;

/// A client that gets an error for a response over 1 MiB.
async fn client(server: &TestServer) -> CuratorFramework {
    let builder = CuratorFramework::builder().connect_string(server.connect_string());
    let zk = builder.connector(Arc::new(server.connector())).max_response(1 << 20).build().unwrap();
    zk.start().await.unwrap();
    zk
}

/// The cost of a queue of some size.
struct Run {
    items: usize,
    /// The most memory beyond that of the server, in bytes.
    memory: usize,
    /// The requests to put all items.
    puts: u64,
    /// The requests to take and acknowledge all items.
    takes: u64,
}

/// Runs a queue of each size, and compares them. `spare` is the memory of the server that it may
/// not have returned, in bytes for each item. One test at a time, in real time: the clock does not
/// stand still here for a server that works.
fn bounded(spare: usize, run: impl AsyncFn(usize) -> Run) {
    let _alone = ALONE.lock().unwrap();
    let is_night = std::env::var_os("ZK_CURATOR_NIGHT").is_some_and(|value| value == "1");
    let mut first: Option<Run> = None;
    let sizes = if is_night { SIZES_OF_A_NIGHT } else { SIZES };
    for &items in sizes {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let run = runtime.block_on(run(items));
        drop(runtime);
        let each = |requests: u64| requests as f64 / items as f64;
        println!(
            "{items} items: {} bytes beyond the server at most, {:.4} requests to put an item and \
             {:.4} to take it",
            run.memory,
            each(run.puts),
            each(run.takes)
        );
        assert!(run.memory < MEMORY + spare * items, "{} bytes", run.memory);
        let Some(first) = &first else {
            first = Some(run);
            continue;
        };
        let allowed = first.memory * 11 / 10 + spare * items;
        assert!(run.memory <= allowed, "{} bytes, and {} before", run.memory, first.memory);
        for (requests, before) in [(run.puts, first.puts), (run.takes, first.takes)] {
            let before = before as f64 / first.items as f64;
            assert!(each(requests) <= before * 1.01, "{} requests an item", each(requests));
        }
    }
}

/// Takes all items. Returns the most memory beyond the share of the server, of [`STEPS`]
/// measurements: the memory of the server is taken to shrink with the number of items.
async fn taken(
    items: usize,
    (empty, full): (usize, usize),
    mut take: impl AsyncFnMut(usize) -> Vec<usize>,
) -> usize {
    let (mut seen, mut peak) = (vec![false; items], 0);
    let mut count = 0;
    for step in 1..=STEPS {
        while count < items / STEPS * step {
            for item in take(items / STEPS * step - count).await {
                assert!(!std::mem::replace(&mut seen[item], true), "{item} comes twice");
                count += 1;
            }
        }
        let server = empty + (full - empty) * (items - count) / items;
        peak = peak.max(ALLOCATOR.allocated().saturating_sub(server + items));
    }
    peak
}

fn number(data: &[u8]) -> usize {
    std::str::from_utf8(data).unwrap().parse().unwrap()
}

#[test]
fn a_locking_queue_is_as_cheap_with_many_items() {
    bounded(0, async |items| {
        let server = TestServer::in_memory().await;
        let zk = client(&server).await;
        let queue = LockingQueue::new(&zk, "/queue");
        queue.put("0").await.unwrap();
        let (empty, begun) = (ALLOCATOR.allocated(), server.probe().total_requests());
        let batches = (1..items).step_by(500).map(|first| first..items.min(first + 500));
        for batch in batches {
            queue.put_all(batch.map(|number| number.to_string())).await.unwrap();
        }
        queue.flush().await.unwrap();
        assert_eq!(queue.count().await.unwrap(), items);
        let (full, put) = (ALLOCATOR.allocated(), server.probe().total_requests());
        let other = client(&server).await;
        let mut consumer = LockingQueue::new(&other, "/queue").consumer().prefetch(TOGETHER);
        let mut next = 0;
        let memory = taken(items, (empty, full), async |most| {
            let (mut acks, mut items) = (Vec::new(), Vec::new());
            for _ in 0..most.min(TOGETHER) {
                let item = consumer.next().await.unwrap();
                items.push(number(item.data()));
                assert_eq!(items.last(), Some(&next), "in the order in which they were put");
                next += 1;
                acks.push(item.ack());
            }
            join_all(acks).await.into_iter().for_each(|ack| ack.unwrap());
            items
        })
        .await;
        let takes = server.probe().total_requests() - put;
        assert!(consumer.try_next().await.unwrap().is_none());
        server.until(|probe| probe.children("/queue/items").len() == 1).await;
        Run { items, memory, puts: put - begun, takes }
    });
}

#[test]
fn a_fifo_queue_is_as_cheap_with_many_items() {
    bounded(0, async |items| {
        let server = TestServer::in_memory().await;
        let zk = client(&server).await;
        let queue = FifoQueue::new(&zk, "/queue");
        queue.put("0").await.unwrap();
        let (empty, begun) = (ALLOCATOR.allocated(), server.probe().total_requests());
        let puts = iter((1..items).map(|number| queue.put(number.to_string())));
        puts.buffer_unordered(TOGETHER).for_each(async |put| put.unwrap()).await;
        queue.flush().await.unwrap();
        let (full, put) = (ALLOCATOR.allocated(), server.probe().total_requests());
        let other = client(&server).await;
        let auto_ack = FifoQueue::new(&other, "/queue");
        let take = async |_| vec![number(&auto_ack.take().await.unwrap())];
        let memory = taken(items, (empty, full), take).await;
        let takes = server.probe().total_requests() - put;
        assert!(auto_ack.poll().await.unwrap().is_none());
        Run { items, memory, puts: put - begun, takes }
    });
}

#[test]
fn jobs_are_as_cheap_with_many_of_them() {
    bounded(TABLE, async |items| {
        let server = TestServer::in_memory().await;
        let zk = client(&server).await;
        let jobs = Jobs::new(&zk, "/jobs");
        jobs.submit("0").await.unwrap();
        let (empty, begun) = (ALLOCATOR.allocated(), server.probe().total_requests());
        let submits = iter((1..items).map(|number| jobs.submit(number.to_string()).into_future()));
        submits.buffer_unordered(TOGETHER).for_each(async |submit| drop(submit.unwrap())).await;
        jobs.flush().await.unwrap();
        let (full, put) = (ALLOCATOR.allocated(), server.probe().total_requests());
        let other = client(&server).await;
        let mut worker = Jobs::new(&other, "/jobs").worker("worker").prefetch(TOGETHER);
        let memory = taken(items, (empty, full), async |most| {
            let (mut ends, mut items) = (Vec::new(), Vec::new());
            for _ in 0..most.min(TOGETHER) {
                let job = worker.next().await.unwrap();
                items.push(number(job.data()));
                ends.push(job.complete());
            }
            join_all(ends).await.into_iter().for_each(|end| end.unwrap());
            items
        })
        .await;
        let takes = server.probe().total_requests() - put;
        assert!(worker.try_next().await.unwrap().is_none());
        Run { items, memory, puts: put - begun, takes }
    });
}
