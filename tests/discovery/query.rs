//! Queries and caches.

use std::time::Duration;

use tokio::time::timeout;
use zk_curator::{Acl, ErrorKind, Permissions};
use zk_curator_discovery::query::Reason;
use zk_curator_discovery::{Registration, ServiceCache, ServiceEvent, ServiceType};
use zk_curator_proto::OpCode;
use zk_curator_tests::{closes_clean, simulated_on};

use crate::support::{
    ORDERS, SERVICES, discovery, instance, registered, simulated_with, two_in_memory,
};

fn ids(instances: &[std::sync::Arc<zk_curator_discovery::ServiceInstance<u32>>]) -> Vec<&str> {
    instances.iter().map(|instance| &*instance.id).collect()
}

async fn next(events: &mut zk_curator_discovery::cache::ServiceEvents<u32>) -> ServiceEvent<u32> {
    timeout(Duration::from_secs(60), events.next()).await.expect("nothing happens").unwrap()
}

#[test]
fn an_unused_base_has_no_names() {
    simulated_with(async |server, zk| {
        let discovery = discovery(&zk);
        assert_eq!(discovery.names().await.unwrap(), [""; 0]);
        assert_eq!(discovery.instances("orders").await.unwrap().instances.len(), 0);
        assert!(discovery.instance("orders", "a").await.unwrap().is_none());
        let cache = discovery.cache("orders");
        cache.loaded().await.unwrap();
        assert!(cache.instances().is_empty());
        assert_eq!(server.probe().paths(), [""; 0]);
    });
}

/// Two round trips, and one request for 32 records.
#[test]
fn a_query_is_two_round_trips() {
    simulated_with(async |server, zk| {
        let mut registrations: Vec<Registration<u32>> = Vec::new();
        for id in 0..65 {
            registrations.push(registered(&zk, &format!("i{id:03}")).await);
        }
        let before = server.probe();
        let found = discovery(&zk).instances("orders").await.unwrap();
        let after = server.probe();
        assert_eq!(found.instances.len(), 65);
        assert_eq!(found.instances[64].id, "i064");
        let more = |opcode| after.requests(opcode) - before.requests(opcode);
        assert_eq!(more(OpCode::MultiRead), 3);
        assert_eq!(after.total_requests() - before.total_requests(), 4);
        drop(registrations);
    });
}

/// A response with all of them would have 10 MB.
#[test]
fn large_records_are_read_in_small_requests() {
    simulated_with(async |server, zk| {
        zk.create(ORDERS).creating_parents().await.unwrap();
        let path = "x".repeat(100_000);
        for number in 0..100 {
            let record = format!("{{\"payload\":1,\"path\":\"{path}\"}}");
            zk.create(format!("{ORDERS}/{number}")).data(record).await.unwrap();
        }
        let before = server.probe().requests(OpCode::MultiRead);
        let found = discovery(&zk).instances("orders").await.unwrap();
        assert_eq!(found.instances.len(), 100);
        assert_eq!(server.probe().requests(OpCode::MultiRead) - before, 4);
    });
}

#[test]
fn names_are_sorted() {
    simulated_with(async |_, zk| {
        let one = registered(&zk, "a").await;
        let mut alpha = instance("a");
        alpha.name = "alpha".to_owned();
        let other = discovery(&zk).register(alpha).await.unwrap();
        assert_eq!(discovery(&zk).names().await.unwrap(), ["alpha", "orders"]);
        let (found, stat) = discovery(&zk).instance("alpha", "a").await.unwrap().unwrap();
        assert_eq!((found.payload, stat.version), (1, 0));
        drop((one, other));
    });
}

