//! Every recipe with compression on one side only: protocol data are never compressed. What users
//! hand in is, where it has a node of its own.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::timeout;
use zk_curator::certain::is_receipt;
use zk_curator::{CreateMode, CuratorFramework};
use zk_curator_proto::OpCode;
use zk_curator_recipes::Shutdown;
use zk_curator_recipes::barrier::DistributedDoubleBarrier;
use zk_curator_recipes::cache::{CacheBuilder, CuratorCache};
use zk_curator_recipes::group::{Group, GroupMember};
use zk_curator_recipes::leader::{Election, LeaderLatch, LeaderSelector};
use zk_curator_recipes::lock::{InterProcessMutex, InterProcessSemaphore};
use zk_curator_recipes::name::NameService;
use zk_curator_recipes::node::PersistentNode;
use zk_curator_recipes::queue::jobs::{JobState, Jobs};
use zk_curator_recipes::queue::{
    CorruptItem, DistributedQueue, Error, FifoQueue, LockingQueue, PutMode, SimpleDistributedQueue,
};
use zk_curator_recipes::schedule::{OncePer, Schedule};
use zk_curator_recipes::two_phase::{self, Coordinator, Outcome, Site, Vote};
use zk_curator_testing::{TestServer, Verdict};

use crate::gzip::{compressing, is_compressed};
use zk_curator_tests::{
    always, assert_matches, connected, is_kept, items, once, simulated_each_on, simulated_on, until,
};

const A_MOMENT: Duration = Duration::from_secs(1);

/// Runs a test with two clients, of which one compresses: the first, then the second.
fn both_ways(test: impl AsyncFn(&TestServer, &CuratorFramework, &CuratorFramework)) {
    simulated_each_on([true, false], TestServer::in_memory, async |compresses, server| {
        let (gzip, plain) = (compressing(&server).await, connected(&server).await);
        let (one, other) = if compresses { (&gzip, &plain) } else { (&plain, &gzip) };
        test(&server, one, other).await;
    });
}

/// Java's clients write their address by default, and `__REVOKE__` uncompressed.
#[test]
fn the_bytes_of_java_are_read_and_written() {
    simulated_on(TestServer::in_memory, async |server| {
        let (zk, java) = (compressing(&server).await, connected(&server).await);
        let lock = InterProcessMutex::new(&zk, "/lock").label("ada");
        let guard = lock.acquire().await.unwrap();
        assert_eq!(server.probe().data(guard.path()).unwrap(), "ada");
        let waits =
            java.create("/lock/_c_0-lock-").mode(CreateMode::EphemeralSequential).data("10.0.0.1");
        waits.await.unwrap();
        let labels: Vec<_> =
            lock.participants().await.unwrap().into_iter().map(|one| one.label).collect();
        assert_eq!(labels, ["ada", "10.0.0.1"]);
        java.set_data(guard.path(), "__REVOKE__").await.unwrap();
        timeout(A_MOMENT, guard.revoked()).await.unwrap();
        // The holder's own writes are its own affair.
        guard.fenced().create("/work", "done").commit().await.unwrap();
        assert!(is_compressed(&server, "/work"));
        assert_eq!(zk.get_data("/work").await.unwrap(), "done");
    });
}

#[test]
fn jobs_are_cleaned_and_inspected_by_all() {
    both_ways(async |server, one, other| {
        let (jobs, same) = (Jobs::new(one, "/jobs"), Jobs::new(other, "/jobs"));
        jobs.submit("job").id("a").await.unwrap();
        assert_eq!(is_compressed(server, "/jobs/all/a"), one.is_compressing());
        let a = jobs.worker("w").next().await.unwrap();
        assert_eq!(a.data(), "job");
        let executing = same.list().all().await.unwrap().remove(0).state;
        assert!(matches!(executing, JobState::Executing { worker, .. } if worker == "w"));
        let mut cleaner = Box::pin(same.clean());
        assert!(timeout(A_MOMENT, &mut cleaner).await.is_err());
        // Given back by a worker that lives.
        drop(a);
        assert!(timeout(A_MOMENT, &mut cleaner).await.is_err());
        let mut worker = jobs.worker("w");
        let a = worker.next().await.unwrap();
        assert_eq!(a.attempt(), 2);
        a.complete_with("result").await.unwrap();
        assert_eq!(
            is_compressed(
                server,
                &format!("/jobs/done/{}", items(&server.probe(), "/jobs/done")[0])
            ),
            one.is_compressing()
        );
        assert_eq!(jobs.result("a").await.unwrap().unwrap(), "result");
        jobs.submit("job").id("b").await.unwrap();
        worker.next().await.unwrap().reject("bad").await.unwrap();
        let states: Vec<_> =
            same.list().all().await.unwrap().into_iter().map(|job| job.state).collect();
        assert_matches!(&states[..], [JobState::Done { .. }, JobState::Failed { why, .. }]
            if why == "bad");
    });
}

