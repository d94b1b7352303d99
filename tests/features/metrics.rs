//! The documented metrics.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::future::{pending, ready};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use futures_util::FutureExt;
use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};
use tokio::time::timeout;
use zk_curator::{ConnectionState, CreateMode, CuratorFramework};
use zk_curator_discovery::provider::Unavailable;
use zk_curator_discovery::{DownInstancePolicy, ServiceDiscovery, ServiceInstance};
use zk_curator_proto::OpCode;
use zk_curator_recipes::Shutdown;
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
use zk_curator_recipes::schedule::{OncePer, Schedule, Slot};
use zk_curator_recipes::stm::{Stm, Tx};
use zk_curator_testing::wait::{self, idle, settled};
use zk_curator_testing::{TestServer, Verdict};
use zk_curator_tests::{
    builder, connected, expire, once, once_on_write_multi, poll_then_drop, simulated_with, start,
    until, until_state,
};

/// The series by their names and labels: sums of counters and gauges, and the numbers of values of
/// histograms.
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
    /// Returns a series. As for exporters, it exists from its registration.
    fn one(&self, key: &Key) -> Arc<One> {
        let name = key.name().strip_prefix("zk_curator_").unwrap();
        assert_eq!(key.labels().next().unwrap().key(), "framework", "{name}");
        // The label of a framework without a name is left out.
        let labels = key.labels().filter(|label| !label.value().is_empty());
        let labels: Vec<_> =
            labels.map(|label| format!("{}={}", label.key(), label.value())).collect();
        let labels = labels.join(",");
        let name = if labels.is_empty() { name.to_owned() } else { format!("{name}{{{labels}}}") };
        let one = One { name, sums: self.clone() };
        one.add(0.0);
        Arc::new(one)
    }

    fn find(&self, name: &str) -> Option<f64> {
        self.0.lock().unwrap().get(name).copied()
    }

    /// Returns the present value of a series.
    fn get(&self, name: &str) -> f64 {
        self.find(name).unwrap_or_else(|| panic!("there is no series {name}"))
    }

    /// Asserts that series have these values: each is its name, a space and its value.
    fn shows(&self, expected: &str) {
        for series in expected.split(", ") {
            let (name, value) = series.rsplit_once(' ').unwrap();
            assert_eq!(self.get(name).to_string(), value, "{name}");
        }
    }

    /// Waits until a series has this value, for a minute at most.
    async fn reaches(&self, expected: &str) {
        let (name, value) = expected.rsplit_once(' ').unwrap();
        let is_reached = || self.find(name).is_some_and(|found| found.to_string() == value);
        let reached = timeout(Duration::from_secs(60), wait::until(async || is_reached())).await;
        assert!(reached.is_ok(), "{expected}: it is {:?}", self.find(name));
    }
}

impl Recorder for Sums {
    fn describe_counter(&self, _key: KeyName, _unit: Option<Unit>, _text: SharedString) {}
    fn describe_gauge(&self, _key: KeyName, _unit: Option<Unit>, _text: SharedString) {}
    fn describe_histogram(&self, _key: KeyName, _unit: Option<Unit>, _text: SharedString) {}
    fn register_counter(&self, key: &Key, _metadata: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.one(key))
    }
    fn register_gauge(&self, key: &Key, _metadata: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.one(key))
    }
    fn register_histogram(&self, key: &Key, _metadata: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.one(key))
    }
}

/// Runs a test whose metrics are summed.
fn measured(test: impl AsyncFnOnce(Sums, TestServer, CuratorFramework)) {
    let sums = Sums::default();
    metrics::with_local_recorder(&sums.clone(), || {
        simulated_with(async |server, zk| test(sums, server, zk).await);
    });
}

#[test]
fn operations_are_counted_by_kind_and_result_and_timed() {
    measured(async |sums, server, zk| {
        zk.create("/a").await.unwrap();
        zk.create("/a").await.unwrap_err();
        zk.get_data("/a").await.unwrap();
        poll_then_drop(zk.get_data("/a").into_future(), 2).await;
        // Never sent, never counted.
        drop(zk.get_data("/a").into_future());
        sums.shows("operations_total{operation=create,result=ok} 1");
        sums.shows("operations_total{operation=create,result=refused} 1");
        sums.shows("operation_errors_total{kind=node_exists} 1");
        sums.shows("operations_total{operation=get_data,result=ok} 1");
        sums.shows("operations_total{operation=get_data,result=cancelled} 1");
        sums.shows("operation_duration_seconds{operation=create} 2");
        let _lost = once(&server, OpCode::GetData, Verdict::LoseReply);
        zk.get_data("/a").await.unwrap();
        sums.shows("retries_total{operation=get_data} 1");
        sums.shows("operations_total{operation=get_data,result=ok} 2");
    });
}

