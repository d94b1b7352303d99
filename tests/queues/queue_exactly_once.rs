//! The leftovers of dead or slow producers: ids of puts, and unconfirmed items.

use std::time::Duration;

use futures_util::FutureExt;

use zk_curator::{CreateMode, CuratorFramework, ErrorCode, ErrorKind};
use zk_curator_proto::OpCode;
use zk_curator_recipes::queue::{DistributedQueue, Error, FifoQueue};
use zk_curator_testing::wait::past;
use zk_curator_testing::{TestServer, Verdict};
use zk_curator_tests::{
    builder, connected, expire, once, pairs, rule_if, simulated_each, simulated_on, simulated_with,
    start, two_in_memory, until,
};

const QUEUE: &str = "/queue";
const IDS: &str = "/ids";
/// After which ids of dead producers may be collected.
const OLD: Duration = Duration::from_secs(600);

fn with_ids(zk: &CuratorFramework) -> DistributedQueue {
    DistributedQueue::new(zk, QUEUE).idempotent_puts(IDS)
}

fn ids(server: &TestServer) -> usize {
    server.probe().children(IDS).iter().filter(|name| name.starts_with("put-")).count()
}

/// `zk-chaos --scenario exactly_once --seed 0`: a process that was killed left the id of its last
/// put; another, whose random numbers were the same, took it for its own, and its item for put.
#[test]
fn an_id_that_another_process_has_left_is_not_taken_for_our_own() {
    simulated_with(async |server, _zk| {
        for (item, count) in [("one", 1), ("two", 2)] {
            let zk = start(builder(&server).seed(7)).await;
            with_ids(&zk).put(item).await.unwrap();
            assert_eq!((with_ids(&zk).count().await.unwrap(), ids(&server)), (count, count));
        }
    });
}

#[test]
fn ids_of_dead_producers_are_collected_and_no_others() {
    simulated_on(TestServer::in_memory, async |server| {
        let (dead, living) = (connected(&server).await, connected(&server).await);
        let (of_dead, of_living) = (with_ids(&dead), with_ids(&living));
        of_dead.put("one").await.unwrap();
        of_living.put("two").await.unwrap();
        drop(of_dead);
        dead.close().await.unwrap();
        let third = with_ids(&connected(&server).await);
        third.put("three").await.unwrap();
        assert_eq!(ids(&server), 3);
        past(OLD).await;
        third.put("four").await.unwrap();
        // Its own earlier id is deleted as always, and so is the id of the dead producer, but not
        // that of the living one.
        assert_eq!(ids(&server), 2, "{}", server.probe());
        assert_eq!(third.count().await.unwrap(), 4);
    });
}

#[test]
fn a_refused_collection_is_reported_once() {
    simulated_with(async |server, zk| {
        let queue = with_ids(&zk);
        queue.put("one").await.unwrap();
        let mut errors = zk.background_errors();
        let refused = rule_if(
            &server,
            |request| request.is(OpCode::GetChildren2) && request.is_about(IDS),
            Verdict::Refuse(ErrorCode::NoAuth),
        );
        for item in ["two", "three", "four"] {
            past(OLD * 2).await;
            queue.put(item).await.unwrap();
        }
        assert!(refused.hits() > 2, "{} hits", refused.hits());
        assert_eq!(errors.next().await.map(|error| error.kind()), Some(ErrorKind::NoAuth));
        assert!(errors.next().now_or_never().is_none(), "it is reported once");
    });
}

/// `zk-sim --scenario locking_queue --seed 35040 --rounds 6`: a put failed, for sure, and its item
/// was there.
#[test]
fn an_id_that_cannot_be_deleted_says_nothing_about_the_next_put() {
    simulated_with(async |server, zk| {
        let queue = with_ids(&zk);
        queue.put("one").await.unwrap();
        let refused = once(&server, OpCode::Delete, Verdict::Refuse(ErrorCode::NoAuth));
        queue.put("two").await.unwrap();
        assert_eq!((refused.hits(), queue.count().await.unwrap()), (1, 2));
    });
}

