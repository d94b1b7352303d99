//! Providers: which instances are picked.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, advance, timeout};
use zk_curator::{ConnectionState, CuratorFramework, ErrorKind};
use zk_curator_discovery::provider::{
    Candidate, LeastLoaded, ProviderStrategy, Rendezvous, Unavailable,
};
use zk_curator_discovery::{
    DownInstancePolicy, Registration, RegistrationError, ServiceDiscovery, ServiceEvent,
    ServiceProvider,
};
use zk_curator_testing::wait::past;
use zk_curator_tests::{expire, simulated_on, until_state};

use crate::support::{
    ORDERS, discovery, in_memory, instance, registered, registered_again, simulated_with,
    two_in_memory,
};

async fn three(zk: &CuratorFramework) -> Vec<Registration<u32>> {
    let mut all = Vec::new();
    for id in ["a", "b", "c"] {
        all.push(registered(zk, id).await);
    }
    all
}

/// The number of times that each instance is picked.
fn picks(provider: &ServiceProvider<u32>, calls: usize) -> BTreeMap<String, usize> {
    let mut picks = BTreeMap::new();
    for _ in 0..calls {
        *picks.entry(provider.get().unwrap().id.clone()).or_default() += 1;
    }
    picks
}

fn picked(provider: &ServiceProvider<u32>) -> Vec<String> {
    picks(provider, 60).into_keys().collect()
}

/// Fails calls until the instance is down.
fn fail(provider: &ServiceProvider<u32>, id: &str, times: usize) {
    let mut left = times;
    for _ in 0..100 {
        let call = provider.get().unwrap();
        if call.id == id {
            call.failed();
            left -= 1;
            if left == 0 {
                return;
            }
        }
    }
    panic!("{id} is not picked");
}

#[test]
fn instances_are_picked_round_robin() {
    simulated_with(async |_, zk| {
        let provider = discovery(&zk).provider("orders").start();
        assert!(matches!(provider.get().unwrap_err(), Unavailable::Loading { .. }));
        provider.cache().loaded().await.unwrap();
        let none = provider.get().unwrap_err();
        assert_eq!(none, Unavailable::NoInstances { path: provider.cache().path().to_owned() });
        let all = three(&zk).await;
        provider.wait_ready(3).await.unwrap();
        assert!(picks(&provider, 30).values().all(|picks| *picks == 10));
        assert_eq!(provider.all().len(), 3);
        drop(all);
    });
}

/// A program that waits for an event can pick immediately afterwards, without waiting for another
/// event. The thread of the program races with the thread of the cache.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_event_tells_is_picked() {
    let (_server, zk) = in_memory().await;
    let mut a = registered(&zk, "a").await;
    let provider = discovery(&zk).provider("orders").start();
    let mut events = provider.cache().events();
    let event = events.next().await.unwrap();
    assert!(matches!(&event, ServiceEvent::Up(up) if up.id == "a"), "{event:?}");
    for payload in 2..500 {
        a.update(move |instance| instance.payload = payload).await.unwrap();
        let event = events.next().await.unwrap();
        assert!(matches!(&event, ServiceEvent::Changed { new, .. } if new.payload == payload));
        assert_eq!(provider.get().unwrap().payload, payload);
    }
    drop(a);
    let event = events.next().await.unwrap();
    assert!(matches!(&event, ServiceEvent::Down(down) if down.id == "a"), "{event:?}");
    assert!(matches!(provider.get().unwrap_err(), Unavailable::NoInstances { .. }));
}