#[test]
fn states_and_lost_sessions_are_counted() {
    measured(async |sums, server, zk| {
        sums.shows("state_changes_total{state=connected} 1");
        expire(&server, &zk).await;
        until_state(&zk, ConnectionState::Reconnected { same_session: false }).await;
        sums.shows("sessions_lost_total 1, state_changes_total{state=lost} 1");
        sums.shows("state_changes_total{state=reconnected} 1");
        zk.close().await.unwrap();
        sums.shows("state_changes_total{state=closed} 1, sessions_lost_total 1");
    });
}

#[test]
fn the_backlog_of_the_janitor_grows_and_shrinks() {
    measured(async |sums, server, zk| {
        let nodes =
            [zk.create("/a").owned().await.unwrap(), zk.create("/b").owned().await.unwrap()];
        server.stop().await;
        until_state(&zk, ConnectionState::Suspended).await;
        sums.shows("janitor_backlog 0");
        drop(nodes);
        sums.shows("janitor_backlog 2");
        server.restart().await.unwrap();
        zk.create("/c").mode(CreateMode::Ephemeral).await.unwrap();
        zk.close().await.unwrap();
        sums.shows("janitor_backlog 0");
    });
}

#[test]
fn writes_of_counters_are_counted_and_what_they_share() {
    measured(async |sums, server, zk| {
        let other = connected(&server).await;
        let [ours, theirs] = [&zk, &other].map(|zk| DistributedAtomicLong::new(zk, "/n"));
        futures_util::future::join_all((0..10).map(|_| ours.increment())).await;
        sums.shows("counter_writes_total 1, counter_merged_total 9");
        theirs.increment().await.unwrap();
        ours.increment().await.unwrap();
        sums.shows("counter_conflicts_total 1");
        let lost = once_on_write_multi(&server, Verdict::LoseReply);
        let unproven = DistributedAtomicLong::builder(&zk, "/n").without_receipts().build();
        unproven.increment().await.unwrap_err();
        drop(lost);
        sums.shows("counter_unknown_total 1");
        let impatient = DistributedAtomicLong::builder(&zk, "/n").retries(0);
        let lock = PromotedToLock::new("/lock", Duration::from_secs(1));
        let impatient = impatient.then_lock(lock).build();
        impatient.increment().await.unwrap();
        theirs.increment().await.unwrap();
        impatient.increment().await.unwrap();
        sums.shows("counter_promotions_total 1");
    });
}

#[test]
fn the_connection_its_session_and_what_is_held_are_gauges() {
    measured(async |sums, server, zk| {
        let began = |sums: &Sums| sums.get("session_start_time_seconds");
        sums.shows("connected 1");
        assert!(began(&sums) > 1.7e9);
        let node = zk.create("/a").owned().await.unwrap();
        let watched = zk.get_data("/a").watched().await.unwrap();
        sums.shows("owned_nodes 1, watches 1");
        drop((node, watched));
        sums.shows("owned_nodes 0, watches 0");
        let mut reading = Box::pin(zk.get_data("/a").into_future());
        assert!((&mut reading).now_or_never().is_none());
        sums.shows("operations_in_progress 1");
        drop(reading);
        sums.shows("operations_in_progress 0");
        server.partition();
        until_state(&zk, ConnectionState::Suspended).await;
        sums.shows("connected 0");
        assert!(began(&sums) > 1.7e9, "it may live on");
        until_state(&zk, ConnectionState::Lost).await;
        assert_eq!(began(&sums), 0.0);
        server.heal();
    });
}

