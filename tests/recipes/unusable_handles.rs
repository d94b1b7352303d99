//! Without `start`, and through a handle that is bound to a session that is over, every call fails
//! with an error that says so.

use std::error::Error as StdError;
use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use futures_util::future::LocalBoxFuture;
use futures_util::{StreamExt as _, poll};
use tokio::time::timeout;
use zk_curator::{ConnectionState, CreateMode, CuratorFramework};
use zk_curator_proto::OpCode;
use zk_curator_recipes::barrier::{DistributedBarrier, DistributedDoubleBarrier};
use zk_curator_recipes::cache::CuratorCache;
use zk_curator_recipes::config::{ConfigStore, Snapshot};
use zk_curator_recipes::counter::{
    CountDownLatch, DistributedAtomicLong, DistributedAtomicValue, IdBlocks,
};
use zk_curator_recipes::group::{Group, GroupMember};
use zk_curator_recipes::leader::{Election, LeaderLatch, LeaderSelector};
use zk_curator_recipes::lock::{
    InterProcessMultiLock, InterProcessMutex, InterProcessReadWriteLock, InterProcessSemaphore,
    ReentrantMutex, RevocableReadWriteLock,
};
use zk_curator_recipes::migration::{MigrationManager, MigrationSet};
use zk_curator_recipes::name::NameService;
use zk_curator_recipes::node::{PersistentNode, PersistentTtlNode};
use zk_curator_recipes::partition::{Partition, SetPartitioner};
use zk_curator_recipes::queue::jobs::{JobTask, Jobs};
use zk_curator_recipes::queue::{
    DistributedQueue, Error as QueueError, FifoQueue, LockingQueue, QueueSharder,
    SimpleDistributedQueue,
};
use zk_curator_recipes::schedule::{OncePer, Schedule, Slot};
use zk_curator_recipes::shared::SharedCount;
use zk_curator_recipes::stm::{Stm, snapshot_of};
use zk_curator_recipes::two_phase::{Coordinator, Site};
use zk_curator_tests::{builder, connected, expire, server, simulated, simulated_on, until_state};

type Failure = Box<dyn StdError>;
type Call = (&'static str, fn(CuratorFramework) -> LocalBoxFuture<'static, Result<(), Failure>>);

const MINUTE: Duration = Duration::from_secs(60);
const LONG: Duration = Duration::from_secs(3600);

macro_rules! calls {
    ($($name:literal: |$zk:ident| $call:expr;)*) => {
        &[$(($name, |$zk| Box::pin(async move { let _answer = $call.await?; Ok(()) }))),*]
    };
}

