//! Items that are read first, and removed when they are acknowledged.

use zk_curator::{ConnectionState, CuratorFramework};
use zk_curator_proto::OpCode;
use zk_curator_recipes::queue::{
    AutoAckConsumer, DistributedPriorityQueue, DistributedQueue, Error, FifoQueue,
    SimpleDistributedQueue,
};
use zk_curator_testing::Verdict;
use zk_curator_tests::{
    expire, once, poll_then_drop, simulated_each, simulated_on, simulated_with, two_in_memory,
    until_state,
};

const QUEUE: &str = "/queue";

async fn simple(zk: &CuratorFramework, items: &[&'static str]) -> SimpleDistributedQueue {
    let queue = SimpleDistributedQueue::new(zk, QUEUE);
    for item in items {
        queue.offer(*item).await.unwrap();
    }
    queue
}

/// Peeks twice, acknowledges, and peeks again.
async fn peeks(mut consumer: AutoAckConsumer, items: [&str; 2]) {
    for _ in 0..2 {
        let peeked = consumer.peek().await.unwrap();
        assert_eq!(peeked.item().items, [items[0]]);
    }
    consumer.peek().await.unwrap().ack().await.unwrap();
    let peeked = consumer.try_peek().await.unwrap().unwrap();
    assert_eq!(peeked.item().items, [items[1]]);
    drop(peeked);
    assert_eq!(consumer.next().await.unwrap().items, [items[1]]);
    assert!(consumer.try_peek().await.unwrap().is_none());
}

#[test]
fn a_peeked_item_stays_until_it_is_acknowledged() {
    simulated_with(async |_, zk| {
        peeks(simple(&zk, &["a", "b"]).await.auto_ack_consumer(), ["a", "b"]).await;
        let queue = DistributedQueue::new(&zk, "/plain");
        queue.put("a").await.unwrap();
        queue.put("b").await.unwrap();
        peeks(queue.auto_ack_consumer().ack_batch(8), ["a", "b"]).await;
        let queue = DistributedPriorityQueue::new(&zk, "/priority");
        queue.put("late", 2).await.unwrap();
        queue.put("early", 1).await.unwrap();
        peeks(queue.auto_ack_consumer(), ["early", "late"]).await;
        let queue = FifoQueue::new(&zk, "/fifo");
        queue.put("a").await.unwrap();
        queue.put("b").await.unwrap();
        peeks(queue.auto_ack_consumer(), ["a", "b"]).await;
    });
}

/// The receipt of the consumer shows who has removed it.
#[test]
fn a_lost_response_to_an_acknowledgement_is_resolved() {
    simulated_each([Verdict::LoseReply, Verdict::LoseRequest], async |verdict, server, zk| {
        let queue = simple(&zk, &["a", "b"]).await;
        let mut consumer = queue.auto_ack_consumer();
        let peeked = consumer.peek().await.unwrap();
        let lost = once(&server, OpCode::Multi, verdict);
        peeked.ack().await.unwrap();
        assert_eq!(lost.hits(), 1);
        assert_eq!(consumer.next().await.unwrap().items, ["b"], "{verdict:?}");
    });
}

#[test]
fn an_acknowledgement_tells_that_another_has_the_item() {
    simulated_on(two_in_memory, async |(_server, zk, other)| {
        for plain in [true, false] {
            let (mut ours, mut theirs) = if plain {
                let queue = |zk| DistributedQueue::new(zk, "/plain");
                queue(&zk).put("a").await.unwrap();
                (queue(&zk).auto_ack_consumer(), queue(&other).auto_ack_consumer())
            } else {
                let theirs = simple(&other, &["a"]).await;
                let ours = SimpleDistributedQueue::new(&zk, QUEUE);
                (ours.auto_ack_consumer(), theirs.auto_ack_consumer())
            };
            let peeked = ours.peek().await.unwrap();
            assert_eq!(theirs.next().await.unwrap().items, ["a"]);
            let path = peeked.item().path.clone();
            let error = peeked.ack().await.unwrap_err();
            assert!(matches!(&error, Error::Taken { path: taken } if *taken == path), "{error:?}");
            assert!(ours.try_peek().await.unwrap().is_none());
        }
    });
}

/// Without its node among the items, nothing shows that a listed name still is the same item.
#[test]
fn an_item_peeked_in_an_earlier_session_is_delivered_again() {
    simulated_with(async |server, zk| {
        let mut consumer = simple(&zk, &["a"]).await.auto_ack_consumer();
        let peeked = consumer.peek().await.unwrap();
        expire(&server, &zk).await;
        until_state(&zk, ConnectionState::Reconnected { same_session: false }).await;
        let error = peeked.ack().await.unwrap_err();
        assert!(matches!(error, Error::Taken { .. }), "{error:?}");
        let peeked = consumer.peek().await.unwrap();
        assert_eq!(peeked.item().items, ["a"]);
        peeked.ack().await.unwrap();
    });
}

/// The first item was removed by a call that was dropped.
#[test]
fn what_was_removed_is_peeked_first_and_not_lost() {
    simulated_with(async |_, zk| {
        for steps in 0.. {
            let queue = DistributedQueue::new(&zk, format!("/queue-{steps}"));
            queue.put("a").await.unwrap();
            queue.put("b").await.unwrap();
            let mut consumer = queue.auto_ack_consumer();
            if poll_then_drop(consumer.next(), steps).await.is_some() {
                break;
            }
            for _ in 0..2 {
                assert_eq!(consumer.peek().await.unwrap().item().items, ["a"]);
            }
            consumer.peek().await.unwrap().ack().await.unwrap();
            assert_eq!(consumer.next().await.unwrap().items, ["b"]);
            assert!(consumer.try_peek().await.unwrap().is_none());
        }
    });
}
