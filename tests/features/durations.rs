//! Every time that the public API takes: none makes a task panic, however long or short it is.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::future::{pending, ready};
use std::pin::Pin;
use std::sync::{Arc, Once};
use std::time::{Duration, SystemTime};

use futures_util::future::join;
use tokio::time::timeout;
use zk_curator::op::CreateOp;
use zk_curator::retry::{
    BoundedExponentialBackoffRetry, ExponentialBackoffRetry, RetryForever, RetryNTimes,
    RetryOneTime, RetryPolicy, RetryUntilElapsed,
};
use zk_curator::{ConnectionState, CreateMode, CuratorFramework, CuratorFrameworkBuilder};
use zk_curator_client::{SessionId, SessionInfo, ZooKeeper, ZooKeeperBuilder};
use zk_curator_discovery::provider::ProviderBuilder;
use zk_curator_discovery::rest::Purge;
use zk_curator_discovery::{DownInstancePolicy, ServiceDiscovery, ServiceInstance, ServiceType};
use zk_curator_recipes::Shutdown;
use zk_curator_recipes::blocking::{self, Lock};
use zk_curator_recipes::cache::CuratorCache;
use zk_curator_recipes::counter::{DistributedAtomicLong, PromotedToLock};
use zk_curator_recipes::inspect::{KnownSession, Sessions, inspect, verdicts};
use zk_curator_recipes::leader::LeaderSelector;
use zk_curator_recipes::lease::{MultiLease, SessionLease, TimedLease};
use zk_curator_recipes::lock::{InterProcessMutex, RevocableReadWriteLock};
use zk_curator_recipes::migration::{MigrationManager, MigrationSet};
use zk_curator_recipes::node::{PersistentNode, PersistentTtlNode};
use zk_curator_recipes::partition::{Partition, SetPartitioner};
use zk_curator_recipes::queue::jobs::{Jobs, Retention};
use zk_curator_recipes::queue::{
    DistributedDelayQueue, DistributedQueue, LockingQueue, QueueSharder,
};
use zk_curator_recipes::schedule::{OncePer, Schedule};
use zk_curator_recipes::two_phase::Coordinator;
use zk_curator_testing::wait::{past, spend};
use zk_curator_testing::{TestCluster, TestServer, TestServerBuilder, Verdict};
use zk_curator_tests::{
    builder, connected, files_below, in_memory, once, real_time, server, simulated, simulated_with,
    start, until_state,
};

const MINUTE: Duration = Duration::from_secs(60);

const TIMES: [Duration; 5] = [
    Duration::ZERO,
    Duration::from_nanos(1),
    Duration::from_secs(24 * 3600),
    Duration::from_millis(u64::MAX),
    Duration::MAX,
];

