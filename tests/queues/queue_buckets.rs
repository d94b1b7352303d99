//! Buckets of queues with a layout of our own: their size, their order, and the rest of them,
//! in spite of lost responses, producers and consumers that race, and queues of earlier versions.

use std::time::Duration;

use tokio::time::timeout;
use zk_curator::{CuratorFramework, ErrorKind};
use zk_curator_proto::OpCode;
use zk_curator_recipes::queue::jobs::{JobState, Jobs};
use zk_curator_recipes::queue::{
    DistributedIdQueue, DistributedPriorityQueue, DistributedQueue, Error, ErrorMode, FifoQueue,
    LockingConsumer, LockingQueue, PutMode, QueueSharder, SimpleDistributedQueue,
};
use zk_curator_testing::{RuleRequest, TestServer, Verdict};
use zk_curator_tests::{
    connected, items, join_all, pairs, rule_if, simulated_each, simulated_on, simulated_with, until,
};

const QUEUE: &str = "/queue";
const ITEMS: &str = "/queue/items";
const SIZE: u32 = 8;

fn queue(zk: &CuratorFramework) -> LockingQueue {
    LockingQueue::new(zk, QUEUE).bucket_size(SIZE)
}

async fn drain(consumer: &mut LockingConsumer) -> Vec<String> {
    let mut all = Vec::new();
    while let Some(item) = consumer.try_next().await.unwrap() {
        all.push(String::from_utf8(item.data().to_vec()).unwrap());
        item.ack().await.unwrap();
    }
    all
}

fn numbers(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{number:04}")).collect()
}

/// The number of children of the largest bucket.
fn largest(server: &TestServer, parent: &str) -> usize {
    let probe = server.probe();
    let of = |bucket: &&str| probe.children(&format!("{parent}/{bucket}")).len();
    probe.children(parent).iter().map(of).max().unwrap_or(0)
}

#[test]
fn no_bucket_is_larger_than_it_is_meant_to_be_and_empty_ones_go() {
    simulated_with(async |server, zk| {
        let queue = queue(&zk);
        let all = numbers(100);
        for item in &all {
            queue.put(item.clone()).await.unwrap();
        }
        queue.put_all((0..3 * SIZE).map(|_| "more")).await.unwrap();
        queue.put("last").await.unwrap();
        assert_eq!(largest(&server, ITEMS), 3 * SIZE as usize);
        assert_eq!(server.probe().children(ITEMS).len(), 100usize.div_ceil(SIZE as usize) + 2);
        assert_eq!(queue.count().await.unwrap(), 101 + 3 * SIZE as usize);
        let taken = drain(&mut queue.consumer()).await;
        assert_eq!(taken[..100], all);
        assert_eq!(taken.last().unwrap(), "last");
        assert_eq!(server.probe().children(ITEMS).len(), 1, "{}", server.probe());
        assert_eq!(queue.count().await.unwrap(), 0);
    });
}

#[test]
fn producers_that_fill_a_bucket_together_open_one() {
    simulated_on(TestServer::in_memory, async |server| {
        let mut clients = Vec::new();
        for _ in 0..10 {
            clients.push(connected(&server).await);
        }
        let put = clients.iter().enumerate().map(|(client, zk)| async move {
            let queue = queue(zk);
            for number in 0..40 {
                queue.put(format!("{client}-{number:02}")).await.unwrap();
            }
        });
        join_all(put).await;
        // Besides the ones that are under way when it is full.
        assert!(largest(&server, ITEMS) <= SIZE as usize + 10, "{}", server.probe());
        let taken = drain(&mut queue(&clients[0]).consumer()).await;
        assert_eq!(taken.len(), 400);
        for client in 0..10 {
            let own: Vec<_> =
                taken.iter().filter(|item| item.starts_with(&format!("{client}-"))).collect();
            assert!(own.len() == 40 && own.is_sorted(), "{own:?}");
        }
    });
}

/// The transaction that closes a bucket and opens the next, which writes what no other does.
fn opens(request: &RuleRequest<'_>) -> bool {
    request.is(OpCode::Multi) && request.matches(ITEMS)
}

