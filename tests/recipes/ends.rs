//! Involuntary ends of background tasks: user code that panics, and a runtime that is shut down.
//! When its task ends, every recipe notifies the waiting callers.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::runtime::Builder;
use tokio::time::timeout;
use zk_curator::acl::AclProvider;
use zk_curator::compression::{CompressionFailure, CompressionProvider};
use zk_curator::retry::RetryNTimes;
use zk_curator::{Acl, CreateMode, CuratorFramework, ErrorKind};
use zk_curator_recipes::cache::CuratorCache;
use zk_curator_recipes::config::{ConfigStore, Snapshot};
use zk_curator_recipes::counter::{DistributedAtomicLong, IdBlocks};
use zk_curator_recipes::group::GroupMember;
use zk_curator_recipes::health::{Health, HealthWatch};
use zk_curator_recipes::leader::LeaderLatch;
use zk_curator_recipes::name::NameService;
use zk_curator_recipes::node::{PersistentNode, PersistentTtlNode};
use zk_curator_recipes::partition::SetPartitioner;
use zk_curator_recipes::queue::jobs::Jobs;
use zk_curator_recipes::queue::{DistributedQueue, QueueSharder};
use zk_curator_recipes::schedule::{self, OncePer, Schedule};
use zk_curator_testing::TestServer;
use zk_curator_tests::{builder, connected, real_time, server, simulated_on, start};

const HOUR: Duration = Duration::from_secs(3600);
const TTL: Duration = Duration::from_secs(60);

/// Panics for paths that contain `panics`, for the runner of a slot, and for the candidates for a
/// cleaner. The caller creates the nodes before these.
#[derive(Debug)]
struct Panics;

fn check(path: &str) {
    let is_of_task = path.ends_with("/runner") || path.contains("/cleaner/");
    assert!(!path.contains("panics") && !is_of_task, "as the test wants it");
}

impl AclProvider for Panics {
    fn acl(&self, path: &str) -> Vec<Acl> {
        check(path);
        Acl::open_unsafe()
    }
}

impl CompressionProvider for Panics {
    fn compress(&self, _: &str, data: &[u8]) -> Result<Bytes, CompressionFailure> {
        Ok(Bytes::copy_from_slice(data))
    }

    fn decompress(&self, path: &str, data: &[u8]) -> Result<Bytes, CompressionFailure> {
        check(path);
        Ok(Bytes::copy_from_slice(data))
    }
}

/// Waits for a task, and returns its result.
type Wait = fn(CuratorFramework) -> Pin<Box<dyn Future<Output = String>>>;

/// Until the stream ends; the last state.
async fn ended(mut health: HealthWatch) -> String {
    let mut last = String::new();
    while let Some(health) = health.next().await {
        last = format!("{health:?}");
    }
    last
}

fn node(zk: &CuratorFramework) -> PersistentNode {
    PersistentNode::builder(zk, "/panics/node", CreateMode::Ephemeral).start()
}

fn hourly(zk: &CuratorFramework) -> OncePer {
    // The next slot comes soon.
    OncePer::new(zk, "/hourly", Schedule::every(Duration::from_secs(1)))
        .tolerance(Duration::MAX)
        .at_least_once(RetryNTimes::new(1, Duration::from_secs(1)))
}

macro_rules! waits {
    ($($name:literal => |$zk:ident| $wait:expr,)*) => {
        /// All waits for tasks in which an ACL is asked for.
        const CREATING: &[(&str, Wait)] = &[$(($name, |$zk| Box::pin(async move { $wait }))),*];
    };
}