#[test]
fn services_are_inspected_whatever_their_payloads() {
    simulated_with(async |_, zk| {
        let mut a = registered(&zk, "a").await;
        a.drain().await.unwrap();
        let mut other = instance("b");
        other.service_type = ServiceType::Static;
        let _b = discovery(&zk).register(other).await.unwrap();
        zk.create(format!("{ORDERS}/foreign")).data("<xml/>").await.unwrap();
        let texts = r#"{"name":"texts","id":"t","payload":["com.acme.Meta",{"k":[1]}]}"#;
        zk.create("/services/texts/t").creating_parents().data(texts).await.unwrap();

        let services = discovery(&zk).inspect().await.unwrap();
        let [orders, texts] = &services[..] else { panic!("{services:?}") };
        assert_eq!((orders.name.as_str(), texts.name.as_str()), ("orders", "texts"));
        assert_eq!((texts.instances.len(), texts.undecodable.len()), (1, 0));
        assert_eq!(texts.instances[0].session(), None);
        let session = zk.session().unwrap().id;
        assert_eq!(orders.instances[0].session(), Some(session));
        let text = orders.to_string();
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some("orders: 1 up, 1 drained, 1 undecodable"));
        let a =
            format!("  {ORDERS}/a  10.0.0.1:8040  drained, DYNAMIC, session {session}, changed ");
        assert!(lines.next().unwrap().starts_with(&a), "{text}");
        let b = format!("  {ORDERS}/b  10.0.0.1:8040  up, STATIC, changed ");
        assert!(lines.next().unwrap().starts_with(&b), "{text}");
        assert!(lines.next().unwrap().starts_with(&format!("  {ORDERS}/foreign  ")), "{text}");
    });
}

#[test]
fn a_service_that_cannot_be_listed_does_not_hide_the_others() {
    simulated_with(async |_, zk| {
        let _a = registered(&zk, "a").await;
        zk.create("/services/secret").await.unwrap();
        let no_read = vec![Acl::new(Permissions::WRITE, "world", "anyone")];
        zk.set_acl("/services/secret", no_read).await.unwrap();
        let services = discovery(&zk).inspect().await.unwrap();
        let [orders, secret] = &services[..] else { panic!("{services:?}") };
        assert_eq!((orders.instances.len(), orders.undecodable.len()), (1, 0));
        assert_eq!((&*secret.name, secret.instances.len()), ("secret", 0));
        let [why] = &secret.undecodable[..] else { panic!("{secret:?}") };
        assert_eq!(why.path, "/services/secret");
        assert_eq!(why.reason, Reason::Unreadable(ErrorKind::NoAuth));
        assert!(secret.to_string().contains("/services/secret  cannot be read: "), "{secret}");
    });
}

#[test]
fn one_bad_node_does_not_hide_the_others() {
    simulated_with(async |server, zk| {
        let cache = discovery(&zk).cache("orders");
        let mut events = cache.events();
        cache.loaded().await.unwrap();
        let (a, z) = (registered(&zk, "a").await, registered(&zk, "z").await);
        assert!(matches!(next(&mut events).await, ServiceEvent::Up(up) if up.id == "a"));
        assert!(matches!(next(&mut events).await, ServiceEvent::Up(up) if up.id == "z"));
        for (id, data) in [("empty", ""), ("foreign", "<xml/>"), ("port", r#"{"port":"x"}"#)] {
            zk.create(format!("{ORDERS}/{id}")).data(data).await.unwrap();
            let event = next(&mut events).await;
            let ServiceEvent::Undecodable(why) = event else { panic!("{event:?}") };
            assert_eq!(why.path, format!("{ORDERS}/{id}"));
        }
        let write_only =
            vec![Acl::new(Permissions::WRITE | Permissions::DELETE, "world", "anyone")];
        zk.create(format!("{ORDERS}/secret")).data("{}").acl(write_only).await.unwrap();
        // Servers do not report the creation of a node that the client may not read.
        let cache = discovery(&zk).cache("orders");
        cache.loaded().await.unwrap();
        let found = discovery(&zk).instances("orders").await.unwrap();
        for (instances, mut undecodable) in
            [(found.instances, found.undecodable), (cache.instances(), cache.undecodable())]
        {
            assert_eq!(ids(&instances), ["a", "z"]);
            undecodable.sort_by(|one, other| one.path.cmp(&other.path));
            let reasons: Vec<_> = undecodable.iter().map(|why| &why.reason).collect();
            assert!(
                matches!(
                    reasons[..],
                    [
                        Reason::Record(_),
                        Reason::Record(_),
                        Reason::Record(at),
                        Reason::Unreadable(ErrorKind::NoAuth)
                    ] if at.offset == 8
                ),
                "{undecodable:?}"
            );
        }
        let error = discovery(&zk).instance("orders", "empty").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Undecodable);
        // After the repair the node is an instance.
        zk.set_data(format!("{ORDERS}/foreign"), "{\"payload\":7}").await.unwrap();
        assert!(matches!(next(&mut events).await, ServiceEvent::Up(up) if up.id == "foreign"));
        drop((a, z));
        drop(server);
    });
}