#[test]
fn drained_and_filtered_instances_are_not_picked() {
    simulated_with(async |_, zk| {
        let mut all = three(&zk).await;
        let provider = discovery(&zk).provider("orders").filter(|i| i.payload < 5).start();
        provider.wait_ready(3).await.unwrap();
        all[0].drain().await.unwrap();
        provider.cache().synced().await.unwrap();
        assert_eq!(picked(&provider), ["b", "c"]);
        assert_eq!(provider.cache().instances().len(), 3, "the instance still exists");
        all[1].update(|instance| instance.payload = 9).await.unwrap();
        provider.cache().synced().await.unwrap();
        assert_eq!(picked(&provider), ["c"]);
        all[0].resume().await.unwrap();
        provider.wait_ready(2).await.unwrap();
        assert_eq!(picked(&provider), ["a", "c"]);
    });
}

#[test]
fn down_marks_end_exactly_at_their_timeout() {
    simulated_with(async |server, zk| {
        let mut all = three(&zk).await;
        let policy = DownInstancePolicy::new(2, Duration::from_secs(2));
        let provider = discovery(&zk).provider("orders").down_policy(policy).start();
        provider.wait_ready(3).await.unwrap();
        fail(&provider, "b", 1);
        assert_eq!(picked(&provider), ["a", "b", "c"]);
        fail(&provider, "b", 1);
        let down = Instant::now();
        assert_eq!(picked(&provider), ["a", "c"]);
        // An update of the record keeps the mark.
        all[1].update(|instance| instance.payload = 3).await.unwrap();
        provider.cache().synced().await.unwrap();
        assert_eq!(picked(&provider), ["a", "c"]);
        advance(Duration::from_secs(2) - Duration::from_nanos(1) - down.elapsed()).await;
        assert_eq!(picked(&provider), ["a", "c"]);
        advance(Duration::from_nanos(1)).await;
        assert_eq!(picked(&provider), ["a", "b", "c"]);
        // A new registration has none.
        fail(&provider, "b", 2);
        assert_eq!(picked(&provider), ["a", "c"]);
        registered_again(&server, &zk, &all[1]).await;
        for again in &all {
            again.registered().await.unwrap();
        }
        provider.wait_ready(3).await.unwrap();
        provider.cache().synced().await.unwrap();
        assert_eq!(picked(&provider), ["a", "b", "c"]);
    });
}

#[test]
fn waiting_ends_with_the_marks() {
    simulated_with(async |_, zk| {
        let all = three(&zk).await;
        let provider = discovery(&zk).provider("orders").start();
        provider.wait_ready(3).await.unwrap();
        fail(&provider, "b", 2);
        let began = Instant::now();
        provider.wait_ready(3).await.unwrap();
        assert_eq!(began.elapsed().as_secs(), 30);
        drop(all);
    });
}

#[test]
fn a_success_ends_a_mark() {
    simulated_with(async |_, zk| {
        let all = three(&zk).await;
        let provider = discovery(&zk).provider("orders").start();
        provider.wait_ready(3).await.unwrap();
        let late = loop {
            let call = provider.get().unwrap();
            if call.id == "b" {
                break call;
            }
        };
        fail(&provider, "b", 2);
        assert_eq!(picked(&provider), ["a", "c"]);
        late.ok();
        assert_eq!(picked(&provider), ["a", "b", "c"]);
        drop(all);
    });
}

#[test]
fn marks_by_address_outlive_a_registration() {
    simulated_with(async |_, zk| {
        let mut here = instance("a");
        here.address = Some("10.0.0.9".to_owned());
        let one = discovery(&zk).register(here.clone()).await.unwrap();
        let other = registered(&zk, "b").await;
        let policy = DownInstancePolicy::default().by_address();
        let provider = discovery(&zk).provider("orders").down_policy(policy).start();
        provider.wait_ready(2).await.unwrap();
        fail(&provider, "a", 2);
        drop(one);
        here.id = "z".to_owned();
        let again = discovery(&zk).register(here).await.unwrap();
        provider.cache().synced().await.unwrap();
        assert_eq!(picked(&provider), ["b"]);
        drop((other, again));
    });
}

