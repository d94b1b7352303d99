//! The documented metrics.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::future::{pending, ready};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use futures_util::FutureExt;
use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use zk_curator::{ConnectionState, CreateMode, CuratorFramework};
use zk_curator_discovery::provider::Unavailable;
use zk_curator_discovery::{DownInstancePolicy, ServiceDiscovery, ServiceInstance};
use zk_curator_proto::OpCode;
use zk_curator_recipes::cache::CuratorCache;
use zk_curator_recipes::counter::{DistributedAtomicLong, PromotedToLock};
use zk_curator_recipes::leader::{Election, LeaderLatch, LeaderSelector};
use zk_curator_recipes::lease::{SessionLease, TimedLease};
use zk_curator_recipes::lock::{
    InterProcessMultiLock, InterProcessMutex, InterProcessReadWriteLock, InterProcessSemaphore,
    InterProcessSemaphoreMutex, ReentrantMutex,
};
use zk_curator_recipes::migration::{MigrationManager, MigrationSet};
use zk_curator_recipes::partition::{Partition, SetPartitioner};
use zk_curator_recipes::queue::jobs::Jobs;
use zk_curator_recipes::queue::{DistributedQueue, LockingQueue, QueueSharder};
use zk_curator_recipes::schedule::{OncePer, Schedule};
use zk_curator_recipes::stm::{Stm, Tx};
use zk_curator_testing::wait::{self, idle, settled};
use zk_curator_testing::{TestServer, Verdict};
use zk_curator_tests::{
    builder, connected, expire, once, once_on_write_multi, poll_then_drop, simulated_on,
    simulated_with, start, until, until_state,
};

/// Sums of counters and gauges, and the numbers of values of histograms.
#[derive(Clone, Default)]
struct Sums(Arc<Mutex<BTreeMap<String, f64>>>);

struct One {
    name: String,
    sums: Sums,
}

impl One {
    fn add(&self, value: f64) {
        *self.sums.0.lock().unwrap().entry(self.name.clone()).or_default() += value;
    }
}

impl CounterFn for One {
    fn increment(&self, value: u64) {
        self.add(value as f64);
    }
    fn absolute(&self, _value: u64) {
        panic!("no counter is absolute");
    }
}

impl GaugeFn for One {
    fn increment(&self, value: f64) {
        self.add(value);
    }
    fn decrement(&self, value: f64) {
        self.add(-value);
    }
    fn set(&self, value: f64) {
        self.sums.0.lock().unwrap().insert(self.name.clone(), value);
    }
}

impl HistogramFn for One {
    fn record(&self, value: f64) {
        assert!(value >= 0.0);
        self.add(1.0);
    }
}

impl Sums {
    fn one(&self, key: &Key) -> Arc<One> {
        let labels: Vec<_> =
            key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
        Arc::new(One {
            name: format!("{}{{{}}}", key.name(), labels.join(",")),
            sums: self.clone(),
        })
    }

    /// The present value; zero for a series that does not exist.
    fn get(&self, name: &str) -> f64 {
        self.find(name).unwrap_or_default()
    }

    /// Asserts that a series has this value.
    fn shows(&self, name: &str, value: f64) {
        assert_eq!(self.get(name), value, "{name}");
    }

    /// Waits until the tasks that can run have given a series this value.
    async fn comes_to(&self, name: &str, value: f64) {
        for _ in 0..100 {
            if self.get(name) == value {
                break;
            }
            tokio::task::yield_now().await;
        }
        self.shows(name, value);
    }

    fn find(&self, name: &str) -> Option<f64> {
        self.0.lock().unwrap().get(&format!("zk_curator_{name}")).copied()
    }
}

impl Recorder for Sums {
    fn describe_counter(&self, _key: KeyName, _unit: Option<Unit>, _text: SharedString) {}
    fn describe_gauge(&self, _key: KeyName, _unit: Option<Unit>, _text: SharedString) {}
    fn describe_histogram(&self, _key: KeyName, _unit: Option<Unit>, _text: SharedString) {}
    // As exporters do, a series exists from its registration.
    fn register_counter(&self, key: &Key, _metadata: &Metadata<'_>) -> Counter {
        let one = self.one(key);
        one.add(0.0);
        Counter::from_arc(one)
    }
    fn register_gauge(&self, key: &Key, _metadata: &Metadata<'_>) -> Gauge {
        let one = self.one(key);
        one.add(0.0);
        Gauge::from_arc(one)
    }
    fn register_histogram(&self, key: &Key, _metadata: &Metadata<'_>) -> Histogram {
        let one = self.one(key);
        one.add(0.0);
        Histogram::from_arc(one)
    }
}

/// Runs a test whose metrics are summed.
fn measured<F: Future<Output = ()>>(test: impl FnOnce(Sums, TestServer, CuratorFramework) -> F) {
    measured_by(Sums::default(), test);
}

