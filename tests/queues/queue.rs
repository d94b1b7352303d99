//! Queues of Curator's family: their order, their items, and the delivery.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures_util::StreamExt;
use tokio::time::{Instant, timeout};
use zk_curator::{CuratorFramework, ErrorKind};
use zk_curator_recipes::queue::jobs::Jobs;
use zk_curator_recipes::queue::{
    AutoAckConsumer, DistributedDelayQueue, DistributedIdQueue, DistributedPriorityQueue,
    DistributedQueue, Error, ErrorMode, FifoQueue, LockingQueue, PutMode, SimpleDistributedQueue,
};
use zk_curator_testing::wait::{past, settled, spend};
use zk_curator_tests::{
    closes_clean, connected, expire, simulated_each, simulated_on, simulated_with, two_in_memory,
    until,
};

pub(crate) const QUEUE: &str = "/queue";
pub(crate) const LOCKS: &str = "/queue-locks";

pub(crate) async fn text(auto_ack: &mut AutoAckConsumer) -> String {
    let item = auto_ack.next().await.unwrap();
    String::from_utf8(item.items.concat()).unwrap()
}

async fn texts(auto_ack: &mut AutoAckConsumer, count: usize) -> Vec<String> {
    let mut texts = Vec::new();
    for _ in 0..count {
        texts.push(text(auto_ack).await);
    }
    texts
}

/// A clock that goes with tokio's, from a moment that is the same for all.
pub(crate) fn clock() -> impl Fn() -> SystemTime + Send + Sync + Clone + 'static {
    let began = Instant::now();
    move || SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000) + began.elapsed()
}

async fn names(zk: &CuratorFramework) -> Vec<String> {
    let mut names = zk.children(QUEUE).await.unwrap();
    names.sort();
    names
}

#[test]
fn items_have_the_names_and_the_bytes_of_curator() {
    simulated_with(async |server, zk| {
        let queue = DistributedQueue::new(&zk, QUEUE);
        queue.put("hello").await.unwrap();
        queue.put_multi(["a", "bc"].map(Bytes::from)).await.unwrap();
        queue.put_all(["x", "y"].map(Bytes::from)).await.unwrap();
        let expected =
            ["queue-0000000000", "queue-0000000001", "queue-0000000002", "queue-0000000003"];
        assert_eq!(names(&zk).await, expected);
        let data = |name: &str| server.probe().data(&format!("{QUEUE}/{name}")).unwrap();
        assert_eq!(data(expected[0])[..], b"\0\x01\0\x01\x01\0\0\0\x05hello\x02"[..]);
        assert_eq!(data(expected[1])[..], b"\0\x01\0\x01\x01\0\0\0\x01a\x01\0\0\0\x02bc\x02"[..]);
        assert!(!server.probe().is_container(QUEUE));
        assert_eq!(queue.count().await.unwrap(), 4);
        let mut auto_ack = queue.auto_ack_consumer();
        assert_eq!(text(&mut auto_ack).await, "hello");
        assert_eq!(auto_ack.next().await.unwrap().items, ["a", "bc"]);
        assert_eq!(texts(&mut auto_ack, 2).await, ["x", "y"]);
        assert_eq!(auto_ack.try_next().await.unwrap(), None);
        let simple = SimpleDistributedQueue::new(&zk, "/simple");
        simple.offer("raw").await.unwrap();
        assert_eq!(server.probe().data("/simple/qn-0000000000").unwrap(), "raw");
        assert!(server.probe().is_container("/simple"));
    });
}

