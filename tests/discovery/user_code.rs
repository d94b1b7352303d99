//! Code of the user in the task of a cache: payloads whose decoding panics or takes long.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::{Deserialize, Deserializer};
use tokio::time::timeout;
use zk_curator::acl::AclProvider;
use zk_curator::{Acl, CuratorFramework};
use zk_curator_discovery::provider::Unavailable;
use zk_curator_discovery::query::Reason;
use zk_curator_discovery::{ServiceDiscovery, ServiceEvent, ServiceInstance};
use zk_curator_recipes::cache::{Freshness, StaleCause};
use zk_curator_recipes::health::Health;
use zk_curator_testing::TestServer;
use zk_curator_testing::wait::{past, until};
use zk_curator_tests::{builder, simulated_on, start};

use crate::support::{ORDERS, SERVICES, simulated_with, two_in_memory};

/// A payload that panics: 13 when it is decoded, 17 when it is dropped.
#[derive(Debug)]
struct Explosive(u32);

impl<'de> Deserialize<'de> for Explosive {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = u32::deserialize(deserializer)?;
        assert_ne!(number, 13, "as the test wants it");
        Ok(Self(number))
    }
}

impl Drop for Explosive {
    fn drop(&mut self) {
        assert!(self.0 != 17 || std::thread::panicking(), "as the test wants it");
    }
}

/// Creates the node of an instance.
async fn put(zk: &CuratorFramework, id: &str, payload: u32) {
    let path = format!("{ORDERS}/{id}");
    let record = format!("{{\"name\":\"orders\",\"id\":\"{id}\",\"payload\":{payload}}}");
    zk.create(path).creating_parents().data(record).await.unwrap();
}

#[test]
fn a_panic_in_a_payload_concerns_one_instance() {
    simulated_with(async |_, zk| {
        put(&zk, "a", 1).await;
        put(&zk, "b", 13).await;
        let discovery: ServiceDiscovery<Explosive> = ServiceDiscovery::new(&zk, SERVICES);
        let cache = discovery.cache("orders");
        cache.loaded().await.unwrap();
        put(&zk, "c", 3).await;
        put(&zk, "d", 13).await;
        put(&zk, "e", 5).await;
        cache.synced().await.unwrap();
        let ids: Vec<_> = cache.instances().iter().map(|found| found.id.clone()).collect();
        assert_eq!(ids, ["a", "c", "e"]);
        assert!(cache.freshness().is_fresh());
        let refused: Vec<_> = cache.undecodable();
        for (why, id) in refused.iter().zip(["b", "d"]) {
            assert_eq!(why.path, format!("{ORDERS}/{id}"));
            let Reason::Record(fault) = &why.reason else { panic!("{why:?}") };
            assert_eq!(fault.reason, "its `Deserialize` panicked");
        }
        assert_eq!(refused.len(), 2);
        // Queries are calls of the same code.
        assert_eq!(discovery.instances("orders").await.unwrap().undecodable, refused);
        discovery.instance("orders", "b").await.unwrap_err();
    });
}

#[test]
fn readers_of_a_cache_learn_that_its_task_has_ended() {
    simulated_with(async |_, zk| {
        put(&zk, "a", 17).await;
        let discovery: ServiceDiscovery<Explosive> = ServiceDiscovery::new(&zk, SERVICES);
        let cache = discovery.cache("orders");
        let provider = discovery.provider("orders").max_staleness(Duration::ZERO).start();
        cache.loaded().await.unwrap();
        // It has chosen no instance yet, and so has no record.
        provider.cache().loaded().await.unwrap();
        let (mut events, mut health) = (cache.events(), cache.health());
        assert!(matches!(events.next().await, Some(ServiceEvent::Up(_))));
        // Nobody else has the record when it is replaced: its drop panics in the task.
        drop(events);
        zk.set_data(format!("{ORDERS}/a"), "{}").await.unwrap();
        let mut events = cache.events();
        while events.next().await.is_some() {}
        assert!(matches!(cache.freshness(), Freshness::Stale { cause: StaleCause::Closed, .. }));
        while health.next().await.is_some() {}
        assert!(!matches!(cache.health().next().await, Some(Health::Working)));
        cache.synced().await.unwrap_err();
        // The provider has a cache of its own, which meets the same record.
        in_time(provider.wait_ready(2)).await.unwrap_err();
        past(Duration::from_millis(1)).await;
        assert!(matches!(provider.get(), Err(Unavailable::Stale { .. })));
    });
}

async fn in_time<T>(wait: impl Future<Output = T>) -> T {
    timeout(Duration::from_secs(3600), wait).await.expect("it waits forever")
}

/// Panics for the node of an instance.
#[derive(Debug)]
struct Panics;

impl AclProvider for Panics {
    fn acl(&self, path: &str) -> Vec<Acl> {
        assert!(!path.ends_with("/a"), "as the test wants it");
        Acl::open_unsafe()
    }
}

#[test]
fn callers_of_a_registration_learn_that_its_task_has_ended() {
    simulated_on(TestServer::in_memory, async |server| {
        let zk = start(builder(&server).acl_provider(Panics)).await;
        let discovery: ServiceDiscovery<u32> = ServiceDiscovery::new(&zk, SERVICES);
        let instance = ServiceInstance::builder("orders").id("a").address("10.0.0.1").payload(1);
        let instance = instance.build().unwrap();
        in_time(discovery.register(instance)).await.map(drop).unwrap_err();
        assert!(!server.probe().exists(&format!("{ORDERS}/a")));
        in_time(zk.close()).await.unwrap();
    });
}

/// `true` once a patient payload is being decoded.
static HAS_BEGUN: AtomicBool = AtomicBool::new(false);
/// `true` once it may end.
static MAY_END: AtomicBool = AtomicBool::new(false);

/// Lets the decoding end, also when the test fails.
struct LetEnd;

impl Drop for LetEnd {
    fn drop(&mut self) {
        MAY_END.store(true, Ordering::Release);
    }
}

/// A payload whose decoding takes its time if it is 7.
#[derive(Debug)]
struct Patient;

impl<'de> Deserialize<'de> for Patient {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if u32::deserialize(deserializer)? == 7 {
            HAS_BEGUN.store(true, Ordering::Release);
            while !MAY_END.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
        }
        Ok(Self)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn freshness_is_that_of_the_shown_instances() {
    let (server, zk, other) = two_in_memory().await;
    put(&zk, "a", 1).await;
    let discovery: ServiceDiscovery<Patient> = ServiceDiscovery::new(&zk, SERVICES);
    let cache = discovery.cache("orders");
    cache.synced().await.unwrap();
    let end = LetEnd;
    put(&other, "b", 7).await;
    let path = format!("{ORDERS}/b");
    let created = server.probe().stat(&path).unwrap().czxid;
    until(async || HAS_BEGUN.load(Ordering::Acquire)).await;
    for _ in 0..50 {
        // The cache below has read the node, and its task runs.
        zk.sync("/").await.unwrap();
        let zxid = cache.freshness().zxid().unwrap();
        assert!(zxid < created, "{zxid}, but the instance of {created} is not shown");
    }
    assert_eq!(cache.instances().len(), 1);
    drop(end);
    until(async || cache.freshness().zxid() >= Some(created)).await;
    assert_eq!(cache.instances().len(), 2);
}