#[test]
fn locks_are_timed_and_losses_counted() {
    measured(async |sums, server, zk| {
        let lock = InterProcessMutex::new(&zk, "/lock");
        let guard = lock.acquire().await.unwrap();
        sums.shows("locks_held{recipe=mutex} 1, lock_acquire_duration_seconds{recipe=mutex} 1");
        guard.release().await.unwrap();
        sums.shows("locks_held{recipe=mutex} 0, lock_hold_duration_seconds{recipe=mutex} 1");
        sums.shows("locks_lost_total{recipe=mutex} 0");
        let guard = lock.acquire().await.unwrap();
        server.remove(guard.path()).unwrap();
        guard.release().await.unwrap_err();
        sums.shows("locks_lost_total{recipe=mutex} 1");

        let shared = InterProcessReadWriteLock::new(&zk, "/shared");
        let lease = InterProcessSemaphore::new(&zk, "/leases", 2).acquire().await.unwrap();
        let read = shared.read_lock().acquire().await.unwrap();
        for recipe in ["read_lock", "semaphore"] {
            sums.shows(&format!("locks_held{{recipe={recipe}}} 1"));
        }
        read.release().await.unwrap();
        drop(shared.write_lock().acquire().await.unwrap());
        sums.shows("lock_hold_duration_seconds{recipe=write_lock} 1");
        let write = shared.write_lock().acquire().await.unwrap();
        drop(write.downgrade().await.unwrap().try_upgrade().await.unwrap());
        // Dropped at every point of its release.
        for step in 0..4 {
            let guard = lock.clone().lock_name("release-").acquire().await.unwrap();
            poll_then_drop(guard.release(), step).await;
        }
        for recipe in ["write_lock", "read_lock"] {
            sums.shows(&format!("locks_lost_total{{recipe={recipe}}} 0"));
        }
        sums.shows("locks_lost_total{recipe=mutex} 1");
        expire(&server, &zk).await;
        lease.lost().await;
        drop(lease);
        sums.shows("locks_lost_total{recipe=semaphore} 1");

        let local = InterProcessMutex::new(&zk, "/local").local_batch(10, Duration::MAX);
        let first = local.acquire().await.unwrap();
        let mut second = Box::pin(local.acquire());
        assert!((&mut second).now_or_never().is_none());
        first.release().await.unwrap();
        drop(second.await.unwrap());
        sums.shows("lock_handovers_total 1, locks_lost_total{recipe=mutex} 1");
    });
}

#[test]
fn leases_are_timed_and_losses_counted() {
    measured(async |sums, server, zk| {
        let minute = Duration::from_secs(60);
        let mut timed =
            TimedLease::new(&zk, "/timed", "a").try_take(minute).await.unwrap().unwrap();
        sums.shows("locks_held{recipe=timed_lease} 1");
        server.remove("/timed").unwrap();
        timed.renew(minute).await.unwrap_err();
        sums.shows("locks_held{recipe=timed_lease} 0");
        drop(timed);
        sums.shows("locks_lost_total{recipe=timed_lease} 1");

        let revoked = SessionLease::builder(&zk).open().await.unwrap();
        let lost = SessionLease::builder(&zk).open().await.unwrap();
        sums.shows("locks_held{recipe=session_lease} 2");
        revoked.revoke().await.unwrap();
        sums.reaches("locks_held{recipe=session_lease} 1").await;
        sums.shows("locks_lost_total{recipe=session_lease} 0");
        assert!(server.expire(lost.session_id().get()).await);
        lost.lost().await;
        sums.reaches("locks_held{recipe=session_lease} 0").await;
        sums.shows("locks_lost_total{recipe=session_lease} 1");
        sums.shows("lock_hold_duration_seconds{recipe=session_lease} 2");
    });
}

#[test]
fn terms_of_leaders_are_counted_and_timed() {
    measured(async |sums, server, zk| {
        let candidate = LeaderLatch::new(&zk, "/latch").join();
        candidate.await_leadership().await.unwrap();
        sums.shows("leader{recipe=latch} 1");
        candidate.close().await.unwrap();
        let selector = LeaderSelector::new(&zk, "/selector");
        selector.run_once(|_| async { sums.shows("leader{recipe=selector} 1") }).await.unwrap();
        // Dropping it resigns.
        drop(Election::new(&zk, "/election").campaign("me").await.unwrap());
        for recipe in ["latch", "selector", "election"] {
            for (name, value) in [
                ("leader", 0),
                ("leader_terms_total", 1),
                ("leader_terms_lost_total", 0),
                ("leader_term_duration_seconds", 1),
            ] {
                sums.shows(&format!("{name}{{recipe={recipe}}} {value}"));
            }
        }
        let lost = selector.run_once(|_| async {
            expire(&server, &zk).await;
            pending::<()>().await;
        });
        lost.await.unwrap_err();
        sums.shows("leader_terms_lost_total{recipe=selector} 1");
    });
}

