//! Queues in spite of lost requests, lost responses and lost sessions; among them the known bugs of
//! other libraries.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::timeout;
use zk_curator::{ConnectionState, CuratorFramework};
use zk_curator_proto::{ErrorCode, OpCode, Request};
use zk_curator_recipes::queue::jobs::Jobs;
use zk_curator_recipes::queue::{
    DistributedDelayQueue, DistributedIdQueue, DistributedPriorityQueue, DistributedQueue, Error,
    FifoQueue, OnUnconfirmed, PutMode, SimpleDistributedQueue,
};
use zk_curator_testing::{RuleGuard, RuleRequest, TestServer, Verdict};
use zk_curator_tests::{
    always, closes_clean, connected, expire, impatient, items, once, pairs, rule_if,
    simulated_each, simulated_each_on, simulated_on, simulated_with, two_in_memory, until,
};

use crate::queue::{LOCKS, claimed};

const QUEUE: &str = "/queue";

async fn filled(zk: &CuratorFramework, count: usize) -> DistributedQueue {
    let queue = DistributedQueue::new(zk, QUEUE);
    for number in 0..count {
        queue.put(number.to_string()).await.unwrap();
    }
    queue
}

async fn fifo(zk: &CuratorFramework, enqueue: PutMode) -> FifoQueue {
    FifoQueue::new(zk, QUEUE).put_mode(enqueue)
}

fn has_unknown_outcome(error: &Error) -> bool {
    matches!(error, Error::Framework(error) if error.may_have_applied())
}

/// Curator retries the delete, gets `NoNode`, and drops the item that it has just removed.
#[test]
fn defect_a_a_lost_response_to_a_delete_loses_no_item() {
    simulated_with(async |server, zk| {
        let queue = filled(&zk, 2).await;
        let mut auto_ack = queue.auto_ack_consumer();
        let lost = once(&server, OpCode::Delete, Verdict::LoseReply);
        let error = auto_ack.next().await.unwrap_err();
        assert_eq!(lost.hits(), 1);
        let Error::Unknown { item, .. } = error else { panic!("{error}") };
        assert_eq!(item.items, ["0"]);
        // Lost on the way there, it is simply removed again.
        let lost = once(&server, OpCode::Delete, Verdict::LoseRequest);
        assert_eq!(auto_ack.next().await.unwrap().items, ["1"]);
        assert_eq!(lost.hits(), 1);
        assert_eq!(auto_ack.try_next().await.unwrap(), None);
    });
}

/// Of a window of deletes half is in one transaction.
#[test]
fn a_lost_delete_transaction_keeps_the_items_and_their_order() {
    let cases = [(Verdict::LoseRequest, 0), (Verdict::LoseReply, 10)];
    simulated_each(cases, async |(verdict, doubtful), server, zk| {
        let numbers = (0..40).map(|number| number.to_string()).collect::<Vec<_>>();
        let mut auto_ack = filled(&zk, 40).await.auto_ack_consumer().ack_batch(20);
        let lost = once(&server, OpCode::Multi, verdict);
        let (mut items, mut unknown) = (Vec::new(), Vec::new());
        loop {
            match auto_ack.try_next().await {
                Ok(Some(item)) => items.push(String::from_utf8(item.items.concat()).unwrap()),
                Ok(None) => break,
                Err(Error::Unknown { item, .. }) => {
                    unknown.push(String::from_utf8(item.items.concat()).unwrap());
                }
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!(lost.hits(), 1);
        assert_eq!((&unknown[..], &items[..]), numbers.split_at(doubtful));
    });
}

#[test]
fn items_of_a_refused_transaction_are_deleted_one_by_one() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let mut auto_ack = filled(&zk, 40).await.auto_ack_consumer().ack_batch(20);
        let late = once(&server, OpCode::Multi, Verdict::Delay(Duration::from_secs(1)));
        let taken = tokio::spawn(async move {
            let mut items = Vec::new();
            while let Some(item) = auto_ack.try_next().await.unwrap() {
                items.push(String::from_utf8(item.items.concat()).unwrap());
            }
            items
        });
        late.fired().await;
        let name = server.probe().children(QUEUE)[3].to_owned();
        other.delete(format!("{QUEUE}/{name}")).await.unwrap();
        let mut items = (0..40).map(|number| number.to_string()).collect::<Vec<_>>();
        items.remove(3);
        assert_eq!(taken.await.unwrap(), items);
    });
}

