//! Futures of counters and shared values, dropped at every point: they are applied or not, and
//! nothing else stays behind.

use std::time::Duration;

use tokio::time::timeout;
use zk_curator::CuratorFramework;
use zk_curator_recipes::counter::{DistributedAtomicLong, IdBlocks};
use zk_curator_recipes::shared::{SharedValue, ValueEvent};
use zk_curator_testing::TestServer;
use zk_curator_tests::{
    connected, pairs, poll_then_drop, simulated_drops, simulated_steps_on, until,
};

use crate::cache_cost::distant;

const COUNTER: &str = "/counters/orders";
const VALUE: &str = "/shared/value";
const SOON: Duration = Duration::from_secs(30);

/// A counter, or a value, and another client.
struct Stage {
    server: TestServer,
    zk: CuratorFramework,
    other: CuratorFramework,
}

async fn stage() -> Stage {
    let server = TestServer::in_memory().await;
    let (zk, other) = (distant(&server).await, connected(&server).await);
    Stage { server, zk, other }
}

impl Stage {
    fn counter(&self) -> DistributedAtomicLong {
        DistributedAtomicLong::new(&self.zk, COUNTER)
    }

    /// Sets the counter, with its client.
    async fn set(&self, value: Option<i64>) {
        if let Some(value) = value {
            DistributedAtomicLong::new(&self.other, COUNTER).set(value).await.unwrap();
        }
    }

    async fn value(&self, path: &str) -> SharedValue<i64> {
        SharedValue::open(&self.zk, path, &0).await.unwrap()
    }

    /// Closes the clients; nothing is left but the node without children.
    async fn closes(self, path: &str) {
        let Self { server, zk, other } = self;
        for zk in [zk, other] {
            timeout(SOON, zk.close()).await.unwrap().unwrap();
        }
        let probe = until(&server, |probe| probe.sessions().is_empty()).await;
        assert!(probe.children(path).is_empty(), "{probe}");
        assert!(probe.watches().is_empty(), "{probe}");
    }
}

/// Drops an operation of a counter at every step. The value is one of two, and the counter
/// continues.
fn dropped<T>(
    before: Option<i64>,
    operation: impl AsyncFn(&DistributedAtomicLong) -> T,
    after: i64,
    check: impl Fn(T),
) {
    let mut seen = [0, 0];
    simulated_drops(
        1,
        async || {
            let stage = stage().await;
            stage.set(before).await;
            let counter = stage.counter();
            (stage, counter)
        },
        async |(_, counter)| operation(counter).await,
        async |(stage, counter), output| {
            let value = timeout(SOON, counter.add(0)).await.unwrap().unwrap().post;
            let not_applied = before.unwrap_or_default();
            assert!(value == after || (value == not_applied && output.is_none()), "{value}");
            seen[usize::from(value == after)] += 1;
            if let Some(output) = output {
                check(output);
            }
            assert_eq!(timeout(SOON, counter.increment()).await.unwrap().unwrap(), value + 1);
            let theirs = DistributedAtomicLong::new(&stage.other, COUNTER);
            assert_eq!(theirs.increment().await.unwrap(), value + 2);
            drop((counter, theirs));
            stage.closes(COUNTER).await;
        },
    );
    assert!(after == before.unwrap_or_default() || seen.iter().all(|&count| count > 0), "{seen:?}");
}

#[test]
fn operations_of_a_counter() {
    type Counter = DistributedAtomicLong;
    for before in [Some(5), None] {
        let value = before.unwrap_or_default();
        let add = async |counter: &Counter| counter.add(2).await.unwrap().post;
        dropped(before, add, value + 2, |sum| assert_eq!(sum, value + 2));
        let set = async |counter: &Counter| counter.set(9).await.unwrap();
        dropped(before, set, 9, |old| assert_eq!(old, Some(value)));
        let swap = async |counter: &Counter| counter.compare_and_set(value, 9).await.unwrap();
        dropped(before, swap, 9, |set| assert_eq!(set.unwrap().post, 9));
        let refused = async |counter: &Counter| counter.compare_and_set(-1, 9).await.unwrap();
        dropped(before, refused, value, |set| assert_eq!(set, Err(value)));
        dropped(
            before,
            async |counter| counter.get().await.unwrap(),
            value,
            |got| {
                assert_eq!(got, value);
            },
        );
    }
    let initialize = async |counter: &Counter| counter.initialize(3).await.unwrap();
    dropped(None, initialize, 3, |made| assert!(made));
    dropped(Some(5), initialize, 5, |made| assert!(!made));
}

