//! Curator's REST interface, and the purge of static instances.

use std::time::{Duration, SystemTime};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode, header};
use serde_json::{Value, json};
use tokio::time::timeout;
use tower::ServiceExt;
use zk_curator::{Acl, ConnectionState, CreateMode, CuratorFramework, ErrorKind, Permissions};
use zk_curator_discovery::json::{JsonMode, MAX_BYTES, read};
use zk_curator_discovery::rest::{Purge, discovery_router};
use zk_curator_discovery::{
    OnDeleted, PayloadCodec, Registration, RegistrationState, ServiceDiscovery, ServiceInstance,
    ServiceType,
};
use zk_curator_proto::OpCode;
use zk_curator_testing::wait::{self, past, settled, spend};
use zk_curator_testing::{TestServer, Verdict};
use zk_curator_tests::{
    Server, all_close_clean, closes_clean, connected, is_write_multi, on_each_server, once,
    rule_if, simulated_drops, simulated_on, until_state,
};

use crate::support::{
    ORDERS, SERVICES, discovery, in_memory, instance, record, registered, simulated_with, state,
    two_in_memory,
};

fn router(zk: &CuratorFramework) -> Router {
    discovery_router(&ServiceDiscovery::<Value>::new(zk, SERVICES))
}

/// Sends a request; an empty body of the response is `null`.
async fn send(router: &Router, request: Request<Body>) -> (u16, Value) {
    let response = router.clone().oneshot(request).await.unwrap();
    let status = response.status().as_u16();
    let kind = response.headers().get(header::CONTENT_TYPE).cloned();
    let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
    if body.is_empty() {
        return (status, Value::Null);
    }
    assert_eq!(kind.unwrap(), "application/json");
    (status, serde_json::from_slice(&body).unwrap())
}

async fn get(router: &Router, path: &str) -> (u16, Value) {
    send(router, Request::get(path).body(Body::empty()).unwrap()).await
}

async fn put(router: &Router, path: &str, body: impl ToString) -> (u16, Value) {
    let request = Request::put(path).header(header::CONTENT_TYPE, "application/json");
    send(router, request.body(Body::from(body.to_string())).unwrap()).await
}

async fn delete(router: &Router, path: &str) -> (u16, Value) {
    send(router, Request::delete(path).body(Body::empty()).unwrap()).await
}

#[track_caller]
fn is_error((status, body): (u16, Value), expected: u16, error: &str) {
    assert_eq!((status, &body["error"]), (expected, &json!(error)), "{body}");
    assert!(body["reason"].as_str().is_some_and(|reason| !reason.is_empty()), "{body}");
}

fn node(id: &str) -> String {
    format!("{ORDERS}/{id}")
}