#[test]
fn consumers_wait_for_claims_of_all() {
    both_ways(async |_, one, other| {
        let (queue, same) =
            (LockingQueue::new(one, "/locking"), LockingQueue::new(other, "/locking"));
        queue.put("item").await.unwrap();
        let held = queue.consumer().next().await.unwrap();
        let mut waits = same.consumer();
        assert!(timeout(A_MOMENT * 5, waits.next()).await.is_err());
        held.ack().await.unwrap();
        let queue = DistributedQueue::new(one, "/curator");
        let same = DistributedQueue::new(other, "/curator");
        queue.put("item").await.unwrap();
        let mut consumer = queue.consumer("/claims");
        let held = consumer.next().await.unwrap();
        let mut waits = same.consumer("/claims");
        assert!(timeout(A_MOMENT * 5, waits.next()).await.is_err());
        assert_eq!(held.items(), ["item"]);
        held.requeue().await.unwrap();
        assert_eq!(consumer.next().await.unwrap().items(), ["item"]);
    });
}

/// The parent has the data of the client that created it; the producer of an item is a path.
#[test]
fn queues_keep_their_own_data_apart_from_items() {
    both_ways(async |server, one, other| {
        one.create("/bounded").data("10.0.0.1").await.unwrap();
        let before = server.probe().data("/bounded").unwrap();
        let bounded = DistributedQueue::new(other, "/bounded").max_items(2);
        bounded.put("item").await.unwrap();
        assert_eq!(server.probe().data("/bounded").unwrap(), before);
        assert_eq!(bounded.auto_ack_consumer().next().await.unwrap().items, ["item"]);

        let fifo = FifoQueue::new(one, "/fifo").put_mode(PutMode::TwoPhase);
        let mut put = Box::pin(fifo.put("item"));
        let hold = always(server, OpCode::Multi, Verdict::Delay(A_MOMENT * 5));
        assert!(timeout(A_MOMENT, &mut put).await.is_err());
        let same = FifoQueue::new(other, "/fifo");
        assert!(timeout(A_MOMENT, same.take()).await.is_err());
        drop(hold);
        put.await.unwrap();
        // With a receipt, and a lost response to it.
        let lost = once(server, OpCode::Multi, Verdict::LoseReply);
        assert_eq!(fifo.take().await.unwrap(), "item");
        assert_eq!(lost.hits(), 1);
    });
}

#[test]
fn items_are_compressed_and_moved_as_they_are() {
    simulated_on(TestServer::in_memory, async |server| {
        let zk = compressing(&server).await;
        let queue = LockingQueue::new(&zk, "/queue");
        queue.put("item").await.unwrap();
        let item = |directory: &str| {
            let name = items(&server.probe(), directory)[0].to_owned();
            server.probe().data(&format!("{directory}/{name}")).unwrap()
        };
        let stored = item("/queue/items");
        assert!(stored.starts_with(&crate::gzip::MAGIC));
        let mut consumer = queue.consumer();
        consumer.next().await.unwrap().requeue().await.unwrap();
        assert_eq!(item("/queue/items"), stored);
        consumer.next().await.unwrap().reject("bad").await.unwrap();
        let dead = queue.dead_letters();
        assert_eq!(dead.consumer().next().await.unwrap().data(), "item");
        let simple = SimpleDistributedQueue::new(&zk, "/simple");
        simple.offer("item").await.unwrap();
        assert!(item("/simple").starts_with(&crate::gzip::MAGIC));
        assert_eq!(simple.peek().await.unwrap().unwrap(), "item");
        assert_eq!(simple.take().await.unwrap(), "item");
    });
}