fn measured_by<F: Future<Output = ()>>(
    sums: Sums,
    test: impl FnOnce(Sums, TestServer, CuratorFramework) -> F,
) {
    metrics::with_local_recorder(&sums.clone(), || {
        simulated_with(async |server, zk| {
            test(sums, server, zk).await;
        });
    });
}

#[test]
fn operations_are_counted_by_kind_and_result_and_timed() {
    measured(operations);
}

async fn operations(sums: Sums, server: TestServer, zk: CuratorFramework) {
    zk.create("/a").await.unwrap();
    zk.create("/a").await.unwrap_err();
    zk.get_data("/a").await.unwrap();
    poll_then_drop(zk.get_data("/a").into_future(), 2).await;
    // Never sent, never counted.
    drop(zk.get_data("/a").into_future());
    sums.shows("operations_total{framework=,operation=create,result=ok}", 1.0);
    sums.shows("operations_total{framework=,operation=create,result=refused}", 1.0);
    sums.shows("operation_errors_total{framework=,kind=node_exists}", 1.0);
    sums.shows("operations_total{framework=,operation=get_data,result=ok}", 1.0);
    sums.shows("operations_total{framework=,operation=get_data,result=cancelled}", 1.0);
    sums.shows("operation_duration_seconds{framework=,operation=create}", 2.0);
    let _lost = once(&server, OpCode::GetData, Verdict::LoseReply);
    zk.get_data("/a").await.unwrap();
    sums.shows("retries_total{framework=,operation=get_data}", 1.0);
    sums.shows("operations_total{framework=,operation=get_data,result=ok}", 2.0);
}

#[test]
fn states_and_lost_sessions_are_counted() {
    measured(async |sums, server, zk| {
        sums.shows("state_changes_total{framework=,state=connected}", 1.0);
        expire(&server, &zk).await;
        until_state(&zk, ConnectionState::Reconnected { same_session: false }).await;
        sums.shows("sessions_lost_total{framework=}", 1.0);
        sums.shows("state_changes_total{framework=,state=lost}", 1.0);
        sums.shows("state_changes_total{framework=,state=reconnected}", 1.0);
        zk.close().await.unwrap();
        sums.shows("state_changes_total{framework=,state=closed}", 1.0);
        sums.shows("sessions_lost_total{framework=}", 1.0);
    });
}

#[test]
fn the_backlog_of_the_janitor_grows_and_shrinks() {
    measured(async |sums, server, zk| {
        let nodes =
            [zk.create("/a").owned().await.unwrap(), zk.create("/b").owned().await.unwrap()];
        server.stop().await;
        until_state(&zk, ConnectionState::Suspended).await;
        sums.shows("janitor_backlog{framework=}", 0.0);
        drop(nodes);
        sums.shows("janitor_backlog{framework=}", 2.0);
        server.restart().await.unwrap();
        zk.create("/c").mode(CreateMode::Ephemeral).await.unwrap();
        zk.close().await.unwrap();
        sums.shows("janitor_backlog{framework=}", 0.0);
    });
}

#[test]
fn writes_of_counters_are_counted_and_what_they_share() {
    measured(counters);
}

async fn counters(sums: Sums, server: TestServer, zk: CuratorFramework) {
    let other = connected(&server).await;
    let [ours, theirs] = [&zk, &other].map(|zk| DistributedAtomicLong::at(zk, "/n"));
    futures_util::future::join_all((0..10).map(|_| ours.increment())).await;
    let writes = sums.get("counter_writes_total{framework=}");
    assert_eq!((writes, sums.get("counter_merged_total{framework=}")), (1.0, 9.0));
    theirs.increment().await.unwrap();
    ours.increment().await.unwrap();
    sums.shows("counter_conflicts_total{framework=}", 1.0);
    let lost = once_on_write_multi(&server, Verdict::LoseReply);
    let unproven = DistributedAtomicLong::builder(&zk, "/n").without_receipts().build();
    unproven.increment().await.unwrap_err();
    drop(lost);
    sums.shows("counter_unknown_total{framework=}", 1.0);
    let impatient = DistributedAtomicLong::builder(&zk, "/n").retries(0);
    let lock = PromotedToLock::new("/lock", Duration::from_secs(1));
    let impatient = impatient.then_lock(lock).build();
    impatient.increment().await.unwrap();
    theirs.increment().await.unwrap();
    impatient.increment().await.unwrap();
    sums.shows("counter_promotions_total{framework=}", 1.0);
}