/// Asserts that a lock of a recipe was held once.
fn assert_held(sums: &Sums, recipe: &str) {
    sums.shows(&format!("lock_hold_duration_seconds{{recipe={recipe}}} 1"));
}

/// Asserts that nothing has the name of a recipe that is only a part of another one here.
fn assert_no_part(sums: &Sums) {
    let names: Vec<_> = sums.0.lock().unwrap().keys().cloned().collect();
    for own in ["mutex", "semaphore", "latch", "selector", "election"] {
        let own = format!("{{recipe={own}}}");
        assert!(!names.iter().any(|name| name.ends_with(&own)), "{own}: {names:?}");
    }
}

/// A recipe that is a part of another one has the name of that one.
#[test]
fn parts_of_locks_have_the_name_of_their_user() {
    measured(async |sums, _server, zk| {
        let reentrant = ReentrantMutex::new(&zk, "/reentrant").acquire(&1).await.unwrap();
        let multi = InterProcessMultiLock::of_mutexes(&zk, ["/a", "/b"]).acquire().await.unwrap();
        let single = InterProcessSemaphoreMutex::new(&zk, "/single").acquire().await.unwrap();
        for (recipe, held) in [("reentrant_mutex", 1), ("multi_lock", 2), ("semaphore_mutex", 1)] {
            sums.shows(&format!("locks_held{{recipe={recipe}}} {held}"));
        }
        drop((reentrant, multi, single));

        let lease = TimedLease::new(&zk, "/lease", "me").with_kazoo();
        let lease = lease.try_take(Duration::from_secs(60)).await.unwrap().unwrap();
        sums.shows("locks_held{recipe=timed_lease} 1");
        assert_held(&sums, "timed_lease_lock");
        drop(lease);
        assert_no_part(&sums);
    });
}

#[test]
fn locks_of_transactions_have_the_name_of_their_user() {
    measured(async |sums, _server, zk| {
        let lock = || PromotedToLock::new("/lock", Duration::from_secs(60));
        let counter = DistributedAtomicLong::builder(&zk, "/counter").retries(0);
        let counter = counter.then_lock(lock()).build();
        counter.increment().await.unwrap();
        zk.set_data("/counter", 7_i64.to_be_bytes().to_vec()).await.unwrap();
        counter.increment().await.unwrap();
        assert_held(&sums, "counter");

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
        assert_held(&sums, "stm");

        let set = MigrationSet::builder("orders").migration("root", |m| m.create("/app", ""));
        let manager = MigrationManager::new(&zk, "/migrations/locks", "/migrations/meta");
        manager.migrate(&set.build().unwrap()).await.unwrap();
        assert_held(&sums, "migration");
        assert_no_part(&sums);
    });
}

#[test]
fn parts_of_background_work_have_the_name_of_their_user() {
    measured(async |sums, _server, zk| {
        let set = SetPartitioner::new(&zk, "/shards", ["a", "b"]).id("one");
        let stop = Shutdown::new();
        let body = async |part: Partition| {
            part.revoked().await;
            Ok::<_, String>(())
        };
        let owned = async {
            sums.reaches("locks_held{recipe=partition} 2").await;
            stop.begin();
        };
        tokio::join!(set.run(body).until(stop.clone()), owned).0.unwrap();

        let jobs = Jobs::new(&zk, "/jobs");
        tokio::select! {
            ended = jobs.clean() => panic!("the cleaner has ended: {ended:?}"),
            () = sums.reaches("leader{recipe=jobs} 1") => {}
        }
        let allocate = |zk: &CuratorFramework, path: &str| DistributedQueue::new(zk, path);
        let sharder = QueueSharder::builder(&zk, "/queues", "/leader", allocate);
        let sharder = sharder.open().await.unwrap();
        sums.reaches("leader{recipe=sharder} 1").await;
        sharder.close().await.unwrap();
        assert_no_part(&sums);
    });
}

/// The names of kazoo's nodes do not tell which recipe has made them.
#[test]
fn recipes_with_nodes_of_kazoo_have_their_own_names() {
    measured(async |sums, _server, zk| {
        let candidate = LeaderLatch::new(&zk, "/latch").with_kazoo().join();
        candidate.await_leadership().await.unwrap();
        let elected = Election::new(&zk, "/election").with_kazoo().campaign("me").await.unwrap();
        sums.shows("leader{recipe=latch} 1, leader{recipe=election} 1");
        drop(elected);
        candidate.close().await.unwrap();
        let selector = LeaderSelector::new(&zk, "/selector").with_kazoo();
        selector.run_once(|_| async { sums.shows("leader{recipe=selector} 1") }).await.unwrap();
        for recipe in ["latch", "election", "selector"] {
            sums.shows(&format!("leader_terms_total{{recipe={recipe}}} 1"));
        }
    });
}