#[test]
fn waits_for_a_value_of_a_counter() {
    simulated_steps_on(2, stage, async |step, stage| {
        stage.set(Some(5)).await;
        let mut watch = stage.counter().follow();
        assert_eq!(watch.next().await.unwrap(), 5);
        let (told, ()) =
            tokio::join!(biased; poll_then_drop(watch.next(), step), stage.set(Some(6)));
        let is_told = told.is_some();
        let told = match told {
            Some(told) => told,
            None => timeout(SOON, watch.next()).await.unwrap(),
        };
        assert_eq!(told.unwrap(), 6, "step {step}");
        drop(watch);
        stage.closes(COUNTER).await;
        is_told
    });
}

#[test]
fn waits_for_a_number_of_a_block() {
    for taken in 0..5 {
        simulated_drops(
            0,
            async || {
                let stage = stage().await;
                let ids = IdBlocks::new(&stage.counter(), 2);
                for id in 1..=taken {
                    assert_eq!(ids.next().await.unwrap(), id);
                }
                (stage, ids)
            },
            async |(_, ids)| ids.next().await.unwrap(),
            async |(stage, ids), id| {
                assert!(id.is_none_or(|id| id == taken + 1), "{id:?}");
                // No number is lost.
                let next = timeout(SOON, ids.next()).await.unwrap().unwrap();
                assert_eq!(next, id.map_or(taken + 1, |id| id + 1));
                let theirs = DistributedAtomicLong::new(&stage.other, COUNTER);
                assert!(theirs.increment().await.unwrap() > next);
                drop((ids, theirs));
                stage.closes(COUNTER).await;
            },
        );
    }
}

#[test]
fn the_start_of_a_shared_value() {
    simulated_drops(
        4,
        stage,
        async |stage| stage.value(VALUE).await.get().unwrap().unwrap().value,
        async |stage, value| {
            assert!(value.is_none_or(|value| value == 0));
            let again = timeout(SOON, stage.value(VALUE)).await.unwrap();
            assert_eq!(again.get().unwrap().unwrap().value, 0);
            again.set(&1).await.unwrap();
            drop(again);
            stage.closes(VALUE).await;
        },
    );
}

#[test]
fn writes_of_a_shared_value() {
    for (is_conditional, has_receipt) in pairs([false, true], [false, true]) {
        let mut seen = [0, 0];
        simulated_drops(
            2,
            async || {
                let stage = stage().await;
                let value = stage.value(VALUE).await;
                if has_receipt {
                    value.set(&5).await.unwrap();
                }
                (stage, value)
            },
            async |(_, value)| {
                if is_conditional {
                    let seen = value.get().unwrap().unwrap();
                    assert!(value.try_set(&seen, &7).await.unwrap());
                } else {
                    value.set(&7).await.unwrap();
                }
            },
            async |(stage, value), output| {
                // A request that was sent arrives before this one.
                timeout(SOON, value.cache().synced()).await.unwrap().unwrap();
                let now = value.get().unwrap().unwrap();
                let before = if has_receipt { 5 } else { 0 };
                assert!(now.value == 7 || (now.value == before && output.is_none()), "{now:?}");
                seen[usize::from(now.value == 7)] += 1;
                assert!(timeout(SOON, value.try_set(&now, &8)).await.unwrap().unwrap());
                timeout(SOON, value.set(&9)).await.unwrap().unwrap();
                let theirs = SharedValue::open(&stage.other, VALUE, &0_i64).await.unwrap();
                assert_eq!(theirs.get().unwrap().unwrap().value, 9);
                drop((value, theirs));
                stage.closes(VALUE).await;
            },
        );
        assert!(seen.iter().all(|&count| count > 0), "{seen:?}");
    }
}

#[test]
fn waits_for_an_event_of_a_shared_value() {
    simulated_steps_on(1, stage, async |step, stage| {
        let value = stage.value(VALUE).await;
        let mut watch = value.follow();
        let Some(ValueEvent::Value(first)) = watch.next().await else { panic!("no value") };
        assert_eq!(first.value, 0);
        let theirs = SharedValue::open(&stage.other, VALUE, &0_i64).await.unwrap();
        let set = async { theirs.set(&6).await.unwrap() };
        let (told, ()) = tokio::join!(biased; poll_then_drop(watch.next(), step), set);
        let is_told = told.is_some();
        let told = match told {
            Some(told) => told,
            None => timeout(SOON, watch.next()).await.unwrap(),
        };
        let Some(ValueEvent::Value(told)) = told else { panic!("{told:?} at step {step}") };
        assert_eq!(told.value, 6, "step {step}");
        drop((watch, value, theirs));
        stage.closes(VALUE).await;
        is_told
    });
}