#[test]
fn the_connection_its_session_and_what_is_held_are_gauges() {
    measured(async |sums, server, zk| {
        let began = |sums: &Sums| sums.get("session_start_time_seconds{framework=}");
        sums.shows("connected{framework=}", 1.0);
        assert!(began(&sums) > 1.7e9);
        let node = zk.create("/a").owned().await.unwrap();
        let watched = zk.get_data("/a").watched().await.unwrap();
        sums.shows("owned_nodes{framework=}", 1.0);
        sums.shows("watches{framework=}", 1.0);
        drop((node, watched));
        sums.shows("owned_nodes{framework=}", 0.0);
        sums.shows("watches{framework=}", 0.0);
        let mut reading = Box::pin(zk.get_data("/a").into_future());
        assert!((&mut reading).now_or_never().is_none());
        sums.shows("operations_in_progress{framework=}", 1.0);
        drop(reading);
        sums.shows("operations_in_progress{framework=}", 0.0);
        server.partition();
        until_state(&zk, ConnectionState::Suspended).await;
        sums.shows("connected{framework=}", 0.0);
        assert!(began(&sums) > 1.7e9, "it may live on");
        until_state(&zk, ConnectionState::Lost).await;
        assert_eq!(began(&sums), 0.0);
        server.heal();
    });
}

#[test]
fn locks_are_timed_and_losses_counted() {
    measured(locks);
}

async fn locks(sums: Sums, server: TestServer, zk: CuratorFramework) {
    let lock = InterProcessMutex::new(&zk, "/lock");
    let guard = lock.acquire().await.unwrap();
    sums.shows("locks_held{framework=,recipe=mutex}", 1.0);
    sums.shows("lock_acquire_duration_seconds{framework=,recipe=mutex}", 1.0);
    guard.release().await.unwrap();
    sums.shows("locks_held{framework=,recipe=mutex}", 0.0);
    sums.shows("lock_hold_duration_seconds{framework=,recipe=mutex}", 1.0);
    sums.shows("locks_lost_total{framework=,recipe=mutex}", 0.0);
    let guard = lock.acquire().await.unwrap();
    server.remove(guard.path()).unwrap();
    guard.release().await.unwrap_err();
    sums.shows("locks_lost_total{framework=,recipe=mutex}", 1.0);

    let shared = InterProcessReadWriteLock::new(&zk, "/shared");
    let lease = InterProcessSemaphore::new(&zk, "/leases", 2).acquire().await.unwrap();
    let read = shared.read_lock().acquire().await.unwrap();
    for recipe in ["read_lock", "semaphore"] {
        sums.shows(&format!("locks_held{{framework=,recipe={recipe}}}"), 1.0);
    }
    read.release().await.unwrap();
    drop(shared.write_lock().acquire().await.unwrap());
    sums.shows("lock_hold_duration_seconds{framework=,recipe=write_lock}", 1.0);
    let write = shared.write_lock().acquire().await.unwrap();
    drop(write.downgrade().await.unwrap().try_upgrade().await.unwrap());
    // Dropped at every point of its release.
    for step in 0..4 {
        let guard = lock.clone().lock_name("release-").acquire().await.unwrap();
        poll_then_drop(guard.release(), step).await;
    }
    for recipe in ["write_lock", "read_lock"] {
        sums.shows(&format!("locks_lost_total{{framework=,recipe={recipe}}}"), 0.0);
    }
    sums.shows("locks_lost_total{framework=,recipe=mutex}", 1.0);
    expire(&server, &zk).await;
    lease.lost().await;
    drop(lease);
    sums.shows("locks_lost_total{framework=,recipe=semaphore}", 1.0);

    let local = InterProcessMutex::new(&zk, "/local").local_batch(10, Duration::MAX);
    let first = local.acquire().await.unwrap();
    let mut second = Box::pin(local.acquire());
    assert!((&mut second).now_or_never().is_none());
    first.release().await.unwrap();
    drop(second.await.unwrap());
    sums.shows("lock_handovers_total{framework=}", 1.0);
    sums.shows("locks_lost_total{framework=,recipe=mutex}", 1.0);
}

#[test]
fn leases_are_timed_and_losses_counted() {
    measured(leases);
}

async fn leases(sums: Sums, server: TestServer, zk: CuratorFramework) {
    let minute = Duration::from_secs(60);
    let mut timed = TimedLease::new(&zk, "/timed", "a").try_take(minute).await.unwrap().unwrap();
    sums.shows("locks_held{framework=,recipe=timed_lease}", 1.0);
    server.remove("/timed").unwrap();
    timed.renew(minute).await.unwrap_err();
    sums.shows("locks_held{framework=,recipe=timed_lease}", 0.0);
    drop(timed);
    sums.shows("locks_lost_total{framework=,recipe=timed_lease}", 1.0);

    let revoked = SessionLease::builder(&zk).start().await.unwrap();
    let lost = SessionLease::builder(&zk).start().await.unwrap();
    let held = "locks_held{framework=,recipe=session_lease}";
    sums.shows(held, 2.0);
    revoked.revoke().await.unwrap();
    sums.comes_to(held, 1.0).await;
    sums.shows("locks_lost_total{framework=,recipe=session_lease}", 0.0);
    assert!(server.expire(lost.session_id().get()).await);
    lost.lost().await;
    sums.comes_to(held, 0.0).await;
    sums.shows("locks_lost_total{framework=,recipe=session_lease}", 1.0);
    sums.shows("lock_hold_duration_seconds{framework=,recipe=session_lease}", 2.0);
}