#[test]
fn paths_and_bodies_are_curators() {
    simulated_with(async |server, zk| {
        let router = router(&zk);
        assert_eq!(get(&router, "/v1/service").await, (200, json!([])));
        assert_eq!(get(&router, "/v1/service/orders").await, (200, json!([])));
        is_error(get(&router, "/v1/service/orders/a").await, 404, "missing");
        is_error(get(&router, "/v1/anyservice/orders").await, 404, "missing");

        let a = json!({
            "name": "orders", "id": "a", "address": "10.0.0.1", "port": 8040,
            "registrationTimeUTC": 5, "serviceType": "STATIC", "payload": "x",
        });
        assert_eq!(put(&router, "/v1/service/orders/a", &a).await, (201, Value::Null));
        let data = server.probe().data(&node("a")).unwrap();
        let golden = concat!(
            r#"{"name":"orders","id":"a","address":"10.0.0.1","port":8040,"sslPort":null,"#,
            r#""payload":"x","registrationTimeUTC":5,"serviceType":"STATIC","uriSpec":null}"#,
        );
        assert_eq!(data, golden);
        let stat = server.probe().stat(&node("a")).unwrap();
        assert_eq!(stat.ephemeral_owner, 0);
        assert!(server.probe().is_container(ORDERS));
        assert_eq!(
            put(&router, "/v1/service/apples/1", r#"{"serviceType":"PERMANENT"}"#).await.0,
            201
        );

        let names = json!([{"name": "apples"}, {"name": "orders"}]);
        assert_eq!(get(&router, "/v1/service").await, (200, names));
        // All fields, with no ports that are null.
        let mut shown = a.clone();
        shown["uriSpec"] = Value::Null;
        shown["enabled"] = json!(true);
        assert_eq!(get(&router, "/v1/service/orders/a").await, (200, shown.clone()));
        assert_eq!(get(&router, "/v1/anyservice/orders").await, (200, shown.clone()));
        assert_eq!(get(&router, "/v1/service/orders").await, (200, json!([shown])));
        let (_, defaults) = get(&router, "/v1/service/apples/1").await;
        assert_eq!((&defaults["name"], &defaults["id"]), (&json!("apples"), &json!("1")));
        assert!(defaults["registrationTimeUTC"].as_i64().unwrap() > 1_000_000_000_000);
        assert_eq!(defaults["address"], Value::Null);

        assert_eq!(delete(&router, "/v1/service/orders/a").await, (200, Value::Null));
        assert!(!server.probe().exists(&node("a")));
        assert_eq!(delete(&router, "/v1/service/orders/a").await, (200, Value::Null));
        is_error(get(&router, "/v1/anyservice/orders").await, 404, "missing");
        assert_eq!(delete(&router, "/v1/service/apples/1").await.0, 200);
        closes_clean(&server, &zk).await;
    });
}

#[test]
fn drained_instances_are_listed_and_not_chosen() {
    simulated_with(async |_, zk| {
        let router = router(&zk);
        let mut a = registered(&zk, "a").await;
        let _b = registered(&zk, "b").await;
        a.drain().await.unwrap();
        for _ in 0..20 {
            assert_eq!(get(&router, "/v1/anyservice/orders").await.1["id"], "b");
        }
        let (_, all) = get(&router, "/v1/service/orders").await;
        assert_eq!((&all[0]["enabled"], &all[1]["enabled"]), (&json!(false), &json!(true)));
    });
}

/// C16.
#[test]
fn delete_by_http_removes_what_another_process_registered() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let router = router(&zk);
        let mut fixed = instance("a");
        fixed.service_type = ServiceType::Static;
        let theirs = discovery(&other).register(fixed).await.unwrap();
        let once = discovery(&other).on_deleted(OnDeleted::End);
        let live = once.register(instance("b")).await.unwrap();
        for id in ["a", "b"] {
            let path = format!("/v1/service/orders/{id}");
            assert_eq!(delete(&router, &path).await, (200, Value::Null));
            assert!(!server.probe().exists(&node(id)));
        }
        for gone in [&theirs, &live] {
            state(gone, |state| matches!(state, RegistrationState::Deleted)).await;
        }
        // A node that is no instance, too.
        zk.create(node("junk")).data("<xml/>").await.unwrap();
        assert_eq!(delete(&router, "/v1/service/orders/junk").await.0, 200);
        assert!(!server.probe().exists(&node("junk")));
        // It removes it or fails.
        let _guard = once_refused(&server, OpCode::Delete);
        is_error(delete(&router, "/v1/service/orders/c").await, 500, "zookeeper");
    });
}

fn once_refused(server: &TestServer, opcode: OpCode) -> zk_curator_testing::RuleGuard {
    once(server, opcode, Verdict::Refuse(zk_curator_proto::ErrorCode::NoAuth))
}

/// C18.
#[test]
fn every_field_survives_the_round_trip() {
    let records = [
        // Of Java, with a class, a template, a field of the future, and no address.
        r#"{"name":"orders","id":"a","address":null,"port":80,"sslPort":443,"payload":{"@class":"com.acme.Meta","k":"v","n":5},"registrationTimeUTC":1553592092875,"serviceType":"STATIC","uriSpec":{"parts":[{"value":"scheme","variable":true},{"value":"://x","variable":false}]},"enabled":false,"weight":1.50,"labels":{"b":[1,null]}}"#,
        r#"{"name":"orders","id":"a","address":"h","port":null,"sslPort":null,"payload":["java.util.ArrayList",["a",1]],"registrationTimeUTC":1,"serviceType":"PERMANENT","uriSpec":null}"#,
        r#"{"name":"orders","id":"a","address":"h","port":null,"sslPort":null,"payload":["java.lang.Long",7],"registrationTimeUTC":1,"serviceType":"PERMANENT","uriSpec":null}"#,
        r#"{"name":"orders","id":"a","address":"é/\"","port":1,"sslPort":null,"payload":null,"registrationTimeUTC":-1,"serviceType":"STATIC","uriSpec":null}"#,
    ];
    simulated_with(async |server, zk| {
        let router = router(&zk);
        zk.create(node("a")).creating_parents().await.unwrap();
        for record in records {
            zk.set_data(node("a"), record).await.unwrap();
            let (status, body) = get(&router, "/v1/service/orders/a").await;
            assert_eq!(status, 200, "{body}");
            assert_eq!(body["payload"].get("@class"), None);
            assert_eq!(put(&router, "/v1/service/orders/a", &body).await.0, 201);
            let written = server.probe().data(&node("a")).unwrap();
            let text = |data: &[u8]| String::from_utf8(data.to_vec()).unwrap();
            // Objects have no order for the client of this test.
            let parsed = |data: &str| serde_json::from_str::<Value>(data).unwrap();
            assert_eq!(parsed(&text(&written)), parsed(record));
        }
    });
}