#[test]
fn defect_a_with_receipts_a_lost_response_is_harmless() {
    simulated_each([Verdict::LoseReply, Verdict::LoseRequest], async |verdict, server, zk| {
        let queue = fifo(&zk, PutMode::Transaction).await;
        queue.put("one").await.unwrap();
        queue.put("two").await.unwrap();
        let lost = always(&server, OpCode::Multi, verdict).times(3);
        assert_eq!(queue.poll().await.unwrap().unwrap(), "one");
        assert_eq!(queue.take().await.unwrap(), "two");
        assert!(lost.hits() >= 2);
        assert_eq!(queue.poll().await.unwrap(), None);
        drop(lost);

        let simple = SimpleDistributedQueue::new(&zk, "/simple");
        simple.offer("only").await.unwrap();
        let lost = once(&server, OpCode::Multi, verdict);
        assert_eq!(simple.poll().await.unwrap().unwrap(), "only");
        assert_eq!((lost.hits(), simple.poll().await.unwrap()), (1, None));
    });
}

/// Curator retries the create, and the item exists twice.
#[test]
fn defect_b_a_lost_response_to_a_put_puts_once_and_reports_it() {
    simulated_with(async |server, zk| {
        let queue = filled(&zk, 0).await;
        queue.put("first").await.unwrap();
        let lost = once(&server, OpCode::Create2, Verdict::LoseReply);
        assert!(has_unknown_outcome(&queue.put("x").await.unwrap_err()));
        assert_eq!((lost.hits(), queue.count().await.unwrap()), (1, 2));
    });
}

#[test]
fn defect_b_with_ids_a_lost_response_is_harmless() {
    let cases = pairs([Verdict::LoseReply, Verdict::LoseRequest], [None, Some(10)]);
    simulated_each(cases, async |(verdict, bound), server, zk| {
        let mut queue = filled(&zk, 1).await.idempotent_puts("/ids");
        if let Some(bound) = bound {
            queue = queue.max_items(bound);
        }
        let lost = always(&server, OpCode::Multi, verdict).times(2);
        queue.put("x").await.unwrap();
        queue.put("y").await.unwrap();
        assert_eq!((lost.hits(), queue.count().await.unwrap()), (2, 3), "{verdict:?}");
        queue.flush().await.unwrap();
        let probe = server.probe();
        assert!(!probe.children("/ids").iter().any(|name| name.starts_with("put-")), "{probe}");
    });
}

#[test]
fn a_put_with_ids_survives_its_session() {
    simulated_each([PutMode::Transaction, PutMode::TwoPhase], async |enqueue, server, zk| {
        let queue = fifo(&zk, enqueue).await;
        queue.put("one").await.unwrap();
        // No client reaches the server for longer than the session timeout.
        let lost = once(&server, OpCode::Multi, Verdict::LoseReply);
        let put = async { queue.put("two").await };
        let outage = async {
            lost.fired().await;
            server.partition();
            zk_curator_tests::until_state(&zk, ConnectionState::Lost).await;
            server.heal();
        };
        let (put, ()) = tokio::join!(put, outage);
        let mut items = Vec::new();
        while let Some(item) = queue.poll().await.unwrap() {
            items.push(item);
        }
        match put {
            Ok(()) => assert_eq!(items, ["one", "two"]),
            // Its outcome is unknown, and the caller knows that.
            Err(error) => {
                assert!(has_unknown_outcome(&error), "{error}");
                assert!(items == ["one", "two"] || items == ["one"], "{items:?}");
            }
        }
    });
}