#[test]
fn terms_of_leaders_are_counted_and_timed() {
    measured(leaders);
}

async fn leaders(sums: Sums, server: TestServer, zk: CuratorFramework) {
    let candidate = LeaderLatch::new(&zk, "/latch").join();
    candidate.await_leadership().await.unwrap();
    sums.shows("leader{framework=,recipe=latch}", 1.0);
    candidate.close().await.unwrap();
    let selector = LeaderSelector::new(&zk, "/selector");
    selector
        .run_once(|_| async { assert_eq!(sums.get("leader{framework=,recipe=selector}"), 1.0) })
        .await
        .unwrap();
    // Dropping it resigns.
    drop(Election::new(&zk, "/election").campaign("me").await.unwrap());
    for recipe in ["latch", "selector", "election"] {
        let of = |name: &str| sums.get(&format!("{name}{{framework=,recipe={recipe}}}"));
        assert_eq!(of("leader"), 0.0, "{recipe}");
        assert_eq!(
            (of("leader_terms_total"), of("leader_terms_lost_total")),
            (1.0, 0.0),
            "{recipe}"
        );
        assert_eq!(of("leader_term_duration_seconds"), 1.0, "{recipe}");
    }
    let lost = selector.run_once(|_| async {
        expire(&server, &zk).await;
        pending::<()>().await;
    });
    lost.await.unwrap_err();
    sums.shows("leader_terms_lost_total{framework=,recipe=selector}", 1.0);
}

/// A recipe that is a part of another one has the name of that one.
#[test]
fn parts_of_recipes_have_the_name_of_their_user() {
    measured(async |sums, _server, zk| {
        let held = |recipe: &str| sums.get(&format!("locks_held{{framework=,recipe={recipe}}}"));
        let times = |recipe: &str| {
            sums.get(&format!("lock_hold_duration_seconds{{framework=,recipe={recipe}}}"))
        };
        let leads = |recipe: &str| format!("leader{{framework=,recipe={recipe}}}");

        let reentrant = ReentrantMutex::new(&zk, "/reentrant").acquire(&1).await.unwrap();
        let multi = InterProcessMultiLock::of_mutexes(&zk, ["/a", "/b"]).acquire().await.unwrap();
        let single = InterProcessSemaphoreMutex::new(&zk, "/single").acquire().await.unwrap();
        assert_eq!(["reentrant_mutex", "multi_lock", "semaphore_mutex"].map(held), [1.0, 2.0, 1.0]);
        drop((reentrant, multi, single));

        let minute = Duration::from_secs(60);
        let lease = TimedLease::new(&zk, "/lease", "me").with_kazoo();
        let lease = lease.try_take(minute).await.unwrap().unwrap();
        assert_eq!((held("timed_lease"), times("timed_lease_lock")), (1.0, 1.0));
        drop(lease);

        let lock = || PromotedToLock::new("/lock", minute);
        let counter = DistributedAtomicLong::builder(&zk, "/counter").retries(0);
        let counter = counter.then_lock(lock()).build();
        counter.increment().await.unwrap();
        zk.set_data("/counter", 7_i64.to_be_bytes().to_vec()).await.unwrap();
        counter.increment().await.unwrap();
        assert_eq!(times("counter"), 1.0);

        zk.create("/node").data("0").await.unwrap();
        let runs = Cell::new(0);
        let body = |tx: Tx| {
            runs.set(runs.get() + 1);
            let (zk, runs) = (&zk, runs.get());
            async move {
                tx.get("/node").await?;
                if runs == 1 {
                    zk.set_data("/node", "1").await?;
                }
                tx.put("/node", "2")
            }
        };
        let transaction = Stm::loose(&zk).transaction().retries(0).then_lock(lock());
        transaction.run(body).await.unwrap();
        assert_eq!(times("stm"), 1.0);

        let set = MigrationSet::builder("orders").migration("root", |m| m.create("/app", ""));
        let manager = MigrationManager::new(&zk, "/migrations/locks", "/migrations/meta");
        manager.migrate(&set.build().unwrap()).await.unwrap();
        assert_eq!(times("migration"), 1.0);

        let set = SetPartitioner::new(&zk, "/shards", ["a", "b"]).id("one");
        let stop = CancellationToken::new();
        let body = async |part: Partition| {
            part.revoked().await;
            Ok::<_, String>(())
        };
        let owned = async {
            reaches(&sums, "locks_held{framework=,recipe=partition}", 2.0).await;
            stop.cancel();
        };
        tokio::join!(set.run(body).until(stop.clone()), owned).0.unwrap();

        let jobs = Jobs::new(&zk, "/jobs");
        let leader = leads("jobs");
        let elected = reaches(&sums, &leader, 1.0);
        tokio::select! {
            ended = jobs.clean() => panic!("the cleaner has ended: {ended:?}"),
            () = elected => {}
        }
        let allocate = |zk: &CuratorFramework, path: &str| DistributedQueue::new(zk, path);
        let sharder = QueueSharder::builder(&zk, "/queues", "/leader", allocate);
        let sharder = sharder.start().await.unwrap();
        reaches(&sums, &leads("sharder"), 1.0).await;
        sharder.close().await.unwrap();

        let own = ["mutex", "semaphore", "latch", "selector", "election"];
        for recipe in own {
            let series = format!("recipe={recipe}}}");
            let named: Vec<_> = sums.0.lock().unwrap().keys().cloned().collect();
            let named: Vec<_> = named.iter().filter(|name| name.contains(&series)).collect();
            assert!(named.is_empty(), "{named:?}");
        }
        // The names of kazoo's nodes do not tell which recipe has made them.
        let candidate = LeaderLatch::new(&zk, "/latch").with_kazoo().join();
        candidate.await_leadership().await.unwrap();
        let elected = Election::new(&zk, "/election").with_kazoo().campaign("me").await.unwrap();
        assert_eq!(["latch", "election"].map(|recipe| sums.get(&leads(recipe))), [1.0, 1.0]);
        drop(elected);
        candidate.close().await.unwrap();
        let selector = LeaderSelector::new(&zk, "/selector").with_kazoo();
        selector.run_once(|_| async { sums.shows(&leads("selector"), 1.0) }).await.unwrap();
        let ended =
            |recipe: &str| sums.get(&format!("leader_terms_total{{framework=,recipe={recipe}}}"));
        assert_eq!(["latch", "election", "selector"].map(ended), [1.0; 3]);
    });
}

