//! The memory that waiters take.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures_util::future::try_join_all;
use tokio::task::JoinSet;
use tokio::time::timeout;
use zk_curator::{ConnectionState, CuratorFramework, ErrorKind};
use zk_curator_proto::DEFAULT_MAX_FRAME;
use zk_curator_recipes::counter::DistributedAtomicLong;
use zk_curator_recipes::lock::{InterProcessMutex, ReentrantMutex};
use zk_curator_recipes::queue::{
    DistributedDelayQueue, DistributedIdQueue, DistributedPriorityQueue, DistributedQueue,
};
use zk_curator_testing::wait::settled;
use zk_curator_tests::{
    builder, cut_off, in_memory, simulated, simulated_with, size, start, until, until_state,
};

use crate::{ALLOCATOR, ALONE};

const LOCK: &str = "/locks/orders";

/// If each waiter kept the list of the others, each of 400 would keep 30 KB.
#[test]
fn a_waiter_keeps_no_list_of_the_others() {
    let _alone = ALONE.blocking_lock();
    simulated_with(async |server, zk| {
        let gate = InterProcessMutex::new(&zk, LOCK).acquire().await.unwrap();
        let waiters = size(400, 800);
        let before = ALLOCATOR.allocated();
        let mut waiting = JoinSet::new();
        for _ in 0..waiters {
            let lock = InterProcessMutex::new(&zk, LOCK);
            waiting.spawn(async move { lock.acquire().await.unwrap().release().await.unwrap() });
        }
        until(&server, |probe| probe.children(LOCK).len() == waiters + 1).await;
        // Simulated: all have listed, and wait.
        settled().await;
        let each = (ALLOCATOR.allocated() - before) / waiters;
        // Task, node and watches, here and at the server.
        assert!(each < 20_000, "{each} bytes for a waiter");
        gate.release().await.unwrap();
        waiting.join_all().await;
    });
}

/// The names of 40,000 would be 3.6 MB.
#[test]
fn of_many_items_few_are_remembered() {
    let _alone = ALONE.blocking_lock();
    simulated_with(async |_server, zk| {
        let queue = DistributedQueue::new(&zk, "/queue");
        for first in (0..size(40_000, 100_000)).step_by(1000) {
            let items = (first..first + 1000).map(|number| Bytes::from(number.to_string()));
            queue.put_all(items).await.unwrap();
        }
        let before = ALLOCATOR.allocated();
        let mut auto_ack = queue.auto_ack_consumer();
        assert_eq!(auto_ack.next().await.unwrap().items, ["0"]);
        let mut consumer = queue.consumer("/queue-locks");
        let _delivery = consumer.next().await.unwrap();
        // Both keep the names of 10,000.
        let kept = ALLOCATOR.allocated() - before;
        assert!(kept < 2 * 1_500_000, "{kept} bytes");
    });
}

/// Puts items until the queue can no longer be listed. Returns the length of the last list, in
/// thousands. Lists and steps are a tenth of the default when a change is judged.
async fn longest_list(mut put: impl AsyncFnMut(&CuratorFramework, usize)) -> usize {
    let part = size(10, 1);
    let step = 1000 / part;
    let server = zk_curator_tests::server().await;
    let zk = start(builder(&server).max_frame(DEFAULT_MAX_FRAME / part)).await;
    for items in (0..).step_by(step) {
        match zk.children("/queue").await {
            Err(error) if error.kind() == ErrorKind::ResponseTooLarge => {
                return items / step - 1;
            }
            listed => assert!(items == 0 || listed.unwrap().len() == items),
        }
        put(&zk, step).await;
    }
    unreachable!()
}

/// The figures of `CuratorQueue::max_items`.
#[test]
#[ignore = "slow: scripts/test-all"]
fn curator_queues_are_listed_up_to_their_documented_bounds() {
    let _alone = ALONE.blocking_lock();
    simulated(async {
        let plain = longest_list(async |zk, count| {
            let queue = DistributedQueue::new(zk, "/queue");
            queue.put_all((0..count).map(|_| Bytes::new())).await.unwrap();
        });
        assert_eq!(plain.await, 209);
        let priority = longest_list(async |zk, count| {
            let queue = DistributedPriorityQueue::new(zk, "/queue");
            try_join_all((0..count).map(|_| queue.put("", 1))).await.unwrap();
        });
        assert_eq!(priority.await, 144);
        let delay = longest_list(async |zk, count| {
            let queue = DistributedDelayQueue::new(zk, "/queue");
            try_join_all((0..count).map(|_| queue.put("", SystemTime::now()))).await.unwrap();
        });
        assert_eq!(delay.await, 127);
        let ids = longest_list(async |zk, count| {
            let queue = DistributedIdQueue::new(zk, "/queue");
            let id = zk.new_guid();
            try_join_all((0..count).map(|_| queue.put("", &id))).await.unwrap();
        });
        assert_eq!(ids.await, 72);
    });
}

/// A million of them kept 320 MB.
#[test]
fn attempts_that_are_given_up_keep_no_memory() {
    let _alone = ALONE.blocking_lock();
    simulated(async {
        const ATTEMPTS: usize = 50_000;
        let (_server, zk) = in_memory().await;
        let passed = InterProcessMutex::new(&zk, LOCK).local_batch(4, Duration::MAX);
        let again = ReentrantMutex::new(&zk, "/locks/again");
        let _held = (passed.acquire().await.unwrap(), again.acquire(0).await.unwrap());
        let mut waiting = Box::pin(again.acquire(1));
        assert!(futures_util::poll!(&mut waiting).is_pending());
        let before = ALLOCATOR.allocated();
        for _ in 0..ATTEMPTS {
            assert!(futures_util::poll!(Box::pin(passed.acquire())).is_pending());
            assert!(futures_util::poll!(Box::pin(again.acquire(1))).is_pending());
        }
        let kept = ALLOCATOR.allocated().saturating_sub(before);
        assert!(kept < 100_000, "{kept} bytes for {ATTEMPTS} attempts");
    });
}

/// Each of them would keep 350 bytes.
#[test]
fn operations_of_a_counter_that_were_given_up_take_no_memory() {
    let _alone = ALONE.blocking_lock();
    simulated_with(async |server, zk| {
        let counter = DistributedAtomicLong::new(&zk, "/counters/orders");
        counter.set(0).await.unwrap();
        let _cut = cut_off(&server, &zk);
        until_state(&zk, ConnectionState::Suspended).await;
        let abandoned = size(40_000, 100_000);
        let give_up = async |round: usize| {
            for n in 0..abandoned / 100 {
                let id = format!("{round}-{}", n % 3);
                let both = async { tokio::join!(counter.increment(), counter.add_once(&id, 1)) };
                drop(timeout(Duration::from_micros(10), both).await);
            }
        };
        give_up(0).await;
        let before = ALLOCATOR.allocated();
        for round in 0..50 {
            give_up(round).await;
        }
        let kept = ALLOCATOR.allocated().saturating_sub(before);
        assert!(kept < 2 << 20, "{kept} bytes for {abandoned} operations");
    });
}