#[test]
fn an_item_too_large_for_servers_is_refused_unsent() {
    simulated_with(async |server, zk| {
        let before = server.probe().total_requests();
        let item = || Bytes::from(vec![0; 1 << 20]);
        let halves = || (0..2).map(|_| Bytes::from(vec![0; 1 << 19]));
        let queue = DistributedQueue::new(&zk, QUEUE);
        let with_ids = queue.clone().idempotent_puts("/ids");
        for queue in
            [&queue, &with_ids, &queue.clone().max_items(3), &with_ids.clone().max_items(3)]
        {
            too_large(queue.put(item()).await);
            too_large(queue.try_put(item()).await);
            too_large(queue.put_multi(halves()).await);
            too_large(queue.put_all(halves()).await);
        }
        assert!(
            with_ids.clone().max_items(3).put_all((0..4).map(|_| Bytes::from("x"))).await.is_err()
        );
        let priorities = DistributedPriorityQueue::new(&zk, QUEUE);
        let delays = DistributedDelayQueue::new(&zk, QUEUE);
        let named = DistributedIdQueue::new(&zk, QUEUE);
        too_large(priorities.put(item(), 1).await);
        too_large(priorities.idempotent_puts("/ids").put_multi(halves(), 1).await);
        too_large(delays.put(item(), SystemTime::UNIX_EPOCH).await);
        too_large(delays.idempotent_puts("/ids").put(item(), SystemTime::UNIX_EPOCH).await);
        too_large(named.put(item(), "a").await);
        too_large(named.idempotent_puts("/ids").try_put(item(), "a").await);
        let simple = SimpleDistributedQueue::new(&zk, "/simple");
        too_large(simple.offer(item()).await);
        too_large(simple.idempotent_puts("/ids").offer(item()).await);
        let fifo = FifoQueue::new(&zk, "/fifo");
        for enqueue in [PutMode::Transaction, PutMode::TwoPhase] {
            too_large(fifo.clone().put_mode(enqueue).put(item()).await);
        }
        let locking = LockingQueue::new(&zk, "/locking");
        too_large(locking.put(item()).await);
        too_large(locking.put_all(halves()).await);
        too_large(Jobs::new(&zk, "/jobs").submit(item()).await);
        assert_eq!(server.probe().total_requests(), before);
    });
}

fn too_large<T>(put: Result<T, Error>) {
    let error = put.map(|_| ()).unwrap_err();
    assert!(
        matches!(&error, Error::Framework(error) if error.kind() == ErrorKind::TooLarge),
        "{error}"
    );
}

/// To the byte, with all that goes with an item.
#[test]
fn the_largest_item_is_put_and_one_byte_more_is_refused_unsent() {
    simulated_each([PutMode::Transaction, PutMode::TwoPhase], async |enqueue, server, zk| {
        let queue = FifoQueue::new(&zk, QUEUE).put_mode(enqueue);
        // Each with a producer that has not made itself known yet.
        let put = async |size: usize| {
            let queue = FifoQueue::new(&zk, QUEUE).put_mode(enqueue);
            queue.put(vec![0; size]).await
        };
        let (mut fits, mut does_not) = ((1 << 20) - 1024, 1 << 20);
        let mut refused = 0;
        while does_not - fits > 1 {
            let size = usize::midpoint(fits, does_not);
            let before = server.probe().total_requests();
            match put(size).await {
                Ok(()) => {
                    assert_eq!(queue.take().await.unwrap().len(), size);
                    fits = size;
                }
                refusal => {
                    too_large(refusal);
                    assert_eq!(
                        server.probe().total_requests(),
                        before,
                        "{enqueue:?}, {size} bytes"
                    );
                    (refused, does_not) = (refused + 1, size);
                }
            }
        }
        assert!(refused > 0 && fits > (1 << 20) - 1024, "{enqueue:?}: {fits}");
    });
}

#[test]
fn the_lowest_priority_comes_first_also_when_it_comes_late() {
    simulated_with(async |_server, zk| {
        let queue = DistributedPriorityQueue::new(&zk, QUEUE);
        for (item, priority) in [("low", 200), ("a", 5), ("b", 5), ("high", -7), ("min", i32::MIN)]
        {
            queue.put(item, priority).await.unwrap();
        }
        let mut auto_ack = queue.auto_ack_consumer();
        assert_eq!(texts(&mut auto_ack, 2).await, ["min", "high"]);
        // The consumer drops its list.
        past(Duration::from_secs(1)).await;
        queue.put("late", -100).await.unwrap();
        assert_eq!(texts(&mut auto_ack, 4).await, ["late", "a", "b", "low"]);
    });
}