#[test]
fn deliveries_of_queues_are_counted() {
    measured(queues);
}

async fn queues(sums: Sums, _server: TestServer, zk: CuratorFramework) {
    let queue = LockingQueue::new(&zk, "/queue").max_deliveries(2);
    queue.put("bad").await.unwrap();
    queue.put("good").await.unwrap();
    let mut consumer = queue.consumer();
    drop(consumer.next().await.unwrap());
    let of = |name: &str| sums.get(&format!("queue_{name}{{framework=,recipe=locking_queue}}"));
    assert_eq!((of("deliveries_total"), of("redeliveries_total")), (1.0, 0.0));
    let bad = consumer.next().await.unwrap();
    assert_eq!((bad.data().as_ref(), bad.attempt()), (&b"bad"[..], 2));
    assert_eq!((of("deliveries_total"), of("redeliveries_total")), (2.0, 1.0));
    bad.reject("it is bad").await.unwrap();
    assert_eq!(of("dead_letters_total"), 1.0);
    consumer.next().await.unwrap().ack().await.unwrap();
    assert!(consumer.try_next().await.unwrap().is_none());

    let jobs = Jobs::new(&zk, "/jobs");
    jobs.submit("job").await.unwrap();
    let mut worker = jobs.worker("w");
    worker.next().await.unwrap().reject("it is bad").await.unwrap();
    sums.shows("queue_dead_letters_total{framework=,recipe=jobs}", 1.0);

    let plain = DistributedQueue::new(&zk, "/plain");
    plain.put_all(["1", "2", "3"]).await.unwrap();
    plain.auto_ack_consumer().next().await.unwrap();
    sums.shows("queue_depth{framework=,path=/plain}", 3.0);
    sums.shows("queue_deliveries_total{framework=,recipe=queue}", 1.0);
}