#[test]
fn all_instances_are_served_when_all_are_down() {
    simulated_with(async |_, zk| {
        let all = three(&zk).await;
        let provider = discovery(&zk).provider("orders").start();
        let half = discovery(&zk).provider("orders").panic_threshold(0.5).start();
        for provider in [&provider, &half] {
            provider.wait_ready(3).await.unwrap();
            fail(provider, "a", 2);
            assert_eq!(picked(provider), ["b", "c"]);
            fail(provider, "b", 2);
        }
        assert_eq!(picked(&provider), ["c"]);
        assert_eq!(picked(&half), ["a", "b", "c"], "a third is at most a half");
        fail(&provider, "c", 2);
        assert_eq!(picked(&provider), ["a", "b", "c"]);
        assert!(timeout(Duration::from_secs(1), provider.wait_ready(1)).await.is_err());
        drop(all);
    });
}

#[test]
fn a_provider_serves_stale_instances_without_a_connection() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let all = three(&other).await;
        let provider = discovery(&zk).provider("orders").start();
        let bound = discovery(&zk).provider("orders");
        let bound = bound.max_staleness(Duration::from_secs(60)).start();
        provider.wait_ready(3).await.unwrap();
        bound.wait_ready(3).await.unwrap();
        assert!(!provider.get().unwrap().is_stale());
        server.partition();
        until_state(&zk, ConnectionState::Lost).await;
        assert!(provider.get().unwrap().is_stale() && bound.get().unwrap().is_stale());
        past(Duration::from_secs(60)).await;
        assert_eq!(picked(&provider), ["a", "b", "c"]);
        let error = bound.get().unwrap_err();
        assert!(
            matches!(error, Unavailable::Stale { time, .. } if time >= Duration::from_secs(60))
        );
        server.heal();
        provider.cache().synced().await.unwrap();
        bound.cache().synced().await.unwrap();
        assert!(bound.get().is_ok() || bound.cache().instances().is_empty());
        drop(all);
    });
}

#[test]
fn calls_in_flight_are_counted() {
    simulated_with(async |_, zk| {
        let all = three(&zk).await;
        let provider = discovery(&zk).provider("orders").strategy(LeastLoaded::seed(3)).start();
        provider.wait_ready(3).await.unwrap();
        let busy: Vec<_> = (0..300).map(|_| provider.get().unwrap()).collect();
        let mut counts = BTreeMap::<String, usize>::new();
        for call in &busy {
            *counts.entry(call.id.clone()).or_default() += 1;
        }
        assert!(counts.values().all(|count| (95..=105).contains(count)), "{counts:?}");
        drop(busy);
        drop(all);
    });
}

/// Calls continue while instances are killed, and never go to an instance that is known to be gone.
#[test]
fn instances_of_ended_sessions_are_not_picked() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let mine = registered(&zk, "mine").await;
        let theirs = registered(&other, "theirs").await;
        let provider = discovery(&zk).provider("orders").start();
        provider.wait_ready(2).await.unwrap();
        drop(theirs);
        expire(&server, &other).await;
        provider.cache().synced().await.unwrap();
        assert_eq!(picked(&provider), ["mine"]);
        drop(mine);
    });
}

/// Without the calls in flight, an instance that is resumed would get most of the new calls.
#[test]
fn calls_in_flight_are_counted_while_an_instance_is_drained() {
    simulated_with(async |_, zk| {
        let mut me = registered(&zk, "a").await;
        let provider = discovery(&zk).provider("orders").strategy(InFlight).start();
        provider.wait_ready(1).await.unwrap();
        let call = provider.get().unwrap();
        me.drain().await.unwrap();
        provider.cache().synced().await.unwrap();
        assert!(matches!(provider.get().unwrap_err(), Unavailable::NoInstances { .. }));
        me.resume().await.unwrap();
        provider.wait_ready(1).await.unwrap();
        let other = provider.get().unwrap();
        assert_eq!(IN_FLIGHT.get(), 1);
        drop((call, other));
        drop(provider.get().unwrap());
        assert_eq!(IN_FLIGHT.get(), 0);
    });
}