#[test]
fn a_consumer_of_priorities_lists_again_only_for_new_items() {
    simulated_with(async |server, zk| {
        let queue = DistributedPriorityQueue::new(&zk, QUEUE);
        for priority in 0..50 {
            queue.put("x", priority).await.unwrap();
        }
        let listings = || server.probe().requests(zk_curator_proto::OpCode::GetChildren2);
        let (mut one, mut two) = (queue.auto_ack_consumer(), queue.auto_ack_consumer());
        // Both remove, so each sees changes that are none.
        for _ in 0..20 {
            one.next().await.unwrap();
            two.next().await.unwrap();
        }
        assert_eq!(listings(), 2);
        queue.put("new", -1).await.unwrap();
        settled().await;
        assert_eq!(text(&mut one).await, "new");
        assert_eq!(listings(), 3);
        // Or, by choice, after some items only.
        let mut lazy = queue.clone().min_items_before_refresh(3).auto_ack_consumer();
        lazy.next().await.unwrap();
        queue.put("newer", -2).await.unwrap();
        settled().await;
        assert_eq!(texts(&mut lazy, 3).await, ["x", "x", "newer"]);
    });
}

#[test]
fn items_are_due_at_their_time() {
    simulated_with(async |_server, zk| {
        let now = clock();
        let queue = DistributedDelayQueue::new(&zk, QUEUE).clock(now.clone());
        let began = Instant::now();
        for (item, delay) in [("third", 3000), ("first", 1000), ("second", 2000)] {
            queue.put(item, now() + Duration::from_millis(delay)).await.unwrap();
        }
        let mut auto_ack = queue.auto_ack_consumer();
        assert_eq!(auto_ack.try_next().await.unwrap(), None);
        // An item with an earlier due time arrives during the wait for another item.
        let early = async {
            spend(Duration::from_millis(500)).await;
            queue.put("early", now()).await.unwrap();
            assert!(began.elapsed() < Duration::from_millis(600));
        };
        let (item, ()) = tokio::join!(text(&mut auto_ack), early);
        assert_eq!(item, "early");
        for (seconds, item) in [(1, "first"), (2, "second"), (3, "third")] {
            assert_eq!(text(&mut auto_ack).await, item);
            assert_eq!(began.elapsed().as_secs(), seconds);
        }
    });
}

#[test]
fn items_are_removed_by_their_id() {
    simulated_with(async |_server, zk| {
        let queue = DistributedIdQueue::new(&zk, QUEUE);
        assert_eq!(queue.remove("none").await.unwrap(), 0);
        for (item, id) in [("one", "a"), ("two", "b/c"), ("three", "a"), ("four", "ab")] {
            queue.put(item, id).await.unwrap();
        }
        assert_eq!(queue.remove("a").await.unwrap(), 2);
        let mut consumer = queue.consumer(LOCKS);
        let delivery = consumer.next().await.unwrap();
        assert_eq!((delivery.items().concat(), delivery.id()), (b"two".to_vec(), Some("b_c")));
        delivery.requeue().await.unwrap();
        assert_eq!(consumer.next().await.unwrap().id(), Some("ab"));
        let ids: Vec<_> = names(&zk)
            .await
            .iter()
            .map(|name| name.split('|').nth(1).unwrap().to_owned())
            .collect();
        assert_eq!(ids, ["ab", "b_c"]);
        assert_eq!(queue.remove("b/c").await.unwrap(), 1);
    });
}

#[test]
fn simple_queues_offer_poll_peek_and_take() {
    simulated_with(async |server, zk| {
        let queue = SimpleDistributedQueue::new(&zk, QUEUE);
        assert_eq!(queue.poll().await.unwrap(), None);
        assert_eq!(queue.peek().await.unwrap(), None);
        assert!(matches!(queue.element().await, Err(Error::Empty { .. })));
        assert!(matches!(queue.remove().await, Err(Error::Empty { .. })));
        for item in ["one", "two", "three"] {
            queue.offer(item).await.unwrap();
        }
        assert_eq!(queue.peek().await.unwrap().unwrap(), "one");
        assert_eq!(queue.element().await.unwrap(), "one");
        assert_eq!(queue.take().await.unwrap(), "one");
        assert_eq!(queue.poll().await.unwrap().unwrap(), "two");
        assert_eq!(queue.remove().await.unwrap(), "three");
        // A poll does not wait behind a take, and a limit of time takes nothing away.
        let taken = timeout(Duration::from_secs(5), queue.take());
        let polled = async {
            until(&server, |probe| !probe.watches().is_empty()).await;
            queue.poll().await.unwrap()
        };
        let (taken, polled) = tokio::join!(taken, polled);
        assert!(taken.is_err() && polled.is_none());
        queue.offer("four").await.unwrap();
        assert_eq!(queue.take().await.unwrap(), "four");
        closes_clean(&server, &zk).await;
    });
}