/// An increase is only known from the second sample on: the first event of a series that is born
/// with it is never seen.
#[test]
fn series_exist_before_what_they_count() {
    let sums = Sums::default();
    metrics::with_local_recorder(&sums.clone(), || {
        simulated_on(zk_curator_tests::server, async |server| {
            let zk = start(builder(&server).name("billing")).await;
            let zero = |name: &str| assert_eq!(sums.find(name), Some(0.0), "{name}");
            for name in [
                "sessions_lost_total{framework=billing}",
                "operation_errors_total{framework=billing,kind=connection_loss}",
                "state_changes_total{framework=billing,state=suspended}",
                "janitor_backlog{framework=billing}",
            ] {
                zero(name);
            }
            // The series of an operation begin with its first use, before it has ended.
            assert_eq!(sums.0.lock().unwrap().len(), 45, "the number in the documentation");
            let mut delete = Box::pin(zk.delete("/none").into_future());
            assert!((&mut delete).now_or_never().is_none());
            for result in ["ok", "refused", "failed", "cancelled"] {
                let labels = format!("framework=billing,operation=delete,result={result}");
                zero(&format!("operations_total{{{labels}}}"));
            }
            zero("operation_duration_seconds{framework=billing,operation=delete}");
            zero("retries_total{framework=billing,operation=delete}");
            assert_eq!(sums.0.lock().unwrap().len(), 45 + 6, "the numbers in the documentation");
            delete.await.unwrap_err();
            drop(InterProcessMutex::new(&zk, "/lock"));
            drop(InterProcessReadWriteLock::new(&zk, "/lock"));
            drop(InterProcessSemaphore::new(&zk, "/lock", 1));
            for recipe in ["mutex", "read_lock", "write_lock", "semaphore"] {
                zero(&format!("locks_lost_total{{framework=billing,recipe={recipe}}}"));
            }
            drop((TimedLease::new(&zk, "/timed", "a"), SessionLease::builder(&zk)));
            for recipe in ["timed_lease", "session_lease"] {
                zero(&format!("locks_lost_total{{framework=billing,recipe={recipe}}}"));
            }
            drop(InterProcessMutex::new(&zk, "/lock").local_batch(1, Duration::MAX));
            zero("lock_handovers_total{framework=billing}");
            drop(DistributedAtomicLong::at(&zk, "/counter"));
            for name in ["unknown", "conflicts", "writes", "merged", "promotions"] {
                zero(&format!("counter_{name}_total{{framework=billing}}"));
            }
            drop(LockingQueue::new(&zk, "/queue").consumer());
            drop(Jobs::new(&zk, "/jobs").worker("w"));
            drop(DistributedQueue::new(&zk, "/plain").auto_ack_consumer());
            for recipe in ["locking_queue", "jobs", "queue"] {
                zero(&format!("queue_dead_letters_total{{framework=billing,recipe={recipe}}}"));
            }
            // Another leads, and this process waits.
            let other = connected(&server).await;
            let leader = LeaderLatch::new(&other, "/latch").join();
            leader.await_leadership().await.unwrap();
            let candidate = LeaderLatch::new(&zk, "/latch").join();
            until(&server, |probe| probe.children("/latch").len() == 2).await;
            zero("leader{framework=billing,recipe=latch}");
            zero("leader_terms_lost_total{framework=billing,recipe=latch}");
            sums.shows("leader_candidates{framework=billing,recipe=latch}", 1.0);
            candidate.close().await.unwrap();
            zero("leader_candidates{framework=billing,recipe=latch}");
        });
    });
}

#[test]
fn a_framework_without_a_server_is_not_connected() {
    let sums = Sums::default();
    metrics::with_local_recorder(&sums.clone(), || {
        simulated_on(zk_curator_tests::server, async |server| {
            server.stop().await;
            let zk = builder(&server).name("billing").build().unwrap();
            zk.start_in_background().unwrap();
            assert_eq!(sums.find("connected{framework=billing}"), Some(0.0));
            assert_eq!(sums.find("session_start_time_seconds{framework=billing}"), Some(0.0));
            idle(Duration::from_secs(600)).await;
            assert_eq!(sums.find("connected{framework=billing}"), Some(0.0));
        });
    });
}

#[test]
fn caches_and_schedules_say_for_how_long_they_are_behind() {
    measured(behind);
}