/// Uses a setting or an argument with this value. What waits is left after a minute.
type Case = (&'static str, fn(Duration) -> Pin<Box<dyn Future<Output = ()>>>);

macro_rules! cases {
    ($($name:literal => |$time:ident $(, $zk:ident)?| $case:expr,)*) => {
        const CASES: &[Case] = &[$(($name, |$time| Box::pin(async move {
            $(let (_server, $zk) = in_memory().await;)?
            let _: () = $case.await;
        }))),*];
    };
}

/// A framework with a setting: it connects, survives a lost connection, and closes.
async fn used(set: impl FnOnce(CuratorFrameworkBuilder) -> CuratorFrameworkBuilder) {
    let server = server().await;
    let Ok(zk) = set(builder(&server)).build() else { return };
    // A setting may leave no time to connect.
    drop(zk.start().await);
    drop(zk.create("/n").owned().await);
    server.disconnect(zk.session().map_or(0, |session| session.id.get()));
    drop(zk.get_data("/n").await);
    drop(zk.close().await);
    assert_eq!(zk.state(), ConnectionState::Closed);
}

/// Asks a retry policy about a connection that does not come, and about a connection that returns.
async fn retried(policy: impl RetryPolicy + Clone) {
    let server = server().await;
    let zk = start(builder(&server).retry(policy.clone()).circuit_breaker(policy)).await;
    let _lost = once(&server, zk_curator_proto::OpCode::GetData, Verdict::LoseReply);
    drop(timeout(MINUTE, zk.get_data("/n").into_future()).await);
    server.stop().await;
    drop(timeout(MINUTE, zk.get_data("/n").into_future()).await);
    server.restart().await.unwrap();
}

/// A session of the raw client with a setting.
async fn raw(set: impl FnOnce(ZooKeeperBuilder) -> ZooKeeperBuilder) {
    let server = server().await;
    let builder =
        ZooKeeper::builder(server.connect_string()).connector(Arc::new(server.connector()));
    let Ok(zk) = set(builder).connect() else { return };
    drop(timeout(MINUTE, zk.exists("/")).await);
    server.disconnect(zk.session().map_or(0, |session| session.id.get()));
    drop(timeout(MINUTE, zk.exists("/")).await);
    drop(zk.close().await);
}

/// A member of a set, whose body ends and fails.
async fn member(set: SetPartitioner) {
    let body = async |part: Partition| {
        drop(timeout(MINUTE / 4, part.revoked()).await);
        Err::<(), _>("it fails")
    };
    drop(timeout(MINUTE, set.run(body)).await);
}

/// A server with a setting: a session lives for a minute, and a container is looked at.
async fn served(set: impl FnOnce(TestServerBuilder) -> TestServerBuilder) {
    let server = set(TestServer::builder()).tcp(false).start().await.unwrap();
    let zk = builder(&server).build().unwrap();
    drop(zk.start().await);
    drop(zk.create("/container").mode(CreateMode::Container).await);
    past(MINUTE).await;
    server.advance(MINUTE);
    drop(zk.get_data("/container").await);
}

/// A provider with a setting: one call fails, another one succeeds.
async fn called(
    zk: &CuratorFramework,
    set: impl FnOnce(ProviderBuilder<()>) -> ProviderBuilder<()>,
) {
    let discovery = ServiceDiscovery::<()>::new(zk, "/services");
    let orders = ServiceInstance::builder("orders").payload(()).build().unwrap();
    let _orders = discovery.register(orders).await.unwrap();
    let provider = set(discovery.provider("orders")).start();
    provider.wait_ready(1).await.unwrap();
    provider.get().unwrap().failed();
    provider.get().unwrap().ok();
}

/// A purge with a setting: an instance is registered for a minute and a half.
async fn purged(
    zk: &CuratorFramework,
    purge: impl FnOnce(&ServiceDiscovery<()>) -> Purge<()>,
    is_removed: bool,
) {
    let discovery = ServiceDiscovery::<()>::new(zk, "/services");
    let orders = ServiceInstance::builder("orders").id("a").service_type(ServiceType::Static);
    let _orders = discovery.register(orders.build().unwrap()).await.unwrap();
    drop(timeout(MINUTE * 3 / 2, purge(&discovery).run()).await);
    assert_eq!(discovery.instance("orders", "a").await.unwrap().is_none(), is_removed);
}

/// Judges a lock whose session has these facts.
async fn judged(zk: &CuratorFramework, known: KnownSession) {
    let held = InterProcessMutex::new(zk, "/lock").acquire().await.unwrap();
    let finding = inspect(zk, "/lock").await.unwrap();
    let mut sessions = Sessions::new();
    sessions.insert(zk.session().unwrap().id, known);
    sessions.all_servers_asked();
    assert!(!verdicts(&finding, &sessions).is_empty());
    drop(held);
}

/// A thread that waits. Its drop of the framework leaves no session.
async fn waited(wait: impl FnOnce(&blocking::CuratorFramework) + Send + 'static) {
    let server = TestServer::start().await;
    let builder = builder(&server);
    let program = move || wait(&blocking::CuratorFramework::connect(builder).unwrap());
    tokio::task::spawn_blocking(program).await.unwrap();
    server.until(|probe| probe.sessions().is_empty()).await;
    assert!(server.probe().children("/lock").is_empty());
}

/// A body that is stopped while it runs, and ends long after that.
async fn body<T>(stop: &Shutdown, result: T) -> T {
    stop.begin();
    spend(MINUTE).await;
    result
}

cases! {
    "client/src/config.rs::session_timeout" => |time| raw(|builder| builder.session_timeout(time)),
    "client/src/config.rs::close_timeout" => |time| raw(|builder| builder.close_timeout(time)),
    "client/src/config.rs::connect_deadline" => |time| raw(|builder| builder.connect_deadline(time)),
    "client/src/config.rs::slow_request" => |time| raw(|builder| builder.slow_request(time)),
    "client/src/types.rs::new" => |time| async move {
        assert_eq!(SessionInfo::new(SessionId::new(1), time).timeout, time);
    },
    "client/src/zookeeper.rs::with_deadline" => |time| async move {
        let server = server().await;
        let builder = ZooKeeper::builder(server.connect_string()).connector(Arc::new(server.connector()));
        let zk = builder.connect().unwrap().with_deadline(time);
        let seen = zk.exists("/").await;
        assert!(seen.is_ok() || time <= Duration::from_nanos(1), "{seen:?}");
    },
    "client/src/operations.rs::create_with_ttl" => |time| async move {
        let server = server().await;
        let builder = ZooKeeper::builder(server.connect_string()).connector(Arc::new(server.connector()));
        let zk = builder.connect().unwrap();
        let mode = CreateMode::PersistentWithTtl;
        let acl = zk_curator::Acl::open_unsafe();
        let created = zk.create_with_ttl("/n", b"", &acl, mode, time).await;
        assert_eq!(created.is_ok(), time == TIMES[2], "{created:?}");
    },
    "src/builder.rs::session_timeout" => |time| used(|builder| builder.session_timeout(time)),
    "src/builder.rs::connection_timeout" => |time| used(|builder| builder.connection_timeout(time)),
    // The session is closed, and a lock with it.
    "src/builder.rs::close_timeout" => |time| async move {
        used(|builder| builder.close_timeout(time)).await;
        let server = server().await;
        let zk = start(builder(&server).close_timeout(time)).await;
        zk.create("/lock").mode(CreateMode::Ephemeral).await.unwrap();
        let closed = zk.close().await;
        if time > Duration::from_nanos(1) {
            closed.unwrap();
            assert!(!server.probe().exists("/lock"));
        }
    },
    "src/builder.rs::operation_deadline" => |time| used(|builder| builder.operation_deadline(time)),
    "src/framework.rs::jitter" => |time, zk| async move {
        assert!(zk.jitter(time) <= time);
    },
    "src/handle_options.rs::with_deadline" => |time, zk| async move {
        let seen = zk.with_deadline(time).exists("/").await;
        assert!(seen.is_ok() || time <= Duration::from_nanos(1), "{seen:?}");
    },
    "src/op/attempt.rs::deadline" => |time, zk| async move {
        let seen = zk.exists("/").deadline(time).await;
        assert!(seen.is_ok() || time <= Duration::from_nanos(1), "{seen:?}");
    },
    // Of a request, an operation of a transaction, a typed node and a model.
    "src/op/settings.rs::ttl" => |time, zk| async move {
        let created = zk.create("/n").mode(CreateMode::PersistentWithTtl).ttl(time).await;
        assert_eq!(created.is_ok(), time == TIMES[2], "{created:?}");
        let create = CreateOp::new("/m").mode(CreateMode::PersistentWithTtl).ttl(time);
        let created = zk.transaction().with(create).commit().await;
        assert_eq!(created.is_ok(), time == TIMES[2], "{created:?}");
        let typed = zk.typed::<u32>().mode(CreateMode::PersistentWithTtl).ttl(time);
        assert_eq!(typed.create("/o", &1).await.is_ok(), time == TIMES[2]);
        zk_curator::path_template!(Node = "/p");
        let spec = Node::spec::<u32>().mode(CreateMode::PersistentWithTtl).ttl(time);
        assert_eq!(zk.model(spec).at(()).create(&1).await.is_ok(), time == TIMES[2]);
    },
    "src/retry/policies.rs::new" => |time| async move {
        retried(RetryOneTime::new(time)).await;
        retried(RetryNTimes::new(2, time)).await;
        retried(RetryUntilElapsed::new(MINUTE, time.max(Duration::from_millis(1)))).await;
        retried(RetryUntilElapsed::new(time, MINUTE)).await;
        retried(RetryForever::new(time)).await;
        retried(ExponentialBackoffRetry::new(time, 3)).await;
        retried(BoundedExponentialBackoffRetry::new(time, time, 3)).await;
    },
    "src/watch/children.rs::settled" => |time, zk| async move {
        let mut watch = zk.watch_children("/").settled(time);
        let told = timeout(MINUTE, watch.next()).await;
        zk.create("/n").await.unwrap();
        let again = timeout(MINUTE, watch.next()).await;
        assert!(told.is_ok() || again.is_ok() || time > MINUTE, "{time:?}");
        assert!(again.is_err() || time < MINUTE, "{time:?}");
    },
    "discovery/src/provider/down.rs::new" => |time, zk| async move {
        called(&zk, |provider| provider.down_policy(DownInstancePolicy::new(1, time))).await;
    },
    "discovery/src/provider/mod.rs::max_staleness" => |time, zk| async move {
        called(&zk, |provider| provider.max_staleness(time)).await;
    },
    "discovery/src/registration/handle.rs::gate" => |time, zk| async move {
        let discovery = ServiceDiscovery::<()>::new(&zk, "/services");
        let orders = ServiceInstance::builder("orders").build().unwrap();
        let mut me = discovery.register(orders).await.unwrap();
        let mut passes = false;
        me.gate(time, move || {
            passes = !passes;
            ready(!passes)
        });
        past(MINUTE).await;
        me.ungate().await.unwrap();
        assert!(!me.is_gated());
    },
    "discovery/src/rest/purge.rs::new" => |time, zk| async move {
        purged(&zk, |discovery| Purge::new(discovery, time), time < MINUTE).await;
    },
    "discovery/src/rest/purge.rs::every" => |time, zk| async move {
        purged(&zk, |discovery| Purge::new(discovery, MINUTE / 2).every(time), time < MINUTE).await;
    },
    "recipes/src/cache/handle/builder.rs::resync_spread" => |time| async move {
        let (server, zk) = in_memory().await;
        let cache = CuratorCache::tree(&zk, "/tree").resync_spread(time).start();
        cache.loaded().await.unwrap();
        server.stop().await;
        until_state(&zk, ConnectionState::Suspended).await;
        server.restart().await.unwrap();
        // A caller does not wait for this.
        cache.synced().await.unwrap();
    },
    "recipes/src/cache/handle/builder.rs::audit_every" => |time, zk| async move {
        let cache = CuratorCache::tree(&zk, "/tree").audit_every(time).start();
        cache.loaded().await.unwrap();
        past(MINUTE).await;
        cache.synced().await.unwrap();
    },
    "recipes/src/cache/handle/cache.rs::exact" => |time, zk| async move {
        let cache = CuratorCache::tree(&zk, "/tree").start();
        cache.loaded().await.unwrap();
        let exact = cache.exact(time).await.unwrap();
        assert!(exact.is_some() || time < MINUTE, "{time:?}");
    },
    "recipes/src/counter/builder.rs::keep_records" => |time, zk| async move {
        let counter = DistributedAtomicLong::builder(&zk, "/n").keep_records(time).build();
        counter.increment().await.unwrap();
    },
    "recipes/src/race.rs::new" => |time| async move {
        let (server, zk) = in_memory().await;
        let other = DistributedAtomicLong::new(&connected(&server).await, "/n");
        let lock = PromotedToLock::new("/lock", time);
        let counter = DistributedAtomicLong::builder(&zk, "/n").retries(0).then_lock(lock).build();
        counter.increment().await.unwrap();
        other.increment().await.unwrap();
        let added = counter.increment().await;
        assert!(added.is_ok() || time < MINUTE, "{added:?}");
    },
    "src/blocking.rs::run_within" => |time| waited(move |zk| {
        let seen = zk.run_within(time, |zk| zk.exists("/"));
        assert!(seen.is_some() || time <= Duration::from_nanos(1), "{time:?}");
    }),
    // Zero acquires a free lock. A shorter time than a round trip may be too short.
    "recipes/src/blocking.rs::acquire_within" => |time| waited(move |zk| {
        let lock = Lock::new(zk, |zk| InterProcessMutex::new(zk, "/lock"));
        let held = lock.acquire_within(time).unwrap();
        assert!(held.is_some() || time == Duration::from_nanos(1), "{time:?}");
    }),
    // No holder is removed before the grace time is over.
    "recipes/src/lock/handover.rs::local_batch" => |time, zk| async move {
        let lock = InterProcessMutex::new(&zk, "/a").local_batch(u32::MAX, time);
        let guard = lock.acquire().await.unwrap();
        let mut next = Box::pin(lock.acquire());
        assert!(futures_util::poll!(&mut next).is_pending());
        spend(MINUTE / 2).await;
        guard.release().await.unwrap();
        let next = next.await.unwrap();
        assert_eq!(next.local_token().turn, u32::from(time > MINUTE));
    },
    "recipes/src/lock/revocable.rs::revoke" => |time| async move {
        let (server, zk) = in_memory().await;
        let lock = RevocableReadWriteLock::new(&zk, "/lock");
        let guard = lock.write_lock().acquire().await.unwrap();
        let revoked = timeout(MINUTE, lock.revoke(guard.path(), time)).await;
        assert_eq!(revoked.is_ok(), time < MINUTE, "{revoked:?}");
        assert_eq!(server.probe().exists(guard.path()), time > MINUTE);
    },
    "recipes/src/migration/manager.rs::lock_timeout" => |time, zk| async move {
        let set = MigrationSet::builder("a").migration("b", |m| m.create("/b", "")).build().unwrap();
        let manager = MigrationManager::new(&zk, "/locks", "/meta").lock_timeout(time);
        let migrated = manager.migrate(&set).await;
        assert!(migrated.is_ok() || time == TIMES[1], "{time:?} {migrated:?}");
    },
    "recipes/src/node/persistent.rs::ttl" => |time, zk| async move {
        let node = PersistentNode::builder(&zk, "/n", CreateMode::PersistentWithTtl).ttl(time).start();
        let created = node.created().await;
        assert_eq!(created.is_ok(), time == TIMES[2], "{created:?}");
    },
    "recipes/src/inspect/session.rs::expires" => |time, zk| async move {
        judged(&zk, KnownSession::new().timeout(MINUTE).expires(time)).await;
    },
    "recipes/src/inspect/session.rs::heard" => |time, zk| async move {
        judged(&zk, KnownSession::new().timeout(MINUTE).heard(time)).await;
    },
    "recipes/src/inspect/session.rs::timeout" => |time, zk| async move {
        judged(&zk, KnownSession::new().timeout(time).heard(MINUTE)).await;
    },
    "recipes/src/node/ttl.rs::builder" => |time, zk| async move {
        let node = PersistentTtlNode::builder(&zk, "/n", time).start();
        let created = node.created().await;
        assert_eq!(created.is_ok(), time == TIMES[2], "{created:?}");
        past(MINUTE / 60).await;
    },
    "recipes/src/queue/consume/consumer.rs::redeliver_after" => |time, zk| async move {
        let queue = DistributedQueue::new(&zk, "/queue");
        queue.put("item").await.unwrap();
        let body = |_| async {
            spend(MINUTE / 60).await;
            Err::<(), _>("as the test wants it")
        };
        let consumer = queue.consumer("/claims").redeliver_after(time, time);
        drop(timeout(MINUTE, consumer.run(1, body)).await);
        let queue = LockingQueue::new(&zk, "/locking").max_deliveries(3);
        queue.put("item").await.unwrap();
        let body = |_| ready(Err::<(), _>("as the test wants it"));
        drop(timeout(MINUTE, queue.consumer().redeliver_after(time, time).run(1, body)).await);
        let jobs = Jobs::new(&zk, "/jobs");
        jobs.submit("job").await.unwrap();
        let body = |_| async {
            spend(MINUTE / 60).await;
            Err::<Option<bytes::Bytes>, _>("as the test wants it")
        };
        drop(timeout(MINUTE, jobs.worker("w").redeliver_after(time, time).run(1, body)).await);
    },
    // The item is not due immediately.
    "recipes/src/queue/jobs/job.rs::retry_after" => |time, zk| async move {
        let jobs = Jobs::new(&zk, "/jobs");
        jobs.submit("job").await.unwrap();
        let mut worker = jobs.worker("w");
        worker.next().await.unwrap().retry_after("later", time).await.unwrap();
        let again = timeout(MINUTE, worker.next()).await;
        assert_eq!(again.is_ok(), time < MINUTE, "{time:?}");
        if let Ok(job) = again {
            job.unwrap().task().retry_after(time);
        }
    },
    "recipes/src/queue/jobs/retention.rs::within" => |time, zk| async move {
        assert_eq!(Retention::from(time), Retention::unlimited().within(time));
        let jobs = Jobs::new(&zk, "/jobs").keep_failed(Retention::unlimited().within(time));
        let mut worker = jobs.worker("w");
        // Zero is refused.
        let submitted = jobs.submit("job").await;
        assert_eq!(submitted.is_err(), time.is_zero(), "{submitted:?}");
        if submitted.is_err() {
            return;
        }
        let job = worker.next().await.unwrap();
        drop(job.reject("as the test wants it").await);
        past(MINUTE * 3).await;
    },
    "recipes/src/queue/sharder/mod.rs::check_every" => |time, zk| async move {
        let started = sharder(&zk, time).await;
        assert_eq!(started.is_err(), time.is_zero());
        past(MINUTE.min(time.saturating_mul(1000))).await;
    },
    "recipes/src/partition/partitioner.rs::settle" => |time, zk| async move {
        member(SetPartitioner::new(&zk, "/a", ["s"]).settle(time)).await;
    },
    "recipes/src/partition/partitioner.rs::leave_delay" => |time, zk| async move {
        member(SetPartitioner::new(&zk, "/a", ["s"]).leave_delay(time)).await;
    },
    "recipes/src/partition/partitioner.rs::drain" => |time, zk| async move {
        member(SetPartitioner::new(&zk, "/a", ["s"]).drain(time)).await;
    },
    "recipes/src/partition/partitioner.rs::restart" => |time, zk| async move {
        member(SetPartitioner::new(&zk, "/a", ["s"]).restart(time, time)).await;
    },
    "recipes/src/lease/session.rs::ttl" => |time, zk| async move {
        if let Ok(lease) = SessionLease::builder(&zk).ttl(time).open().await {
            drop(timeout(MINUTE, lease.lost()).await);
            lease.revoke().await.unwrap();
        }
    },
    "recipes/src/lease/timed.rs::margin" => |time, zk| async move {
        let lease = TimedLease::new(&zk, "/lease", "a").margin(time);
        drop(lease.try_take(MINUTE).await.unwrap());
        drop(TimedLease::new(&zk, "/lease", "b").margin(time).try_take(MINUTE).await.unwrap());
        drop(MultiLease::new(&zk, "/leases", 2, "a").margin(time).try_take(MINUTE).await.unwrap());
    },
    "recipes/src/lease/timed.rs::try_take" => |time, zk| async move {
        let lease = TimedLease::new(&zk, "/lease", "a");
        if let Ok(Some(guard)) = lease.try_take(time).await {
            drop(timeout(MINUTE, guard.expired()).await);
        }
        drop(MultiLease::new(&zk, "/leases", 2, "a").try_take(time).await);
    },
    "recipes/src/lease/guard.rs::renew" => |time, zk| async move {
        let lease = TimedLease::new(&zk, "/lease", "a");
        let mut guard = lease.try_take(MINUTE).await.unwrap().unwrap();
        drop(guard.renew(time).await);
        drop(timeout(MINUTE, guard.expired()).await);
    },
    "src/framework.rs::another" => |time, zk| async move {
        if let Ok(other) = zk.another(time) {
            drop(other.start().await);
            drop(other.close().await);
        }
    },
    "recipes/src/schedule/once_per.rs::tolerance" => |time, zk| async move {
        let each = OncePer::new(&zk, "/each", Schedule::every(MINUTE / 60)).tolerance(time);
        drop(timeout(MINUTE, each.run(|_| ready(Ok::<_, String>(())))).await);
    },
    "recipes/src/schedule/plan.rs::every" => |time, zk| async move {
        let each = OncePer::new(&zk, "/each", Schedule::every(time));
        drop(timeout(MINUTE, each.run(|_| ready(Ok::<_, String>(())))).await);
    },
    "recipes/src/schedule/plan.rs::offset" => |time, zk| async move {
        let each = OncePer::new(&zk, "/each", Schedule::every(TIMES[2] * 2).offset(time));
        drop(timeout(MINUTE, each.run(|_| ready(Ok::<_, String>(())))).await);
    },
    // Of each recipe that runs until a stop.
    "recipes/src/shutdown.rs::deadline" => |time, zk| async move {
        let shutdown = Shutdown::new().deadline(time);
        let waited = timeout(MINUTE, shutdown.step(pending::<()>())).await;
        assert_eq!(waited.is_ok(), time <= Duration::from_nanos(1), "{waited:?}");
        shutdown.close(&zk).await;
    },
    "recipes/src/shutdown.rs::drain" => |time, zk| async move {
        let stops: Vec<_> = (0..6).map(|_| Shutdown::new()).collect();
        let stop = |number: usize| stops[number].clone().drain(time);
        let selector = LeaderSelector::new(&zk, "/selector");
        selector.run(|_| body(&stops[0], ())).until(stop(0)).await.unwrap();
        let queue = DistributedQueue::new(&zk, "/queue");
        queue.put_all(["1", "2"]).await.unwrap();
        let each = |_| body(&stops[1], Ok::<_, String>(()));
        queue.auto_ack_consumer().run(1, each).until(stop(1)).await.unwrap();
        let each = |_| body(&stops[2], Ok::<_, String>(()));
        queue.put("3").await.unwrap();
        queue.consumer("/claims").run(1, each).until(stop(2)).await.unwrap();
        let locking = LockingQueue::new(&zk, "/locking");
        locking.put("item").await.unwrap();
        let each = |_| body(&stops[3], Ok::<_, String>(()));
        locking.consumer().run(1, each).until(stop(3)).await.unwrap();
        let jobs = Jobs::new(&zk, "/jobs");
        jobs.submit("job").await.unwrap();
        let each = |_| body(&stops[4], Ok::<Option<bytes::Bytes>, String>(None));
        jobs.worker("w").run(1, each).until(stop(4)).await.unwrap();
        let sharder = sharder(&zk, MINUTE).await.unwrap();
        sharder.run(|_| body(&stops[5], Ok::<_, String>(()))).until(stop(5)).await.unwrap();
    },
    "recipes/src/two_phase/coordinator.rs::deadline" => |time, zk| async move {
        let begun = Coordinator::begin(&zk, "/tx", ["a"], "payload").deadline(time).await;
        let decided = timeout(MINUTE, async { begun.unwrap().outcome().await }).await;
        assert_eq!(decided.is_ok(), time < MINUTE, "{decided:?}");
    },
    "testing/src/server/builder.rs::tick_time" => |time| served(|builder| builder.tick_time(time)),
    "testing/src/server/builder.rs::min_session_timeout" => |time| served(|builder| builder.min_session_timeout(time)),
    "testing/src/server/builder.rs::max_session_timeout" => |time| served(|builder| builder.max_session_timeout(time)),
    "testing/src/server/builder.rs::session_within" => |time| served(|builder| builder.session_within(time)),
    "testing/src/server/builder.rs::container_check_interval" => |time| served(|builder| builder.container_check_interval(time.max(Duration::from_millis(1)))),
    "testing/src/server/builder.rs::max_never_used_interval" => |time| served(|builder| builder.max_never_used_interval(time)),
    "testing/src/server/handle.rs::advance" => |time| async move {
        let (server, zk) = in_memory().await;
        server.advance(time);
        server.advance(time);
        drop(zk.get_data("/").await);
    },
    "testing/src/cluster/handle.rs::advance" => |time| async move {
        let cluster = TestCluster::in_memory(1).await;
        cluster.advance(time);
        cluster.advance(time);
    },
    "testing/src/cluster/handle.rs::lag_by" => |time| async move {
        let cluster = TestCluster::in_memory(3).await;
        let _lag = cluster.lag_by(1, time);
        cluster.advance(MINUTE);
    },
    "testing/src/wire/memory.rs::set_latency" => |time| async move {
        let server = server().await;
        let connector = server.connector();
        connector.set_latency(0, time..=time, 0);
        let zk = CuratorFramework::builder().connect_string(server.connect_string()).connector(Arc::new(connector));
        drop(timeout(MINUTE, zk.build().unwrap().start()).await);
    },
    "testing/src/fault_proxy/proxy.rs::delay" => |time| async move {
        let proxy = zk_curator_testing::FaultProxy::start(&[([127, 0, 0, 1], 1).into()]).await.unwrap();
        proxy.delay(time);
    },
}

async fn sharder(
    zk: &CuratorFramework,
    every: Duration,
) -> Result<QueueSharder<DistributedQueue>, zk_curator_recipes::queue::Error> {
    let allocate = |zk: &CuratorFramework, path: &str| DistributedQueue::new(zk, path);
    QueueSharder::builder(zk, "/shards", "/leader", allocate).check_every(every).open().await
}

thread_local! {
    /// The panics of this thread, also of tasks.
    static PANICS: Cell<usize> = const { Cell::new(0) };
}

fn count_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            PANICS.set(PANICS.get() + 1);
            before(info);
        }));
    });
}

