//! A million items in each queue with a layout of our own: put and taken, with answers of 1 MiB at
//! most and in bounded memory. They take minutes without optimization:
//! `cargo test --profile quick -p zk-curator-recipes --test million -- --nocapture`.
#![expect(clippy::print_stdout, reason = "the figures are for people")]
#![expect(clippy::unwrap_used, reason = "helpers of a test are not recognised as tests")]

use std::alloc::System;
use std::future::Future;
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

const ITEMS: usize = 1_000_000;
/// The number of items put, or taken and not acknowledged, at a time.
const TOGETHER: usize = 64;
/// The number of memory measurements while items are taken.
const STEPS: usize = 100;
/// The most memory that a consumer may take, including requests in flight.
const MEMORY: usize = 8 << 20;
/// The server has the jobs as children of one node, whose table shrinks in steps: it may have so
/// much room to spare. The names of a million jobs would be more than twice of it.
const TABLE: usize = 36 << 20;

/// A client that gets an error for a response over 1 MiB.
async fn client(server: &TestServer) -> CuratorFramework {
    let builder = CuratorFramework::builder().connect_string(server.connect_string());
    let zk = builder.connector(Arc::new(server.connector())).max_response(1 << 20).build().unwrap();
    zk.start().await.unwrap();
    zk
}

/// One test at a time, in real time: the clock does not stand still here for a server that works.
fn alone<F: Future>(test: impl FnOnce() -> F) {
    let _alone = ALONE.lock().unwrap();
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test());
}

/// Takes all items, and measures the allocations at each of [`STEPS`] beyond the share of the
/// server: its memory is taken to shrink with the number of items.
async fn taken(
    empty: usize,
    full: usize,
    allowed: usize,
    mut take: impl AsyncFnMut(usize) -> Vec<usize>,
) {
    let (mut seen, mut peak) = (vec![false; ITEMS], 0);
    let each = (full - empty) / ITEMS;
    let mut count = 0;
    for step in 1..=STEPS {
        while count < ITEMS / STEPS * step {
            for item in take(ITEMS / STEPS * step - count).await {
                assert!(!std::mem::replace(&mut seen[item], true), "{item} comes twice");
                count += 1;
            }
        }
        let server = empty + each * (ITEMS - count);
        peak = peak.max(ALLOCATOR.allocated().saturating_sub(server + ITEMS));
    }
    println!("{each} bytes an item at the server, {peak} bytes beyond that at most");
    assert!(peak < allowed, "{peak} bytes");
}

fn number(data: &[u8]) -> usize {
    std::str::from_utf8(data).unwrap().parse().unwrap()
}

#[test]
fn a_locking_queue_of_a_million_items() {
    alone(|| async {
        let server = TestServer::in_memory().await;
        let zk = client(&server).await;
        let queue = LockingQueue::new(&zk, "/queue");
        queue.put("0").await.unwrap();
        let empty = ALLOCATOR.allocated();
        let batches = (1..ITEMS).step_by(500).map(|first| first..ITEMS.min(first + 500));
        for batch in batches {
            queue.put_all(batch.map(|number| number.to_string())).await.unwrap();
        }
        queue.flush().await.unwrap();
        assert_eq!(queue.count().await.unwrap(), ITEMS);
        let full = ALLOCATOR.allocated();
        let other = client(&server).await;
        let mut consumer = LockingQueue::new(&other, "/queue").consumer().prefetch(TOGETHER);
        let mut next = 0;
        taken(empty, full, MEMORY, async |most| {
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
        assert!(consumer.try_next().await.unwrap().is_none());
        server.until(|probe| probe.children("/queue/items").len() == 1).await;
    });
}

#[test]
fn a_fifo_queue_of_a_million_items() {
    alone(|| async {
        let server = TestServer::in_memory().await;
        let zk = client(&server).await;
        let queue = FifoQueue::new(&zk, "/queue");
        queue.put("0").await.unwrap();
        let empty = ALLOCATOR.allocated();
        let puts = iter((1..ITEMS).map(|number| queue.put(number.to_string())));
        puts.buffer_unordered(TOGETHER).for_each(async |put| put.unwrap()).await;
        queue.flush().await.unwrap();
        let full = ALLOCATOR.allocated();
        let other = client(&server).await;
        let auto_ack = FifoQueue::new(&other, "/queue");
        taken(empty, full, MEMORY, async |_| vec![number(&auto_ack.take().await.unwrap())]).await;
        assert!(auto_ack.poll().await.unwrap().is_none());
    });
}

#[test]
fn jobs_of_a_million_items() {
    alone(|| async {
        let server = TestServer::in_memory().await;
        let zk = client(&server).await;
        let jobs = Jobs::new(&zk, "/jobs");
        jobs.submit("0").await.unwrap();
        let empty = ALLOCATOR.allocated();
        let submits = iter((1..ITEMS).map(|number| jobs.submit(number.to_string()).into_future()));
        submits.buffer_unordered(TOGETHER).for_each(async |submit| drop(submit.unwrap())).await;
        jobs.flush().await.unwrap();
        let full = ALLOCATOR.allocated();
        let other = client(&server).await;
        let mut worker = Jobs::new(&other, "/jobs").worker("worker").prefetch(TOGETHER);
        taken(empty, full, MEMORY + TABLE, async |most| {
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
        assert!(worker.try_next().await.unwrap().is_none());
    });
}
