//! What those who wait take in memory.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures_util::future::try_join_all;
use tokio::task::JoinSet;
use zk_curator::{CuratorFramework, ErrorKind};
use zk_curator_recipes::lock::InterProcessMutex;
use zk_curator_recipes::queue::{
    DistributedDelayQueue, DistributedIdQueue, DistributedPriorityQueue, DistributedQueue,
};
use zk_curator_tests::{in_memory, simulated, until};

use crate::{ALLOCATOR, ALONE};

const LOCK: &str = "/locks/orders";

/// With the list of all that wait, each of 800 would keep 60 KB.
#[test]
fn a_waiter_keeps_no_list_of_the_others() {
    let _alone = ALONE.blocking_lock();
    simulated(async {
        let (server, zk) = in_memory().await;
        let gate = InterProcessMutex::new(&zk, LOCK).acquire().await.unwrap();
        let waiters = 800;
        let before = ALLOCATOR.allocated();
        let mut waiting = JoinSet::new();
        for _ in 0..waiters {
            let lock = InterProcessMutex::new(&zk, LOCK);
            waiting.spawn(async move { lock.acquire().await.unwrap().release().await.unwrap() });
        }
        until(&server, |probe| probe.children(LOCK).len() == waiters + 1).await;
        // Simulated: all have listed, and wait.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let each = (ALLOCATOR.allocated() - before) / waiters;
        // Task, node and watches, here and at the server.
        assert!(each < 20_000, "{each} bytes for a waiter");
        gate.release().await.unwrap();
        waiting.join_all().await;
    });
}

/// The names of all of them would be 9 MB.
#[test]
fn of_a_hundred_thousand_items_few_are_remembered() {
    let _alone = ALONE.blocking_lock();
    simulated(async {
        let (_server, zk) = in_memory().await;
        let queue = DistributedQueue::new(&zk, "/queue");
        for first in (0..100_000_usize).step_by(1000) {
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

/// Puts items until the queue cannot be listed any more: the number of the last list.
async fn longest_list(mut put: impl AsyncFnMut(&CuratorFramework, usize)) -> usize {
    const STEP: usize = 1000;
    let (_server, zk) = in_memory().await;
    for items in (0..).step_by(STEP) {
        match zk.children("/queue").await {
            Err(error) if error.kind() == ErrorKind::AnswerTooLarge => return items - STEP,
            listed => assert!(items == 0 || listed.unwrap().len() == items),
        }
        put(&zk, STEP).await;
    }
    unreachable!()
}

/// The figures of `CuratorQueue::max_items`.
#[test]
#[ignore = "slow: scripts/test-all"]
fn the_queues_of_curators_family_can_be_listed_up_to_their_documented_bounds() {
    let _alone = ALONE.blocking_lock();
    simulated(async {
        let plain = longest_list(async |zk, count| {
            let queue = DistributedQueue::new(zk, "/queue");
            queue.put_all((0..count).map(|_| Bytes::new())).await.unwrap();
        });
        assert_eq!(plain.await, 209_000);
        let priority = longest_list(async |zk, count| {
            let queue = DistributedPriorityQueue::new(zk, "/queue");
            try_join_all((0..count).map(|_| queue.put("", 1))).await.unwrap();
        });
        assert_eq!(priority.await, 144_000);
        let delay = longest_list(async |zk, count| {
            let queue = DistributedDelayQueue::new(zk, "/queue");
            try_join_all((0..count).map(|_| queue.put("", SystemTime::now()))).await.unwrap();
        });
        assert_eq!(delay.await, 127_000);
        let ids = longest_list(async |zk, count| {
            let queue = DistributedIdQueue::new(zk, "/queue");
            let id = zk.new_guid();
            try_join_all((0..count).map(|_| queue.put("", &id))).await.unwrap();
        });
        assert_eq!(ids.await, 72_000);
    });
}