/// Of a producer that does not compress.
#[test]
fn an_item_that_is_not_compressed_is_reported_once() {
    simulated_on(TestServer::in_memory, async |server| {
        let (zk, plain) = (compressing(&server).await, connected(&server).await);
        let why = CorruptItem::Compression;
        let (queue, same) = (LockingQueue::new(&zk, "/queue"), LockingQueue::new(&plain, "/queue"));
        same.put("plain").await.unwrap();
        queue.put("item").await.unwrap();
        let mut consumer = queue.consumer();
        let corrupt = consumer.next().await.map(drop);
        assert_matches!(corrupt, Err(Error::Corrupt { why: seen, .. }) if seen == why);
        assert_eq!(consumer.next().await.unwrap().data(), "item");

        let (queue, same) =
            (DistributedQueue::new(&zk, "/curator"), DistributedQueue::new(&plain, "/curator"));
        same.put("plain").await.unwrap();
        queue.put("item").await.unwrap();
        let mut auto_ack = queue.auto_ack_consumer();
        assert!(matches!(auto_ack.next().await, Err(Error::Corrupt { .. })));
        assert_eq!(auto_ack.next().await.unwrap().items, [Bytes::from("item")]);

        let jobs = Jobs::new(&zk, "/jobs");
        Jobs::new(&plain, "/jobs").submit("plain").id("a").await.unwrap();
        jobs.submit("job").id("b").await.unwrap();
        let mut worker = jobs.worker("w");
        assert!(matches!(worker.next().await, Err(Error::Corrupt { .. })));
        assert_eq!(worker.next().await.unwrap().id(), "b");
        until(&server, |probe| is_kept(probe, "/jobs/failed", "a")).await;
    });
}

/// As the framework does, or as the cache says; what cannot be decompressed is named.
#[test]
fn caches_decompress_where_it_is_enabled() {
    both_ways(async |server, one, other| {
        let gzip = compressing(server).await;
        gzip.create("/tree").data("parent").await.unwrap();
        gzip.create("/tree/a").data("value").await.unwrap();
        let stored = server.probe().data("/tree/a").unwrap();
        assert!(is_compressed(server, "/tree/a"));
        for zk in [one, other] {
            let told = CuratorCache::tree(zk, "/tree").decompressed().start();
            let raw = CuratorCache::tree(zk, "/tree").undecompressed().start();
            let default = CuratorCache::tree(zk, "/tree").start();
            for cache in [&told, &raw, &default] {
                assert_eq!(cache.loaded().await.unwrap().nodes, 2);
            }
            let data = |cache: &CuratorCache| cache.get("/tree/a").present().unwrap().data.clone();
            assert_eq!(data(&told), "value");
            assert_eq!(data(&raw), stored);
            assert_eq!(data(&default), zk.get_data("/tree/a").await.unwrap());
            // The same where the server is asked.
            let of_root = |cache: CacheBuilder| cache.max_depth(0).start();
            for (cache, expected) in [
                (of_root(CuratorCache::tree(zk, "/tree").decompressed()), data(&told)),
                (of_root(CuratorCache::tree(zk, "/tree").undecompressed()), stored.clone()),
            ] {
                assert_eq!(cache.get_through("/tree/a").await.unwrap().unwrap().data, expected);
            }
            // Bytes that only look compressed.
            zk.set_data("/tree/a", &[0x1f, 0x8b, 8, 0, 1][..]).uncompressed().await.unwrap();
            for cache in [&told, &raw] {
                cache.synced().await.unwrap();
            }
            assert_eq!(data(&raw).len(), 5);
            assert!(!told.get("/tree/a").is_present() && !told.get("/tree/a").is_absent());
            assert_eq!(told.unreadable().len(), 1);
            assert_eq!(told.unreadable()[0].0, "/tree/a");
            // Another value is read again.
            gzip.set_data("/tree/a", "value").await.unwrap();
            told.synced().await.unwrap();
            assert_eq!(data(&told), "value");
            assert!(told.unreadable().is_empty());
        }
    });
}

/// The name of a receipt of another client.
const RECEIPT: &str = "_r_5e0a7c8e-0000-4000-8000-000000000001";

