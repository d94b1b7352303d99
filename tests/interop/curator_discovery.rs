//! Java Curator's `ServiceDiscovery` and `ServiceProvider`, and ours, over the same instances.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::timeout;
use zk_curator_discovery::{
    Registration, ServiceDiscovery, ServiceInstance, ServiceProvider, ServiceType,
};
use zk_curator_real::java::Program;
use zk_curator_tests::{builder_for, start};

use crate::contest::compiled;
use crate::peer::Peer;

const BASE: &str = "/services";
const ORDERS: &str = "orders";
const PATIENCE: Duration = Duration::from_secs(120);
/// The time for one response of the Java program.
const ANSWER: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Meta {
    weight: u32,
}

async fn registered(
    discovery: &ServiceDiscovery<Meta>,
    id: &str,
    port: u16,
    service_type: ServiceType,
) -> Registration<Meta> {
    let instance = ServiceInstance::builder(ORDERS).id(id).address("10.0.0.1").port(port);
    let instance = instance.payload(Meta { weight: 1 }).service_type(service_type);
    let instance = instance.uri_spec("{scheme}://{address}:{port}").build().unwrap();
    discovery.register(instance).await.unwrap()
}

/// Waits until the provider picks these ids, and no other one.
async fn balances(provider: &ServiceProvider<Meta>, ids: &[&str]) {
    let wanted: BTreeSet<String> = ids.iter().map(|id| (*id).to_owned()).collect();
    let mut events = provider.cache().events();
    loop {
        let picked: BTreeSet<String> =
            (0..60).filter_map(|_| provider.get().ok().map(|call| call.id.clone())).collect();
        if picked == wanted {
            return;
        }
        events.next().await.unwrap();
    }
}

/// Both read the records of the other one, and balance over the instances of both, through an
/// update, a drain and a kill.
async fn one_service(program: &Program, connect_string: &str) {
    let zk = start(builder_for(connect_string)).await;
    let mut java = Peer::java(program, [connect_string, BASE], ANSWER);
    let discovery = ServiceDiscovery::<Meta>::new(&zk, BASE);
    let mut ours = registered(&discovery, "rust-1", 1, ServiceType::Dynamic).await;
    let of_ours = "rust-1=10.0.0.1:1/1/true/http://10.0.0.1:1";
    assert_eq!(java.tell("names").await, ORDERS);
    assert_eq!(java.tell("query orders").await, of_ours);

    assert_eq!(java.tell("register orders java-1 10.0.0.2 2 7 DYNAMIC").await, "ok");
    let (found, _) = discovery.instance(ORDERS, "java-1").await.unwrap().unwrap();
    assert_eq!((found.address.as_deref(), found.port), (Some("10.0.0.2"), Some(2)));
    assert_eq!((&found.payload, found.enabled), (&Meta { weight: 7 }, true));
    assert_eq!(found.service_type, ServiceType::Dynamic);
    assert_eq!(found.uri().as_deref(), Some("http://10.0.0.2:2"));

    let provider = discovery.provider(ORDERS).start();
    balances(&provider, &["java-1", "rust-1"]).await;
    assert_eq!(java.tell("balance orders java-1,rust-1").await, "ok");

    // An update by each.
    assert_eq!(java.tell("update orders java-1 10.0.0.2 2 8 DYNAMIC").await, "ok");
    ours.update(|orders| orders.payload.weight = 5).await.unwrap();
    provider.cache().synced().await.unwrap();
    let weights: BTreeSet<u32> =
        provider.cache().instances().iter().map(|orders| orders.payload.weight).collect();
    assert_eq!(weights, BTreeSet::from([5, 8]));
    let updated =
        "java-1=10.0.0.2:2/8/true/http://10.0.0.2:2 rust-1=10.0.0.1:1/5/true/http://10.0.0.1:1";
    assert_eq!(java.tell("query orders").await, updated);

    // Ours is drained, and comes back.
    ours.drain().await.unwrap();
    assert_eq!(java.tell("balance orders java-1").await, "ok");
    balances(&provider, &["java-1"]).await;
    ours.resume().await.unwrap();
    assert_eq!(java.tell("balance orders java-1,rust-1").await, "ok");

    // Java's is removed by its process, and registered again. A second Rust instance, whose node
    // has a prefix and a sequence number, is found by its record.
    assert_eq!(java.tell("unregister").await, "ok");
    balances(&provider, &["rust-1"]).await;
    let mut numbered = registered(&discovery, "rust-2", 3, ServiceType::DynamicSequential).await;
    assert_eq!(java.tell("register orders java-1 10.0.0.2 2 9 DYNAMIC").await, "ok");
    balances(&provider, &["java-1", "rust-1", "rust-2"]).await;
    assert_eq!(java.tell("balance orders java-1,rust-1,rust-2").await, "ok");
    numbered.unregister().await.unwrap();

    // Java's process is killed: its instance is gone when its session has expired.
    drop(java);
    balances(&provider, &["rust-1"]).await;
    ours.unregister().await.unwrap();
    zk.close().await.unwrap();
}

async fn discoveries(connect_string: &str) {
    let program = compiled("CuratorDiscovery.java").await;
    timeout(PATIENCE, one_service(&program, connect_string)).await.expect("hangs");
}

on_each_with_java! {
    instances_are_shared_with_curator,
    |servers| discoveries(&servers).await
}
