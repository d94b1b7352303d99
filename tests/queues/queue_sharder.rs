//! [`QueueSharder`]: which queues there are, where puts go, and who adds queues, in spite of
//! faults.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::timeout;
use zk_curator::CuratorFramework;
use zk_curator_proto::{ErrorCode, OpCode};
use zk_curator_recipes::health::Health;
use zk_curator_recipes::leader::LeaderLatch;
use zk_curator_recipes::queue::{DistributedQueue, Error, QueueSharder, QueueSharderBuilder};
use zk_curator_testing::wait::{self, idle, past, spend};
use zk_curator_testing::{TestServer, Verdict};

use zk_curator_tests::{
    closes_clean, connected, expire, once, pairs, poll_then_drop, rule_if, simulated_each,
    simulated_steps, simulated_with, until,
};

const SHARDS: &str = "/shards";
const LEADER: &str = "/shards-leader";
const INTERVAL: Duration = Duration::from_secs(1);

/// With queues that are full with four items.
fn builder(zk: &CuratorFramework) -> QueueSharderBuilder<DistributedQueue> {
    let allocate = |zk: &CuratorFramework, path: &str| DistributedQueue::new(zk, path);
    QueueSharder::builder(zk, SHARDS, LEADER, allocate)
        .new_queue_threshold(4)
        .check_every(INTERVAL)
        .max_queues(3)
}

async fn sharder(zk: &CuratorFramework) -> QueueSharder<DistributedQueue> {
    builder(zk).open().await.unwrap()
}

async fn put(sharder: &QueueSharder<DistributedQueue>, count: usize) {
    for number in 0..count {
        sharder.queue().put(number.to_string()).await.unwrap();
    }
}

/// The number of items of each queue, fewest first.
fn sizes(server: &TestServer) -> Vec<usize> {
    let probe = server.probe();
    let names = probe.children(SHARDS);
    let mut sizes: Vec<usize> =
        names.iter().map(|name| probe.children(&format!("{SHARDS}/{name}")).len()).collect();
    sizes.sort_unstable();
    sizes
}

async fn until_known(sharder: &QueueSharder<DistributedQueue>, count: usize) {
    wait::until(async || sharder.queues().len() == count).await;
}

#[test]
fn a_queue_is_added_when_all_are_full() {
    simulated_with(async |server, zk| {
        let sharder = sharder(&zk).await;
        assert_eq!(sizes(&server), [0]);
        let name = sharder.queues().into_keys().next().unwrap();
        assert!(name.strip_prefix("queue-").is_some_and(|uuid| uuid.len() == 36), "{name}");
        put(&sharder, 3).await;
        idle(INTERVAL * 5).await;
        assert_eq!(sizes(&server), [3]);
        put(&sharder, 1).await;
        until_known(&sharder, 2).await;
        // The full one gets no more.
        put(&sharder, 4).await;
        assert_eq!(sizes(&server), [4, 4]);
        until_known(&sharder, 3).await;
        // The number of queues is at its maximum; then all of them are equally good.
        put(&sharder, 4).await;
        idle(INTERVAL * 5).await;
        put(&sharder, 30).await;
        idle(INTERVAL * 5).await;
        assert_eq!(sizes(&server).len(), 3);
        assert!(sizes(&server).iter().all(|size| *size > 4), "{:?}", sizes(&server));
        sharder.close().await.unwrap();
        assert!(server.probe().children(LEADER).is_empty());
    });
}

#[test]
fn a_queue_takes_items_again_when_half_of_them_are_gone() {
    simulated_with(async |server, zk| {
        let sharder = sharder(&zk).await;
        put(&sharder, 4).await;
        until_known(&sharder, 2).await;
        let full = sharder
            .queues()
            .into_values()
            .find(|queue| server.probe().children(queue.path()).len() == 4);
        let mut auto_ack = full.unwrap().auto_ack_consumer();
        auto_ack.next().await.unwrap();
        past(INTERVAL * 2).await;
        put(&sharder, 1).await;
        assert_eq!(sizes(&server), [1, 3]);
        auto_ack.next().await.unwrap();
        past(INTERVAL * 2).await;
        // Both are free.
        put(&sharder, 40).await;
        assert!(sizes(&server).iter().all(|size| *size > 5), "{:?}", sizes(&server));
    });
}