/// Listings of a recipe's nodes contain receipts, whose data are not compressed.
#[test]
fn receipts_in_listings_are_left_out_before_they_are_decoded() {
    both_ways(async |server, one, other| {
        // Its own receipt, too.
        let (names, same) = (NameService::new(one, "/names"), NameService::new(one, "/names"));
        names.bind("a", "value").await.unwrap();
        assert!(server.probe().children("/names").iter().any(|name| is_receipt(name)));
        for path in ["/group", "/typed"] {
            one.create(path).await.unwrap();
        }
        for path in ["/names", "/group", "/typed"] {
            other.create(format!("{path}/{RECEIPT}")).data("7").uncompressed().await.unwrap();
        }
        let listed = same.list().await.unwrap();
        assert_eq!(
            listed.into_iter().map(|(name, bound)| (name, bound.data)).collect::<Vec<_>>(),
            [("a".to_owned(), "value".into())]
        );

        let member = GroupMember::builder(one, "/group", "m").data("value").start();
        let group = Group::new(one, "/group");
        let expected = [("m".to_owned(), Bytes::from("value"))];
        assert_eq!(group.wait_for(1).await.unwrap().into_iter().collect::<Vec<_>>(), expected);
        assert_eq!(group.members().await.unwrap().into_iter().collect::<Vec<_>>(), expected);
        member.leave().await.unwrap();

        let typed = one.typed::<String>();
        typed.create("/typed/a", &"value".to_owned()).await.unwrap();
        let children = typed.children("/typed").await.unwrap();
        assert_eq!(children.into_iter().map(|node| node.value).collect::<Vec<_>>(), ["value"]);
    });
}

/// Creates a receipt and a node of an application in the directory of a recipe.
async fn add_foreign(zk: &CuratorFramework, path: &str) {
    for name in [RECEIPT, "notes"] {
        let create = zk.create(format!("{path}/{name}")).creating_parents_as_containers();
        create.data("7").uncompressed().await.unwrap();
    }
}

#[test]
fn locks_and_elections_list_their_nodes_among_those_of_others() {
    both_ways(async |_, one, other| {
        for path in ["/lock", "/semaphore/leases", "/latch", "/selector", "/election"] {
            add_foreign(other, path).await;
        }
        let mutex = InterProcessMutex::new(one, "/lock").label("ada");
        let held = mutex.acquire().await.unwrap();
        assert_eq!(mutex.participants().await.unwrap().len(), 1);
        held.release().await.unwrap();
        let semaphore = InterProcessSemaphore::new(one, "/semaphore", 1).label("ada");
        let held = semaphore.acquire().await.unwrap();
        assert_eq!(semaphore.participants().await.unwrap().len(), 1);
        held.release().await.unwrap();
        let latch = LeaderLatch::new(one, "/latch").id("ada");
        let candidate = latch.join();
        candidate.await_leadership().await.unwrap();
        assert_eq!(latch.participants().await.unwrap().len(), 1);
        let selector = LeaderSelector::new(one, "/selector").id("bob");
        let seen = selector
            .run_once(|_| async { selector.participants().await.unwrap().len() })
            .await
            .unwrap();
        assert_eq!(seen, 1);
        let election = Election::new(one, "/election");
        let elected = election.campaign("value").await.unwrap();
        assert_eq!(election.leader().await.unwrap().unwrap().value, "value");
        drop(elected);
        let double = DistributedDoubleBarrier::new(one, "/double", 1);
        timeout(A_MOMENT, double.enter()).await.unwrap().unwrap().leave().await.unwrap();
    });
}