#[test]
fn deliveries_of_queues_are_counted() {
    measured(async |sums, _server, zk| {
        let queue = LockingQueue::new(&zk, "/queue").max_deliveries(2);
        queue.put("bad").await.unwrap();
        queue.put("good").await.unwrap();
        let mut consumer = queue.consumer();
        drop(consumer.next().await.unwrap());
        sums.shows("queue_deliveries_total{recipe=locking_queue} 1");
        sums.shows("queue_redeliveries_total{recipe=locking_queue} 0");
        let bad = consumer.next().await.unwrap();
        assert_eq!((bad.data().as_ref(), bad.attempt()), (&b"bad"[..], 2));
        sums.shows("queue_deliveries_total{recipe=locking_queue} 2");
        sums.shows("queue_redeliveries_total{recipe=locking_queue} 1");
        bad.reject("it is bad").await.unwrap();
        sums.shows("queue_dead_letters_total{recipe=locking_queue} 1");
        consumer.next().await.unwrap().ack().await.unwrap();
        assert!(consumer.try_next().await.unwrap().is_none());

        let jobs = Jobs::new(&zk, "/jobs");
        jobs.submit("job").await.unwrap();
        let mut worker = jobs.worker("w");
        worker.next().await.unwrap().reject("it is bad").await.unwrap();
        sums.shows("queue_dead_letters_total{recipe=jobs} 1");

        let plain = DistributedQueue::new(&zk, "/plain");
        plain.put_all(["1", "2", "3"]).await.unwrap();
        plain.auto_ack_consumer().next().await.unwrap();
        sums.shows("queue_depth{path=/plain} 3, queue_deliveries_total{recipe=queue} 1");
    });
}

/// An increase is only known from the second sample on: the first event of a series that is born
/// with it is never seen.
#[test]
fn series_exist_before_what_they_count() {
    measured(async |sums, _server, zk| {
        sums.shows("sessions_lost_total 0, operation_errors_total{kind=connection_loss} 0");
        sums.shows("state_changes_total{state=suspended} 0, janitor_backlog 0");
        // The series of an operation begin with its first use, before it has ended.
        let number = || sums.0.lock().unwrap().len();
        assert_eq!(number(), 45, "the number in the documentation");
        let mut delete = Box::pin(zk.delete("/none").into_future());
        assert!((&mut delete).now_or_never().is_none());
        for result in ["ok", "refused", "failed", "cancelled"] {
            sums.shows(&format!("operations_total{{operation=delete,result={result}}} 0"));
        }
        sums.shows("operation_duration_seconds{operation=delete} 0");
        sums.shows("retries_total{operation=delete} 0");
        assert_eq!(number(), 45 + 6, "the numbers in the documentation");
        delete.await.unwrap_err();
        drop(InterProcessMutex::new(&zk, "/lock"));
        drop(InterProcessReadWriteLock::new(&zk, "/lock"));
        drop(InterProcessSemaphore::new(&zk, "/lock", 1));
        drop((TimedLease::new(&zk, "/timed", "a"), SessionLease::builder(&zk)));
        let leases = ["timed_lease", "session_lease"];
        for recipe in ["mutex", "read_lock", "write_lock", "semaphore"].iter().chain(&leases) {
            sums.shows(&format!("locks_lost_total{{recipe={recipe}}} 0"));
        }
        drop(InterProcessMutex::new(&zk, "/lock").local_batch(1, Duration::MAX));
        sums.shows("lock_handovers_total 0");
        drop(DistributedAtomicLong::new(&zk, "/counter"));
        sums.shows("counter_writes_total 0, counter_merged_total 0, counter_conflicts_total 0");
        sums.shows("counter_promotions_total 0, counter_unknown_total 0");
        drop(LockingQueue::new(&zk, "/queue").consumer());
        drop(Jobs::new(&zk, "/jobs").worker("w"));
        drop(DistributedQueue::new(&zk, "/plain").auto_ack_consumer());
        for recipe in ["locking_queue", "jobs", "queue"] {
            sums.shows(&format!("queue_dead_letters_total{{recipe={recipe}}} 0"));
        }
    });
}