#[test]
fn waiters_are_woken_by_a_put() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let queue = DistributedQueue::new(&zk, QUEUE);
        let (mut auto_ack, mut consumer) = (queue.auto_ack_consumer(), queue.consumer(LOCKS));
        let producer = DistributedQueue::new(&other, QUEUE);
        for round in 0..3 {
            let put = async {
                until(&server, |probe| !probe.watches().is_empty()).await;
                producer.put(format!("{round}")).await.unwrap();
            };
            if round % 2 == 0 {
                assert_eq!(tokio::join!(text(&mut auto_ack), put).0, format!("{round}"));
            } else {
                let delivery = tokio::join!(consumer.next(), put).0.unwrap();
                assert_eq!(delivery.items(), [format!("{round}")]);
                delivery.ack().await.unwrap();
            }
        }
    });
}

#[test]
fn a_delivery_is_acknowledged_requeued_or_dropped_to_its_place() {
    simulated_with(async |server, zk| {
        let queue = DistributedQueue::new(&zk, QUEUE);
        for item in ["one", "two", "three"] {
            queue.put(item).await.unwrap();
        }
        let mut consumer = queue.consumer(LOCKS);
        let one = consumer.next().await.unwrap();
        assert_eq!(
            (one.path(), one.items()),
            ("/queue/queue-0000000000", &[Bytes::from("one")][..])
        );
        assert_eq!(claimed(&server.probe()), ["queue-0000000000"]);
        // An item that another consumer has claimed is not delivered.
        let two = queue.consumer(LOCKS).next().await.unwrap();
        assert_eq!(two.items(), ["two"]);
        one.requeue().await.unwrap();
        drop(two);
        let mut order = Vec::new();
        let mut fresh = queue.consumer(LOCKS);
        for _ in 0..3 {
            let delivery = fresh.next().await.unwrap();
            order.push(String::from_utf8(delivery.items().concat()).unwrap());
            delivery.ack().await.unwrap();
        }
        assert_eq!(order, ["two", "three", "one"]);
        assert_eq!((claimed(&server.probe()).len(), queue.count().await.unwrap()), (0, 0));
    });
}

#[test]
fn items_are_streams() {
    simulated_with(async |_server, zk| {
        let queue = DistributedQueue::new(&zk, QUEUE);
        queue.put_all(["one", "two", "three", "four"].map(Bytes::from)).await.unwrap();
        let taken: Vec<_> = queue
            .auto_ack_consumer()
            .into_stream()
            .take(2)
            .map(|item| item.unwrap().items)
            .collect()
            .await;
        assert_eq!(taken, [["one"], ["two"]]);
        let mut items = Box::pin(queue.consumer(LOCKS).into_stream());
        for expected in ["three", "four"] {
            let delivery = items.next().await.unwrap().unwrap();
            assert_eq!(delivery.items(), [expected]);
            delivery.ack().await.unwrap();
        }
        assert!(timeout(Duration::from_secs(1), items.next()).await.is_err());
        queue.put("five").await.unwrap();
        assert_eq!(items.next().await.unwrap().unwrap().items(), ["five"]);
    });
}