#[test]
fn a_lost_response_to_opening_a_bucket_loses_nothing() {
    let verdicts = [Verdict::LoseReply, Verdict::LoseRequest, Verdict::Disconnect];
    simulated_each(verdicts, async |verdict, server, zk| {
        let _lost = rule_if(&server, opens, verdict).times(3);
        let queue = queue(&zk);
        for item in numbers(50) {
            queue.put(item).await.unwrap();
        }
        let probe = server.probe();
        let open = probe.children(ITEMS).into_iter();
        let open = open.filter(|name| probe.stat(&format!("{ITEMS}/{name}")).unwrap().version == 0);
        assert_eq!(open.count(), 1, "{probe}");
        assert_eq!(drain(&mut queue.consumer()).await, numbers(50));
    });
}

/// Returns `true` if a request creates a bucket.
fn creates_bucket(request: &RuleRequest<'_>) -> bool {
    request.is(OpCode::Multi) && request.is_create_under(ITEMS)
}

/// Both have seen that there is no bucket: the second one must read again.
#[test]
fn producers_that_find_no_bucket_open_one() {
    simulated_on(TestServer::in_memory, async |server| {
        let (first, second) = (connected(&server).await, connected(&server).await);
        for path in ["/queue/items", "/queue/ids"] {
            let data = if path == ITEMS { "buckets 1" } else { "" };
            first.create(path).creating_parents().data(data).await.unwrap();
        }
        let (one, two) = (queue(&first), queue(&second));
        // The transactions are on their way together: neither knows of the other.
        let held = rule_if(&server, creates_bucket, Verdict::Delay(Duration::from_millis(100)));
        let (a, b) = futures_util::future::join(one.put("a"), two.put("b")).await;
        a.unwrap();
        b.unwrap();
        drop(held);
        let probe = server.probe();
        assert_eq!(probe.children(ITEMS).len(), 1, "{probe}");
        assert_eq!(drain(&mut one.consumer()).await.len(), 2);
    });
}

/// It knows an old bucket, which other producers have filled, and consumers have emptied and
/// deleted.
#[test]
fn a_producer_with_an_old_view_puts_at_the_end() {
    let cases = pairs([false, true], [PutMode::Transaction, PutMode::TwoPhase]);
    simulated_each(cases, async |(drained, enqueue), server, zk| {
        let fifo = |zk| {
            let queue = FifoQueue::new(zk, QUEUE).put_mode(enqueue);
            queue.bucket_size(SIZE)
        };
        let (slow, other) = (fifo(&zk), connected(&server).await);
        slow.put("first").await.unwrap();
        let fast = fifo(&other);
        for item in numbers(30) {
            fast.put(item).await.unwrap();
        }
        let mut all = vec!["first".to_owned()];
        all.extend(numbers(30));
        let mut taken = Vec::new();
        let mut take = async |queue: &FifoQueue| {
            while let Some(item) = queue.poll().await.unwrap() {
                taken.push(String::from_utf8(item.to_vec()).unwrap());
            }
        };
        if drained {
            take(&fast).await;
            let probe = server.probe();
            let buckets = probe.children(ITEMS).into_iter();
            assert_eq!(buckets.filter(|name| name.starts_with("b-")).count(), 1);
        }
        slow.put("last").await.unwrap();
        all.push("last".to_owned());
        take(&fast).await;
        assert_eq!(taken, all, "{enqueue:?}, drained {drained}");
    });
}

#[test]
fn an_item_that_comes_back_to_an_old_bucket_comes_first() {
    simulated_with(async |server, zk| {
        let queue = queue(&zk);
        queue.put_all(numbers(40)).await.unwrap();
        for number in 40..60 {
            queue.put(format!("{number:04}")).await.unwrap();
        }
        let mut holder = queue.consumer();
        let first = holder.next().await.unwrap();
        let mut consumer = queue.consumer();
        for number in 1..50 {
            let item = consumer.next().await.unwrap();
            assert_eq!(item.data(), &format!("{number:04}"));
            if number == 7 {
                item.requeue().await.unwrap();
            } else {
                item.ack().await.unwrap();
            }
        }
        drop((first, consumer));
        until(&server, |probe| !probe.paths().iter().any(|path| path.ends_with("/claim"))).await;
        let mut rest = vec!["0000".to_owned()];
        rest.extend((50..60).map(|number| format!("{number:04}")));
        rest.push("0007".to_owned());
        assert_eq!(drain(&mut queue.consumer()).await, rest);
    });
}