/// Curator gives an item that goes back a name without its priority, or its time: it jumps to the
/// front.
#[test]
fn defect_c_what_goes_back_keeps_its_priority_and_its_time() {
    simulated_with(async |_server, zk| {
        let queue = DistributedPriorityQueue::new(&zk, QUEUE);
        for (item, priority) in [("low", 9), ("high", 1), ("negative", -1)] {
            queue.put(item, priority).await.unwrap();
        }
        let mut consumer = queue.consumer(LOCKS);
        let mut order = Vec::new();
        for _ in 0..6 {
            let delivery = consumer.next().await.unwrap();
            let item = String::from_utf8(delivery.items().concat()).unwrap();
            let again = order.contains(&item);
            order.push(item);
            if again { delivery.ack().await.unwrap() } else { delivery.requeue().await.unwrap() }
        }
        assert_eq!(order, ["negative", "negative", "high", "high", "low", "low"]);

        let queue = DistributedDelayQueue::new(&zk, "/delays");
        let due = std::time::SystemTime::UNIX_EPOCH + Duration::from_millis(0x1_2345_6789);
        queue.put("x", due).await.unwrap();
        let mut consumer = queue.consumer(LOCKS);
        consumer.next().await.unwrap().requeue().await.unwrap();
        assert_eq!(consumer.next().await.unwrap().path(), "/delays/queue-|123456789|0000000001");
    });
}

/// CURATOR-605: the item is deleted although the claim was lost while it was consumed.
#[test]
fn defect_d_curator_605_a_lost_claim_cannot_remove_the_item() {
    simulated_each([false, true], async |put_back, server, zk| {
        let other = connected(&server).await;
        let queue = filled(&zk, 1).await;
        let first = queue.consumer(LOCKS).next().await.unwrap();
        let lost = first.ownership().clone();
        expire(&server, &zk).await;
        lost.lost().await;
        let mut second = filled(&other, 0).await.consumer(LOCKS);
        let again = second.next().await.unwrap();
        assert_eq!(again.items(), ["0"]);
        let settled = if put_back { first.requeue().await } else { first.ack().await };
        assert!(matches!(settled, Err(Error::Lost { .. })), "{settled:?}");
        assert_eq!(queue.count().await.unwrap(), 1);
        again.ack().await.unwrap();
        assert_eq!(queue.count().await.unwrap(), 0);
    });
}

/// The same if the consumer does not know it yet: the server refuses.
#[test]
fn curator_605_a_deleted_claim_protects_the_item() {
    simulated_with(async |_server, zk| {
        let queue = filled(&zk, 1).await;
        let delivery = queue.consumer(LOCKS).next().await.unwrap();
        zk.delete(format!("{LOCKS}/queue-0000000000")).await.unwrap();
        assert!(matches!(delivery.ack().await, Err(Error::Lost { .. })));
        assert_eq!(queue.count().await.unwrap(), 1);
    });
}

/// The first consumer has to create the lock path: in between another one claims the item and
/// acknowledges it. The data that the first consumer has read with its first attempt must not be
/// delivered. Simulation: `zk-sim --scenario dead_letters --seed 1497`.
#[test]
fn data_read_before_the_claim_are_not_delivered() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let queue = filled(&zk, 1).await;
        let slow = zk_curator_tests::session_id(&zk).get();
        let held_up = rule_if(
            &server,
            move |request| request.is_create_under(LOCKS) && request.session_id() == slow,
            Verdict::Delay(Duration::from_secs(1)),
        )
        .after(1);
        let mut first = queue.consumer(LOCKS);
        let first =
            tokio::spawn(
                async move { timeout(Duration::from_secs(10), first.next()).await.is_ok() },
            );
        until(&server, |probe| probe.exists(LOCKS)).await;
        let mut second = DistributedQueue::new(&other, QUEUE).consumer(LOCKS);
        second.next().await.unwrap().ack().await.unwrap();
        assert!(!first.await.unwrap(), "it is gone");
        assert_eq!(held_up.hits(), 1);
    });
}