#[test]
fn no_time_is_too_long_or_too_short() {
    count_panics();
    for (name, case) in CASES {
        for time in TIMES {
            let before = PANICS.get();
            if name.contains("fault_proxy") || name.contains("blocking") {
                // They need sockets.
                real_time(case(time));
            } else {
                simulated(async {
                    // A case that waits for that time is left.
                    drop(timeout(MINUTE * 60, case(time)).await);
                });
            }
            assert_eq!(PANICS.get(), before, "{name} with {time:?}");
        }
    }
}

/// A far time in the name of an item must not be read as one before 1970.
#[test]
fn a_far_time_is_not_due() {
    simulated_with(async |_server, zk| {
        let queue = DistributedDelayQueue::new(&zk, "/queue");
        let ages = Duration::from_secs(i64::MAX as u64 - 10);
        queue.put("late", SystemTime::UNIX_EPOCH + ages).await.unwrap();
        let mut consumer = queue.auto_ack_consumer();
        assert!(timeout(MINUTE, consumer.next()).await.is_err());
        queue.put("now", SystemTime::UNIX_EPOCH).await.unwrap();
        let (item, ()) = join(consumer.next(), async {}).await;
        assert_eq!(item.unwrap().items, ["now"]);
    });
}

/// Returns the public functions below a directory that take a time, as `file::name`.
fn takes_time(directory: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (name, text) in files_below(&[directory], "rs") {
        if name.contains("/tests") || name.contains("/bin/") {
            continue;
        }
        for (at, _) in text.match_indices("    pub ") {
            let rest = &text[at + "    pub ".len()..];
            let Some((before, rest)) = rest.split_once("fn ") else { continue };
            if !["", "const ", "async "].contains(&before) {
                continue;
            }
            let function: String =
                rest.chars().take_while(|char| char.is_alphanumeric() || *char == '_').collect();
            let arguments = rest.split_once(") ").map_or(rest, |(arguments, _)| arguments);
            if arguments.contains(": Duration")
                || arguments.contains("time::Duration")
                || arguments.contains("<Duration>")
            {
                found.insert(format!("{name}::{function}"));
            }
        }
    }
    found
}

#[test]
fn every_function_that_takes_a_time_is_a_case() {
    let directories = ["client/src", "src", "recipes/src", "discovery/src", "testing/src"];
    let takes: BTreeSet<String> = directories.into_iter().flat_map(takes_time).collect();
    let cases: BTreeSet<String> = CASES.iter().map(|(name, _)| (*name).to_owned()).collect();
    let missing: Vec<_> = takes.difference(&cases).collect();
    assert!(missing.is_empty(), "no case for {missing:?}");
    assert!(cases.iter().all(|case| takes.contains(case)), "{:?}", cases.difference(&takes));
}