waits! {
    "PersistentNode::created" => |zk| {
        let error = node(&zk).created().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Closed);
        error.to_string()
    },
    "PersistentNode::set_data" => |zk| node(&zk).set_data("x").await.unwrap_err().to_string(),
    "PersistentNode::health" => |zk| ended(node(&zk).health()).await,
    "GroupMember::joined" => |zk| {
        let member = GroupMember::builder(&zk, "/panics", "member").start();
        member.joined().await.unwrap_err().to_string()
    },
    "PersistentTtlNode::created" => |zk| {
        let node = PersistentTtlNode::builder(&zk, "/panics/ttl", TTL).start();
        node.created().await.unwrap_err().to_string()
    },
    "NameService::keep_bound" => |zk| {
        let kept = NameService::new(&zk, "/panics").keep_bound("name", "value");
        kept.bound().await.unwrap_err().to_string()
    },
    "LeaderLatch" => |zk| {
        let candidate = LeaderLatch::new(&zk, "/panics/latch").join();
        let error = candidate.await_leadership().await.unwrap_err();
        drop(candidate.close().await);
        error.to_string()
    },
    "PartitionWatch::next" => |zk| {
        let mut parts = SetPartitioner::new(&zk, "/panics/set", ["a"]).follow();
        loop {
            match parts.next().await {
                Some(Ok(_)) => {}
                Some(Err(error)) => break error.to_string(),
                None => panic!("it has ended without a reason"),
            }
        }
    },
    "PartitionWatch::health" => |zk| {
        let parts = SetPartitioner::new(&zk, "/panics/set", ["a"]).follow();
        ended(parts.health()).await
    },
    "GroupMember::health" => |zk| {
        let member = GroupMember::builder(&zk, "/panics", "member").start();
        ended(member.health()).await
    },
    "Candidate::states" => |zk| {
        let candidate = LeaderLatch::new(&zk, "/panics/latch").join();
        let mut states = candidate.states();
        let mut last = String::new();
        while let Some(state) = states.next().await {
            last = format!("{state:?}");
        }
        assert_eq!(last, "Closed");
        last
    },
    "OncePer::at_least_once" => |zk| {
        let ran = hourly(&zk).run(|_| async { Ok::<_, String>(()) }).await;
        let Err(schedule::Error::Framework(error)) = ran else { panic!("{ran:?}") };
        error.to_string()
    },
    "Counter" => |zk| {
        let counter = DistributedAtomicLong::new(&zk, "/panics/counter");
        // The second one finds no task.
        drop(counter.increment().await);
        counter.increment().await.unwrap_err().to_string()
    },
    "IdBlocks" => |zk| {
        let ids = IdBlocks::new(&DistributedAtomicLong::new(&zk, "/panics/ids"), 10);
        ids.next().await.unwrap_err().to_string()
    },
}

async fn in_time<T>(name: &str, wait: impl Future<Output = T>) -> T {
    timeout(HOUR, wait).await.unwrap_or_else(|_| panic!("{name} waits forever"))
}

#[test]
fn callers_get_an_error_if_an_acl_provider_panics() {
    for (name, wait) in CREATING {
        simulated_on(server, async |server| {
            let zk = start(builder(&server).acl_provider(Panics)).await;
            let told = in_time(name, wait(zk.clone())).await;
            assert!(!told.is_empty(), "{name}");
            // Nothing else has ended.
            zk.create("/well").await.unwrap();
            in_time(name, zk.close()).await.unwrap();
        });
    }
}

#[test]
fn callers_get_an_error_if_the_user_of_a_cache_panics() {
    simulated_on(server, async |server| {
        let zk = start(builder(&server).compression_provider(Panics).enable_compression()).await;
        zk.create("/tree/panics").creating_parents().data("x").await.unwrap();
        let filtered = CuratorCache::tree(&zk, "/tree").undecompressed().filter(|path| {
            check(path);
            true
        });
        for cache in [CuratorCache::tree(&zk, "/tree").start(), filtered.start()] {
            in_time("loaded", cache.loaded()).await.unwrap_err();
            in_time("synced", cache.synced()).await.unwrap_err();
            in_time("health", ended(cache.health())).await;
            assert!(!cache.freshness().is_fresh());
        }
    });
}

/// The second queue is one too many.
#[test]
fn callers_get_an_error_if_the_user_of_a_sharder_panics() {
    simulated_on(server, async |server| {
        let zk = connected(&server).await;
        let asked = AtomicBool::new(false);
        let allocate = move |zk: &CuratorFramework, path: &str| {
            assert!(!asked.swap(true, Ordering::Relaxed), "as the test wants it");
            DistributedQueue::new(zk, path)
        };
        let sharder =
            QueueSharder::builder(&zk, "/shards", "/leader", allocate).new_queue_threshold(1);
        let sharder = sharder.check_every(Duration::from_secs(1)).open().await.unwrap();
        sharder.queue().put("item").await.unwrap();
        let body = async |_| std::future::pending::<Result<(), String>>().await;
        in_time("run", sharder.run(body)).await.unwrap();
        let why = in_time("close", sharder.close()).await.unwrap_err();
        assert!(format!("{why:?}").contains("Panicked"), "{why:?}");
        assert!(in_time("health", ended(sharder.health())).await.contains("Failed"));
    });
}