/// The consumer stopped forever after a long disconnect.
#[test]
fn curator_623_a_consumer_goes_on_after_a_long_outage() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let queue = filled(&zk, 0).await;
        let taken = std::cell::RefCell::new(Vec::new());
        let body = |item: Bytes| {
            taken.borrow_mut().push(item);
            async { Ok::<_, &str>(()) }
        };
        let outage = async {
            until(&server, |probe| !probe.watches().is_empty()).await;
            server.partition();
            zk_curator_tests::until_state(&zk, ConnectionState::Lost).await;
            server.heal();
            filled(&other, 3).await;
            until(&server, |probe| probe.children(QUEUE).is_empty() && claimed(probe).is_empty())
                .await;
        };
        tokio::select! {
            biased;
            ended = queue.consumer(LOCKS).run(1, body) => panic!("{ended:?}"),
            () = outage => {}
        }
        assert_eq!(*taken.borrow(), ["0", "1", "2"]);
    });
}

/// Several producers of a bounded queue saw the same room, and all put.
#[test]
fn curator_254_several_producers_do_not_exceed_the_bound() {
    simulated_with(async |server, zk| {
        let mut producers = tokio::task::JoinSet::new();
        for _ in 0..4 {
            let zk = connected(&server).await;
            let queue = DistributedQueue::new(&zk, QUEUE).max_items(5);
            producers.spawn(async move {
                let mut put = 0;
                for _ in 0..5 {
                    put += usize::from(queue.try_put("x").await.unwrap());
                }
                put
            });
        }
        assert_eq!(producers.join_all().await.iter().sum::<usize>(), 5);
        assert_eq!(filled(&zk, 0).await.count().await.unwrap(), 5);
    });
}

/// Items with equal keys were sorted as they came.
#[test]
fn curator_116_equal_items_keep_order_past_the_last_number() {
    simulated_with(async |server, zk| {
        let queue = DistributedPriorityQueue::new(&zk, QUEUE);
        queue.put("0", 1).await.unwrap();
        server.set_sequence(QUEUE, i32::MAX - 2).unwrap();
        for number in 1..3 {
            queue.put(number.to_string(), 1).await.unwrap();
        }
        let mut auto_ack = queue.auto_ack_consumer();
        for number in 0..3 {
            assert_eq!(auto_ack.next().await.unwrap().items, [number.to_string()]);
        }
    });
}

/// A consumer that waits for items in a container hangs when the server removes the container.
#[test]
fn curator_308_a_waiter_survives_its_container() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let used = SimpleDistributedQueue::new(&other, QUEUE);
        used.offer("one").await.unwrap();
        used.take().await.unwrap();
        // Its node among the items keeps the container.
        drop(used);
        until(&server, |probe| probe.children(QUEUE).is_empty()).await;
        let queue = SimpleDistributedQueue::new(&zk, QUEUE);
        let reap = async {
            until(&server, |probe| !probe.watches().is_empty()).await;
            assert_eq!(server.reap_containers(), [QUEUE]);
            SimpleDistributedQueue::new(&other, QUEUE).offer("two").await.unwrap();
        };
        assert_eq!(tokio::join!(queue.take(), reap).0.unwrap(), "two");
    });
}

/// Every `get` with a limit of time left a watch behind.
#[test]
fn kazoo_175_limits_of_time_leave_no_watches() {
    simulated_with(async |server, zk| {
        let queue = filled(&zk, 0).await;
        queue.put("held").await.unwrap();
        let held = queue.consumer(LOCKS).next().await.unwrap();
        let simple = SimpleDistributedQueue::new(&zk, "/simple");
        let fifo = FifoQueue::new(&zk, "/fifo");
        let mut consumer = queue.consumer(LOCKS);
        for _ in 0..20 {
            assert!(timeout(Duration::from_millis(100), simple.take()).await.is_err());
            assert!(timeout(Duration::from_millis(100), fifo.take()).await.is_err());
            assert!(timeout(Duration::from_millis(100), consumer.next()).await.is_err());
        }
        // The queues, and the claim.
        assert!(server.probe().watches().len() <= 4, "{}", server.probe());
        drop((consumer, held, simple, fifo));
        zk.delete(QUEUE).deleting_children().await.unwrap();
        zk.delete(LOCKS).deleting_children().await.unwrap();
        closes_clean(&server, &zk).await;
    });
}