#[test]
fn each_framework_has_its_series() {
    measured(async |sums, server, other| {
        let zk = start(builder(&server).name("billing")).await;
        // Another leads, and this process waits.
        let leader = LeaderLatch::new(&other, "/latch").join();
        leader.await_leadership().await.unwrap();
        let candidate = LeaderLatch::new(&zk, "/latch").join();
        until(&server, |probe| probe.children("/latch").len() == 2).await;
        sums.shows("leader{framework=billing,recipe=latch} 0");
        sums.shows("leader_terms_lost_total{framework=billing,recipe=latch} 0");
        sums.shows("leader_candidates{framework=billing,recipe=latch} 1");
        candidate.close().await.unwrap();
        sums.shows("leader_candidates{framework=billing,recipe=latch} 0");
        sums.shows("connected 1, connected{framework=billing} 1, leader{recipe=latch} 1");
    });
}

#[test]
fn a_framework_without_a_server_is_not_connected() {
    measured(async |sums, server, _zk| {
        server.stop().await;
        let zk = builder(&server).name("billing").build().unwrap();
        zk.start_in_background().unwrap();
        sums.shows("connected{framework=billing} 0");
        sums.shows("session_start_time_seconds{framework=billing} 0");
        idle(Duration::from_secs(600)).await;
        sums.shows("connected{framework=billing} 0");
    });
}

#[test]
fn caches_say_for_how_long_they_are_behind() {
    measured(async |sums, server, zk| {
        let since = || sums.get("cache_stale_since_seconds{path=/tree}");
        let cache = CuratorCache::tree(&zk, "/tree").start();
        sums.shows("caches 1, caches_stale 1");
        assert!(since() > 1.7e9);
        cache.loaded().await.unwrap();
        sums.shows("caches 1, caches_stale 0, cache_stale_since_seconds{path=/tree} 0");
        server.stop().await;
        until_state(&zk, ConnectionState::Suspended).await;
        while cache.freshness().is_fresh() {
            tokio::task::yield_now().await;
        }
        sums.shows("caches_stale 1");
        assert!(since() > 1.7e9);
        server.restart().await.unwrap();
        cache.synced().await.unwrap();
        sums.shows("caches_stale 0, cache_stale_since_seconds{path=/tree} 0");
        drop(cache);
        until(&server, |probe| probe.watches().is_empty()).await;
        sums.reaches("caches 0").await;
        sums.shows("caches_stale 0, cache_stale_since_seconds{path=/tree} NaN");
    });
}

#[test]
fn members_of_a_schedule_say_which_slot_is_due() {
    measured(async |sums, _server, zk| {
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
            let stop = Shutdown::new();
            let body = |_| {
                stop.begin();
                ready(result)
            };
            hourly.run(body).until(stop.clone()).await.unwrap();
        };
        let begun = async {
            sums.reaches("schedule_next_slot_time_seconds{path=/hourly} 3600003600").await;
            sums.shows("schedule_runs_total{result=done} 0, schedule_runs_total{result=failed} 0");
            sums.shows("schedule_missed_slots_total 0");
            *hour.lock().unwrap() = 1_000_001;
        };
        tokio::join!(run(Ok(())), begun);
        sums.shows("schedule_runs_total{result=done} 1, schedule_runs_total{result=failed} 0");
        sums.shows("schedule_missed_slots_total 0");
        sums.shows("schedule_next_slot_time_seconds{path=/hourly} NaN");
        // No member for five hours.
        *hour.lock().unwrap() = 1_000_006;
        let late = async {
            sums.reaches("schedule_next_slot_time_seconds{path=/hourly} 3600025200").await;
            *hour.lock().unwrap() = 1_000_007;
        };
        tokio::join!(run(Err("as the test wants it")), late);
        sums.shows("schedule_runs_total{result=done} 1, schedule_runs_total{result=failed} 1");
        sums.shows("schedule_runs_total{result=lost} 0, schedule_missed_slots_total 5");
        // The end of a run is not recorded if its slot is deleted by hand.
        let stop = Shutdown::new();
        let body = |slot: Slot| {
            stop.begin();
            let (zk, path) = (zk.clone(), format!("/hourly/{}", slot.name()));
            async move { zk.delete(path).await }
        };
        let due = async {
            sums.reaches("schedule_next_slot_time_seconds{path=/hourly} 3600028800").await;
            *hour.lock().unwrap() = 1_000_008;
        };
        let shutdown = stop.clone().drain(Duration::from_secs(60));
        let (ended, ()) = tokio::join!(hourly.run(body).until(shutdown), due);
        ended.unwrap();
        sums.shows("schedule_runs_total{result=done} 1, schedule_runs_total{result=lost} 1");
    });
}