#[test]
fn what_a_consumer_gives_back_or_loses_wakes_another_that_waits() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let queue = DistributedQueue::new(&zk, QUEUE);
        queue.put("one").await.unwrap();
        let mut first = queue.consumer(LOCKS);
        let mut second = DistributedQueue::new(&other, QUEUE).consumer(LOCKS);
        let held = first.next().await.unwrap();
        let give_back = async {
            until(&server, |probe| probe.watches().len() >= 2).await;
            drop(held);
        };
        let (delivery, ()) = tokio::join!(second.next(), give_back);
        // And when a session ends with the item in its hands.
        let expire = async {
            until(&server, |probe| probe.watches().len() >= 2).await;
            expire(&server, &other).await;
        };
        let (again, ()) = tokio::join!(first.next(), expire);
        assert_eq!(again.unwrap().items(), ["one"]);
        assert!(matches!(delivery.unwrap().ack().await, Err(Error::Lost { .. })));
    });
}

#[test]
fn a_returned_item_is_found_by_a_consumer_that_never_waits() {
    simulated_on(two_in_memory, async |(_server, zk, other)| {
        let queue = DistributedQueue::new(&zk, QUEUE);
        for item in ["one", "two", "three"] {
            queue.put(item).await.unwrap();
        }
        let mut first = DistributedQueue::new(&other, QUEUE).consumer(LOCKS);
        let held = first.next().await.unwrap();
        let mut second = queue.consumer(LOCKS);
        // It has found the first one claimed.
        let delivery = second.next().await.unwrap();
        assert_eq!(delivery.items(), ["two"]);
        delivery.ack().await.unwrap();
        drop(held);
        let mut handed_out = Vec::new();
        for _ in 0..20 {
            // There is always another.
            queue.put("more").await.unwrap();
            spend(Duration::from_millis(100)).await;
            let delivery = second.next().await.unwrap();
            handed_out.extend(delivery.items().to_vec());
            delivery.ack().await.unwrap();
        }
        let found = handed_out.iter().position(|item| item == "one").expect("found");
        // A second after it was found claimed.
        assert_eq!(found, 9);
    });
}

#[test]
fn corrupt_and_foreign_nodes_are_reported_once_and_stay() {
    simulated_with(async |server, zk| {
        let queue = DistributedQueue::new(&zk, QUEUE);
        zk.create("/queue/queue-0000000000").creating_parents().data("10.0.0.1").await.unwrap();
        zk.create("/queue/notes").data("").await.unwrap();
        queue.put("good").await.unwrap();
        for claims in [false, true] {
            let (mut auto_ack, mut consumer) = (queue.auto_ack_consumer(), queue.consumer(LOCKS));
            let (mut corrupt, mut foreign, mut good) = (Vec::new(), Vec::new(), 0);
            while good < 1 {
                let error = if claims {
                    consumer.next().await.map(drop).err()
                } else {
                    auto_ack.next().await.map(drop).err()
                };
                match error {
                    Some(Error::Corrupt { path, .. }) => corrupt.push(path),
                    Some(Error::Foreign { path }) => foreign.push(path),
                    None => good += 1,
                    Some(error) => panic!("{error}"),
                }
            }
            assert_eq!(
                (corrupt, foreign),
                (vec!["/queue/queue-0000000000".to_owned()], vec!["/queue/notes".to_owned()])
            );
            assert_eq!(
                auto_ack.try_next().await.map_err(|_| ()),
                if claims { Err(()) } else { Ok(None) }
            );
            queue.put("good").await.unwrap();
        }
        assert!(
            server.probe().exists("/queue/queue-0000000000")
                && server.probe().exists("/queue/notes")
        );
        until(&server, |probe| claimed(probe).is_empty()).await;
    });
}