/// Claims of consumers that were gone stayed, and readers were blocked although there were items.
#[test]
fn kazoo_366_501_claims_do_not_outlive_their_consumer() {
    let verdicts = [Verdict::LoseReply, Verdict::LoseRequest, Verdict::Disconnect];
    let opcodes = [OpCode::Create2, OpCode::GetData, OpCode::Multi, OpCode::Delete];
    simulated_each(pairs(verdicts, opcodes), async |(verdict, opcode), server, zk| {
        let queue = filled(&zk, 3).await;
        let lost = once(&server, opcode, verdict);
        let mut consumer = queue.consumer(LOCKS);
        drop(consumer.next().await);
        if let Ok(delivery) = consumer.next().await {
            drop(delivery.ack().await);
        }
        drop(consumer);
        assert_eq!(lost.hits(), 1, "{opcode:?}");
        let mut all = filled(&connected(&server).await, 0).await.consumer(LOCKS);
        while queue.count().await.unwrap() > 0 {
            let next = timeout(Duration::from_secs(1), all.next()).await;
            next.expect("blocked").unwrap().ack().await.unwrap();
        }
        until(&server, |probe| claimed(probe).is_empty()).await;
    });
}

#[test]
fn bug_92_an_acknowledgement_survives_a_lost_response() {
    let cases = pairs([Verdict::LoseReply, Verdict::LoseRequest], [false, true]);
    simulated_each(cases, async |(verdict, put_back), server, zk| {
        let queue = filled(&zk, 1).await;
        let delivery = queue.consumer(LOCKS).next().await.unwrap();
        let lost = once(&server, OpCode::Multi, verdict);
        if put_back {
            delivery.requeue().await.unwrap();
        } else {
            delivery.ack().await.unwrap();
        }
        assert_eq!(lost.hits(), 1);
        assert_eq!(queue.count().await.unwrap(), usize::from(put_back));
    });
}

/// Neither is a delivery counted twice, nor an item put aside twice or lost on the way.
#[test]
fn a_count_whose_response_was_lost_counts_once() {
    simulated_each([Verdict::LoseReply, Verdict::LoseRequest], async |verdict, server, zk| {
        let queue = filled(&zk, 1).await;
        let mut consumer = queue.consumer(LOCKS).dead_letters("/aside", 2);
        for attempt in 1..=2 {
            let lost = once(&server, OpCode::Multi, verdict);
            assert_eq!(consumer.next().await.unwrap().attempt(), attempt);
            assert_eq!(lost.hits(), 1);
        }
        let lost = once(&server, OpCode::Multi, verdict);
        assert!(timeout(Duration::from_secs(60), consumer.next()).await.is_err());
        let aside = DistributedQueue::new(&zk, "/aside");
        let left = (queue.count().await.unwrap(), aside.count().await.unwrap());
        assert_eq!((lost.hits(), left), (1, (0, 1)));
    });
}

/// The response to the claim is lost: the claim is ours, and no other claim of the same name is
/// taken for it.
#[test]
fn a_claim_whose_response_was_lost_is_found_by_its_data() {
    simulated_with(async |server, zk| {
        let queue = filled(&zk, 1).await;
        let mut consumer = queue.consumer(LOCKS);
        let lost = once(&server, OpCode::Create2, Verdict::LoseReply);
        let delivery = consumer.next().await.unwrap();
        assert_eq!((lost.hits(), delivery.items()), (1, &[Bytes::from("0")][..]));
        // A claim of another consumer in the same session.
        drop(lost);
        let lost = once(&server, OpCode::Create2, Verdict::LoseReply);
        let mut other = queue.consumer(LOCKS);
        assert!(timeout(Duration::from_secs(5), other.next()).await.is_err());
        drop(lost);
        delivery.ack().await.unwrap();
    });
}