const CALLS: &[Call] = calls! {
    "mutex": |zk| InterProcessMutex::new(&zk, "/a").acquire();
    "read lock": |zk| InterProcessReadWriteLock::new(&zk, "/a").read_lock().acquire();
    "revocable": |zk| RevocableReadWriteLock::new(&zk, "/a").write_lock().acquire();
    "revoke": |zk| RevocableReadWriteLock::new(&zk, "/a").revoke("/a/_c_00000000-0000-4000-8000-000000000000-write-0000000000", LONG);
    "multi lock": |zk| InterProcessMultiLock::of_mutexes(&zk, ["/a", "/b"]).acquire();
    "handover": |zk| InterProcessMutex::new(&zk, "/a").local_batch(2, Duration::MAX).acquire();
    "reentrant": |zk| ReentrantMutex::new(&zk, "/a").acquire("me");
    "semaphore": |zk| InterProcessSemaphore::new(&zk, "/a", 1).acquire();
    "latch": |zk| async { LeaderLatch::new(&zk, "/a").join().await_leadership().await };
    "latch, leader": |zk| LeaderLatch::new(&zk, "/a").leader();
    "selector": |zk| LeaderSelector::new(&zk, "/a").run_once(async |_| {});
    "selector, again and again": |zk| LeaderSelector::new(&zk, "/a").run(async |_| {});
    "election": |zk| Election::new(&zk, "/a").campaign("");
    "observer": |zk| async { Election::new(&zk, "/a").observe().next().await };
    "barrier": |zk| DistributedBarrier::new(&zk, "/a").wait();
    "double barrier": |zk| DistributedDoubleBarrier::new(&zk, "/a", 2).enter();
    "cache, loaded": |zk| async { CuratorCache::tree(&zk, "/a").start().loaded().await };
    "cache, synced": |zk| async { CuratorCache::tree(&zk, "/a").start().synced().await };
    "cache, reflects": |zk| async { CuratorCache::tree(&zk, "/a").start().reflects(7).await };
    "cache, exact": |zk| async { CuratorCache::tree(&zk, "/a").start().exact(LONG).await };
    "cache, wait_for": |zk| async { CuratorCache::tree(&zk, "/a").start().wait_for(|_| None::<()>).await };
    "cache, get_through": |zk| async { CuratorCache::tree(&zk, "/a").start().get_through("/a").await };
    "shared count": |zk| SharedCount::open(&zk, "/a", 1);
    "counter": |zk| async { DistributedAtomicLong::new(&zk, "/a").increment().await };
    "counter, get": |zk| async { DistributedAtomicLong::new(&zk, "/a").get().await };
    "counter, follow": |zk| async { DistributedAtomicLong::new(&zk, "/a").follow().next().await };
    "value": |zk| async { DistributedAtomicValue::<String>::new(&zk, "/a").set(&String::new()).await };
    "ids": |zk| async { IdBlocks::new(&DistributedAtomicLong::new(&zk, "/a"), 10).next().await };
    "count down": |zk| async { CountDownLatch::new(&zk, "/a", 1).wait().await };
    "stm": |zk| async { Stm::space(&zk, "/a").atomically(|tx| async move { tx.get("/a").await }).await };
    "stm, audit": |zk| async { Stm::space(&zk, "/a").audit().await };
    "snapshot": |zk| snapshot_of(&zk, ["/a"]);
    "config": |zk| async { ConfigStore::new(&zk, "/a").snapshot().await };
    "config, follow": |zk| async { ConfigStore::new(&zk, "/a").follow().next().await };
    "config, follow_as": |zk| async { ConfigStore::new(&zk, "/a").follow_as::<Anything>().await };
    "config, update": |zk| async { ConfigStore::new(&zk, "/a").update().set("b", 1).commit().await };
    "group": |zk| async { Group::new(&zk, "/a").wait_for(1).await };
    "group, follow": |zk| async { Group::new(&zk, "/a").follow().next().await };
    "member": |zk| async { GroupMember::builder(&zk, "/a", "b").start().joined().await };
    "member, set_data": |zk| async { GroupMember::builder(&zk, "/a", "b").start().set_data("").await };
    "name": |zk| async { NameService::new(&zk, "/a").bind_ephemeral("b", "").await };
    "name, keep_bound": |zk| async { NameService::new(&zk, "/a").keep_bound("b", "").bound().await };
    "name, rebind": |zk| async { NameService::new(&zk, "/a").keep_bound("b", "").rebind("").await };
    "name, follow": |zk| async { NameService::new(&zk, "/a").follow("b").next().await };
    "node": |zk| async { PersistentNode::builder(&zk, "/a", CreateMode::Ephemeral).start().created().await };
    "ttl node": |zk| async { PersistentTtlNode::builder(&zk, "/a", LONG).start().created().await };
    "simple queue": |zk| async { SimpleDistributedQueue::new(&zk, "/a").take().await };
    "fifo queue": |zk| async { FifoQueue::new(&zk, "/a").take().await };
    "queue, put": |zk| async { DistributedQueue::new(&zk, "/a").put("").await };
    "queue, flush": |zk| async { FifoQueue::new(&zk, "/a").put("").await };
    "queue, next": |zk| async { DistributedQueue::new(&zk, "/a").consumer("/b").next().await };
    "queue, run": |zk| {
        DistributedQueue::new(&zk, "/a").consumer("/b").run(1, async |_| Ok::<_, Failure>(()))
    };
    "queue, run without locks": |zk| DistributedQueue::new(&zk, "/a").auto_ack_consumer().run(1, async |_| Ok::<_, Failure>(()));
    "locking queue": |zk| async { LockingQueue::new(&zk, "/a").consumer().next().await };
    "locking queue, run": |zk| LockingQueue::new(&zk, "/a").consumer().run(1, async |_| Ok::<_, Failure>(()));
    "jobs": |zk| async { Jobs::new(&zk, "/a").worker("b").next().await };
    "jobs, run": |zk| Jobs::new(&zk, "/a").worker("b").run(1, async |_: JobTask| Ok::<_, Failure>(None));
    "jobs, submit": |zk| async { Jobs::new(&zk, "/a").submit("").await };
    "jobs, clean": |zk| async { Jobs::new(&zk, "/a").clean().await };
    "sharder": |zk| {
        QueueSharder::builder(&zk, "/a", "/b", |zk: &_, path: &str| DistributedQueue::new(zk, path)).open()
    };
    "schedule": |zk| async {
        OncePer::new(&zk, "/a", Schedule::every(LONG)).run(async |_: Slot| Ok::<_, Failure>(())).await
    };
    "migrate": |zk| async {
        let set = MigrationSet::builder("a").migration("b", |m| m.create("/c", "")).build()?;
        MigrationManager::new(&zk, "/a", "/b").migrate(&set).await
    };
    "migrate, plan": |zk| async {
        MigrationManager::new(&zk, "/a", "/b").plan(&MigrationSet::builder("a").build()?).await
    };
    "migrate, wait": |zk| async {
        MigrationManager::new(&zk, "/a", "/b").wait_applied(&MigrationSet::builder("a").build()?).await
    };
    "partitioner": |zk| async {
        SetPartitioner::new(&zk, "/a", ["s"]).run(async |_: Partition| Ok::<_, Failure>(())).await
    };
    "partitioner, view": |zk| async { SetPartitioner::new(&zk, "/a", ["s"]).view().await };
    "partitioner, set_parts": |zk| async {
        SetPartitioner::new(&zk, "/a", ["s"]).shared_parts().set_parts(["t"]).await
    };
    "two-phase": |zk| async { Coordinator::begin(&zk, "/a", ["b"], "").await };
    "two-phase, join": |zk| Site::join(&zk, "/a", "b");
    "watch_data": |zk| async { zk.watch_data("/a").next().await };
    "watch_children": |zk| async { zk.watch_children("/a").into_stream().boxed().next().await.expect("an error") };
    "wait_exists": |zk| zk.wait_exists("/a");
    "wait_gone": |zk| zk.wait_gone("/a");
    "wait_connected": |zk| zk.wait_connected();
};

