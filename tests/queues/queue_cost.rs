//! The number of requests and round trips per item. A new item does not wake all consumers.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::task::JoinSet;
use tokio::time::Instant;
use zk_curator::CuratorFramework;
use zk_curator_proto::OpCode;
use zk_curator_recipes::queue::jobs::Jobs;
use zk_curator_recipes::queue::{
    DistributedPriorityQueue, DistributedQueue, FifoQueue, LockingQueue, PutMode,
    SimpleDistributedQueue,
};
use zk_curator_testing::TestServer;
use zk_curator_testing::wait::{idle, past};
use zk_curator_tests::{
    builder, connected, simulated_each_on, simulated_with, size, start, try_join_all, until,
};

pub(crate) const QUEUE: &str = "/queue";
pub(crate) const LOCKS: &str = "/queue-locks";
const ITEMS: usize = 100;
const ONE_WAY: Duration = Duration::from_millis(1);
pub(crate) const KINDS: [OpCode; 8] = [
    OpCode::GetChildren2,
    OpCode::GetData,
    OpCode::Exists,
    OpCode::Create2,
    OpCode::CreateContainer,
    OpCode::Delete,
    OpCode::Multi,
    OpCode::MultiRead,
];

/// Measures the requests and the time from a moment on.
pub(crate) struct Cost<'a> {
    server: &'a TestServer,
    before: [u64; KINDS.len()],
    began: Instant,
}

impl<'a> Cost<'a> {
    pub(crate) fn since_now(server: &'a TestServer) -> Self {
        Self { server, before: count(server), began: Instant::now() }
    }

    pub(crate) fn of(&self, kind: OpCode) -> u64 {
        let at = KINDS.iter().position(|other| *other == kind).unwrap();
        count(self.server)[at] - self.before[at]
    }

    pub(crate) fn requests(&self) -> u64 {
        count(self.server).iter().sum::<u64>() - self.before.iter().sum::<u64>()
    }

    pub(crate) fn round_trips(&self) -> u128 {
        self.began.elapsed().as_micros() / (2 * ONE_WAY).as_micros()
    }
}

fn count(server: &TestServer) -> [u64; KINDS.len()] {
    let probe = server.probe();
    KINDS.map(|kind| probe.requests(kind))
}

/// A framework that is 1 ms away.
pub(crate) async fn distant(server: &TestServer) -> CuratorFramework {
    let connector = server.connector();
    connector.set_latency(0, ONE_WAY..=ONE_WAY, 0);
    start(builder(server).connector(Arc::new(connector))).await
}

/// Creates items as another client would, without waiting for each.
pub(crate) async fn fill(zk: &CuratorFramework, items: usize) {
    let queue = DistributedQueue::new(zk, QUEUE);
    for first in (0..items).step_by(1000) {
        let batch = (first..items.min(first + 1000)).map(|number| Bytes::from(number.to_string()));
        queue.put_all(batch).await.unwrap();
    }
}

/// Curator: two round trips and a listing of the whole queue for every item.
#[test]
fn a_taken_item_costs_two_requests_and_one_flight() {
    simulated_with(async |server, near| {
        let zk = distant(&server).await;
        fill(&near, ITEMS).await;
        let cost = Cost::since_now(&server);
        let mut auto_ack = DistributedQueue::new(&zk, QUEUE).auto_ack_consumer();
        for number in 0..ITEMS {
            assert_eq!(auto_ack.next().await.unwrap().items, [number.to_string()]);
        }
        assert_eq!((cost.of(OpCode::GetData), cost.of(OpCode::Delete)), (100, 100));
        assert_eq!((cost.of(OpCode::GetChildren2), cost.requests()), (1, 201));
        // The list, the first read, and a delete each.
        assert_eq!(cost.round_trips(), 102);
    });
}

#[test]
fn a_window_of_deletes_makes_many_items_one_flight() {
    simulated_with(async |server, near| {
        let zk = distant(&server).await;
        fill(&near, ITEMS).await;
        let cost = Cost::since_now(&server);
        let mut auto_ack = DistributedQueue::new(&zk, QUEUE).auto_ack_consumer().ack_batch(20);
        for number in 0..ITEMS {
            assert_eq!(auto_ack.next().await.unwrap().items, [number.to_string()]);
        }
        // Deletes in transactions of ten.
        assert_eq!((cost.of(OpCode::GetData), cost.of(OpCode::Multi)), (100, 10));
        assert_eq!(cost.requests(), 111);
        // The list, the first reads, and deletes twenty at a time.
        assert!(cost.round_trips() <= 7, "{} round_trips", cost.round_trips());
    });
}