#[test]
fn a_job_comes_back_to_its_old_place_though_its_bucket_is_gone() {
    simulated_each([false, true], async |dies, server, zk| {
        let jobs = Jobs::new(&zk, "/jobs").bucket_size(2);
        for id in ["a", "b", "c", "d", "e"] {
            jobs.submit("").id(id).await.unwrap();
        }
        let other = connected(&server).await;
        let mut victim = Jobs::new(&other, "/jobs").worker("victim");
        let (a, b) = (victim.next().await.unwrap(), victim.next().await.unwrap());
        let mut worker = jobs.worker("worker");
        let c = worker.next().await.unwrap();
        assert_eq!((a.id(), b.id(), c.id()), ("a", "b", "c"));
        until(&server, |probe| probe.children("/jobs/pending").len() == 2).await;
        if dies {
            drop((a, b, victim));
        } else {
            // In the order that shows whether the bucket is found again.
            b.fail("bad luck").await.unwrap();
            a.fail("bad luck").await.unwrap();
        }
        until(&server, |probe| items(probe, "/jobs/pending").len() == 4).await;
        assert!(!jobs.cancel("c").await.unwrap() && jobs.cancel("e").await.unwrap());
        let listed = jobs.list().all().await.unwrap();
        assert_eq!(listed.iter().filter(|job| job.state == JobState::Pending).count(), 3);
        drop(worker);
        let mut worker = jobs.worker("heir");
        for id in ["a", "b", "d"] {
            let job = timeout(Duration::from_secs(5), worker.next()).await.unwrap().unwrap();
            assert_eq!(job.id(), id, "dies {dies}");
            job.complete().await.unwrap();
        }
        c.complete().await.unwrap();
    });
}

#[test]
fn priorities_have_their_own_buckets_and_extra_ones_are_deleted() {
    simulated_with(async |server, zk| {
        let queue = queue(&zk).prioritized();
        let mut consumer = queue.consumer();
        for round in 0..2 {
            for number in 0..200 {
                queue
                    .put_with_priority(format!("{:04}", 199 - number), 100 - number)
                    .await
                    .unwrap();
            }
            assert!(server.probe().children(ITEMS).len() >= 200);
            assert_eq!(drain(&mut consumer).await, numbers(200), "{round}");
            assert!(
                server.probe().children(ITEMS).len() <= 64,
                "{}",
                server.probe().children(ITEMS).len()
            );
        }
        // A better one is noticed while there are others.
        for item in ["0002", "0003", "0004"] {
            queue.put(item).await.unwrap();
        }
        assert_eq!(consumer.next().await.unwrap().data(), "0002");
        queue.put_with_priority("0001", -1).await.unwrap();
        let mut next = async || {
            let item = consumer.next().await.unwrap();
            let data = item.data().clone();
            item.ack().await.map(|()| data).unwrap()
        };
        // It may have claimed one more before that.
        assert!([next().await, next().await].contains(&"0001".into()));
    });
}

/// Nodes next to the buckets are not items, regardless of their names and the data of their parent.
#[test]
fn nodes_beside_the_buckets_are_left_alone() {
    simulated_with(async |server, zk| {
        let foreign = format!("{ITEMS}/item-100000000|0|0|0000000000");
        zk.create(&foreign).data("foreign").creating_parents().await.unwrap();
        let queue = queue(&zk);
        assert_eq!(queue.count().await.unwrap(), 0);
        queue.put("1").await.unwrap();
        queue.put("2").await.unwrap();
        assert_eq!(queue.count().await.unwrap(), 2);
        let mut consumer = queue.consumer();
        let Err(Error::Foreign { path }) = consumer.next().await else { panic!("it is reported") };
        assert_eq!(path, foreign);
        assert_eq!(drain(&mut consumer).await, ["1", "2"]);
        assert!(server.probe().exists(&foreign));
        assert_eq!(server.probe().data(ITEMS).unwrap(), "buckets 1");
    });
}