#[test]
fn all_queues_are_consumed_those_added_later_included() {
    simulated_with(async |server, zk| {
        let (sharder, consumer) = (sharder(&zk).await, connected(&server).await);
        let consumed = self::sharder(&consumer).await;
        let items = RefCell::new(Vec::new());
        let consume = consumed.run(|queue: DistributedQueue| {
            let items = &items;
            async move {
                let mut auto_ack = queue.auto_ack_consumer();
                loop {
                    let taken = auto_ack.next().await?;
                    items.borrow_mut().push(taken.items[0].clone());
                    if items.borrow().len() == 12 {
                        return Err(Error::Empty { path: queue.path().to_owned() });
                    }
                }
            }
        });
        let produce = async {
            for round in 1..=3 {
                put(&sharder, 4).await;
                spend(INTERVAL * round).await;
            }
            // By another process, as Java does.
            zk.create(format!("{SHARDS}/queue-of-others")).await.unwrap();
            std::future::pending::<()>().await;
        };
        tokio::select! {
            ended = consume => assert!(matches!(ended, Err::<(), Error>(Error::Empty { .. }))),
            () = produce => {}
        }
        let mut items: Vec<Bytes> = items.into_inner();
        items.sort();
        let expected: Vec<Bytes> =
            ["0", "1", "2", "3"].into_iter().flat_map(|item| [item; 3]).map(Bytes::from).collect();
        assert_eq!(items, expected);
    });
}

#[test]
fn one_of_many_sharders_adds_a_queue() {
    simulated_with(async |server, zk| {
        let first = sharder(&zk).await;
        let mut others = Vec::new();
        for _ in 0..5 {
            let zk = connected(&server).await;
            others.push((sharder(&zk).await, zk));
        }
        put(&first, 4).await;
        for (sharder, _) in &others {
            until_known(sharder, 2).await;
        }
        idle(INTERVAL * 10).await;
        assert_eq!(sizes(&server), [0, 4]);
        // The next leader adds the next.
        first.close().await.unwrap();
        put(&others[0].0, 4).await;
        until_known(&others[4].0, 3).await;
        assert_eq!(sizes(&server), [0, 4, 4]);
    });
}

#[test]
fn whatever_is_lost_one_queue_is_added() {
    let verdicts = [
        Verdict::LoseReply,
        Verdict::LoseRequest,
        Verdict::Disconnect,
        Verdict::Refuse(ErrorCode::NoAuth),
    ];
    let opcodes = [OpCode::Multi, OpCode::GetChildren2, OpCode::Exists];
    simulated_each(pairs(verdicts, opcodes), async |(verdict, opcode), server, zk| {
        let sharder = sharder(&zk).await;
        put(&sharder, 4).await;
        let lost = once(&server, opcode, verdict);
        until_known(&sharder, 2).await;
        idle(INTERVAL * 10).await;
        assert_eq!((sizes(&server), lost.hits()), (vec![0, 4], 1), "{opcode:?} {verdict:?}");
    });
}

#[test]
fn a_sharder_goes_on_in_the_next_session() {
    simulated_with(async |server, zk| {
        let sharder = sharder(&zk).await;
        put(&sharder, 3).await;
        expire(&server, &zk).await;
        put(&sharder, 1).await;
        until_known(&sharder, 2).await;
        sharder.close().await.unwrap();
        zk.delete(SHARDS).deleting_children().await.unwrap();
        closes_clean(&server, &zk).await;
    });
}