/// Curator: four round trips with a lock path.
#[test]
fn a_claimed_item_costs_three_requests_and_two_flights() {
    simulated_with(async |server, near| {
        let zk = distant(&server).await;
        fill(&near, ITEMS).await;
        let mut consumer = DistributedQueue::new(&zk, QUEUE).consumer(LOCKS);
        consumer.next().await.unwrap().ack().await.unwrap();
        let cost = Cost::since_now(&server);
        for _ in 1..ITEMS {
            consumer.next().await.unwrap().ack().await.unwrap();
        }
        assert_eq!(
            (cost.of(OpCode::Create2), cost.of(OpCode::GetData), cost.of(OpCode::Multi)),
            (99, 99, 99)
        );
        assert_eq!((cost.requests(), cost.round_trips()), (3 * 99, 2 * 99));
    });
}

#[test]
fn a_locking_item_costs_three_requests_and_two_round_trips() {
    simulated_with(async |server, near| {
        let zk = distant(&server).await;
        let puts = LockingQueue::new(&near, QUEUE);
        puts.put_all((0..ITEMS).map(|number| Bytes::from(number.to_string()))).await.unwrap();
        let mut consumer = LockingQueue::new(&zk, QUEUE).consumer();
        consumer.next().await.unwrap().ack().await.unwrap();
        let cost = Cost::since_now(&server);
        for number in 1..ITEMS {
            let item = consumer.next().await.unwrap();
            assert_eq!((item.data(), item.attempt()), (&number.to_string().into(), 1));
            item.ack().await.unwrap();
        }
        let kinds = [OpCode::Create2, OpCode::GetData, OpCode::Multi].map(|kind| cost.of(kind));
        assert_eq!((kinds, cost.requests(), cost.round_trips()), ([99; 3], 3 * 99, 2 * 99));
        // Puts cost as much as those of a FifoQueue.
        let queue = LockingQueue::new(&zk, QUEUE);
        queue.put("first").await.unwrap();
        let cost = Cost::since_now(&server);
        let all = (0..ITEMS).map(|number| queue.put(number.to_string()));
        try_join_all(all).await.unwrap();
        assert_eq!(cost.round_trips(), 1);
    });
}

#[test]
fn a_job_costs_four_requests_and_two_flights() {
    simulated_with(async |server, near| {
        let zk = distant(&server).await;
        let submits = Jobs::new(&near, QUEUE);
        for _ in 0..ITEMS {
            submits.submit("").await.unwrap();
        }
        submits.flush().await.unwrap();
        // The checks of the cleaner, at most one per 100 ms, are not counted: another, distant
        // process is elected.
        let jobs = Jobs::new(&zk, QUEUE);
        let mut other = jobs.worker("other");
        other.next().await.unwrap().complete().await.unwrap();
        let mut worker = jobs.worker("worker");
        worker.next().await.unwrap().complete().await.unwrap();
        past(Duration::from_secs(1)).await;
        let cost = Cost::since_now(&server);
        for _ in 0..20 {
            worker.next().await.unwrap().complete().await.unwrap();
        }
        // One of the multis claims, the other one completes.
        let (creates, multis) = (cost.of(OpCode::Create2), cost.of(OpCode::Multi));
        let reads = cost.of(OpCode::GetData);
        assert_eq!((creates, reads, multis, cost.round_trips()), (20, 20, 40, 40));
        // The cleaner has looked once.
        assert!(cost.of(OpCode::GetChildren2) <= 4, "{}", cost.of(OpCode::GetChildren2));
    });
}