/// Without retries an error is returned, and the next call continues.
#[test]
fn errors_do_not_end_consumers() {
    simulated_on(impatient, async |(server, zk)| {
        let queue = filled(&zk, 3).await;
        let (mut auto_ack, mut consumer) = (queue.auto_ack_consumer(), queue.consumer(LOCKS));
        for opcode in [OpCode::GetChildren2, OpCode::GetData] {
            let _lost = once(&server, opcode, Verdict::LoseReply);
            assert!(matches!(auto_ack.next().await, Err(Error::Framework(_))), "{opcode:?}");
            zk.wait_connected().await.unwrap();
        }
        assert_eq!(auto_ack.next().await.unwrap().items, ["0"]);
        let _lost = once(&server, OpCode::GetChildren2, Verdict::LoseRequest);
        assert!(consumer.next().await.is_err());
        zk.wait_connected().await.unwrap();
        assert_eq!(consumer.next().await.unwrap().items(), ["1"]);
    });
}

#[test]
fn in_two_phases_an_item_is_seen_when_its_producer_is_sure() {
    let cases = pairs([Verdict::LoseReply, Verdict::LoseRequest], [OpCode::Create2, OpCode::Multi]);
    simulated_each(cases, async |(verdict, opcode), server, zk| {
        let queue = fifo(&zk, PutMode::TwoPhase).await;
        queue.put("one").await.unwrap();
        let lost = once(&server, opcode, verdict);
        queue.put("two").await.unwrap();
        assert_eq!(lost.hits(), 1);
        assert_eq!(queue.take().await.unwrap(), "one");
        assert_eq!(queue.take().await.unwrap(), "two");
        assert_eq!(queue.poll().await.unwrap(), None);
    });
}

/// Holds up the second phase of the next put for that long.
fn slow_second_phase(server: &TestServer, time: Duration) -> RuleGuard {
    let second = move |request: &RuleRequest<'_>| {
        let is_second = request.is(OpCode::Multi) && request.matches("/queue/items/*/_c_*");
        if is_second { Verdict::Delay(time) } else { Verdict::Pass }
    };
    server.rule(second).times(1)
}

#[test]
fn skipped_items_come_before_later_puts_of_their_producer() {
    simulated_on(two_in_memory, async |(server, slow, zk)| {
        let queue = FifoQueue::new(&zk, QUEUE).on_unconfirmed(OnUnconfirmed::Skip);
        let slow = FifoQueue::new(&slow, QUEUE).put_mode(PutMode::TwoPhase);
        let _held = slow_second_phase(&server, Duration::from_secs(5));
        let put = tokio::spawn({
            let slow = slow.clone();
            async move { slow.put("slow").await }
        });
        until(&server, |probe| !items(probe, "/queue/items").is_empty()).await;
        queue.put("other").await.unwrap();
        assert_eq!(queue.take().await.unwrap(), "other");
        put.await.unwrap().unwrap();
        slow.put("next").await.unwrap();
        assert_eq!(queue.take().await.unwrap(), "slow");
        assert_eq!(queue.take().await.unwrap(), "next");
    });
}

#[test]
fn a_poll_finds_earlier_puts_despite_an_early_read_ahead() {
    let policies = [OnUnconfirmed::Wait, OnUnconfirmed::Skip];
    simulated_each_on(policies, two_in_memory, async |unsure, (server, slow, zk)| {
        let queue = FifoQueue::new(&zk, QUEUE).on_unconfirmed(unsure);
        queue.put("first").await.unwrap();
        let slow = FifoQueue::new(&slow, QUEUE).put_mode(PutMode::TwoPhase);
        let _held = slow_second_phase(&server, Duration::from_secs(5));
        let put = tokio::spawn({
            let slow = slow.clone();
            async move { slow.put("second").await }
        });
        until(&server, |probe| {
            items(probe, "/queue/items").iter().any(|name| name.contains("/_c_"))
        })
        .await;
        assert_eq!(queue.poll().await.unwrap().unwrap(), "first");
        put.await.unwrap().unwrap();
        slow.put("third").await.unwrap();
        assert_eq!(queue.poll().await.unwrap().unwrap(), "second", "{unsure:?}");
        assert_eq!(queue.poll().await.unwrap().unwrap(), "third");
    });
}

