//! The page of the services of Curator's discovery.

use serde_json::{Value, json};
use zk_curator_discovery::{Registration, ServiceDiscovery, ServiceInstance, ServiceType};
use zk_curator_testing::paused;
use zk_curator_web::{Redaction, WebOptions};

use crate::support::{Site, news};

/// Registers an instance with a payload.
async fn register(site: &Site, base: &str, id: &str, payload: Value) -> Registration<Value> {
    let discovery = ServiceDiscovery::<Value>::new(&site.zk, base);
    let instance = ServiceInstance::builder("orders").id(id).address("10.0.0.1").port(8040);
    let instance = instance.ssl_port(8443).uri_spec("{scheme}://{address}:{ssl-port}");
    discovery.register(instance.payload(payload).build().unwrap()).await.unwrap()
}

#[tokio::test]
async fn services_and_instances_are_listed() {
    let site = Site::start(WebOptions::new()).await;
    let up = register(&site, "/services", "7", json!({ "zone": "<b>a</b>" })).await;
    let mut drained = register(&site, "/services", "8", Value::Null).await;
    drained.drain().await.unwrap();
    site.zk.create("/services/orders/foreign").data("not JSON").await.unwrap();
    let page = site.get("/services/services").await.body;
    for part in [
        "1 service with 2 instances: 1 up, 1 drained, 1 undecodable.",
        "<bdi>7</bdi>",
        "<bdi>10.0.0.1</bdi>",
        "8443",
        "https://10.0.0.1:8443",
        "{&#34;zone&#34;:&#34;&#60;b&#62;a&#60;/b&#62;&#34;}",
        "drained",
        "<bdi>foreign</bdi></a>: ",
        "at byte",
        "its connection is not known",
        "data-live=\"/api/v1/watch/services?scope=subtree\"",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let services = site.json("/api/v1/services/services").await;
    let orders = &services["services"][0];
    assert_eq!((&orders["name"], &services["bases"]), (&json!("orders"), &json!([])));
    assert_eq!(orders["instances"][0]["payload"], json!({ "zone": "<b>a</b>" }));
    assert_eq!(orders["instances"][1]["enabled"], json!(false));
    assert_eq!(orders["undecodable"][0]["path"], "/services/orders/foreign");
    assert_eq!(site.get("/services/none").await.status, 404);
    drop((up, drained));
}

#[tokio::test]
async fn the_base_paths_are_found() {
    let site = Site::start(WebOptions::new()).await;
    let one = register(&site, "/services", "7", Value::Null).await;
    let two = register(&site, "/app/discovery", "8", Value::Null).await;
    let page = site.get("/services").await.body;
    for part in ["href=\"/services/services\"", "href=\"/services/app/discovery\""] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(page.contains("0 services with 0 instances"), "nothing else is a service: {page}");
    let services = site.json("/api/v1/services").await;
    let expected = json!([
        { "path": "/app/discovery", "services": 1 },
        { "path": "/services", "services": 1 },
    ]);
    assert_eq!(services["bases"], expected);
    let recipes = site.get("/recipes?kind=service").await.body;
    assert!(recipes.contains("<a class=\"client\" href=\"/services/services\">"), "{recipes}");
    drop((one, two));
}

#[tokio::test]
async fn a_tree_without_services_says_so() {
    let site = Site::start(WebOptions::new()).await;
    site.zk.create("/empty").await.unwrap();
    for address in ["/services", "/services/empty"] {
        let page = site.get(address).await.body;
        assert!(page.contains("No service of Curator's discovery is registered here."), "{page}");
    }
}

#[tokio::test]
async fn a_static_instance_has_no_session() {
    let site = Site::start(WebOptions::new()).await;
    let discovery = ServiceDiscovery::<()>::new(&site.zk, "/services");
    let instance = ServiceInstance::builder("orders").id("7").service_type(ServiceType::Static);
    let registered = discovery.register(instance.build().unwrap()).await.unwrap();
    let page = site.get("/services/services").await.body;
    assert!(page.contains("no session: it stays until it is deleted"), "{page}");
    assert!(page.contains("STATIC"), "{page}");
    drop(registered);
}

#[tokio::test]
async fn records_of_secrets_are_hidden() {
    let redaction = Redaction::new(["/services/**"]).unwrap();
    let site = Site::start(WebOptions::new().redaction(redaction)).await;
    let registered = register(&site, "/services", "7", json!("s3cret")).await;
    for address in ["/services/services", "/api/v1/services/services", "/recipes"] {
        let page = site.get(address).await.body;
        assert!(!page.contains("s3cret") && !page.contains("10.0.0.1"), "{address}: {page}");
    }
    let services = site.json("/api/v1/services/services").await;
    let reason = services["services"][0]["undecodable"][0]["reason"].as_str().unwrap();
    assert!(reason.starts_with("hidden"), "{reason}");
    drop(registered);
}

#[tokio::test]
async fn long_payloads_are_left_out() {
    let site = Site::start(WebOptions::new()).await;
    let registered = register(&site, "/services", "7", json!("x".repeat(5_000))).await;
    let page = site.get("/services/services").await.body;
    assert!(page.contains("4.8 KiB: too long for this page") && page.len() < 20_000, "{page}");
    let services = site.json("/api/v1/services/services").await;
    let instance = &services["services"][0]["instances"][0];
    assert_eq!((&instance["payload"], &instance["payload_too_long"]), (&json!(null), &json!(true)));
    drop(registered);
}

#[test]
fn the_page_follows_the_instances() {
    paused(async {
        let site = Site::start(WebOptions::new()).await;
        let one = register(&site, "/services", "7", Value::Null).await;
        let (_, mut stream) = site.watch("/api/v1/watch/services?scope=subtree").await;
        let seen = news(&mut stream, "fresh").await;
        assert!(site.get("/services/services").await.body.contains("with 1 instance:"));
        let two = register(&site, "/services", "8", Value::Null).await;
        assert!(news(&mut stream, "fresh").await > seen);
        assert!(site.get("/services/services").await.body.contains("with 2 instances:"));
        drop((one, two));
    });
}