#[test]
fn consumers_survive_buckets_deleted_by_an_operator() {
    simulated_with(async |server, zk| {
        let queue = queue(&zk);
        let mut consumer = queue.consumer();
        for what in 0..3 {
            for item in numbers(20) {
                queue.put(item).await.unwrap();
            }
            assert_eq!(consumer.next().await.unwrap().data(), "0000");
            let buckets =
                server.probe().children(ITEMS).into_iter().map(str::to_owned).collect::<Vec<_>>();
            let doomed = match what {
                0 => format!("{ITEMS}/{}", buckets[0]),
                1 => format!("{ITEMS}/{}", buckets.last().unwrap()),
                _ => ITEMS.to_owned(),
            };
            let all = items(&server.probe(), ITEMS).len();
            let gone = items(&server.probe(), &doomed).len();
            assert!(gone > 0);
            zk.delete(doomed).deleting_children().await.unwrap();
            queue.put("new").await.unwrap();
            let taken = drain(&mut consumer).await;
            assert_eq!(taken.last().unwrap(), "new", "{what}");
            assert_eq!(taken.len(), all - gone + 1, "{what}: {taken:?}");
        }
    });
}

#[test]
fn dead_letters_are_in_buckets_too() {
    simulated_with(async |server, zk| {
        let queue = queue(&zk);
        for item in numbers(30) {
            queue.put(item).await.unwrap();
        }
        let mut consumer = queue.consumer();
        for _ in 0..30 {
            consumer.next().await.unwrap().reject("no").await.unwrap();
        }
        assert_eq!(largest(&server, "/queue/dead/items"), SIZE as usize);
        assert_eq!(drain(&mut queue.dead_letters().consumer()).await, numbers(30));
    });
}

/// Consumers may be allowed to delete items and not their buckets.
#[test]
fn an_undeletable_bucket_is_reported_once_and_blocks_no_one() {
    simulated_with(async |server, zk| {
        let queue = queue(&zk);
        let _refused = server.rule(|request| {
            let is_bucket = request.is(OpCode::Delete) && request.matches("/queue/items/*");
            if is_bucket {
                Verdict::Refuse(zk_curator_proto::ErrorCode::NoAuth)
            } else {
                Verdict::Pass
            }
        });
        let mut errors = zk.background_errors();
        for item in numbers(10) {
            queue.put(item).await.unwrap();
        }
        let mut consumer = queue.consumer();
        assert_eq!(drain(&mut consumer).await, numbers(10));
        assert_eq!(errors.next().await.unwrap().kind(), ErrorKind::NoAuth);
        for item in numbers(10) {
            queue.put(item.clone()).await.unwrap();
            assert_eq!(drain(&mut consumer).await, [item]);
        }
        // The second bucket has been filled and emptied since.
        assert_eq!(errors.next().await.unwrap().kind(), ErrorKind::NoAuth);
        assert!(timeout(Duration::from_secs(60), errors.next()).await.is_err());
    });
}