/// The reports of a consumer until there is nothing more; `good` is the only item.
async fn reported(auto_ack: &mut AutoAckConsumer) -> Vec<(&'static str, String)> {
    let (mut reports, mut good) = (Vec::new(), 0);
    loop {
        match auto_ack.try_next().await {
            Ok(Some(item)) => {
                assert_eq!(item.items, ["good"]);
                good += 1;
            }
            Ok(None) => break,
            Err(Error::Corrupt { path, .. }) => reports.push(("corrupt", path)),
            Err(Error::Foreign { path }) => reports.push(("foreign", path)),
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(good, 1, "{reports:?}");
    reports.sort();
    reports
}

#[test]
fn corrupt_and_foreign_nodes_are_reported_in_every_kind() {
    simulated_with(async |server, zk| {
        let priorities = DistributedPriorityQueue::new(&zk, "/priorities");
        let times = DistributedDelayQueue::new(&zk, "/times");
        let ids = DistributedIdQueue::new(&zk, "/ids");
        priorities.put("good", 5).await.unwrap();
        times.put("good", SystemTime::UNIX_EPOCH + Duration::from_secs(1)).await.unwrap();
        ids.put("good", "b").await.unwrap();
        let queues = [
            (
                "/priorities/queue-1000000010000000007",
                priorities.auto_ack_consumer(),
                priorities.consumer(LOCKS),
            ),
            ("/times/queue-|00000001|0000000007", times.auto_ack_consumer(), times.consumer(LOCKS)),
            ("/ids/queue-|a|0000000007", ids.auto_ack_consumer(), ids.consumer(LOCKS)),
        ];
        for (corrupt, mut auto_ack, mut consumer) in queues {
            let foreign = format!("/{}/notes", corrupt.split('/').nth(1).unwrap());
            zk.create(corrupt).data("10.0.0.1").await.unwrap();
            zk.create(&foreign).data("").await.unwrap();
            let expected = [("corrupt", corrupt.to_owned()), ("foreign", foreign.clone())];
            let (mut reports, mut delivery) = (Vec::new(), None);
            while reports.len() < 2 || delivery.is_none() {
                match consumer.next().await {
                    Ok(good) => delivery = Some(good),
                    Err(Error::Corrupt { path, .. }) => reports.push(("corrupt", path)),
                    Err(Error::Foreign { path }) => reports.push(("foreign", path)),
                    Err(error) => panic!("{error}"),
                }
            }
            reports.sort();
            assert_eq!(reports, expected);
            assert!(timeout(Duration::from_secs(60), consumer.next()).await.is_err(), "{corrupt}");
            drop((consumer, delivery));
            assert_eq!(reported(&mut auto_ack).await, expected);
            assert!(server.probe().exists(corrupt) && server.probe().exists(&foreign));
        }
    });
}

#[test]
fn foreign_nodes_are_reported_once_where_an_item_is_any_bytes() {
    simulated_with(async |server, zk| {
        let simple = SimpleDistributedQueue::new(&zk, "/simple");
        let fifo = FifoQueue::new(&zk, "/fifo");
        for foreign in ["/simple/queue-0000000000", "/fifo/items/notes"] {
            zk.create(foreign).creating_parents().data("10.0.0.1").await.unwrap();
        }
        simple.offer("good").await.unwrap();
        fifo.put("good").await.unwrap();
        let foreign = |reported: Result<Option<Bytes>, Error>| match reported {
            Err(Error::Foreign { path }) => path,
            other => panic!("{other:?}"),
        };
        assert_eq!(foreign(simple.poll().await), "/simple/queue-0000000000");
        assert_eq!(foreign(fifo.poll().await), "/fifo/items/notes");
        for queue_is_empty in [false, true] {
            let expected = (!queue_is_empty).then(|| Bytes::from("good"));
            assert_eq!(simple.poll().await.unwrap(), expected);
            assert_eq!(fifo.poll().await.unwrap(), expected);
        }
        let probe = server.probe();
        assert!(probe.exists("/simple/queue-0000000000") && probe.exists("/fifo/items/notes"));
    });
}

#[test]
fn items_with_equal_priority_or_time_are_delivered_together() {
    simulated_with(async |_server, zk| {
        let priorities = DistributedPriorityQueue::new(&zk, QUEUE);
        priorities.put_multi(["a", "b"].map(Bytes::from), 5).await.unwrap();
        priorities.put_multi(["c", "d"].map(Bytes::from), -5).await.unwrap();
        priorities.put("e", 0).await.unwrap();
        assert_eq!(priorities.count().await.unwrap(), 3);
        let mut auto_ack = priorities.auto_ack_consumer();
        for expected in [&["c", "d"][..], &["e"], &["a", "b"]] {
            assert_eq!(auto_ack.next().await.unwrap().items, expected);
        }
        let (began, now) = (Instant::now(), clock());
        let times = DistributedDelayQueue::new(&zk, "/times").clock(now.clone());
        times.put_multi(["a", "b"].map(Bytes::from), now() + Duration::from_secs(2)).await.unwrap();
        times.put_multi(["c", "d"].map(Bytes::from), now() + Duration::from_secs(1)).await.unwrap();
        let mut consumer = times.consumer(LOCKS);
        for (seconds, expected) in [(1, ["c", "d"]), (2, ["a", "b"])] {
            let delivery = consumer.next().await.unwrap();
            assert_eq!(
                (delivery.items(), began.elapsed().as_secs()),
                (&expected.map(Bytes::from)[..], seconds)
            );
            delivery.ack().await.unwrap();
        }
        assert_eq!(times.count().await.unwrap(), 0);
    });
}

#[test]
fn a_bounded_queue_makes_puts_wait_and_is_never_exceeded() {
    simulated_with(async |server, zk| {
        let queue = DistributedQueue::new(&zk, QUEUE).max_items(2);
        assert!(queue.try_put("one").await.unwrap() && queue.try_put("two").await.unwrap());
        assert!(!queue.try_put("three").await.unwrap());
        let mut auto_ack = queue.auto_ack_consumer();
        let take = async {
            until(&server, |probe| !probe.watches().is_empty()).await;
            text(&mut auto_ack).await
        };
        let (put, taken) = tokio::join!(queue.put("three"), take);
        put.unwrap();
        assert_eq!(taken, "one");
        assert_eq!(texts(&mut auto_ack, 2).await, ["two", "three"]);
        assert!(matches!(
            queue.put_all(["a", "b", "c"].map(Bytes::from)).await,
            Err(Error::OverLimit { asked: 3, limit: 2, .. })
        ));
    });
}

#[test]
fn concurrency_is_bounded_and_failures_are_requeued_or_dropped() {
    simulated_each(
        [ErrorMode::Requeue, ErrorMode::Return, ErrorMode::Delete],
        async |mode, server, zk| {
            let queue = DistributedQueue::new(&zk, QUEUE);
            for number in 0..20 {
                queue.put(number.to_string()).await.unwrap();
            }
            let (attempts, busy) =
                (std::cell::RefCell::new(Vec::new()), std::cell::Cell::new((0, 0)));
            let body = |item: Bytes| {
                let (attempts, busy) = (&attempts, &busy);
                async move {
                    let (now, most) = busy.get();
                    busy.set((now + 1, most.max(now + 1)));
                    spend(Duration::from_millis(100)).await;
                    busy.set((busy.get().0 - 1, busy.get().1));
                    let failed = item == "7" && !attempts.borrow().contains(&item);
                    attempts.borrow_mut().push(item);
                    if failed { Err("no") } else { Ok(()) }
                }
            };
            let consumer = queue.consumer(LOCKS);
            let wanted = if mode == ErrorMode::Delete { 20 } else { 21 };
            let done =
                until(&server, |probe| probe.children(QUEUE).is_empty() && probe.exists(LOCKS));
            tokio::select! {
                biased;
                ended = consumer.on_error(mode).run(3, body) => panic!("{ended:?}"),
                _ = done => {}
            }
            assert_eq!((attempts.borrow().len(), busy.get().1), (wanted, 3), "{mode:?}");
        },
    );
}

#[test]
fn an_item_that_fails_is_not_delivered_in_a_loop() {
    simulated_each([ErrorMode::Requeue, ErrorMode::Return], async |mode, _server, zk| {
        let queue = DistributedQueue::new(&zk, QUEUE);
        queue.put("bad").await.unwrap();
        let attempts = std::cell::Cell::new(0);
        let body = async |_| {
            attempts.set(attempts.get() + 1);
            if attempts.get() < 5000 { Err("no") } else { Ok(()) }
        };
        let work = queue.consumer(LOCKS).on_error(mode).run(1, body);
        assert!(timeout(Duration::from_secs(10), work).await.is_err());
        // Held back for 50 to 100 ms each time.
        assert!((50..=200).contains(&attempts.get()), "{mode:?}: {}", attempts.get());
    });
}

/// At the end of the queue it would be a new item each time, without a record of its failures.
#[test]
fn what_goes_back_to_its_place_again_and_again_is_put_aside() {
    simulated_with(async |server, zk| {
        let queue = DistributedQueue::new(&zk, QUEUE);
        queue.put_all(["good", "bad", "fair"].map(Bytes::from)).await.unwrap();
        let consumer = queue.consumer(LOCKS).dead_letters("/dead", 3);
        let attempts = std::cell::RefCell::new(Vec::new());
        let body = async |item: Bytes| {
            let failed = item == "bad";
            attempts.borrow_mut().push(item);
            if failed { Err("no") } else { Ok(()) }
        };
        let aside = until(&server, |probe| !probe.children("/dead").is_empty());
        tokio::select! {
            biased;
            ended = consumer.run(1, body) => panic!("{ended:?}"),
            _ = aside => {}
        }
        let mut attempts = attempts.into_inner();
        attempts.sort();
        assert_eq!(attempts, ["bad", "bad", "bad", "fair", "good"]);
        assert_eq!((queue.count().await.unwrap(), server.probe().children("/dead").len()), (0, 1));
        // An item at the end of the queue is a new one, so none would ever be put aside.
        let consumer = || queue.consumer(LOCKS);
        for mut consumer in [
            consumer().on_error(ErrorMode::Requeue).dead_letters("/dead", 3),
            consumer().dead_letters("/dead", 3).on_error(ErrorMode::Requeue),
        ] {
            let refused = consumer.next().await.unwrap_err();
            let Error::Framework(refused) = refused else { panic!("{refused:?}") };
            assert_eq!((refused.kind(), refused.path()), (ErrorKind::InvalidArgument, "/dead"));
        }
    });
}

#[test]
fn a_flush_waits_for_all_puts() {
    simulated_with(async |server, zk| {
        let queue = DistributedQueue::new(&zk, QUEUE).idempotent_puts("/ids");
        for number in 0..10 {
            let queue = queue.clone();
            tokio::spawn(async move { queue.put(number.to_string()).await.unwrap() });
        }
        tokio::task::yield_now().await;
        queue.flush().await.unwrap();
        let probe = server.probe();
        assert_eq!(probe.children(QUEUE).len(), 10);
        assert!(!probe.children("/ids").iter().any(|name| name.starts_with("put-")), "{probe}");
    });
}

#[test]
fn an_unacknowledged_item_becomes_a_dead_letter() {
    simulated_with(async |server, zk| {
        let queue = DistributedPriorityQueue::new(&zk, QUEUE);
        let aside = DistributedPriorityQueue::new(&zk, "/aside");
        queue.put("bad", 3).await.unwrap();
        queue.put("good", 4).await.unwrap();
        for attempt in 1..=3 {
            // The attempt of a consumer that dies with the item counts as well.
            let other = connected(&server).await;
            let queue = DistributedPriorityQueue::new(&other, QUEUE);
            let mut consumer = queue.consumer(LOCKS).dead_letters("/aside", 3);
            let delivery = consumer.next().await.unwrap();
            assert_eq!(
                (delivery.items(), delivery.attempt()),
                (&[Bytes::from("bad")][..], attempt)
            );
            if attempt == 2 {
                drop(delivery);
            } else {
                expire(&server, &other).await;
                assert!(delivery.ack().await.is_err());
            }
            until(&server, |probe| claimed(probe).is_empty()).await;
        }
        let mut consumer = queue.consumer(LOCKS).dead_letters("/aside", 3);
        let delivery = consumer.next().await.unwrap();
        assert_eq!((delivery.items(), delivery.attempt()), (&[Bytes::from("good")][..], 1));
        delivery.ack().await.unwrap();
        assert_eq!(queue.count().await.unwrap(), 0);
        // With its priority, and its count begins again.
        let delivery = aside.consumer(LOCKS).next().await.unwrap();
        assert_eq!((delivery.items(), delivery.attempt()), (&[Bytes::from("bad")][..], 1));
        assert_eq!(delivery.path(), "/aside/queue-1000000030000000000");
    });
}

/// The claims below the lock path, without the receipts of consumers.
pub(crate) fn claimed(probe: &zk_curator_testing::Probe) -> Vec<&str> {
    probe.children(LOCKS).into_iter().filter(|name| !name.starts_with("_r_")).collect()
}