#[test]
fn an_item_dropped_before_it_was_counted_is_the_next() {
    simulated_with(async |server, zk| {
        let queue = DistributedQueue::new(&zk, QUEUE);
        queue.put("one").await.unwrap();
        queue.put("two").await.unwrap();
        let mut consumer = queue.consumer(LOCKS).dead_letters("/dead", 5);
        let slow = once(&server, OpCode::Multi, Verdict::Delay(Duration::from_secs(2)));
        assert!(timeout(Duration::from_secs(1), consumer.next()).await.is_err());
        assert_eq!(slow.hits(), 1);
        for item in ["one", "two"] {
            let delivery = consumer.next().await.unwrap();
            assert_eq!(delivery.items(), [item]);
            delivery.ack().await.unwrap();
        }
    });
}

#[test]
fn an_item_that_is_written_just_before_it_is_watched_is_taken() {
    let policies = [OnUnconfirmed::Wait, OnUnconfirmed::Skip];
    simulated_each_on(policies, two_in_memory, async |unsure, (server, slow, zk)| {
        let queue = FifoQueue::new(&zk, QUEUE).on_unconfirmed(unsure);
        let _held = slow_second_phase(&server, Duration::from_secs(2));
        let watches = move |request: &RuleRequest<'_>| {
            let is_watched = matches!(request.request(), Request::GetData(read) if read.watch);
            if is_watched { Verdict::Delay(Duration::from_secs(3)) } else { Verdict::Pass }
        };
        let _late = server.rule(watches).times(1);
        // It lives on when it has put its item.
        let slow = FifoQueue::new(&slow, QUEUE).put_mode(PutMode::TwoPhase);
        let put = tokio::spawn({
            let slow = slow.clone();
            async move { slow.put("slow").await }
        });
        until(&server, |probe| !items(probe, "/queue/items").is_empty()).await;
        let taken = timeout(Duration::from_secs(30), queue.take()).await;
        assert_eq!(taken.unwrap().unwrap(), "slow", "{unsure:?}");
        put.await.unwrap().unwrap();
    });
}

#[test]
fn in_two_phases_unconfirmed_items_of_the_dead_are_removed() {
    let policies = [OnUnconfirmed::Wait, OnUnconfirmed::Skip];
    simulated_each_on(policies, two_in_memory, async |unsure, (server, dying, zk)| {
        let queue = FifoQueue::new(&zk, QUEUE).on_unconfirmed(unsure);
        // It stops between the two phases.
        let _held = slow_second_phase(&server, Duration::from_secs(3600));
        let put = tokio::spawn({
            let queue = FifoQueue::new(&dying, QUEUE).put_mode(PutMode::TwoPhase);
            async move { queue.put("unsure").await }
        });
        until(&server, |probe| !items(probe, "/queue/items").is_empty()).await;
        queue.put("sure").await.unwrap();
        match unsure {
            OnUnconfirmed::Wait => {
                assert_eq!(queue.poll().await.unwrap(), None);
                let end = async {
                    until(&server, |probe| !probe.watches().is_empty()).await;
                    expire(&server, &dying).await;
                };
                assert_eq!(tokio::join!(queue.take(), end).0.unwrap(), "sure");
            }
            _ => assert_eq!(queue.poll().await.unwrap().unwrap(), "sure"),
        }
        put.abort();
        drop(put.await);
        // Its requests wait behind the held request, so the session ends at its timeout.
        dying.close().await.ok();
        until(&server, |probe| probe.sessions().len() == 1).await;
        assert_eq!(queue.poll().await.unwrap(), None);
        let probe = server.probe();
        assert!(!items(&probe, "/queue/items").iter().any(|name| name.contains("item")), "{probe}");
    });
}