thread_local! {
    static IN_FLIGHT: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Notes the calls in flight of the first instance.
struct InFlight;

impl ProviderStrategy<u32> for InFlight {
    fn pick(&self, candidates: &[Arc<Candidate<u32>>], _: Option<&[u8]>) -> usize {
        IN_FLIGHT.set(candidates[0].in_flight());
        0
    }
}

#[test]
fn keys_are_of_the_same_instance_in_every_namespace() {
    simulated_with(async |_, zk| {
        let _all = three(&zk).await;
        let one = discovery(&zk).provider("orders").strategy(Rendezvous::new()).start();
        let within = zk.using_namespace("services").unwrap();
        let within = ServiceDiscovery::<u32>::new(&within, "/");
        let other = within.provider("orders").strategy(Rendezvous::new()).start();
        one.wait_ready(3).await.unwrap();
        other.wait_ready(3).await.unwrap();
        for key in 0..100_u32 {
            let key = key.to_be_bytes();
            assert_eq!(one.get_for(key).unwrap().id, other.get_for(key).unwrap().id);
        }
    });
}

#[test]
fn a_wait_ends_when_a_success_ends_a_mark() {
    simulated_with(async |_, zk| {
        let _all = three(&zk).await;
        let provider = discovery(&zk).provider("orders").start();
        provider.wait_ready(3).await.unwrap();
        let earlier: Vec<_> = (0..3).map(|_| provider.get().unwrap()).collect();
        fail(&provider, "a", 2);
        let began = Instant::now();
        let succeeds = async {
            past(Duration::from_secs(1)).await;
            earlier.into_iter().find(|call| call.id == "a").unwrap().ok();
        };
        let (ready, ()) = tokio::join!(provider.wait_ready(3), succeeds);
        ready.unwrap();
        assert_eq!(began.elapsed().as_secs(), 1);
    });
}

#[test]
fn addresses_with_other_ports_for_tls_are_other_addresses() {
    simulated_with(async |_, zk| {
        let mut all = Vec::new();
        for (id, port) in [("a", 1), ("b", 2), ("c", 2)] {
            let mut one = instance(id);
            (one.port, one.ssl_port) = (None, Some(port));
            all.push(discovery(&zk).register(one).await.unwrap());
        }
        let policy = DownInstancePolicy::default().by_address();
        let provider = discovery(&zk).provider("orders").down_policy(policy).start();
        provider.wait_ready(3).await.unwrap();
        fail(&provider, "a", 2);
        assert_eq!(picked(&provider), ["b", "c"]);
        fail(&provider, "b", 2);
        assert_eq!(picked(&provider), ["a", "b", "c"], "all are down");
    });
}

#[test]
fn all_are_served_whatever_the_threshold_if_all_are_down() {
    simulated_with(async |_, zk| {
        let _all = three(&zk).await;
        for threshold in [0.0, -1.0, f64::NAN, f64::NEG_INFINITY, f64::INFINITY] {
            let builder = discovery(&zk).provider("orders").panic_threshold(threshold);
            let policy = DownInstancePolicy::new(1, Duration::from_secs(30));
            let provider = builder.down_policy(policy).start();
            provider.wait_ready(3).await.unwrap();
            for id in ["a", "b", "c"] {
                fail(&provider, id, 1);
            }
            assert_eq!(picked(&provider), ["a", "b", "c"], "{threshold}");
        }
    });
}

/// Readers leave the nodes of receipts out.
#[test]
fn an_id_that_no_reader_would_see_is_refused() {
    simulated_with(async |server, zk| {
        let id = "_r_5e0a7c8e-0000-4000-8000-000000000001";
        let refused = discovery(&zk).register(instance(id)).await.unwrap_err();
        let RegistrationError::Framework(refused) = refused else { panic!("{refused:?}") };
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
        assert_eq!(refused.path(), format!("{ORDERS}/{id}"));
        assert!(!server.probe().exists(ORDERS));
    });
}
