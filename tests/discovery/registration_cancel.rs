//! Futures of registrations, dropped at every step: no node stays without an owner.

use std::time::Duration;

use zk_curator_testing::wait::past;
use zk_curator_tests::{closes_clean, simulated, until};

use crate::support::{
    ORDERS, discovery, each_request, in_memory, instance, record, registered, run_then_drop,
    two_in_memory,
};

#[test]
fn a_dropped_replacement_leaves_one_node_or_none() {
    simulated(async {
        let steps = each_request(async |requests, is_under_way| {
            let (server, zk, other) = two_in_memory().await;
            let old = registered(&zk, "a").await;
            let registering = discovery(&other);
            let done =
                run_then_drop(&server, registering.register(instance("a")), requests, is_under_way)
                    .await;
            let is_done = done.is_some();
            drop(done);
            other.close().await.unwrap();
            // An instance whose replacement is already gone is registered again after a second.
            past(Duration::from_secs(5)).await;
            let left = server.probe().children(ORDERS).len();
            assert_eq!(left, usize::from(old.is_registered()), "{old:?}");
            drop(old);
            until(&server, |probe| probe.children(ORDERS).is_empty()).await;
            closes_clean(&server, &zk).await;
            is_done
        })
        .await;
        assert!(steps > 3, "only {steps} steps");
    });
}

/// The update is written completely, and in its order.
#[test]
fn a_dropped_update_is_written() {
    simulated(async {
        let steps = each_request(async |requests, is_under_way| {
            let (server, zk) = in_memory().await;
            let mut me = registered(&zk, "a").await;
            let changes = async {
                me.update(|instance| instance.payload = 2).await.unwrap();
                assert_eq!(record(&server, "a").payload, 2);
                me.drain().await.unwrap();
                assert!(!record(&server, "a").enabled);
            };
            let is_done = run_then_drop(&server, changes, requests, is_under_way).await.is_some();
            me.update(|instance| instance.payload += 2).await.unwrap();
            let left = record(&server, "a");
            // The first update was polled in any case.
            assert_eq!((left.payload, left.enabled), (4, !is_done && left.enabled));
            me.unregister().await.unwrap();
            closes_clean(&server, &zk).await;
            is_done
        })
        .await;
        assert!(steps > 3, "only {steps} steps");
    });
}