#[test]
fn a_removal_by_id_with_a_lost_response_has_unknown_outcome() {
    simulated_with(async |server, zk| {
        let queue = DistributedIdQueue::new(&zk, QUEUE);
        for verdict in [Verdict::LoseRequest, Verdict::LoseReply] {
            queue.put("item", "id").await.unwrap();
            let lost = once(&server, OpCode::Multi, verdict);
            let removed = queue.remove("id").await;
            assert_eq!(lost.hits(), 1);
            match verdict {
                Verdict::LoseRequest => assert_eq!(removed.unwrap(), 1),
                // Other consumers may have processed it.
                _ => assert!(
                    matches!(removed, Err(Error::Framework(error)) if error.may_have_applied())
                ),
            }
            assert_eq!(queue.remove("id").await.unwrap(), 0);
        }
        // The consumer that holds it cannot acknowledge it then.
        queue.put("item", "id").await.unwrap();
        let mut consumer = queue.consumer(LOCKS);
        let delivery = consumer.next().await.unwrap();
        assert_eq!(queue.remove("id").await.unwrap(), 1);
        assert!(matches!(delivery.ack().await, Err(Error::Lost { .. })));
    });
}

/// A leader that was deposed, and does not know it, responds to a `sync`: what follows a lost
/// response must not depend on one.
#[test]
fn a_lost_response_is_resolved_without_a_sync() {
    simulated_with(async |server, zk| {
        let _refused = always(&server, OpCode::Sync, Verdict::Refuse(ErrorCode::Unimplemented));
        let lose = |path: &'static str| {
            let rule = server.rule(move |request| {
                let is_it = request.is(OpCode::Multi) && request.matches(path);
                if is_it { Verdict::LoseReply } else { Verdict::Pass }
            });
            rule.times(1)
        };
        // A removal with a receipt.
        let simple = SimpleDistributedQueue::new(&zk, "/simple");
        simple.offer("one").await.unwrap();
        let lost = lose("/simple/qn-*");
        assert_eq!(simple.take().await.unwrap(), "one");
        assert_eq!(lost.hits(), 1);
        // A put in two phases.
        let two_phase = FifoQueue::new(&zk, "/fifo").put_mode(PutMode::TwoPhase);
        let lost = lose("/fifo/items/*/*");
        two_phase.put("one").await.unwrap();
        assert_eq!((lost.hits(), two_phase.take().await.unwrap()), (1, "one".into()));
        // Deletes of a window.
        let mut auto_ack = filled(&zk, 4).await.auto_ack_consumer().ack_batch(4);
        let lost = always(&server, OpCode::Multi, Verdict::LoseRequest);
        let lost = lost.times(1);
        assert_eq!(auto_ack.next().await.unwrap().items, ["0"]);
        assert_eq!(lost.hits(), 1);
        // A claim to a job.
        let jobs = Jobs::new(&zk, "/jobs");
        jobs.submit("").id("a").await.unwrap();
        let lost = lose("/jobs/executing/*");
        let job = jobs.worker("w").next().await.unwrap();
        assert_eq!((lost.hits(), job.id(), job.attempt()), (1, "a", 1));
        job.complete().await.unwrap();
        // The removal of items by their id.
        let ids = DistributedIdQueue::new(&zk, "/ids");
        ids.put("one", "id").await.unwrap();
        let lost = server.rule(|request| {
            let is_it = request.is(OpCode::Multi) && request.matches("/ids/queue-*");
            if is_it { Verdict::LoseRequest } else { Verdict::Pass }
        });
        let lost = lost.times(1);
        assert_eq!((ids.remove("id").await.unwrap(), lost.hits()), (1, 1));
        assert_eq!(server.probe().requests(OpCode::Sync), 0);
    });
}