#[test]
fn checks_that_are_refused_are_reported_once_and_go_on() {
    simulated_with(async |server, zk| {
        let sharder = sharder(&zk).await;
        let (mut errors, mut health) = (zk.background_errors(), sharder.health());
        while !matches!(health.next().await, Some(Health::Working)) {}
        let refused = rule_if(
            &server,
            |request| {
                request.is(OpCode::GetChildren2) && request.paths().any(|path| path == SHARDS)
            },
            Verdict::Refuse(ErrorCode::NoAuth),
        );
        put(&sharder, 4).await;
        assert_eq!(
            timeout(INTERVAL * 3, errors.next()).await.unwrap().unwrap().code(),
            Some(ErrorCode::NoAuth)
        );
        assert!(timeout(INTERVAL * 20, errors.next()).await.is_err());
        let Some(Health::Failed(error)) = health.next().await else { panic!("not reported") };
        assert_eq!(error.code(), Some(ErrorCode::NoAuth));
        drop(refused);
        until_known(&sharder, 2).await;
        assert!(matches!(health.next().await, Some(Health::Working)));
        sharder.close().await.unwrap();
        assert!(health.next().await.is_none());
    });
}

/// A check every second would be refused 3,600 times.
#[test]
fn refused_checks_are_repeated_ever_more_slowly() {
    simulated_with(async |server, zk| {
        let sharder = sharder(&zk).await;
        let mut health = sharder.health();
        while !matches!(health.next().await, Some(Health::Working)) {}
        let refused = rule_if(
            &server,
            |request| request.is(OpCode::GetChildren2) && request.is_about(SHARDS),
            Verdict::Refuse(ErrorCode::NoAuth),
        );
        idle(Duration::from_secs(3600)).await;
        assert!((120..400).contains(&refused.hits()), "{}", refused.hits());
        drop(refused);
        while !matches!(health.next().await, Some(Health::Working)) {}
        sharder.close().await.unwrap();
    });
}

#[test]
fn neither_deleted_queues_nor_foreign_nodes_are_used() {
    simulated_with(async |server, zk| {
        zk.create(format!("{SHARDS}/not-a-queue")).creating_parents().await.unwrap();
        let sharder = sharder(&zk).await;
        put(&sharder, 4).await;
        until_known(&sharder, 2).await;
        let names: BTreeMap<_, _> = sharder.queues();
        assert!(names.keys().all(|name| name.starts_with("queue-")));
        let (name, _) = names
            .iter()
            .find(|(_, queue)| server.probe().children(queue.path()).is_empty())
            .unwrap();
        zk.delete(format!("{SHARDS}/{name}")).await.unwrap();
        until(&server, |probe| probe.children(SHARDS).len() == 3).await;
        until_known(&sharder, 2).await;
        assert!(!sharder.queues().contains_key(name));
        // All of it: a put makes it again.
        zk.delete(SHARDS).deleting_children().await.unwrap();
        put(&sharder, 1).await;
        until_known(&sharder, 1).await;
    });
}

#[test]
fn an_election_among_the_queues_is_refused() {
    simulated_with(async |server, zk| {
        for path in [SHARDS, "/shards/leader"] {
            let allocate = |zk: &CuratorFramework, path: &str| DistributedQueue::new(zk, path);
            let refused = QueueSharder::builder(&zk, SHARDS, path, allocate).open().await;
            assert!(matches!(refused, Err(Error::LeaderPath { path: told }) if told == path));
        }
        assert!(!server.probe().exists(SHARDS));
    });
}

#[test]
fn a_start_that_is_given_up_leaves_no_candidate() {
    simulated_steps(2, async |step, server, zk| {
        let started = poll_then_drop(builder(&zk).open(), step).await;
        let is_done = started.is_some();
        drop(started);
        until(&server, |probe| probe.children(LEADER).is_empty()).await;
        assert!(LeaderLatch::new(&zk, LEADER).participants().await.unwrap().is_empty(), "{step}");
        zk.delete(SHARDS).deleting_children().quietly().await.unwrap();
        closes_clean(&server, &zk).await;
        is_done
    });
}
