//! The documented metrics.

use std::collections::BTreeMap;
use std::future::pending;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt;
use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};
use zk_curator::{ConnectionState, CreateMode, CuratorFramework};
use zk_curator_proto::OpCode;
use zk_curator_recipes::counter::{DistributedAtomicLong, PromotedToLock};
use zk_curator_recipes::leader::{Election, LeaderLatch, LeaderSelector};
use zk_curator_recipes::lock::{
    HandoverMutex, InterProcessMutex, InterProcessReadWriteLock, InterProcessSemaphore,
};
use zk_curator_recipes::queue::jobs::Jobs;
use zk_curator_recipes::queue::{DistributedQueue, LockingQueue};
use zk_curator_testing::{TestServer, Verdict};
use zk_curator_tests::{
    connected, expire, in_memory, once, once_on_write_multi, poll_then_drop, simulated, until_state,
};

/// Sums of counters and gauges, and how many values a histogram has.
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
        let labels: Vec<_> = key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
        Arc::new(One { name: format!("{}{{{}}}", key.name(), labels.join(",")), sums: self.clone() })
    }

    fn get(&self, name: &str) -> f64 {
        self.0.lock().unwrap().get(&format!("zk_curator_{name}")).copied().unwrap_or_default()
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
fn measured<F: Future<Output = ()>>(test: impl FnOnce(Sums, TestServer, CuratorFramework) -> F) {
    measured_by(Sums::default(), test);
}

fn measured_by<F: Future<Output = ()>>(
    sums: Sums,
    test: impl FnOnce(Sums, TestServer, CuratorFramework) -> F,
) {
    metrics::with_local_recorder(&sums.clone(), || {
        simulated(async {
            let (server, zk) = in_memory().await;
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
    assert_eq!(sums.get("operations_total{operation=create,result=ok}"), 1.0);
    assert_eq!(sums.get("operations_total{operation=create,result=node_exists}"), 1.0);
    assert_eq!(sums.get("operations_total{operation=get_data,result=ok}"), 1.0);
    assert_eq!(sums.get("operations_total{operation=get_data,result=cancelled}"), 1.0);
    assert_eq!(sums.get("operation_duration_seconds{operation=create}"), 2.0);
    let _lost = once(&server, OpCode::GetData, Verdict::LoseReply);
    zk.get_data("/a").await.unwrap();
    assert_eq!(sums.get("retries_total{operation=get_data}"), 1.0);
    assert_eq!(sums.get("operations_total{operation=get_data,result=ok}"), 2.0);
}

#[test]
fn states_and_lost_sessions_are_counted() {
    measured(async |sums, server, zk| {
        assert_eq!(sums.get("state_changes_total{state=connected}"), 1.0);
        expire(&server, &zk).await;
        until_state(&zk, ConnectionState::Reconnected { same_session: false }).await;
        assert_eq!(sums.get("sessions_lost_total{}"), 1.0);
        assert_eq!(sums.get("state_changes_total{state=lost}"), 1.0);
        assert_eq!(sums.get("state_changes_total{state=reconnected}"), 1.0);
        zk.close().await.unwrap();
        assert_eq!(sums.get("state_changes_total{state=closed}"), 1.0);
        assert_eq!(sums.get("sessions_lost_total{}"), 1.0, "a session that is closed is not lost");
    });
}

#[test]
fn the_backlog_of_the_janitor_grows_and_shrinks() {
    measured(async |sums, server, zk| {
        let nodes = [zk.create("/a").owned().await.unwrap(), zk.create("/b").owned().await.unwrap()];
        server.stop().await;
        until_state(&zk, ConnectionState::Suspended).await;
        assert_eq!(sums.get("janitor_backlog{}"), 0.0);
        drop(nodes);
        assert_eq!(sums.get("janitor_backlog{}"), 2.0);
        server.restart().await.unwrap();
        zk.create("/c").mode(CreateMode::Ephemeral).await.unwrap();
        zk.close().await.unwrap();
        assert_eq!(sums.get("janitor_backlog{}"), 0.0);
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
    let writes = sums.get("counter_writes_total{}");
    assert_eq!((writes, sums.get("counter_merged_total{}")), (1.0, 9.0));
    theirs.increment().await.unwrap();
    ours.increment().await.unwrap();
    assert_eq!(sums.get("counter_conflicts_total{}"), 1.0);
    let lost = once_on_write_multi(&server, Verdict::LoseReply);
    let unproven = DistributedAtomicLong::builder(&zk, "/n").without_receipts().build();
    unproven.increment().await.unwrap_err();
    drop(lost);
    assert_eq!(sums.get("counter_unknown_total{}"), 1.0);
    let impatient = DistributedAtomicLong::builder(&zk, "/n").optimistic_tries(1);
    let lock = PromotedToLock::new("/lock", Duration::from_secs(1));
    let impatient = impatient.promoted_to_lock(lock).build();
    impatient.increment().await.unwrap();
    theirs.increment().await.unwrap();
    impatient.increment().await.unwrap();
    assert_eq!(sums.get("counter_promotions_total{}"), 1.0);
}

#[test]
fn the_connection_its_session_and_what_is_held_are_gauges() {
    measured(async |sums, server, zk| {
        let began = |sums: &Sums| sums.get("session_start_time_seconds{framework=}");
        assert_eq!(sums.get("connected{framework=}"), 1.0);
        assert!(began(&sums) > 1.7e9);
        let node = zk.create("/a").owned().await.unwrap();
        let watched = zk.get_data("/a").watched().await.unwrap();
        assert_eq!((sums.get("owned_nodes{}"), sums.get("watches{}")), (1.0, 1.0));
        drop((node, watched));
        assert_eq!((sums.get("owned_nodes{}"), sums.get("watches{}")), (0.0, 0.0));
        let mut reading = Box::pin(zk.get_data("/a").into_future());
        assert!((&mut reading).now_or_never().is_none());
        assert_eq!(sums.get("operations_in_progress{}"), 1.0);
        drop(reading);
        assert_eq!(sums.get("operations_in_progress{}"), 0.0);
        server.partition();
        until_state(&zk, ConnectionState::Suspended).await;
        assert_eq!(sums.get("connected{framework=}"), 0.0);
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
    assert_eq!(sums.get("locks_held{recipe=mutex}"), 1.0);
    assert_eq!(sums.get("lock_acquire_duration_seconds{recipe=mutex}"), 1.0);
    guard.release().await.unwrap();
    assert_eq!(sums.get("locks_held{recipe=mutex}"), 0.0);
    assert_eq!(sums.get("lock_hold_duration_seconds{recipe=mutex}"), 1.0);
    assert_eq!(sums.get("locks_lost_total{recipe=mutex}"), 0.0);
    let guard = lock.acquire().await.unwrap();
    server.remove(guard.path()).unwrap();
    guard.release().await.unwrap_err();
    assert_eq!(sums.get("locks_lost_total{recipe=mutex}"), 1.0);

    let shared = InterProcessReadWriteLock::new(&zk, "/shared");
    let lease = InterProcessSemaphore::new(&zk, "/leases", 2).acquire().await.unwrap();
    let read = shared.read_lock().acquire().await.unwrap();
    for recipe in ["read_lock", "semaphore"] {
        assert_eq!(sums.get(&format!("locks_held{{recipe={recipe}}}")), 1.0, "{recipe}");
    }
    read.release().await.unwrap();
    drop(shared.write_lock().acquire().await.unwrap());
    assert_eq!(sums.get("lock_hold_duration_seconds{recipe=write_lock}"), 1.0);
    let write = shared.write_lock().acquire().await.unwrap();
    drop(write.downgrade().await.unwrap().try_upgrade().await.unwrap());
    // Dropped at every point of its release.
    for step in 0..4 {
        let guard = lock.clone().lock_name("release-").acquire().await.unwrap();
        poll_then_drop(guard.release(), step).await;
    }
    for recipe in ["write_lock", "read_lock"] {
        assert_eq!(sums.get(&format!("locks_lost_total{{recipe={recipe}}}")), 0.0, "{recipe}");
    }
    assert_eq!(sums.get("locks_lost_total{recipe=mutex}"), 1.0);
    expire(&server, &zk).await;
    lease.lost().await;
    drop(lease);
    assert_eq!(sums.get("locks_lost_total{recipe=semaphore}"), 1.0);

    let local = HandoverMutex::new(InterProcessMutex::new(&zk, "/local"), 10);
    let first = local.acquire().await.unwrap();
    let mut second = Box::pin(local.acquire());
    assert!((&mut second).now_or_never().is_none());
    first.release().await.unwrap();
    drop(second.await.unwrap());
    assert_eq!(sums.get("lock_handovers_total{}"), 1.0);
    assert_eq!(sums.get("locks_lost_total{recipe=mutex}"), 1.0, "nothing was lost since");
}

#[test]
fn terms_of_leaders_are_counted_and_timed() {
    measured(leaders);
}

async fn leaders(sums: Sums, server: TestServer, zk: CuratorFramework) {
    let candidate = LeaderLatch::new(&zk, "/latch").join();
    candidate.await_leadership().await.unwrap();
    assert_eq!(sums.get("leader{recipe=latch}"), 1.0);
    candidate.close().await.unwrap();
    let selector = LeaderSelector::new(&zk, "/selector");
    selector.run(|_| async { assert_eq!(sums.get("leader{recipe=selector}"), 1.0) }).await.unwrap();
    // Dropping it resigns.
    drop(Election::new(&zk, "/election").campaign("me").await.unwrap());
    for recipe in ["latch", "selector", "election"] {
        let of = |name: &str| sums.get(&format!("{name}{{recipe={recipe}}}"));
        assert_eq!(of("leader"), 0.0, "{recipe}");
        assert_eq!((of("leader_terms_total"), of("leader_terms_lost_total")), (1.0, 0.0), "{recipe}");
        assert_eq!(of("leader_term_duration_seconds"), 1.0, "{recipe}");
    }
    let lost = selector.run(|_| async {
        expire(&server, &zk).await;
        pending::<()>().await;
    });
    lost.await.unwrap_err();
    assert_eq!(sums.get("leader_terms_lost_total{recipe=selector}"), 1.0);
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
    let of = |name: &str| sums.get(&format!("queue_{name}{{recipe=locking_queue}}"));
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
    assert_eq!(sums.get("queue_dead_letters_total{recipe=jobs}"), 1.0);

    let plain = DistributedQueue::new(&zk, "/plain");
    plain.put_all(["1", "2", "3"]).await.unwrap();
    plain.auto_ack_consumer().next().await.unwrap();
    assert_eq!(sums.get("queue_depth{path=/plain}"), 3.0);
    assert_eq!(sums.get("queue_deliveries_total{recipe=queue}"), 1.0);
}

/// Whatever is measured is in the tables, with its labels; and what is in the tables is measured.
#[test]
fn the_tables_are_complete() {
    let mut found = BTreeMap::new();
    let mut add = |sums: &Sums| {
        for key in sums.0.lock().unwrap().keys() {
            let (name, labels) = key.trim_end_matches('}').split_once('{').unwrap();
            let labels = labels.split(',').filter(|label| !label.is_empty());
            let labels: Vec<_> = labels.map(|label| label.split_once('=').unwrap().0.to_owned()).collect();
            let before = found.entry(name.to_owned()).or_insert_with(|| labels.clone());
            assert_eq!(*before, labels, "{name}");
        }
    };
    let all = Sums::default();
    let run = |test: &dyn Fn(Sums, TestServer, CuratorFramework) -> Pin<Box<dyn Future<Output = ()>>>| {
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
    add(&all);
    let table: BTreeMap<_, _> = zk_curator::observe::METRICS
        .iter()
        .chain(zk_curator_recipes::observe::METRICS)
        .map(|metric| {
            (metric.name.to_owned(), metric.labels.iter().map(|label| (*label).to_owned()).collect())
        })
        .collect::<BTreeMap<String, Vec<String>>>();
    assert_eq!(found, table);
}