/// A consumer in Java creates an object of the class.
#[test]
fn a_body_does_not_choose_the_java_class() {
    simulated_with(async |server, zk| {
        let router = router(&zk);
        let plain = ServiceDiscovery::<Value>::new(&zk, SERVICES).payload(PayloadCodec::plain());
        let a = "/v1/service/orders/a";
        let body =
            |class: &str| json!({"serviceType": "STATIC", "payload": {"@class": class, "k": "v"}});
        for router in [&router, &discovery_router(&plain)] {
            is_error(put(router, a, body("any.gadget.Class")).await, 400, "class");
            // The name of the field may be escaped.
            let escaped = body("any.gadget.Class").to_string().replace('@', "\\u0040");
            is_error(put(router, a, escaped).await, 400, "class");
            let number = json!({"serviceType": "STATIC", "payload": {"@class": 5}});
            is_error(put(router, a, number).await, 400, "record");
        }
        assert!(!server.probe().exists(&node("a")));
        let stored = r#"{"name":"orders","id":"a","address":null,"port":null,"sslPort":null,"payload":{"@class":"com.acme.Meta","k":"v"},"registrationTimeUTC":5,"serviceType":"STATIC","uriSpec":null}"#;
        zk.create(node("a")).creating_parents().data(stored).await.unwrap();
        is_error(put(&router, a, body("any.gadget.Class")).await, 400, "class");
        assert_eq!(server.probe().data(&node("a")).unwrap(), stored);
        assert_eq!(put(&router, a, body("com.acme.Meta")).await.0, 201);
        let data = server.probe().data(&node("a")).unwrap();
        assert!(data.windows(14).any(|part| part == br#""com.acme.Meta"#), "{data:?}");
    });
}

/// A client that does not know the field must not undo what an operator did.
#[test]
fn a_put_without_enabled_keeps_the_drain() {
    simulated_with(async |server, zk| {
        let router = router(&zk);
        let a = "/v1/service/orders/a";
        let enabled = || record(&server, "a").enabled;
        let body = json!({"serviceType": "STATIC", "payload": 1});
        let with = |enabled: Value| {
            let mut body = body.clone();
            body["enabled"] = enabled;
            body
        };
        assert_eq!(put(&router, a, &body).await.0, 201);
        assert!(enabled());
        assert_eq!(put(&router, a, with(json!(false))).await.0, 201);
        for body in [body.clone(), with(Value::Null)] {
            assert_eq!(put(&router, a, body).await.0, 201);
            assert!(!enabled());
        }
        assert_eq!(put(&router, a, with(json!(true))).await.0, 201);
        assert!(enabled());
    });
}

/// The function for the path gets the name as it is in the request.
#[test]
fn clients_do_not_leave_the_layout_of_paths() {
    simulated_with(async |server, zk| {
        let of_service = |name: &str| format!("/apps/{name}/instances");
        let discovery = ServiceDiscovery::<Value>::new(&zk, SERVICES).paths(of_service);
        let router = discovery_router(&discovery);
        let lock = "/apps/locks/orders/instances/lock-1";
        zk.create(lock).creating_parents().await.unwrap();
        let before = server.probe().total_requests();
        for name in ["locks%2Forders", "..", "%2E", "%00", "%1F", "%7F"] {
            for path in [format!("/v1/service/{name}/lock-1"), format!("/v1/service/a/{name}")] {
                is_error(get(&router, &path).await, 400, "name");
                is_error(put(&router, &path, r#"{"serviceType":"STATIC"}"#).await, 400, "name");
                is_error(delete(&router, &path).await, 400, "name");
            }
            is_error(get(&router, &format!("/v1/service/{name}")).await, 400, "name");
            is_error(get(&router, &format!("/v1/anyservice/{name}")).await, 400, "name");
        }
        assert_eq!(server.probe().total_requests(), before, "nothing was sent");
        assert!(server.probe().exists(lock));
        let path = "/v1/service/orders/a";
        assert_eq!(put(&router, path, r#"{"serviceType":"STATIC"}"#).await.0, 201);
        assert!(server.probe().exists("/apps/orders/instances/a"));
    });
}

#[test]
fn put_replaces_without_a_gap() {
    simulated_with(async |server, zk| {
        let router = router(&zk);
        let body = |payload: u32| json!({"serviceType": "STATIC", "payload": payload});
        assert_eq!(put(&router, "/v1/service/orders/a", body(1)).await.0, 201);
        let before = server.probe().stat(&node("a")).unwrap();
        assert_eq!(put(&router, "/v1/service/orders/a", body(2)).await.0, 201);
        let after = server.probe().stat(&node("a")).unwrap();
        assert_eq!((after.czxid, after.version), (before.czxid, before.version + 1));
        assert_eq!(get(&router, "/v1/service/orders/a").await.1["payload"], 2);
        // A live process keeps its id.
        let live = registered(&zk, "live").await;
        is_error(put(&router, "/v1/service/orders/live", body(3)).await, 409, "registered");
        assert_eq!(get(&router, "/v1/service/orders/live").await.1["payload"], 1);
        assert!(live.is_registered());
    });
}

#[test]
fn writes_with_lost_responses_are_done() {
    for verdict in [Verdict::LoseReply, Verdict::LoseRequest] {
        simulated_with(async |server, zk| {
            let router = router(&zk);
            let body = |payload: u32| json!({"serviceType": "STATIC", "payload": payload});
            let orders = zk.create(ORDERS).mode(CreateMode::Container);
            orders.creating_parents_as_containers().await.unwrap();
            let lost =
                rule_if(&server, |request| request.is_create_under(ORDERS), verdict).times(1);
            assert_eq!(put(&router, "/v1/service/orders/a", body(1)).await.0, 201, "{verdict:?}");
            assert_eq!(lost.hits(), 1);
            let lost = once(&server, OpCode::SetData, verdict);
            assert_eq!(put(&router, "/v1/service/orders/a", body(2)).await.0, 201, "{verdict:?}");
            assert_eq!(lost.hits(), 1);
            assert_eq!(get(&router, "/v1/service/orders/a").await.1["payload"], 2);
            let lost = once(&server, OpCode::Delete, verdict);
            assert_eq!(delete(&router, "/v1/service/orders/a").await.0, 200, "{verdict:?}");
            assert_eq!(lost.hits(), 1);
            assert!(!server.probe().exists(&node("a")));
            closes_clean(&server, &zk).await;
        });
    }
}

#[test]
fn bad_requests_say_why() {
    simulated_with(async |server, zk| {
        let router = router(&zk);
        let before = server.probe().total_requests();
        let a = "/v1/service/orders/a";
        for (body, error) in [
            ("", "record"),
            ("[]", "record"),
            (r#"{"serviceType":"STATIC","port":"x"}"#, "record"),
            (r#"{"serviceType":"LUNAR"}"#, "record"),
            (r#"{"serviceType":"STATIC","x":1,"x":2}"#, "record"),
            (r#"{"serviceType":"STATIC","id":"b"}"#, "path"),
            (r#"{"serviceType":"STATIC","name":"b"}"#, "path"),
            (r#"{"serviceType":"DYNAMIC"}"#, "dynamic"),
            (r#"{"serviceType":"DYNAMIC_SEQUENTIAL"}"#, "dynamic"),
            ("{}", "dynamic"),
        ] {
            is_error(put(&router, a, body).await, 400, error);
        }
        let (_, fault) = put(&router, a, r#"{"serviceType":"STATIC","port":"x"}"#).await;
        assert_eq!(fault["byte"], 31, "{fault}");
        for path in [
            "/v1/service/orders/a%2Fb",
            "/v1/service/a%2Fb/a",
            "/v1/service/orders/..",
            "/v1/service/%FF/a",
        ] {
            is_error(get(&router, path).await, 400, "name");
            is_error(put(&router, path, r#"{"serviceType":"STATIC"}"#).await, 400, "name");
            is_error(delete(&router, path).await, 400, "name");
        }
        let text = Request::put(a).header(header::CONTENT_TYPE, "text/plain");
        let text = text.body(Body::from(r#"{"serviceType":"STATIC"}"#)).unwrap();
        is_error(send(&router, text).await, 415, "media");
        let large = format!(r#"{{"serviceType":"STATIC","x":"{}"}}"#, "y".repeat(MAX_BYTES));
        is_error(put(&router, a, large).await, 413, "size");
        assert_eq!(get(&router, "/v1/other").await.0, 404);
        assert_eq!(put(&router, "/v1/service", "{}").await.0, 405);
        assert_eq!(server.probe().total_requests(), before, "nothing was sent");
    });
}

#[test]
fn nodes_that_are_no_instances_are_reported() {
    simulated_with(async |_, zk| {
        let router = router(&zk);
        let _a = registered(&zk, "a").await;
        zk.create(node("junk")).data("<xml/>").await.unwrap();
        is_error(get(&router, "/v1/service/orders/junk").await, 500, "node");
        // The others are shown.
        let (_, all) = get(&router, "/v1/service/orders").await;
        assert_eq!(all.as_array().unwrap().len(), 1);
        zk.create(format!("{ORDERS}/junk/child")).await.unwrap();
        is_error(delete(&router, "/v1/service/orders/junk").await, 409, "children");
        // A put repairs it.
        assert_eq!(
            put(&router, "/v1/service/orders/junk", r#"{"serviceType":"STATIC"}"#).await.0,
            201
        );
        assert_eq!(get(&router, "/v1/service/orders/junk").await.0, 200);
    });
}

#[test]
fn failures_of_zookeeper_are_server_errors() {
    simulated_with(async |server, zk| {
        let router = router(&zk);
        let a = "/v1/service/orders/a";
        let body = r#"{"serviceType":"STATIC"}"#;
        zk.create(ORDERS).creating_parents().await.unwrap();
        let read_only = vec![Acl::new(Permissions::READ, "world", "anyone")];
        zk.set_acl(ORDERS, read_only).await.unwrap();
        is_error(put(&router, a, body).await, 500, "zookeeper");
        server.partition();
        until_state(&zk, ConnectionState::Lost).await;
        for response in
            [get(&router, a).await, put(&router, a, body).await, delete(&router, a).await]
        {
            is_error(response, 503, "unavailable");
        }
        server.heal();
        until_state(&zk, ConnectionState::Reconnected { same_session: false }).await;
        zk.close().await.unwrap();
        is_error(get(&router, "/v1/service").await, 503, "unavailable");
    });
}

async fn registered_static(zk: &CuratorFramework, id: &str) -> Registration<u32> {
    let mut fixed = instance(id);
    fixed.service_type = ServiceType::Static;
    discovery(zk).register(fixed).await.unwrap()
}

const REFRESH: Duration = Duration::from_secs(60);

/// C17: whoever has registered them, and whatever our clock says.
#[test]
fn static_instances_are_purged_by_the_servers_clock() {
    let (past, future) = (Duration::from_secs(1_000_000_000), Duration::from_secs(9_000_000_000));
    for wall_clock in [past, future] {
        let set = async || {
            let server = TestServer::builder().tcp(false).keep_writes(true);
            let server = server.wall_clock(SystemTime::UNIX_EPOCH + wall_clock);
            let server = server.start().await.unwrap();
            let (zk, other) = (connected(&server).await, connected(&server).await);
            (server, zk, other)
        };
        simulated_on(set, async |(server, zk, other)| {
            let purge = Purge::new(&discovery(&zk), REFRESH);
            assert_eq!(purge.once().await.unwrap(), [""; 0]);
            let _dynamic = registered(&other, "dynamic").await;
            let mut permanent = instance("permanent");
            permanent.service_type = ServiceType::Permanent;
            drop(discovery(&other).register(permanent).await.unwrap());
            let writes = server.writes().len();
            assert_eq!(purge.once().await.unwrap(), [""; 0]);
            assert_eq!(server.writes().len(), writes, "without static instances it writes nothing");

            let old = registered_static(&other, "old").await;
            let mut renewed = registered_static(&other, "renewed").await;
            spend(REFRESH - Duration::from_secs(1)).await;
            assert_eq!(purge.once().await.unwrap(), [""; 0]);
            renewed.touch().await.unwrap();
            wait::past(Duration::from_secs(2)).await;
            assert_eq!(purge.once().await.unwrap(), [node("old")]);
            state(&old, |state| matches!(state, RegistrationState::Deleted)).await;
            assert_eq!(server.probe().children(SERVICES), ["orders"], "no trace of the time");
            assert_eq!(server.probe().children(ORDERS), ["dynamic", "permanent", "renewed"]);
            wait::past(REFRESH).await;
            assert_eq!(purge.once().await.unwrap(), [node("renewed")]);
        });
    }
}

#[test]
fn nodes_that_cannot_be_purged_do_not_keep_the_others() {
    simulated_with(async |server, zk| {
        drop(registered_static(&zk, "a").await);
        drop(registered_static(&zk, "b").await);
        zk.create(format!("{ORDERS}/a/child")).await.unwrap();
        past(REFRESH * 2).await;
        let purge = Purge::new(&discovery(&zk), REFRESH);
        let error = purge.once().await.unwrap_err();
        assert_eq!((error.kind(), error.path()), (ErrorKind::NotEmpty, &*node("a")));
        assert_eq!(server.probe().children(ORDERS), ["a"]);
        zk.delete(format!("{ORDERS}/a/child")).await.unwrap();
        assert_eq!(purge.once().await.unwrap(), [node("a")]);
    });
}

#[test]
fn services_that_cannot_be_listed_do_not_keep_the_others() {
    simulated_with(async |server, zk| {
        drop(registered_static(&zk, "a").await);
        zk.create("/services/apples").await.unwrap();
        let no_read = vec![Acl::new(Permissions::WRITE, "world", "anyone")];
        zk.set_acl("/services/apples", no_read).await.unwrap();
        past(REFRESH * 2).await;
        let purge = Purge::new(&discovery(&zk), REFRESH);
        // The first round deletes the instance, the second one finds none.
        for _ in 0..2 {
            let error = purge.once().await.unwrap_err();
            assert_eq!((error.kind(), error.path()), (ErrorKind::NoAuth, "/services/apples"));
            assert_eq!(server.probe().children(ORDERS), [""; 0]);
        }
    });
}

/// A service that is shut down waits for it.
#[test]
fn a_purge_ends_with_the_framework_and_not_after_its_pause() {
    simulated_with(async |server, zk| {
        let purge = Purge::new(&discovery(&zk), REFRESH).every(REFRESH * 1000);
        let task = tokio::spawn(async move { purge.run().await });
        settled().await;
        closes_clean(&server, &zk).await;
        let error = timeout(REFRESH, task).await.unwrap().unwrap();
        assert_eq!(error.kind(), ErrorKind::Closed);
    });
}

#[test]
fn an_instance_that_is_renewed_in_time_stays() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let mut me = registered_static(&other, "a").await;
        past(REFRESH * 2).await;
        let purge = Purge::new(&discovery(&zk), REFRESH);
        // It is renewed after it was read.
        let _late = rule_if(&server, is_write_multi, Verdict::Delay(Duration::from_secs(2)));
        let (removed, renewed) = tokio::join!(purge.once(), async {
            spend(Duration::from_secs(1)).await;
            me.touch().await
        });
        renewed.unwrap();
        assert_eq!(removed.unwrap(), [""; 0]);
        assert!(server.probe().exists(&node("a")));
        assert!(me.is_registered());
    });
}

#[test]
fn a_purge_goes_on_until_the_framework_is_closed() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let purge = Purge::new(&discovery(&zk), REFRESH);
        let task = tokio::spawn(async move { purge.run().await });
        let a = registered_static(&other, "a").await;
        let refused = once_refused(&server, OpCode::Delete);
        let mut errors = zk.background_errors();
        let error = timeout(REFRESH * 3, errors.next()).await.unwrap().unwrap();
        assert_eq!((error.kind(), refused.hits()), (ErrorKind::NoAuth, 1));
        server.partition();
        spend(REFRESH).await;
        server.heal();
        timeout(REFRESH * 3, state(&a, |state| matches!(state, RegistrationState::Deleted)))
            .await
            .unwrap();
        drop((a, refused));
        all_close_clean(&server, [&zk, &other]).await;
        assert_eq!(task.await.unwrap().kind(), ErrorKind::Closed);
    });
}

#[test]
fn a_purge_that_stays_refused_is_reported_once() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let purge = Purge::new(&discovery(&zk), REFRESH);
        let task = tokio::spawn(async move { purge.run().await });
        let a = registered_static(&other, "a").await;
        let verdict = Verdict::Refuse(zk_curator_proto::ErrorCode::NoAuth);
        let refused = rule_if(&server, |request| request.is(OpCode::Delete), verdict);
        let mut errors = zk.background_errors();
        let error = timeout(REFRESH * 3, errors.next()).await.unwrap().unwrap();
        assert_eq!(error.kind(), ErrorKind::NoAuth);
        assert!(timeout(REFRESH * 20, errors.next()).await.is_err());
        assert!(refused.hits() > 10, "every round tries again: {}", refused.hits());
        drop(refused);
        timeout(REFRESH * 3, state(&a, |state| matches!(state, RegistrationState::Deleted)))
            .await
            .unwrap();
        drop(a);
        all_close_clean(&server, [&zk, &other]).await;
        assert_eq!(task.await.unwrap().kind(), ErrorKind::Closed);
    });
}

/// What Java reads of an instance that was put.
#[test]
fn what_was_put_is_an_instance_for_the_others() {
    simulated_with(async |server, zk| {
        let json = discovery_router(&discovery(&zk).json_mode(JsonMode::Full));
        let body = json!({"serviceType": "STATIC", "payload": 7, "enabled": false});
        assert_eq!(put(&json, "/v1/service/orders/a", &body).await.0, 201);
        let found = discovery(&zk).instances("orders").await.unwrap();
        assert_eq!((found.instances[0].payload, found.instances[0].enabled), (7, false));
        let data = server.probe().data(&node("a")).unwrap();
        assert!(data.ends_with(br#""enabled":false}"#));
        let read: ServiceInstance<u32> = read(&data, "", "").unwrap();
        assert!(!read.is_incomplete());
        // A payload of another type is refused.
        let body = json!({"serviceType": "STATIC", "payload": "seven"});
        is_error(put(&json, "/v1/service/orders/a", &body).await, 400, "record");
        assert_eq!(StatusCode::CREATED, 201);
    });
}

#[test]
fn dropped_requests_may_be_repeated() {
    let (a, body) = ("/v1/service/orders/a", r#"{"serviceType":"STATIC"}"#);
    simulated_drops(
        6,
        in_memory,
        async |(_, zk)| put(&router(zk), a, body).await.0,
        async |(server, zk), status| {
            assert!(status.is_none_or(|status| status == 201));
            let router = router(&zk);
            assert_eq!(put(&router, a, body).await.0, 201);
            assert_eq!(server.probe().children(ORDERS), ["a"]);
            assert_eq!(delete(&router, a).await.0, 200);
            closes_clean(&server, &zk).await;
        },
    );
}

#[test]
fn a_dropped_purge_leaves_no_trace() {
    simulated_drops(
        6,
        async || {
            let (server, zk) = in_memory().await;
            drop(registered_static(&zk, "a").await);
            past(REFRESH * 2).await;
            (server, zk)
        },
        async |(_, zk)| Purge::new(&discovery(zk), REFRESH).once().await.unwrap().len(),
        async |(server, zk), removed| {
            assert!(removed.is_none_or(|removed| removed == 1));
            Purge::new(&discovery(&zk), REFRESH).once().await.unwrap();
            assert_eq!(server.probe().children(ORDERS), [""; 0]);
            assert_eq!(server.probe().children(SERVICES), ["orders"]);
            closes_clean(&server, &zk).await;
        },
    );
}

/// The response to a transaction has the time of the server.
async fn the_time_of_the_server_decides(server: Server) {
    let zk = server.connected().await;
    let _me = registered_static(&zk, "a").await;
    let discovery = discovery(&zk);
    assert_eq!(Purge::new(&discovery, REFRESH).once().await.unwrap(), [""; 0]);
    let purge = Purge::new(&discovery, Duration::from_millis(1));
    wait::until(async || !purge.once().await.unwrap().is_empty()).await;
    assert!(zk.exists(node("a")).await.unwrap().is_none());
    zk.close().await.unwrap();
}

on_each_server! {
    the_time_of_the_server_decides
}