#[test]
fn queues_list_their_nodes_among_those_of_others() {
    both_ways(async |_, one, other| {
        let jobs = Jobs::new(one, "/jobs");
        jobs.submit("payload").await.unwrap();
        for directory in ["pending", "executing", "leases", "later"] {
            add_foreign(other, &format!("/jobs/{directory}")).await;
        }
        for directory in ["done", "failed"] {
            let receipt = other.create(format!("/jobs/{directory}/{RECEIPT}")).data("7");
            receipt.uncompressed().await.unwrap();
        }
        assert_eq!(jobs.list().all().await.unwrap().len(), 1);
        let mut worker = jobs.worker("w");
        let job = loop {
            match worker.next().await {
                Ok(job) => break job,
                Err(Error::Foreign { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        };
        assert_eq!((job.data(), jobs.list().all().await.unwrap().len()), (&"payload".into(), 1));

        let queue = LockingQueue::new(one, "/queue");
        queue.put("item").await.unwrap();
        add_foreign(other, "/queue/items").await;
        let mut consumer = queue.consumer();
        let item = loop {
            match consumer.next().await {
                Ok(item) => break item,
                Err(Error::Foreign { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        };
        assert_eq!(item.data(), "item");
    });
}

#[test]
fn other_recipes_list_their_nodes_among_those_of_others() {
    both_ways(async |_, one, other| {
        let mut coordinator = Coordinator::begin(one, "/txs/1", ["a"], "payload").await.unwrap();
        add_foreign(other, "/txs").await;
        add_foreign(other, "/txs/1").await;
        let mut site = Site::join(other, "/txs/1", "a").await.unwrap();
        site.vote(Vote::Commit).await.unwrap();
        assert_eq!(coordinator.outcome().await.unwrap(), Outcome::Committed);
        assert!(two_phase::inspect(one, "/txs/1").await.unwrap().is_some());

        let once =
            OncePer::new(one, "/cron", Schedule::every(A_MOMENT)).tolerance(A_MOMENT * u32::MAX);
        let ran = std::cell::Cell::new(false);
        let stop = Shutdown::new();
        let body = |_| async {
            ran.set(true);
            stop.begin();
            Ok::<_, String>(())
        };
        let shutdown = stop.clone();
        once.run(body).until(shutdown).await.unwrap();
        add_foreign(other, "/cron").await;
        assert!(ran.get());
        assert_eq!(once.slots().await.unwrap().len(), 1);
    });
}

/// Jobs of producers with and without compression do not hide each other.
#[test]
fn a_payload_that_cannot_be_decoded_hides_no_other_job() {
    simulated_on(TestServer::in_memory, async |server| {
        let (gzip, plain) = (compressing(&server).await, connected(&server).await);
        let jobs = Jobs::new(&gzip, "/jobs");
        jobs.submit("good").id("a").await.unwrap();
        Jobs::new(&plain, "/jobs").submit("bad").id("b").await.unwrap();
        let page = jobs.list().with_payload().await.unwrap();
        assert_eq!(page.jobs.iter().map(|job| job.id.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(page.jobs[0].payload().unwrap().unwrap(), "good");
        let corrupt = |error: &Error| {
            let why = CorruptItem::Compression;
            matches!(error, Error::Corrupt { path, why: found } if path == "/jobs/all/b" && *found == why)
        };
        assert!(page.jobs[1].payload().is_err_and(|error| corrupt(&error)));
        let bad = jobs.get("b").await.unwrap().unwrap();
        assert!(
            bad.value::<String>().is_err_and(|error| corrupt(&error))
                && bad.state == JobState::Pending
        );
    });
}

/// kazoo does not decompress.
#[test]
fn parties_of_kazoo_are_not_compressed() {
    both_ways(async |server, one, other| {
        for is_shallow in [false, true] {
            let path = if is_shallow { "/shallow" } else { "/party" };
            let member = GroupMember::builder(one, path, "ada");
            let group = Group::new(other, path);
            let (member, group) = if is_shallow {
                (member.with_kazoo_shallow_party(), group.with_kazoo_shallow_party())
            } else {
                (member.with_kazoo_party(), group.with_kazoo_party())
            };
            let member = member.start();
            member.joined().await.unwrap();
            let node = format!("{path}/{}", server.probe().children(path)[0]);
            assert_eq!(server.probe().data(&node).unwrap(), "ada");
            for group in [&group, member.group()] {
                let members = group.members().await.unwrap();
                assert_eq!(members.values().collect::<Vec<_>>(), ["ada"]);
                assert_eq!(group.wait_for(1).await.unwrap(), members);
            }
            let joined = group.join("bob", "");
            joined.joined().await.unwrap();
            assert_eq!(member.group().members().await.unwrap().len(), 2);
            joined.leave().await.unwrap();
            member.leave().await.unwrap();
        }
    });
}

/// As the handle of the node says, whatever the framework does.
#[test]
fn data_of_a_persistent_node_stay_uncompressed() {
    simulated_on(TestServer::in_memory, async |server| {
        let zk = compressing(&server).await.uncompressed();
        let node = PersistentNode::builder(&zk, "/node", CreateMode::Ephemeral).data("1").start();
        node.created().await.unwrap();
        assert_eq!(server.probe().data("/node").unwrap(), "1");
        node.set_data("2").await.unwrap();
        assert_eq!(server.probe().data("/node").unwrap(), "2");
    });
}