#[test]
fn a_cache_says_how_fresh_it_is() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let a = registered(&other, "a").await;
        let cache: ServiceCache<u32> = discovery(&zk).cache("orders");
        assert!(!cache.freshness().is_fresh(), "it has not loaded");
        cache.loaded().await.unwrap();
        cache.synced().await.unwrap();
        assert!(cache.freshness().is_fresh());
        server.partition();
        zk_curator_tests::until_state(&zk, zk_curator::ConnectionState::Suspended).await;
        assert!(!cache.freshness().is_fresh());
        assert_eq!(ids(&cache.instances()), ["a"]);
        server.heal();
        cache.synced().await.unwrap();
        assert!(cache.freshness().is_fresh());
        drop(a);
    });
}

#[test]
fn changes_are_reported_as_states() {
    simulated_on(two_in_memory, async |(_server, zk, other)| {
        let cache = discovery(&zk).cache("orders");
        let mut events = cache.events();
        let mut a = registered(&other, "a").await;
        assert!(matches!(next(&mut events).await, ServiceEvent::Up(up) if up.payload == 1));
        a.update(|instance| instance.payload = 2).await.unwrap();
        let event = next(&mut events).await;
        let ServiceEvent::Changed { old, new } = event else { panic!("{event:?}") };
        assert_eq!((old.payload, new.payload), (1, 2));
        // Another process deletes and creates the node, as Java does.
        let b = registered(&zk, "a").await;
        let event = next(&mut events).await;
        let ServiceEvent::Changed { new, .. } = event else { panic!("{event:?}") };
        assert_eq!(new.payload, 1);
        drop((a, b));
        assert!(matches!(next(&mut events).await, ServiceEvent::Down(down) if down.id == "a"));
    });
}

#[test]
fn a_cache_ends_with_its_last_handle() {
    simulated_with(async |server, zk| {
        let cache = discovery(&zk).cache("orders");
        cache.loaded().await.unwrap();
        let copy = cache.clone();
        drop(cache);
        let a = registered(&zk, "a").await;
        copy.synced().await.unwrap();
        assert_eq!(ids(&copy.instances()), ["a"]);
        drop((copy, a));
        zk_curator_tests::until(&server, |probe| probe.watches().is_empty()).await;
        closes_clean(&server, &zk).await;
    });
}

#[test]
fn invalid_names_are_refused() {
    simulated_with(async |server, zk| {
        let before = server.probe().total_requests();
        let discovery = discovery(&zk);
        for name in ["", "a/b", "."] {
            let kind = discovery.instances(name).await.unwrap_err().kind();
            assert_eq!(kind, ErrorKind::InvalidArgument);
            let cache = discovery.cache(name);
            assert_eq!(cache.loaded().await.unwrap_err().kind(), ErrorKind::InvalidArgument);
            assert_eq!(cache.synced().await.unwrap_err().kind(), ErrorKind::InvalidArgument);
        }
        assert_eq!(server.probe().total_requests(), before);
        assert!(!server.probe().exists(SERVICES));
    });
}

/// Futures can be spawned.
#[test]
fn futures_are_send() {
    fn is_send<T: Send>(_: &T) {}
    simulated_with(async |_, zk| {
        let discovery = discovery(&zk);
        is_send(&discovery.names());
        is_send(&discovery.instances("orders"));
        is_send(&discovery.instance("orders", "a"));
        is_send(&discovery.register(instance("a")));
        let cache = discovery.cache("orders");
        is_send(&cache.loaded());
        is_send(&cache.synced());
        let provider = discovery.provider("orders").start();
        is_send(&provider.wait_ready(1));
    });
}