/// Settings that are made without an error are refused by the first operation, before anything is
/// sent.
#[test]
fn settings_that_cannot_be_zero_are_refused_when_used() {
    simulated_with(async |server, zk| {
        let zero = |refused: Option<Error>, name: &str| {
            assert!(
                matches!(refused, Some(Error::Zero { setting, .. }) if setting == name),
                "{name}: {refused:?}"
            );
        };
        let locking = || LockingQueue::new(&zk, QUEUE).consumer();
        let jobs = || Jobs::new(&zk, QUEUE).worker("w");
        let plain = || DistributedQueue::new(&zk, QUEUE);
        let consumer = || plain().consumer("/locks");
        let priority = || DistributedPriorityQueue::new(&zk, QUEUE).min_items_before_refresh(0);

        let queue = || LockingQueue::new(&zk, QUEUE);
        zero(queue().max_deliveries(0).put("x").await.err(), "max_deliveries");
        zero(queue().max_deliveries(0).consumer().try_next().await.err(), "max_deliveries");
        zero(queue().bucket_size(0).count().await.err(), "bucket_size");
        zero(queue().bucket_size(0).consumer().next().await.err(), "bucket_size");
        let fifo = || FifoQueue::new(&zk, QUEUE).bucket_size(0);
        zero(fifo().put("x").await.err(), "bucket_size");
        zero(fifo().put_mode(PutMode::TwoPhase).put("x").await.err(), "bucket_size");
        zero(fifo().take().await.err(), "bucket_size");
        zero(fifo().poll().await.err(), "bucket_size");
        zero(plain().max_items(0).put("x").await.err(), "max_items");
        zero(plain().max_items(0).try_put("x").await.err(), "max_items");
        zero(plain().max_items(0).consumer("/locks").next().await.err(), "max_items");
        zero(consumer().dead_letters("/dead", 0).next().await.err(), "dead_letters");
        let limited = || Jobs::new(&zk, QUEUE).max_attempts(0);
        zero(limited().submit("x").await.err(), "max_attempts");
        zero(limited().worker("w").next().await.err(), "max_attempts");
        zero(limited().clean().await.err(), "max_attempts");
        zero(limited().list().all().await.err(), "max_attempts");
        zero(Jobs::new(&zk, QUEUE).bucket_size(0).result("x").await.err(), "bucket_size");
        let refused = queue().max_deliveries(0).flush().await.unwrap_err();
        assert_eq!(refused.to_string(), "/queue/items: max_deliveries cannot be 0");

        zero(locking().prefetch(0).next().await.err(), "prefetch");
        zero(locking().prefetch(0).try_next().await.err(), "prefetch");
        zero(jobs().prefetch(0).next().await.err(), "prefetch");
        zero(jobs().prefetch(0).try_next().await.err(), "prefetch");
        zero(consumer().prefetch(0).next().await.err(), "prefetch");
        zero(plain().auto_ack_consumer().prefetch(0).next().await.err(), "prefetch");
        zero(
            plain().auto_ack_consumer().prefetch(0).ack_batch(2).try_next().await.err(),
            "prefetch",
        );
        zero(plain().auto_ack_consumer().ack_batch(0).next().await.err(), "ack_batch");
        zero(priority().auto_ack_consumer().next().await.err(), "min_items_before_refresh");
        zero(priority().consumer("/locks").next().await.err(), "min_items_before_refresh");

        let fails = async |_: bytes::Bytes| Err::<(), _>("no");
        zero(locking().run(0, async |_| Err::<(), _>("no")).await.err(), "limit");
        zero(locking().prefetch(0).run(1, async |_| Err::<(), _>("no")).await.err(), "prefetch");
        zero(jobs().run(0, async |_| Err::<Option<bytes::Bytes>, _>("no")).await.err(), "limit");
        zero(consumer().on_error(ErrorMode::Requeue).run(0, fails).await.err(), "limit");
        zero(plain().auto_ack_consumer().run(0, fails).await.err(), "limit");

        let allocate = |zk: &_, path: &str| DistributedQueue::new(zk, path);
        let sharder = || QueueSharder::builder(&zk, "/queues", "/leader", allocate);
        zero(sharder().new_queue_threshold(0).open().await.err(), "new_queue_threshold");
        zero(sharder().max_queues(0).open().await.err(), "max_queues");
        zero(sharder().check_every(Duration::ZERO).open().await.err(), "check_every");
        // The only transaction is the creation of the session.
        assert_eq!(server.probe().zxid(), 1, "{}", server.probe());
    });
}

/// Asserts that an operation was refused for this reason, which concerns this path.
fn assert_refused(refused: Option<Error>, kind: ErrorKind, path: &str) {
    match refused {
        Some(Error::Framework(error)) => assert_eq!((error.kind(), error.path()), (kind, path)),
        other => panic!("{path}: {other:?}"),
    }
}