async fn behind(sums: Sums, server: TestServer, zk: CuratorFramework) {
    let of = |name: &str| sums.find(&format!("{name}{{framework=}}"));
    let since = || sums.find("cache_stale_since_seconds{framework=,path=/tree}");
    let cache = CuratorCache::tree(&zk, "/tree").start();
    assert_eq!((of("caches"), of("caches_stale")), (Some(1.0), Some(1.0)));
    assert!(since().unwrap() > 1.7e9);
    cache.loaded().await.unwrap();
    assert_eq!((of("caches"), of("caches_stale"), since()), (Some(1.0), Some(0.0), Some(0.0)));
    server.stop().await;
    until_state(&zk, ConnectionState::Suspended).await;
    while cache.freshness().is_fresh() {
        tokio::task::yield_now().await;
    }
    assert_eq!(of("caches_stale"), Some(1.0));
    assert!(since().unwrap() > 1.7e9);
    server.restart().await.unwrap();
    cache.synced().await.unwrap();
    assert_eq!((of("caches_stale"), since()), (Some(0.0), Some(0.0)));
    drop(cache);
    until(&server, |probe| probe.watches().is_empty()).await;
    while of("caches") != Some(0.0) {
        tokio::task::yield_now().await;
    }
    assert_eq!(of("caches_stale"), Some(0.0));
    assert!(since().unwrap().is_nan());

    let next = || sums.find("schedule_next_slot_time_seconds{framework=,path=/hourly}");
    let runs =
        |result: &str| sums.find(&format!("schedule_runs_total{{framework=,result={result}}}"));
    let missed = || sums.find("schedule_missed_slots_total{framework=}");
    // Set by the test.
    let hour = Arc::new(Mutex::new(1_000_000_u64));
    let clock = {
        let hour = Arc::clone(&hour);
        move || SystemTime::UNIX_EPOCH + Duration::from_secs(*hour.lock().unwrap() * 3600)
    };
    let hourly = OncePer::new(&zk, "/hourly", Schedule::every(Duration::from_secs(3600)));
    let hourly = hourly.clock(clock).tolerance(Duration::MAX);
    // A member that runs one slot.
    let run = async |result: Result<(), &'static str>| {
        let stop = CancellationToken::new();
        let body = |_| {
            stop.cancel();
            ready(result)
        };
        hourly.run(body).until(stop.clone()).await.unwrap();
    };
    let until_next = || wait::until(async || next().is_some_and(|next| !next.is_nan()));
    let begun = async {
        until_next().await;
        assert_eq!((runs("done"), runs("failed"), missed()), (Some(0.0), Some(0.0), Some(0.0)));
        assert_eq!(next(), Some(1_000_001.0 * 3600.0));
        *hour.lock().unwrap() = 1_000_001;
    };
    tokio::join!(run(Ok(())), begun);
    assert_eq!((runs("done"), runs("failed"), missed()), (Some(1.0), Some(0.0), Some(0.0)));
    assert!(next().unwrap().is_nan());
    // No member for five hours.
    *hour.lock().unwrap() = 1_000_006;
    let late = async {
        until_next().await;
        *hour.lock().unwrap() = 1_000_007;
    };
    tokio::join!(run(Err("as the test wants it")), late);
    assert_eq!((runs("done"), runs("failed"), runs("lost")), (Some(1.0), Some(1.0), Some(0.0)));
    assert_eq!(missed(), Some(5.0));
}

#[test]
fn members_of_a_set_say_how_many_parts_they_own() {
    measured(partitions);
}

async fn partitions(sums: Sums, server: TestServer, zk: CuratorFramework) {
    let at = |name: &str| sums.find(&format!("partitions_{name}{{framework=,path=/shards}}"));
    let of = |name: &str| sums.find(&format!("partitions_{name}_total{{framework=}}"));
    let set = SetPartitioner::new(&zk, "/shards", ["a", "b", "c"]).id("one");
    let stop = CancellationToken::new();
    let body = async |part: Partition| {
        part.revoked().await;
        Ok::<_, String>(())
    };
    let watched = async {
        reaches(&sums, "partitions_owned{framework=,path=/shards}", 3.0).await;
        assert_eq!((at("assigned"), of("acquired"), of("lost")), (Some(3.0), Some(3.0), Some(0.0)));
        expire(&server, &zk).await;
        reaches(&sums, "partitions_acquired_total{framework=}", 6.0).await;
        assert_eq!((at("owned"), of("lost")), (Some(3.0), Some(3.0)));
        stop.cancel();
    };
    let (ran, ()) = tokio::join!(set.run(body).until(stop.clone()), watched);
    ran.unwrap();
    assert_eq!((of("acquired"), of("lost")), (Some(6.0), Some(3.0)));
    assert!(at("owned").unwrap().is_nan() && at("assigned").unwrap().is_nan());
}

#[test]
fn the_depth_of_a_queue_counts_all_buckets() {
    measured(async |sums, _server, zk| {
        let queue = LockingQueue::new(&zk, "/queue").bucket_size(10);
        for item in 0..95 {
            queue.put_with_priority(item.to_string(), item % 2).await.unwrap();
        }
        let mut consumer = queue.consumer();
        let item = consumer.next().await.unwrap();
        sums.shows("queue_depth{framework=,path=/queue/items}", 95.0);
        drop(item);
    });
}

