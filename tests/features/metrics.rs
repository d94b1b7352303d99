//! The documented metrics.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};
use zk_curator::{ConnectionState, CreateMode, CuratorFramework};
use zk_curator_proto::OpCode;
use zk_curator_recipes::counter::{DistributedAtomicLong, PromotedToLock};
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
    fn set(&self, _value: f64) {
        panic!("no gauge is set");
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
    let sums = Sums::default();
    metrics::with_local_recorder(&sums.clone(), || {
        simulated(async {
            let (server, zk) = in_memory().await;
            test(sums, server, zk).await;
        });
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
        assert_eq!(sums.get("operations_total{operation=create,result=ok}"), 1.0);
        assert_eq!(sums.get("operations_total{operation=create,result=node_exists}"), 1.0);
        assert_eq!(sums.get("operations_total{operation=get_data,result=ok}"), 1.0);
        assert_eq!(sums.get("operations_total{operation=get_data,result=cancelled}"), 1.0);
        assert_eq!(sums.get("operation_duration_seconds{operation=create}"), 2.0);
        let _lost = once(&server, OpCode::GetData, Verdict::LoseReply);
        zk.get_data("/a").await.unwrap();
        assert_eq!(sums.get("retries_total{operation=get_data}"), 1.0);
        assert_eq!(sums.get("operations_total{operation=get_data,result=ok}"), 2.0);
    });
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
    measured(async |sums, server, zk| {
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
    });
}