fn invalid(refused: Option<Error>, path: &str) {
    assert_refused(refused, ErrorKind::InvalidPath, path);
}

/// Constructors do not fail: the first operation does, before anything is sent.
#[test]
fn invalid_paths_are_refused_by_the_first_operation() {
    simulated_with(async |server, zk| {
        let bad = "/a//b";
        let requests = server.probe().total_requests();
        let plain = DistributedQueue::new(&zk, bad);
        assert_eq!(plain.path(), bad);
        invalid(plain.put("x").await.err(), bad);
        invalid(plain.try_put("x").await.err(), bad);
        invalid(plain.count().await.err(), bad);
        invalid(plain.flush().await.err(), bad);
        invalid(plain.auto_ack_consumer().next().await.err(), bad);
        invalid(plain.consumer("/locks").next().await.err(), bad);
        invalid(plain.idempotent_puts("bad").put("x").await.err(), bad);
        let good = || DistributedQueue::new(&zk, QUEUE);
        invalid(good().idempotent_puts("ids").put("x").await.err(), "ids");
        invalid(good().fair_waiting("line").auto_ack_consumer().next().await.err(), "line");
        invalid(good().consumer("locks").next().await.err(), "locks");
        invalid(good().consumer("/locks").dead_letters("dead", 1).next().await.err(), "dead");
        assert_eq!(server.probe().total_requests(), requests);
        // The setting of another handle does not affect this one.
        let shared = good();
        invalid(shared.clone().idempotent_puts("ids").put("x").await.err(), "ids");
        assert_eq!(shared.count().await.unwrap(), 0);
        assert_eq!(server.probe().total_requests(), requests + 1);
    });
}

/// Nodes of the queue itself would be taken for items.
#[test]
fn paths_within_the_queue_are_refused() {
    simulated_with(async |server, zk| {
        let requests = server.probe().total_requests();
        let good = || DistributedQueue::new(&zk, QUEUE);
        for within in [QUEUE.to_owned(), format!("{QUEUE}/locks")] {
            let refused = |error| assert_refused(error, ErrorKind::InvalidArgument, &within);
            let within = || within.clone();
            refused(good().consumer(within()).next().await.err());
            refused(good().consumer("/locks").dead_letters(within(), 1).next().await.err());
            refused(good().idempotent_puts(within()).put("x").await.err());
            refused(good().fair_waiting(within()).auto_ack_consumer().next().await.err());
            let simple = SimpleDistributedQueue::new(&zk, QUEUE);
            refused(simple.idempotent_puts(within()).offer("x").await.err());
        }
        assert_eq!(server.probe().total_requests(), requests);
    });
}

#[test]
fn every_kind_of_queue_refuses_invalid_paths() {
    simulated_with(async |server, zk| {
        let bad = "/a//b";
        let requests = server.probe().total_requests();
        invalid(DistributedPriorityQueue::new(&zk, bad).put("x", 1).await.err(), bad);
        invalid(DistributedIdQueue::new(&zk, bad).remove("x").await.err(), bad);
        let simple = SimpleDistributedQueue::new(&zk, bad);
        invalid(simple.offer("x").await.err(), bad);
        invalid(simple.peek().await.err(), bad);
        invalid(simple.poll().await.err(), bad);
        for mode in [PutMode::Transaction, PutMode::TwoPhase] {
            invalid(FifoQueue::new(&zk, bad).put_mode(mode).put("x").await.err(), bad);
        }
        invalid(FifoQueue::new(&zk, bad).take().await.err(), bad);
        let locking = LockingQueue::new(&zk, bad);
        invalid(locking.put("x").await.err(), bad);
        invalid(locking.count().await.err(), bad);
        invalid(locking.consumer().try_next().await.err(), bad);
        let jobs = Jobs::new(&zk, bad);
        invalid(jobs.submit("x").await.err(), bad);
        invalid(jobs.list().all().await.err(), bad);
        invalid(jobs.result("x").await.err(), bad);
        invalid(jobs.clean().await.err(), bad);
        invalid(jobs.worker("w").next().await.err(), bad);
        assert_eq!(server.probe().total_requests(), requests);
    });
}
