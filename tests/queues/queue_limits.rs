//! Bounded queues, and the clock of delay queues.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use zk_curator::CuratorFramework;
use zk_curator_recipes::queue::{DistributedDelayQueue, DistributedQueue, Error, OnFull};
use zk_curator_testing::wait::{idle, past};

use crate::queue::{LOCKS, QUEUE, clock, text};
use zk_curator_tests::{connected, simulated_each, simulated_with, until};

#[test]
fn try_put_returns_while_a_put_waits_for_room() {
    simulated_with(async |server, zk| {
        let queue = DistributedQueue::new(&zk, QUEUE).max_items(1);
        queue.put("one").await.unwrap();
        let waiting = tokio::spawn({
            let queue = queue.clone();
            async move { queue.put("two").await }
        });
        until(&server, |probe| !probe.watches().is_empty()).await;
        let tried = timeout(Duration::from_secs(1), queue.try_put("three")).await;
        assert!(!tried.expect("a response").unwrap());
        let mut auto_ack = queue.auto_ack_consumer();
        assert_eq!(text(&mut auto_ack).await, "one");
        waiting.await.unwrap().unwrap();
        assert_eq!(text(&mut auto_ack).await, "two");
        assert!(queue.try_put("three").await.unwrap());
    });
}

#[test]
fn producers_that_wait_for_room_are_woken_one_at_a_time() {
    simulated_with(async |server, zk| {
        let on = |zk: &CuratorFramework| {
            DistributedQueue::new(zk, QUEUE).fair_waiting("/line").max_items(3)
        };
        let queue = on(&zk);
        for item in ["a", "b", "c"] {
            queue.put(item).await.unwrap();
        }
        let (producers, mut puts) = (20, JoinSet::new());
        for number in 0..producers {
            let zk = connected(&server).await;
            let queue = on(&zk);
            puts.spawn(async move { (queue.put(number.to_string()).await.unwrap(), zk) });
            until(&server, |probe| probe.children("/line").len() == number + 1).await;
        }
        past(Duration::from_secs(1)).await;
        let mut auto_ack = queue.auto_ack_consumer();
        for expected in ["a", "b", "c"] {
            let before = server.probe().total_requests();
            assert_eq!(text(&mut auto_ack).await, expected);
            puts.join_next().await.unwrap().unwrap();
            idle(Duration::from_secs(1)).await;
            let requests = server.probe().total_requests() - before;
            assert!(requests <= 30, "{requests} requests for an item that is removed");
        }
        for number in 0..producers {
            // The ones that waited longer put earlier.
            assert_eq!(text(&mut auto_ack).await, number.to_string());
        }
        while puts.join_next().await.is_some() {}
        until(&server, |probe| probe.children("/line").is_empty()).await;
    });
}

#[test]
fn a_delay_queue_follows_steps_of_the_wall_clock() {
    simulated_each([false, true], async |claims, server, zk| {
        let (clock, ahead) = (clock(), Arc::new(AtomicU64::new(0)));
        let now = {
            let ahead = Arc::clone(&ahead);
            move || -> SystemTime { clock() + Duration::from_secs(ahead.load(Ordering::Relaxed)) }
        };
        let queue = DistributedDelayQueue::new(&zk, QUEUE).clock(now.clone());
        queue.put("x", now() + Duration::from_secs(3600)).await.unwrap();
        let (mut auto_ack, mut consumer) = (queue.auto_ack_consumer(), queue.consumer(LOCKS));
        let waiting = tokio::spawn(async move {
            if claims { consumer.next().await.map(drop) } else { auto_ack.next().await.map(drop) }
        });
        until(&server, |probe| !probe.watches().is_empty()).await;
        idle(Duration::from_secs(10)).await;
        assert!(!waiting.is_finished());
        let (began, before) = (Instant::now(), server.probe().total_requests());
        ahead.store(3600, Ordering::Relaxed);
        waiting.await.unwrap().unwrap();
        assert!(began.elapsed() <= Duration::from_secs(2), "{:?}", began.elapsed());
        assert!(server.probe().total_requests() - before <= 10);
    });
}

#[test]
fn a_full_queue_refuses_puts_that_are_not_to_wait() {
    simulated_with(async |_server, zk| {
        let queue = DistributedQueue::new(&zk, QUEUE).max_items(2);
        let queue = queue.on_full(OnFull::Refuse);
        queue.put("one").await.unwrap();
        queue.put("two").await.unwrap();
        let refused = queue.put("three").await;
        assert!(matches!(refused, Err(Error::Full { limit: 2, .. })), "{refused:?}");
        assert!(!queue.try_put("three").await.unwrap());
        queue.auto_ack_consumer().next().await.unwrap();
        queue.put("three").await.unwrap();
        assert_eq!(queue.count().await.unwrap(), 2);
    });
}