#[test]
fn a_priority_costs_one_more_request_and_no_flight() {
    simulated_with(async |server, near| {
        let zk = distant(&server).await;
        let queue = DistributedPriorityQueue::new(&near, QUEUE);
        for priority in 0..100 {
            queue.put("x", priority).await.unwrap();
        }
        let far = DistributedPriorityQueue::new(&zk, QUEUE);
        let cost = Cost::since_now(&server);
        let mut auto_ack = far.auto_ack_consumer();
        for _ in 0..ITEMS / 2 {
            auto_ack.next().await.unwrap();
        }
        assert_eq!(
            (cost.of(OpCode::GetChildren2), cost.of(OpCode::Exists), cost.round_trips()),
            (1, 50, 52)
        );
        let mut consumer = far.consumer(LOCKS);
        consumer.next().await.unwrap().ack().await.unwrap();
        let cost = Cost::since_now(&server);
        for _ in 0..ITEMS / 2 - 1 {
            consumer.next().await.unwrap().ack().await.unwrap();
        }
        assert_eq!(
            (cost.of(OpCode::GetChildren2), cost.of(OpCode::Exists), cost.round_trips()),
            (0, 49, 2 * 49)
        );
    });
}

#[test]
fn an_item_that_is_claimed_is_given_back_for_a_better_one_only() {
    simulated_with(async |server, near| {
        let queue = DistributedPriorityQueue::new(&near, QUEUE);
        for item in ["first", "second", "third"] {
            queue.put(item, 5).await.unwrap();
        }
        let zk = distant(&server).await;
        let mut consumer = DistributedPriorityQueue::new(&zk, QUEUE).consumer(LOCKS);
        consumer.next().await.unwrap().ack().await.unwrap();
        for (priority, handed_out, listings, round_trips) in
            [(9, "second", 1, 2), (5, "third", 1, 2), (1, "new 1", 1, 3)]
        {
            queue.put(format!("new {priority}"), priority).await.unwrap();
            let cost = Cost::since_now(&server);
            let delivery = consumer.next().await.unwrap();
            assert_eq!(delivery.items(), [handed_out]);
            assert_eq!(
                (cost.of(OpCode::GetChildren2), cost.round_trips()),
                (listings, round_trips),
                "{priority}"
            );
            delivery.ack().await.unwrap();
        }
        for left in ["new 5", "new 9"] {
            assert_eq!(consumer.next().await.unwrap().items(), [left]);
        }
    });
}

/// A consumer works through its list.
#[test]
fn many_items_are_taken_without_a_full_listing() {
    simulated_with(async |server, zk| {
        let items = size(35_000, 100_000);
        fill(&zk, items).await;
        let cost = Cost::since_now(&server);
        let queue = DistributedQueue::new(&zk, QUEUE);
        let mut auto_ack = queue.auto_ack_consumer().ack_batch(64);
        let taken = 20_000;
        for number in 0..taken {
            assert_eq!(auto_ack.next().await.unwrap().items, [number.to_string()]);
        }
        // 10,000 names are kept at a time, and 64 items are read and removed ahead.
        assert_eq!(cost.of(OpCode::GetChildren2), 2);
        assert!(cost.requests() <= (taken + 64) + taken / 32 + 3, "{}", cost.requests());
        drop(auto_ack);
        // Those under claims too.
        let taken = 11_000;
        let cost = Cost::since_now(&server);
        let mut consumer = queue.consumer(LOCKS);
        let mut last = None;
        for _ in 0..taken {
            let delivery = consumer.next().await.unwrap();
            let number: u64 = std::str::from_utf8(&delivery.items()[0]).unwrap().parse().unwrap();
            assert!(last.replace(number).is_none_or(|last| last < number));
            delivery.ack().await.unwrap();
        }
        // Next to the three for each, the first claim creates its directory.
        assert_eq!(cost.of(OpCode::GetChildren2), 2);
        assert!(cost.requests() <= 3 * taken + 10, "{}", cost.requests());
    });
}

#[test]
fn many_items_with_priorities_are_taken_without_a_full_listing() {
    simulated_with(async |server, zk| {
        let queue = DistributedPriorityQueue::new(&zk, QUEUE);
        let (items, taken) = (20_000, 2000);
        for first in (0..items).step_by(100) {
            try_join_all((first..first + 100).map(|number| queue.put("x", number % 100)))
                .await
                .unwrap();
        }
        let cost = Cost::since_now(&server);
        let mut auto_ack = queue.auto_ack_consumer();
        for _ in 0..taken {
            auto_ack.next().await.unwrap();
        }
        // A look whether there are better ones is one request next to the two for the item; 16 more
        // are read ahead.
        assert_eq!((cost.of(OpCode::GetChildren2), cost.requests()), (1, 3 * taken + 1 + 16));
        let mut consumer = queue.consumer(LOCKS);
        let cost = Cost::since_now(&server);
        for _ in 0..taken {
            consumer.next().await.unwrap().ack().await.unwrap();
        }
        assert_eq!(cost.of(OpCode::GetChildren2), 1);
        assert!(cost.requests() <= 4 * taken + 10, "{}", cost.requests());
    });
}