#[test]
fn members_of_a_set_say_how_many_parts_they_own() {
    measured(async |sums, server, zk| {
        let set = SetPartitioner::new(&zk, "/shards", ["a", "b", "c"]).id("one");
        let stop = Shutdown::new();
        let body = async |part: Partition| {
            part.revoked().await;
            Ok::<_, String>(())
        };
        let watched = async {
            sums.reaches("partitions_owned{path=/shards} 3").await;
            sums.shows("partitions_assigned{path=/shards} 3");
            sums.shows("partitions_acquired_total 3, partitions_lost_total 0");
            expire(&server, &zk).await;
            sums.reaches("partitions_acquired_total 6").await;
            sums.shows("partitions_owned{path=/shards} 3, partitions_lost_total 3");
            stop.begin();
        };
        let (ran, ()) = tokio::join!(set.run(body).until(stop.clone()), watched);
        ran.unwrap();
        sums.shows("partitions_acquired_total 6, partitions_lost_total 3");
        sums.shows("partitions_owned{path=/shards} NaN, partitions_assigned{path=/shards} NaN");
    });
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
        sums.shows("queue_depth{path=/queue/items} 95");
        drop(item);
    });
}

#[test]
fn registrations_instances_and_calls_are_counted() {
    measured(async |sums, server, zk| {
        let calls = |results: [(&str, u32); 3]| {
            for (result, calls) in results {
                let labels = format!("{{path=/services/orders,result={result}}}");
                sums.shows(&format!("discovery_calls_total{labels} {calls}"));
            }
        };
        let discovery = ServiceDiscovery::<u32>::new(&zk, "/services");
        let instance =
            |id: &str| ServiceInstance::builder("orders").id(id).payload(1).build().unwrap();
        let mut a = discovery.register(instance("a")).await.unwrap();
        let b = discovery.register(instance("b")).await.unwrap();
        sums.shows("discovery_registrations 2, discovery_registered 2");
        sums.shows("discovery_superseded_total 0");

        zk.create("/services/orders/foreign").data("<xml/>").await.unwrap();
        let policy = DownInstancePolicy::new(1, Duration::from_secs(10));
        let provider = discovery.provider("orders").down_policy(policy).start();
        calls([("ok", 0), ("failed", 0), ("unavailable", 0)]);
        assert!(matches!(provider.get().unwrap_err(), Unavailable::Loading { .. }));
        sums.reaches("discovery_instances{path=/services/orders} 2").await;
        sums.shows("discovery_drained{path=/services/orders} 0");
        sums.shows("discovery_undecodable{path=/services/orders} 1");
        provider.get().unwrap().ok();
        provider.get().unwrap().failed();
        provider.get().unwrap().ok();
        calls([("ok", 2), ("failed", 1), ("unavailable", 1)]);
        sums.shows("discovery_down{path=/services/orders} 1");
        a.drain().await.unwrap();
        sums.reaches("discovery_drained{path=/services/orders} 1").await;
        sums.shows("discovery_instances{path=/services/orders} 1");

        // Another process takes the place of one, and a lost session costs nothing but time.
        let other = connected(&server).await;
        let again = ServiceDiscovery::<u32>::new(&other, "/services");
        let again = again.register(instance("b")).await.unwrap();
        sums.reaches("discovery_superseded_total 1").await;
        // Two frameworks without a name share a series.
        sums.reaches("discovery_registrations 2").await;
        server.stop().await;
        until_state(&zk, ConnectionState::Suspended).await;
        sums.shows("discovery_registered 2");
        sums.reaches("discovery_registered 0").await;
        sums.shows("discovery_registrations 2");
        server.restart().await.unwrap();
        sums.reaches("discovery_registered 2").await;
        drop((a, b, again));
        sums.reaches("discovery_registrations 0").await;
        sums.shows("discovery_registered 0");
        drop(provider);
        settled().await;
        sums.shows("discovery_instances{path=/services/orders} NaN");
        sums.shows("discovery_down{path=/services/orders} NaN");
    });
}