struct Anything;

impl TryFrom<Snapshot> for Anything {
    type Error = QueueError;

    fn try_from(_: Snapshot) -> Result<Self, QueueError> {
        Ok(Self)
    }
}

#[test]
fn every_call_says_that_the_framework_was_not_started() {
    simulated_on(server, async |server| {
        let mut wrong = Vec::new();
        for (name, call) in CALLS {
            let zk = builder(&server).build().unwrap();
            match timeout(LONG, call(zk)).await {
                Err(_) => wrong.push(format!("{name} waits")),
                Ok(Ok(())) => wrong.push(format!("{name} succeeds")),
                Ok(Err(error)) if error.to_string().contains("framework not started") => {}
                Ok(Err(error)) => wrong.push(format!("{name} says: {error}")),
            }
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
    });
}

/// Operations that began before `start` continue after it.
#[test]
fn what_waits_in_the_background_waits_for_the_start() {
    simulated_on(server, async |server| {
        let zk = builder(&server).build().unwrap();
        let mut errors = zk.background_errors();
        let candidate = LeaderLatch::new(&zk, "/latch").join();
        let cache = CuratorCache::tree(&zk, "/").start();
        let node = PersistentNode::builder(&zk, "/node", CreateMode::Ephemeral).start();
        assert!(candidate.await_leadership().await.is_err());
        assert!(timeout(LONG, errors.next()).await.is_err());
        zk.start().await.unwrap();
        candidate.await_leadership().await.unwrap();
        cache.loaded().await.unwrap();
        node.created().await.unwrap();
        candidate.close().await.unwrap();
        zk.close().await.unwrap();
    });
}

/// The text of an error and its sources.
fn texts(error: &(dyn StdError + 'static)) -> String {
    let below = error.source().map(texts).unwrap_or_default();
    format!("{error}: {below}")
}

/// Returns the output of a future; `None` if it is polled again and again without a pause.
async fn unless_it_spins<F: Future + Unpin>(mut future: F) -> Option<F::Output> {
    for _ in 0..100_000 {
        if let Poll::Ready(output) = poll!(&mut future) {
            return Some(output);
        }
        // Returns with the next wake-up.
        let mut is_woken = false;
        poll_fn(|_| {
            if std::mem::replace(&mut is_woken, true) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
    None
}

/// A call that began before the session ended may have succeeded. None waits.
#[test]
fn no_call_of_a_bound_handle_outlasts_its_session() {
    for begins_before in [false, true] {
        simulated(async {
            let mut wrong = Vec::new();
            for (name, call) in CALLS {
                let server = server().await;
                let zk = connected(&server).await;
                let mut call = call(zk.bound_to_session().unwrap());
                let mut answer = None;
                if begins_before {
                    answer = timeout(MINUTE, &mut call).await.ok();
                }
                expire(&server, &zk).await;
                until_state(&zk, ConnectionState::Reconnected { same_session: false }).await;
                let requests = || {
                    let probe = server.probe();
                    probe.total_requests() - probe.requests(OpCode::Ping)
                };
                let before = requests();
                if answer.is_none() {
                    answer = timeout(LONG, unless_it_spins(call)).await.ok().flatten();
                }
                let sent = requests() - before;
                match answer.map(|answer| answer.map_err(|error| texts(&*error))) {
                    None => wrong.push(format!("{name} waits, with {sent} requests")),
                    // It waits for a connection, in whatever session.
                    Some(Ok(())) if begins_before || *name == "wait_connected" => {}
                    Some(Ok(())) => wrong.push(format!("{name} succeeds")),
                    Some(Err(why)) if sent > 20 || !begins_before && !why.contains("session") => {
                        wrong.push(format!("{name}, with {sent} requests: {why}"));
                    }
                    Some(Err(_)) => {}
                }
                zk.close().await.unwrap();
            }
            assert!(wrong.is_empty(), "begins before: {begins_before}, {wrong:#?}");
        });
    }
}
