//! Queues in spite of lost requests, lost answers and lost sessions; among them the known bugs of other libraries.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::timeout;
use zk_curator::{ConnectionState, CuratorFramework};
use zk_curator_proto::{ErrorCode, OpCode, Request};
use zk_curator_recipes::queue::jobs::Jobs;
use zk_curator_recipes::queue::{
    DistributedDelayQueue, DistributedIdQueue, DistributedPriorityQueue, DistributedQueue, Error, ErrorMode,
    FifoQueue, PutMode, SimpleDistributedQueue,
};
use zk_curator_testing::{RuleGuard, RuleRequest, TestServer, Verdict};
use zk_curator_tests::{
    assert_clean_after_close, connected, expire, impatient, in_memory, items, once, simulated, until,
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
fn defect_a_a_lost_answer_to_a_delete_loses_no_item() {
    simulated(async {
        let (server, zk) = in_memory().await;
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
fn a_lost_transaction_of_deletes_changes_neither_the_items_nor_their_order() {
    simulated(async {
        let numbers = |from: usize| (from..40).map(|number| number.to_string()).collect::<Vec<_>>();
        let (server, zk) = in_memory().await;
        let mut auto_ack = filled(&zk, 40).await.auto_ack_consumer().ack_batch(20);
        let lost = once(&server, OpCode::Multi, Verdict::LoseRequest);
        let mut items = Vec::new();
        while let Some(item) = auto_ack.try_next().await.unwrap() {
            items.push(String::from_utf8(item.items.concat()).unwrap());
        }
        assert_eq!((lost.hits(), items), (1, numbers(0)));

        let (server, zk) = in_memory().await;
        let mut auto_ack = filled(&zk, 40).await.auto_ack_consumer().ack_batch(20);
        let lost = once(&server, OpCode::Multi, Verdict::LoseReply);
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
        assert_eq!((lost.hits(), unknown, items), (1, numbers(0)[..10].to_vec(), numbers(10)));
    });
}

#[test]
fn of_a_transaction_that_is_refused_each_item_is_deleted_for_itself() {
    simulated(async {
        let (server, zk) = in_memory().await;
        let other = connected(&server).await;
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
fn defect_a_with_receipts_a_lost_answer_makes_no_difference() {
    simulated(async {
        for verdict in [Verdict::LoseReply, Verdict::LoseRequest] {
            let (server, zk) = in_memory().await;
            let queue = fifo(&zk, PutMode::Transaction).await;
            queue.put("one").await.unwrap();
            queue.put("two").await.unwrap();
            let lost = server
                .rule(move |request| if request.is(OpCode::Multi) { verdict } else { Verdict::Pass })
                .times(3);
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
        }
    });
}

/// Curator retries the create, and the item is there twice.
#[test]
fn defect_b_a_lost_answer_to_a_put_puts_once_and_says_so() {
    simulated(async {
        let (server, zk) = in_memory().await;
        let queue = filled(&zk, 0).await;
        queue.put("first").await.unwrap();
        let lost = once(&server, OpCode::Create2, Verdict::LoseReply);
        assert!(has_unknown_outcome(&queue.put("x").await.unwrap_err()));
        assert_eq!((lost.hits(), queue.count().await.unwrap()), (1, 2));
    });
}

#[test]
fn defect_b_with_ids_a_lost_answer_makes_no_difference() {
    simulated(async {
        for verdict in [Verdict::LoseReply, Verdict::LoseRequest] {
            for bound in [None, Some(10)] {
                let (server, zk) = in_memory().await;
                let mut queue = filled(&zk, 1).await.idempotent_puts("/ids");
                if let Some(bound) = bound {
                    queue = queue.max_items(bound);
                }
                let lost = server
                    .rule(move |request| if request.is(OpCode::Multi) { verdict } else { Verdict::Pass })
                    .times(2);
                queue.put("x").await.unwrap();
                queue.put("y").await.unwrap();
                assert_eq!((lost.hits(), queue.count().await.unwrap()), (2, 3), "{verdict:?}");
                queue.flush().await.unwrap();
                let probe = server.probe();
                assert!(!probe.children("/ids").iter().any(|name| name.starts_with("put-")), "{probe}");
            }
        }
    });
}

#[test]
fn a_put_with_ids_survives_its_session() {
    simulated(async {
        for enqueue in [PutMode::Transaction, PutMode::TwoPhase] {
            let (server, zk) = in_memory().await;
            let queue = fifo(&zk, enqueue).await;
            queue.put("one").await.unwrap();
            // Nobody hears the server for longer than the session.
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
        }
    });
}

/// Curator gives an item that goes back a name without its priority, or its time: it jumps to the front.
#[test]
fn defect_c_what_goes_back_keeps_its_priority_and_its_time() {
    simulated(async {
        let (_server, zk) = in_memory().await;
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
fn defect_d_curator_605_who_has_lost_its_claim_cannot_remove_the_item() {
    simulated(async {
        for put_back in [false, true] {
            let (server, zk) = in_memory().await;
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
            assert!(matches!(settled, Err(Error::Lost)), "{settled:?}");
            assert_eq!(queue.count().await.unwrap(), 1);
            again.ack().await.unwrap();
            assert_eq!(queue.count().await.unwrap(), 0);
        }
    });
}

/// The same when nobody has told the consumer yet: the server refuses.
#[test]
fn curator_605_a_claim_that_somebody_deleted_protects_the_item() {
    simulated(async {
        let (_server, zk) = in_memory().await;
        let queue = filled(&zk, 1).await;
        let delivery = queue.consumer(LOCKS).next().await.unwrap();
        zk.delete(format!("{LOCKS}/queue-0000000000")).await.unwrap();
        assert!(matches!(delivery.ack().await, Err(Error::Lost)));
        assert_eq!(queue.count().await.unwrap(), 1);
    });
}

/// The first consumer has to create the lock path: meanwhile another one claims the item and acknowledges it. What the first
/// had read together with its first try is not to be handed out. Simulation: `zk-sim --scenario dead_letters --seed 1497`.
#[test]
fn what_was_read_before_the_claim_was_there_is_not_handed_out() {
    simulated(async {
        let (server, zk) = in_memory().await;
        let other = connected(&server).await;
        let queue = filled(&zk, 1).await;
        let slow = zk_curator_tests::session_id(&zk).get();
        let held_up = server
            .rule(move |request| match request.is_create_under(LOCKS) && request.session_id() == slow {
                true => Verdict::Delay(Duration::from_secs(1)),
                false => Verdict::Pass,
            })
            .after(1);
        let mut first = queue.consumer(LOCKS);
        let first = tokio::spawn(async move { timeout(Duration::from_secs(10), first.next()).await.is_ok() });
        until(&server, |probe| probe.exists(LOCKS)).await;
        let mut second = DistributedQueue::new(&other, QUEUE).consumer(LOCKS);
        second.next().await.unwrap().ack().await.unwrap();
        assert!(!first.await.unwrap(), "it is gone");
        assert_eq!(held_up.hits(), 1);
    });
}

/// The consumer stopped for ever after a long disconnect.
#[test]
fn curator_623_a_consumer_goes_on_after_a_long_outage() {
    simulated(async {
        let (server, zk) = in_memory().await;
        let other = connected(&server).await;
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
            until(&server, |probe| probe.children(QUEUE).is_empty() && claimed(probe).is_empty()).await;
        };
        tokio::select! {
            biased;
            ended = queue.consumer(LOCKS).run(1, ErrorMode::Requeue, body) => panic!("{ended:?}"),
            () = outage => {}
        }
        assert_eq!(*taken.borrow(), ["0", "1", "2"]);
    });
}

/// Several producers of a bounded queue saw the same room, and all put.
#[test]
fn curator_254_a_bounded_queue_is_not_exceeded_by_several_producers() {
    simulated(async {
        let (server, zk) = in_memory().await;
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
fn curator_116_equal_items_have_one_order_beyond_the_last_number_too() {
    simulated(async {
        let (server, zk) = in_memory().await;
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

/// Who waits for items in a container hangs when the server takes the container away.
#[test]
fn curator_308_who_waits_survives_its_container() {
    simulated(async {
        let (server, zk) = in_memory().await;
        let other = connected(&server).await;
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
    simulated(async {
        let (server, zk) = in_memory().await;
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
        zk.close().await.unwrap();
        assert_clean_after_close(&server);
    });
}

/// Claims of consumers that were gone stayed, and readers were blocked although there were items.
#[test]
fn kazoo_366_501_claims_do_not_outlive_their_consumer_and_block_nobody() {
    simulated(async {
        for verdict in [Verdict::LoseReply, Verdict::LoseRequest, Verdict::Disconnect] {
            for opcode in [OpCode::Create2, OpCode::GetData, OpCode::Multi, OpCode::Delete] {
                let (server, zk) = in_memory().await;
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
            }
        }
    });
}

#[test]
fn bug_92_an_acknowledgement_is_certain_although_its_answer_was_lost() {
    simulated(async {
        for verdict in [Verdict::LoseReply, Verdict::LoseRequest] {
            for put_back in [false, true] {
                let (server, zk) = in_memory().await;
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
            }
        }
    });
}

/// Neither is a delivery counted twice, nor an item put aside twice or lost on the way.
#[test]
fn a_count_whose_answer_was_lost_counts_once() {
    simulated(async {
        for verdict in [Verdict::LoseReply, Verdict::LoseRequest] {
            let (server, zk) = in_memory().await;
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
        }
    });
}

/// The answer to the claim is lost: it is ours, and nobody else's with the same name is taken for it.
#[test]
fn a_claim_whose_answer_was_lost_is_found_by_its_data() {
    simulated(async {
        let (server, zk) = in_memory().await;
        let queue = filled(&zk, 1).await;
        let mut consumer = queue.consumer(LOCKS);
        let lost = once(&server, OpCode::Create2, Verdict::LoseReply);
        let delivery = consumer.next().await.unwrap();
        assert_eq!((lost.hits(), delivery.items()), (1, &[Bytes::from("0")][..]));
        // Somebody else's, of the same session.
        drop(lost);
        let lost = once(&server, OpCode::Create2, Verdict::LoseReply);
        let mut other = queue.consumer(LOCKS);
        assert!(timeout(Duration::from_secs(5), other.next()).await.is_err());
        drop(lost);
        delivery.ack().await.unwrap();
    });
}

/// Without retries an error comes out, and the next call goes on.
#[test]
fn errors_do_not_end_consumers() {
    simulated(async {
        let (server, zk) = impatient().await;
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
    simulated(async {
        for verdict in [Verdict::LoseReply, Verdict::LoseRequest] {
            for opcode in [OpCode::Create2, OpCode::Multi] {
                let (server, zk) = in_memory().await;
                let queue = fifo(&zk, PutMode::TwoPhase).await;
                queue.put("one").await.unwrap();
                let lost = once(&server, opcode, verdict);
                queue.put("two").await.unwrap();
                assert_eq!(lost.hits(), 1);
                assert_eq!(queue.take().await.unwrap(), "one");
                assert_eq!(queue.take().await.unwrap(), "two");
                assert_eq!(queue.poll().await.unwrap(), None);
            }
        }
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
fn items_that_were_passed_over_come_before_what_their_producer_puts_later() {
    simulated(async {
        use zk_curator_recipes::queue::UnconfirmedPolicy;
        let server = TestServer::in_memory().await;
        let (slow, zk) = (connected(&server).await, connected(&server).await);
        let queue = FifoQueue::new(&zk, QUEUE).unconfirmed_policy(UnconfirmedPolicy::Skip);
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
fn a_poll_finds_what_was_put_before_it_also_if_it_was_read_ahead_too_early() {
    simulated(async {
        use zk_curator_recipes::queue::UnconfirmedPolicy;
        for unsure in [UnconfirmedPolicy::Wait, UnconfirmedPolicy::Skip] {
            let server = TestServer::in_memory().await;
            let (slow, zk) = (connected(&server).await, connected(&server).await);
            let queue = FifoQueue::new(&zk, QUEUE).unconfirmed_policy(unsure);
            queue.put("first").await.unwrap();
            let slow = FifoQueue::new(&slow, QUEUE).put_mode(PutMode::TwoPhase);
            let _held = slow_second_phase(&server, Duration::from_secs(5));
            let put = tokio::spawn({
                let slow = slow.clone();
                async move { slow.put("second").await }
            });
            until(&server, |probe| items(probe, "/queue/items").iter().any(|name| name.contains("/_c_")))
                .await;
            assert_eq!(queue.poll().await.unwrap().unwrap(), "first");
            put.await.unwrap().unwrap();
            slow.put("third").await.unwrap();
            assert_eq!(queue.poll().await.unwrap().unwrap(), "second", "{unsure:?}");
            assert_eq!(queue.poll().await.unwrap().unwrap(), "third");
        }
    });
}

#[test]
fn an_item_whose_consumer_has_not_waited_until_it_was_counted_is_the_next() {
    simulated(async {
        let (server, zk) = in_memory().await;
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
    simulated(async {
        use zk_curator_recipes::queue::UnconfirmedPolicy;
        for unsure in [UnconfirmedPolicy::Wait, UnconfirmedPolicy::Skip] {
            let server = TestServer::in_memory().await;
            let (slow, zk) = (connected(&server).await, connected(&server).await);
            let queue = FifoQueue::new(&zk, QUEUE).unconfirmed_policy(unsure);
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
        }
    });
}

#[test]
fn in_two_phases_those_behind_wait_or_go_first_and_dead_producers_are_cleaned_up_after() {
    simulated(async {
        use zk_curator_recipes::queue::UnconfirmedPolicy;
        for unsure in [UnconfirmedPolicy::Wait, UnconfirmedPolicy::Skip] {
            let server = TestServer::in_memory().await;
            let (dying, zk) = (connected(&server).await, connected(&server).await);
            let queue = FifoQueue::new(&zk, QUEUE).unconfirmed_policy(unsure);
            // It stops between the two phases.
            let _held = slow_second_phase(&server, Duration::from_secs(3600));
            let put = tokio::spawn({
                let queue = FifoQueue::new(&dying, QUEUE).put_mode(PutMode::TwoPhase);
                async move { queue.put("unsure").await }
            });
            until(&server, |probe| !items(probe, "/queue/items").is_empty()).await;
            queue.put("sure").await.unwrap();
            match unsure {
                UnconfirmedPolicy::Wait => {
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
            // Its requests wait behind the one that is held: the session ends at its timeout.
            dying.close().await.ok();
            until(&server, |probe| probe.sessions().len() == 1).await;
            assert_eq!(queue.poll().await.unwrap(), None);
            let probe = server.probe();
            assert!(!items(&probe, "/queue/items").iter().any(|name| name.contains("item")), "{probe}");
        }
    });
}

#[test]
fn who_removes_items_by_their_id_knows_whether_it_was_the_one() {
    simulated(async {
        let (server, zk) = in_memory().await;
        let queue = DistributedIdQueue::new(&zk, QUEUE);
        for verdict in [Verdict::LoseRequest, Verdict::LoseReply] {
            queue.put("item", "id").await.unwrap();
            let lost = once(&server, OpCode::Multi, verdict);
            let removed = queue.remove("id").await;
            assert_eq!(lost.hits(), 1);
            match verdict {
                Verdict::LoseRequest => assert_eq!(removed.unwrap(), 1),
                // Others may have worked it off.
                _ => assert!(matches!(removed, Err(Error::Framework(error)) if error.may_have_applied())),
            }
            assert_eq!(queue.remove("id").await.unwrap(), 0);
        }
        // Who has it in its hands cannot acknowledge it then.
        queue.put("item", "id").await.unwrap();
        let mut consumer = queue.consumer(LOCKS);
        let delivery = consumer.next().await.unwrap();
        assert_eq!(queue.remove("id").await.unwrap(), 1);
        assert!(matches!(delivery.ack().await, Err(Error::Lost)));
    });
}

/// A leader that was deposed, and does not know it, answers a `sync`: what follows a lost answer must not depend on one.
#[test]
fn a_lost_answer_is_resolved_without_a_sync() {
    simulated(async {
        let (server, zk) = in_memory().await;
        let _refused = server.rule(|request| {
            if request.is(OpCode::Sync) { Verdict::Refuse(ErrorCode::SystemError) } else { Verdict::Pass }
        });
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
        let lost = server.rule(
            |request| {
                if request.is(OpCode::Multi) { Verdict::LoseRequest } else { Verdict::Pass }
            },
        );
        let lost = lost.times(1);
        assert_eq!(auto_ack.next().await.unwrap().items, ["0"]);
        assert_eq!(lost.hits(), 1);
        // A claim to a job.
        let jobs = Jobs::new(&zk, "/jobs");
        jobs.submit_as("a", "").await.unwrap();
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