#[derive(Debug)]
struct Decoded;

impl TryFrom<Snapshot> for Decoded {
    type Error = String;

    fn try_from(now: Snapshot) -> Result<Self, String> {
        let text: Option<String> = now.get("text").map_err(|why| why.to_string())?;
        check(&text.unwrap_or_default());
        Ok(Self)
    }
}

#[test]
fn a_panic_in_a_configuration_concerns_one_snapshot() {
    simulated_on(server, async |server| {
        let zk = connected(&server).await;
        let store = ConfigStore::new(&zk, "/config");
        let mut value = store.follow_as::<Decoded>().await.unwrap();
        let mut errors = zk.background_errors();
        store.update().set("text", "panics").commit().await.unwrap();
        let told = in_time("errors", errors.next()).await.unwrap();
        assert_eq!(told.kind(), ErrorKind::Undecodable, "{told}");
        // The first snapshot is that of a call.
        store.follow_as::<Decoded>().await.unwrap_err();
        store.update().set("text", "well").commit().await.unwrap();
        in_time("changed", value.changed()).await.unwrap();
    });
}

/// Leases and jobs are looked after by no task then.
#[test]
fn health_of_a_worker_ends_when_its_cleaner_panics() {
    simulated_on(server, async |server| {
        let zk = start(builder(&server).acl_provider(Panics)).await;
        let mut worker = Jobs::new(&zk, "/jobs").worker("worker");
        let health = worker.health();
        assert!(worker.try_next().await.unwrap().is_none());
        let last = in_time("health", ended(health)).await;
        assert!(last.contains("Failed"), "{last}");
        drop(worker);
    });
}

/// A task of two that do one work has ended: the work is not done.
#[test]
fn health_of_a_node_ends_when_its_touching_does() {
    simulated_on(server, async |server| {
        let zk = start(builder(&server).acl_provider(Panics)).await;
        let node = PersistentTtlNode::builder(&zk, "/node", TTL).touch_name("panics").start();
        let last = in_time("health", ended(node.health())).await;
        assert!(last.contains("Failed"), "{last}");
    });
}

/// The tasks run in another runtime, which ends while their callers wait for a server that does not
/// respond.
#[test]
fn callers_get_an_error_if_the_runtime_ends() {
    for (name, wait) in CREATING {
        real_time(async {
            let server = TestServer::start().await;
            let runtime =
                Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
            let zk = start(builder(&server).spawner(Arc::new(runtime.handle().clone()))).await;
            server.hold();
            let end = async {
                // Whatever the task has done so far.
                for _ in 0..20 {
                    tokio::task::yield_now().await;
                }
                runtime.shutdown_background();
            };
            let (told, ()) = tokio::join!(timeout(HOUR, wait(zk)), end);
            assert!(!told.unwrap_or_else(|_| panic!("{name} waits forever")).is_empty(), "{name}");
        });
    }
}

/// Nothing that was started in a runtime that has ended is ever polled.
#[test]
fn callers_get_an_error_if_the_runtime_has_ended() {
    for (name, wait) in CREATING {
        real_time(async {
            let server = TestServer::start().await;
            let sessions =
                Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
            let zk = start(builder(&server).spawner(Arc::new(sessions.handle().clone()))).await;
            sessions.shutdown_background();
            let told = timeout(HOUR, wait(zk)).await;
            assert!(!told.unwrap_or_else(|_| panic!("{name} waits forever")).is_empty(), "{name}");
        });
    }
}

/// The visible state of a task that has panicked.
#[test]
fn health_says_that_a_task_has_panicked() {
    simulated_on(server, async |server| {
        let zk = start(builder(&server).acl_provider(Panics)).await;
        let node = node(&zk);
        in_time("created", node.created()).await.unwrap_err();
        assert!(matches!(node.health().next().await, Some(Health::Failed(_))));
        assert!(!node.is_present());
    });
}
