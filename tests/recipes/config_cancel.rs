//! Futures of the configuration store, dropped at every point: an update is made or not, and
//! nothing else stays behind.

use zk_curator_recipes::config::ConfigStore;
use zk_curator_tests::{
    closes_clean, poll_then_drop, simulated_each_on, simulated_steps, simulated_steps_on,
    two_in_memory, until,
};

const STORE: &str = "/config/orders";

#[test]
fn an_update_is_made_or_not_wherever_it_is_given_up() {
    let mut made = [0, 0];
    for exists in [true, false] {
        simulated_steps_on(0, two_in_memory, async |step, (server, zk, other)| {
            let theirs = ConfigStore::new(&other, STORE);
            if exists {
                theirs.update().set("a", 0).set("b", 0).commit().await.unwrap();
            }
            let ours = ConfigStore::new(&zk, STORE);
            let done = poll_then_drop(ours.update().set("a", 1).set("b", 1).commit(), step)
                .await
                .is_some();
            zk.close().await.unwrap();
            let now = theirs.snapshot().await.unwrap();
            let [a, b] = ["a", "b"].map(|key| now.get::<u8>(key).unwrap());
            assert_eq!(a, b, "step {step}");
            made[usize::from(a == Some(1))] += 1;
            // Leftovers do not block other clients.
            theirs.update().set("a", 2).remove("b").commit().await.unwrap();
            let now = theirs.snapshot().await.unwrap();
            assert_eq!((now.get("a").unwrap(), now.entry("b")), (Some(2), None));
            other.delete(STORE).deleting_children().await.unwrap();
            closes_clean(&server, &other).await;
            done
        });
    }
    assert!(made[0] > 6 && made[1] > 2, "{made:?}");
}

#[test]
fn going_back_can_be_given_up_everywhere() {
    simulated_steps(6, async |step, server, zk| {
        let store = ConfigStore::new(&zk, STORE);
        let first = store.update().set("a", 1).set("b", 1).commit().await.unwrap();
        store.update().set("a", 2).set("b", 2).commit().await.unwrap();
        let done = poll_then_drop(store.roll_back(first), step).await.is_some();
        let now = store.snapshot().await.unwrap();
        assert_eq!(now.get::<u8>("a").unwrap(), now.get::<u8>("b").unwrap());
        assert!(!done || now.get("a").unwrap() == Some(1));
        until(&server, |probe| probe.watches().is_empty()).await;
        done
    });
}

/// Each `next` is dropped once at some step, and awaited then.
#[test]
fn a_dropped_wait_misses_no_newest_value() {
    simulated_each_on(0..20, two_in_memory, async |step, (server, zk, other)| {
        let theirs = ConfigStore::new(&other, STORE);
        let mut watch = ConfigStore::new(&zk, STORE).follow_below("a");
        assert!(watch.next().await.unwrap().entries().is_empty());
        for round in 0..4 {
            let update = theirs.update().set("a.b", round).commit();
            let (told, made) = tokio::join!(poll_then_drop(watch.next(), step), update);
            made.unwrap();
            let told = match told {
                Some(told) => told,
                None => watch.next().await,
            };
            assert_eq!(told.unwrap().get("a.b").unwrap(), Some(round), "step {step}");
        }
        drop(watch);
        until(&server, |probe| probe.watches().is_empty()).await;
    });
}