#[test]
fn consumers_share_a_queue_without_a_listing_per_item() {
    simulated_with(async |server, zk| {
        fill(&zk, 1000).await;
        let cost = Cost::since_now(&server);
        let mut takers = JoinSet::new();
        for _ in 0..4 {
            let zk = distant(&server).await;
            takers.spawn(async move {
                let mut auto_ack = DistributedQueue::new(&zk, QUEUE).auto_ack_consumer();
                let mut taken = Vec::new();
                while let Some(item) = auto_ack.try_next().await.unwrap() {
                    taken.push(item.path);
                }
                taken
            });
        }
        let mut taken: Vec<_> = takers.join_all().await.concat();
        assert_eq!(taken.len(), 1000);
        taken.sort();
        taken.dedup();
        assert_eq!(taken.len(), 1000);
        let (listings, requests) = (cost.of(OpCode::GetChildren2), cost.requests());
        assert!(listings <= 400 && requests <= 10_000, "{listings} listings, {requests} requests");
    });
}

#[test]
fn puts_that_are_made_together_are_one_flight() {
    simulated_with(async |server, near| {
        fill(&near, 1).await;
        let zk = distant(&server).await;
        for ids in [false, true] {
            let mut queue = DistributedQueue::new(&zk, QUEUE);
            if ids {
                queue = queue.idempotent_puts("/ids");
                queue.put("first").await.unwrap();
            }
            let cost = Cost::since_now(&server);
            let puts = (0..ITEMS).map(|number| queue.put(number.to_string()));
            try_join_all(puts).await.unwrap();
            assert_eq!(cost.round_trips(), 1, "with ids: {ids}");
        }
    });
}

/// One flight and two requests (one of them later, with the next put), against two of each in two
/// phases.
#[test]
fn what_exactly_once_costs() {
    let cases = [(PutMode::Transaction, 199, 100), (PutMode::TwoPhase, 200, 200)];
    simulated_each_on(cases, TestServer::in_memory, async |case, server| {
        let (enqueue, requests, round_trips) = case;
        let zk = distant(&server).await;
        let queue = FifoQueue::new(&zk, QUEUE).put_mode(enqueue);
        queue.put("first").await.unwrap();
        queue.flush().await.unwrap();
        let cost = Cost::since_now(&server);
        for number in 0..ITEMS {
            queue.put(number.to_string()).await.unwrap();
        }
        assert_eq!((cost.requests(), cost.round_trips()), (requests, round_trips), "{enqueue:?}");
        assert_eq!(queue.take().await.unwrap(), "first");
        let cost = Cost::since_now(&server);
        for number in 0..ITEMS {
            assert_eq!(queue.take().await.unwrap(), number.to_string());
        }
        let kinds = [OpCode::GetData, OpCode::Multi].map(|kind| cost.of(kind));
        assert_eq!(
            (kinds, cost.requests(), cost.round_trips()),
            ([99, 100], 199, 100),
            "{enqueue:?}"
        );
    });
}

/// Curator: a listing of the whole queue for every item.
#[test]
fn a_simple_queue_costs_one_request_to_offer_and_two_to_take() {
    simulated_with(async |server, _near| {
        let zk = distant(&server).await;
        let queue = SimpleDistributedQueue::new(&zk, QUEUE);
        queue.offer("first").await.unwrap();
        let cost = Cost::since_now(&server);
        for number in 0..ITEMS {
            queue.offer(number.to_string()).await.unwrap();
        }
        assert_eq!(
            (cost.of(OpCode::Create2), cost.requests(), cost.round_trips()),
            (100, 100, 100)
        );
        assert_eq!(queue.take().await.unwrap(), "first");
        let cost = Cost::since_now(&server);
        for number in 0..ITEMS {
            assert_eq!(queue.take().await.unwrap(), number.to_string());
        }
        let kinds = [OpCode::GetData, OpCode::Multi].map(|kind| cost.of(kind));
        assert_eq!((kinds, cost.requests(), cost.round_trips()), ([99, 100], 199, 100));
    });
}