/// The response is lost, and then the session. The put reads the outcome, and repeats only puts
/// that were not applied.
/// The second one of two producers finds an id deleted, and goes on with the others.
#[test]
fn two_producers_that_collect_the_same_ids_do_not_fail() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        with_ids(&zk).put("one").await.unwrap();
        for number in 0..3 {
            let orphan = format!("{IDS}/put-{number}-_c_dead-producer-0000000007");
            zk.create(orphan).await.unwrap();
        }
        past(OLD * 2).await;
        let mut errors = zk.background_errors();
        let mut others = other.background_errors();
        // Both have listed the ids before one is deleted.
        let slow = server.rule(|request| {
            let collects = request.is_transaction() && request.is_delete() && !request.is_create();
            if collects { Verdict::Delay(Duration::from_secs(1)) } else { Verdict::Pass }
        });
        let (one, two) = (with_ids(&zk), with_ids(&other));
        let (one, two) = tokio::join!(one.put("two"), two.put("three"));
        one.unwrap();
        two.unwrap();
        until(&server, |probe| !probe.children(IDS).iter().any(|name| name.contains("dead"))).await;
        past(Duration::from_secs(60)).await;
        assert!(slow.hits() > 3, "{} hits", slow.hits());
        assert!(errors.next().now_or_never().is_none() && others.next().now_or_never().is_none());
    });
}

/// It cannot only if ids were collected in between, and says so.
#[test]
fn a_put_that_has_lost_its_session_happens_once() {
    let cases = pairs([Verdict::LoseReply, Verdict::LoseRequest], [false, true]);
    simulated_each(cases, async |(verdict, others), server, zk| {
        let queue = with_ids(&zk);
        queue.put("one").await.unwrap();
        queue.flush().await.unwrap();
        let lost = once(&server, OpCode::Multi, verdict);
        let mut put = Box::pin(queue.put("two"));
        tokio::select! {
            biased;
            done = &mut put => panic!("{done:?}"),
            () = lost.fired() => {}
        }
        // The response is not polled.
        expire(&server, &zk).await;
        past(OLD * 2).await;
        let other = with_ids(&connected(&server).await);
        if others {
            other.put("three").await.unwrap();
        }
        let done = put.await;
        let applied = matches!(verdict, Verdict::LoseReply);
        match done {
            Err(Error::Framework(error)) => {
                assert!(applied && others && error.may_have_applied(), "{error}");
            }
            done => assert!(!(applied && others), "{done:?}"),
        }
        let mut items = Vec::new();
        let mut auto_ack = other.auto_ack_consumer();
        while let Some(item) = auto_ack.try_next().await.unwrap() {
            items.push(String::from_utf8(item.items.concat()).unwrap());
        }
        let expected: &[&str] = match (applied, others) {
            (_, false) => &["one", "two"],
            (true, true) => &["one", "two", "three"],
            (false, true) => &["one", "three", "two"],
        };
        assert_eq!(items, expected, "{verdict:?}");
    });
}

/// The same if another client has deleted the node of the producer, or all ids.
#[test]
fn a_producer_whose_node_was_removed_goes_on() {
    simulated_with(async |server, zk| {
        let queue = with_ids(&zk);
        for number in 1..4 {
            queue.put("x").await.unwrap();
            assert_eq!(queue.count().await.unwrap(), number);
            zk.delete(IDS).deleting_children().await.unwrap();
        }
        queue.put("x").await.unwrap();
        queue.flush().await.unwrap();
        assert_eq!((queue.count().await.unwrap(), ids(&server)), (4, 0));
    });
}

/// `zk-sim --scenario fifo_two_phase --seed 1328`: a producer dies between its two steps, and those
/// who wait for its item went on waiting when its session ended.
#[test]
fn waiters_collect_the_item_of_a_dead_producer() {
    simulated_on(two_in_memory, async |(server, zk, dying)| {
        let queue = FifoQueue::new(&zk, "/fifo");
        queue.put("first").await.unwrap();
        assert_eq!(queue.take().await.unwrap(), "first");
        let probe = server.probe();
        let children = probe.children("/fifo/items");
        let bucket = children.iter().find(|name| name.starts_with("b-")).unwrap();
        // A producer that stops after the first step.
        let create = dying.create("/fifo/producers/p").mode(CreateMode::Ephemeral);
        create.creating_parents_as_containers().await.unwrap();
        let unsure = format!("/fifo/items/{bucket}/_c_{}-item-", dying.new_guid());
        let create = dying.create(unsure).mode(CreateMode::PersistentSequential).data("p");
        create.creating_parents_as_containers().await.unwrap();
        queue.put("sure").await.unwrap();
        let end = async {
            until(&server, |probe| probe.watches().len() >= 3).await;
            dying.close().await.unwrap();
        };
        assert_eq!(tokio::join!(queue.take(), end).0.unwrap(), "sure");
        let probe = server.probe();
        assert_eq!(probe.children(&format!("/fifo/items/{bucket}")).len(), 0, "{probe}");
    });
}