/// The measured series and the series in the documented tables are the same, with their labels.
#[test]
fn the_tables_are_complete() {
    let mut found = BTreeMap::new();
    let mut add = |sums: &Sums| {
        for key in sums.0.lock().unwrap().keys() {
            let (name, labels) = key.trim_end_matches('}').split_once('{').unwrap();
            let labels = labels.split(',').filter(|label| !label.is_empty());
            let labels: Vec<_> =
                labels.map(|label| label.split_once('=').unwrap().0.to_owned()).collect();
            let before = found.entry(name.to_owned()).or_insert_with(|| labels.clone());
            assert_eq!(*before, labels, "{name}");
        }
    };
    let all = Sums::default();
    let run =
        |test: &dyn Fn(Sums, TestServer, CuratorFramework) -> Pin<Box<dyn Future<Output = ()>>>| {
            measured_by(all.clone(), |sums, server, zk| {
                // The figures of each are its own.
                sums.0.lock().unwrap().values_mut().for_each(|value| *value = 0.0);
                test(sums, server, zk)
            });
        };
    run(&|sums, server, zk| Box::pin(operations(sums, server, zk)));
    run(&|sums, server, zk| Box::pin(counters(sums, server, zk)));
    run(&|sums, server, zk| Box::pin(locks(sums, server, zk)));
    run(&|sums, server, zk| Box::pin(leaders(sums, server, zk)));
    run(&|sums, server, zk| Box::pin(queues(sums, server, zk)));
    run(&|sums, server, zk| Box::pin(behind(sums, server, zk)));
    run(&|sums, server, zk| Box::pin(partitions(sums, server, zk)));
    add(&all);
    let table: BTreeMap<_, _> = zk_curator::observe::METRICS
        .iter()
        .chain(zk_curator_recipes::observe::METRICS)
        .map(|metric| {
            (
                metric.name.to_owned(),
                metric.labels.iter().map(|label| (*label).to_owned()).collect(),
            )
        })
        .collect::<BTreeMap<String, Vec<String>>>();
    assert_eq!(found, table);
}

/// Waits until a series has this value, for a minute at most.
async fn reaches(sums: &Sums, name: &str, value: f64) {
    let reached = wait::until(async || sums.find(name) == Some(value));
    let reached = timeout(Duration::from_secs(60), reached).await;
    assert!(reached.is_ok(), "{name} is {:?}", sums.find(name));
}

#[test]
fn registrations_instances_and_calls_are_counted() {
    measured(discovered);
}

async fn discovered(sums: Sums, server: TestServer, zk: CuratorFramework) {
    let of = |name: &str| sums.find(&format!("discovery_{name}{{framework=}}"));
    let at = |name: &str| format!("discovery_{name}{{framework=,path=/services/orders}}");
    let calls = |result: &str| {
        let labels = format!("{{framework=,path=/services/orders,result={result}}}");
        sums.find(&format!("discovery_calls_total{labels}"))
    };
    let discovery = ServiceDiscovery::<u32>::new(&zk, "/services");
    let instance = |id: &str| ServiceInstance::builder("orders").id(id).payload(1).build().unwrap();
    let mut a = discovery.register(instance("a")).await.unwrap();
    let b = discovery.register(instance("b")).await.unwrap();
    assert_eq!((of("registrations"), of("registered")), (Some(2.0), Some(2.0)));
    assert_eq!(of("superseded_total"), Some(0.0));

    zk.create("/services/orders/foreign").data("<xml/>").await.unwrap();
    let policy = DownInstancePolicy::new(1, Duration::from_secs(10));
    let provider = discovery.provider("orders").down_policy(policy).start();
    assert_eq!(
        (calls("ok"), calls("failed"), calls("unavailable")),
        (Some(0.0), Some(0.0), Some(0.0))
    );
    assert_eq!(provider.get().unwrap_err(), Unavailable::Loading);
    reaches(&sums, &at("instances"), 2.0).await;
    assert_eq!((sums.find(&at("drained")), sums.find(&at("undecodable"))), (Some(0.0), Some(1.0)));
    provider.get().unwrap().ok();
    provider.get().unwrap().failed();
    provider.get().unwrap().ok();
    assert_eq!(
        (calls("ok"), calls("failed"), calls("unavailable")),
        (Some(2.0), Some(1.0), Some(1.0))
    );
    assert_eq!(sums.find(&at("down")), Some(1.0));
    a.drain().await.unwrap();
    reaches(&sums, &at("drained"), 1.0).await;
    assert_eq!(sums.find(&at("instances")), Some(1.0));

    // Another process takes the place of one, and a lost session costs nothing but time.
    let other = connected(&server).await;
    let again = ServiceDiscovery::<u32>::new(&other, "/services");
    let again = again.register(instance("b")).await.unwrap();
    reaches(&sums, "discovery_superseded_total{framework=}", 1.0).await;
    // Two frameworks without a name share a series.
    reaches(&sums, "discovery_registrations{framework=}", 2.0).await;
    server.stop().await;
    until_state(&zk, ConnectionState::Suspended).await;
    assert_eq!(of("registered"), Some(2.0));
    reaches(&sums, "discovery_registered{framework=}", 0.0).await;
    assert_eq!(of("registrations"), Some(2.0));
    server.restart().await.unwrap();
    reaches(&sums, "discovery_registered{framework=}", 2.0).await;
    drop((a, b, again));
    reaches(&sums, "discovery_registrations{framework=}", 0.0).await;
    assert_eq!(of("registered"), Some(0.0));
    drop(provider);
    settled().await;
    assert!(sums.find(&at("instances")).unwrap().is_nan());
    assert!(sums.find(&at("down")).unwrap().is_nan());
}