/// Of many that wait for an item, the first in line is woken, and then the next.
#[test]
fn a_new_item_wakes_one_that_waits_and_not_the_herd() {
    simulated_with(async |server, producer| {
        let waiting = 20;
        let mut takers = JoinSet::new();
        for number in 0..waiting {
            let zk = connected(&server).await;
            let queue = FifoQueue::new(&zk, QUEUE);
            takers.spawn(async move { (number, queue.take().await.unwrap(), zk).1 });
            until(&server, |probe| probe.children("/queue/line").len() == number + 1).await;
        }
        past(Duration::from_secs(1)).await;
        let queue = FifoQueue::new(&producer, QUEUE);
        for number in 0..waiting {
            let cost = Cost::since_now(&server);
            queue.put(number.to_string()).await.unwrap();
            // First come, first served, too.
            assert_eq!(takers.join_next().await.unwrap().unwrap(), number.to_string());
            idle(Duration::from_secs(1)).await;
            // The cost of the twentieth equals that of the first, apart from the nodes that each
            // creates once.
            let limit = if number == 0 { 22 } else { 15 };
            assert!(cost.requests() <= limit, "{} requests for item {number}", cost.requests());
        }
    });
}

/// A new or returned item wakes the first waiter in line, which wakes the next one.
#[test]
fn a_returned_item_wakes_one_waiter_and_not_the_herd() {
    simulated_with(async |server, zk| {
        let queue = LockingQueue::new(&zk, QUEUE);
        let held = 5;
        let mut holder = queue.consumer();
        let mut items = Vec::new();
        for number in 0..held {
            queue.put(number.to_string()).await.unwrap();
            items.push(holder.next().await.unwrap());
        }
        queue.flush().await.unwrap();
        let (waiting, mut takers) = (20, JoinSet::new());
        for number in 0..waiting {
            let zk = connected(&server).await;
            let mut consumer = LockingQueue::new(&zk, QUEUE).consumer();
            takers.spawn(async move { (consumer.next().await.unwrap(), zk) });
            until(&server, |probe| probe.children("/queue/line").len() == number + 1).await;
        }
        past(Duration::from_secs(1)).await;
        // Only the first watches the items and the claims of other consumers. All hear of new
        // buckets.
        let holder = zk_curator_tests::session_id(&zk).get();
        let watched = |probe: &zk_curator_testing::Probe| {
            let of_others = probe.watches().iter().filter(|watch| watch.session != holder);
            of_others.filter(|watch| watch.path.starts_with("/queue/items/")).count()
        };
        assert_eq!(watched(&server.probe()), 1 + held);
        let mut taken = Vec::new();
        for item in items {
            let (cost, id) = (Cost::since_now(&server), item.id().to_owned());
            drop(item);
            let next = takers.join_next().await.unwrap().unwrap();
            assert_eq!((next.0.id(), next.0.attempt()), (&id[..], 2));
            taken.push(next);
            idle(Duration::from_secs(1)).await;
            // It claims the item, and the next in line reads the five: with twenty waiting
            // consumers as with two.
            assert!(cost.requests() <= 32, "{} requests for an item", cost.requests());
            assert_eq!(watched(&server.probe()), 1 + held);
        }
        let cost = Cost::since_now(&server);
        queue.put("new").await.unwrap();
        let next = takers.join_next().await.unwrap().unwrap();
        assert_eq!(next.0.data(), "new");
        idle(Duration::from_secs(1)).await;
        assert!(cost.requests() <= 38, "{} requests for an item", cost.requests());
    });
}

#[test]
fn waiters_in_a_process_share_one_watch() {
    simulated_with(async |server, zk| {
        let queue = SimpleDistributedQueue::new(&zk, QUEUE);
        queue.offer("first").await.unwrap();
        queue.take().await.unwrap();
        let mut takers = JoinSet::new();
        for _ in 0..20 {
            let queue = queue.clone();
            takers.spawn(async move { queue.take().await.unwrap() });
        }
        until(&server, |probe| !probe.watches().is_empty()).await;
        for number in 0..20 {
            let cost = Cost::since_now(&server);
            queue.offer(number.to_string()).await.unwrap();
            assert_eq!(takers.join_next().await.unwrap().unwrap(), number.to_string());
            idle(Duration::from_secs(1)).await;
            assert!(cost.requests() <= 6, "{} requests for an item", cost.requests());
        }
    });
}
