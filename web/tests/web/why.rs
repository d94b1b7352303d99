//! The page of a recipe, and the card on the page of a node.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use zk_curator::{CreateMode, CuratorFramework};
use zk_curator_recipes::lock::{InterProcessMutex, InterProcessSemaphore};
use zk_curator_testing::{TestServer, paused, wait};
use zk_curator_web::{Limits, WebOptions, router};

use crate::support::{Site, news};

const LOCK: &str = "/locks/orders";

async fn site() -> Site {
    let limits = Limits::new().requests(10_000, 10_000);
    Site::start(WebOptions::new().limits(limits)).await
}

/// Waits for the lock as another client, and returns when it is in the line.
async fn contend(site: &Site, label: &'static str, place: usize) -> CuratorFramework {
    let zk = site.client().await;
    let lock = InterProcessMutex::new(&zk, LOCK).label(label);
    tokio::spawn(async move {
        let held = lock.acquire().await;
        std::future::pending::<()>().await;
        drop(held);
    });
    site.server.until(|probe| probe.children(LOCK).len() == place).await;
    zk
}

fn names(contenders: &Value) -> Vec<&Value> {
    contenders.as_array().unwrap().iter().map(|one| &one["label"]["text"]).collect()
}

#[tokio::test]
async fn the_holder_and_the_waiters_are_named_in_their_order() {
    let site = site().await;
    let mut clients = Vec::new();
    for (place, label) in (1..).zip(["ann", "ben", "cia"]) {
        clients.push(contend(&site, label, place).await);
    }
    let page = site.get("/why/locks/orders").await.body;
    for part in [
        "Mutex (Curator): 1 holder, 2 waiting.",
        "<li>held by ann (_c_",
        "zkc revoke /locks/orders/_c_",
        "asks the holder to release it",
        "data-live=\"/api/v1/watch/locks/orders?scope=recipe\"",
        "The settings of this explorer do not let it ask",
        "<th scope=\"col\">Waits for</th>",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(page.find("<bdi>ben</bdi>") < page.find("<bdi>cia</bdi>"));
    assert!(!page.contains("#delete-heading"), "it only reads");
    let why = site.json("/api/v1/why/locks/orders").await;
    assert_eq!(names(&why["holders"]), [&json!("ann")]);
    assert_eq!(names(&why["waiting"]), [&json!("ben"), &json!("cia")]);
    assert_eq!(why["waiting"][1]["waits_on"], why["waiting"][0]["path"]);
    assert_eq!((&why["recipe"], &why["sessions_age_ms"]), (&json!("mutex"), &json!(null)));
    assert_eq!(why["holders"][0]["connected"], json!(null), "the servers were not asked");

    // The page of a contender shows the recipe.
    let waiter = why["waiting"][0]["path"].as_str().unwrap();
    let page = site.get(&format!("/why{waiter}")).await.body;
    assert!(page.contains("Contender 2 of 3 of the mutex (Curator) at /locks/orders: it waits."));
    assert_eq!(site.json(&format!("/api/v1/why{waiter}")).await["path"], LOCK);
    assert_eq!(site.get("/why/none").await.status, 404);
    drop(clients);
}

#[tokio::test]
async fn a_node_without_a_recipe_says_why_it_cannot_be_deleted() {
    let site = site().await;
    site.zk.create("/app/config").creating_parents().data("x").await.unwrap();
    let page = site.get("/why/app").await.body;
    for part in ["No recipe is recognised", "zkc rm -r deletes both", "fit no known recipe"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(page.contains("data-live=\"/api/v1/watch/app\""), "{page}");
}

#[tokio::test]
async fn a_ghost_is_named_with_the_way_to_delete_it() {
    let site = Site::start(WebOptions::new().write(true)).await;
    let ghost = site.zk.create("/locks/orders/lock-").creating_parents();
    ghost.mode(CreateMode::PersistentSequential).data("restored").await.unwrap();
    let page = site.get("/why/locks/orders").await.body;
    for part in [
        "persistent: no session will ever remove it",
        "zkc stat /locks/orders/lock-0000000000",
        "zkc break /locks/orders/lock-0000000000 --token 0x",
        "href=\"/node/locks/orders/lock-0000000000#delete-heading\"",
        "class=\"badge bad\"",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(!page.contains("zkc revoke") && !page.contains("name=\"csrf\""), "{page}");
    let why = site.json("/api/v1/why/locks/orders").await;
    assert_eq!((&why["persistent"], &why["holders"][0]["persistent"]), (&json!(1), &json!(true)));
}

#[test]
fn the_page_follows_the_contenders() {
    paused(async {
        let site = site().await;
        let ann = contend(&site, "ann", 1).await;
        let (_, mut stream) = site.watch("/api/v1/watch/locks/orders?scope=recipe").await;
        let seen = news(&mut stream, "fresh").await;
        assert!(site.get("/why/locks/orders").await.body.contains("1 holder, 0 waiting"));
        let ben = contend(&site, "ben", 2).await;
        let now = news(&mut stream, "fresh").await;
        assert_eq!(now, seen + 1);
        let before = site.server.probe().total_requests();
        for _ in 0..100 {
            let page = site.get("/why/locks/orders").await.body;
            assert!(page.contains("1 holder, 1 waiting"), "{page}");
        }
        // The nodes above and the contenders.
        assert_eq!(site.server.probe().total_requests() - before, 2);
        assert!(site.server.expire(&ann).await);
        wait::past(Duration::from_secs(1)).await;
        assert!(news(&mut stream, "fresh").await > now);
        let page = site.get("/why/locks/orders").await.body;
        assert!(page.contains("held by ben") && page.contains("0 waiting"), "{page}");
        drop(ben);
    });
}

#[tokio::test]
async fn a_card_says_what_a_node_is() {
    let site = site().await;
    let clients = [contend(&site, "ann", 1).await, contend(&site, "ben", 2).await];
    let why = site.json("/api/v1/why/locks/orders").await;
    let path = |list: &str| why[list][0]["path"].as_str().unwrap().to_owned();
    let (holder, waiter) = (path("holders"), path("waiting"));
    let page = site.get(&format!("/node{waiter}")).await.body;
    for part in [
        "Contender 2 of 2 of the mutex (Curator) at /locks/orders: it waits.",
        "<li>held by ann (_c_",
        "<a href=\"/why/locks/orders\">Who holds it, and who waits</a>",
        "<dt>Waits for</dt>",
        &format!("<a href=\"/node{holder}\">"),
        "data-live=\"/api/v1/watch/locks/orders?scope=recipe\"",
        "<dd>unknown</dd>",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let page = site.get("/node/locks/orders").await.body;
    assert!(page.contains("Mutex (Curator): 1 holder, 1 waiting."), "{page}");
    assert!(page.contains("data-live=\"/api/v1/watch/locks/orders\""), "{page}");
    let plain = site.get("/node/locks").await.body;
    assert!(!plain.contains("card-heading") && plain.contains("id=\"card\""), "{plain}");
    drop(clients);
}

#[tokio::test]
async fn a_card_says_nothing_about_nodes_that_it_has_not_read() {
    let site = site().await;
    let permit = InterProcessSemaphore::new(&site.zk, "/permits", 2).acquire().await.unwrap();
    site.server.until(|probe| probe.children("/permits/locks").is_empty()).await;
    let page = site.get("/node/permits").await.body;
    assert!(page.contains("<p>Semaphore (Curator).</p>"), "{page}");
    assert!(!page.contains("free"), "{page}");
    let why = site.get("/why/permits").await.body;
    assert!(why.contains("Semaphore (Curator): 1 holder, 0 waiting."), "{why}");
    drop(permit);
}

/// Each request takes 10 ms in each direction.
#[test]
fn the_page_of_a_contender_takes_two_round_trips() {
    paused(async {
        let server = TestServer::in_memory().await;
        let connector = server.connector();
        let builder = CuratorFramework::builder().connect_string(server.connect_string());
        let latency = Duration::from_millis(10);
        connector.set_latency(0, latency..=latency, 1);
        let zk = builder.connector(Arc::new(connector)).build().unwrap();
        zk.start().await.unwrap();
        let router = router(&zk, WebOptions::new().without_probe());
        let site = Site { server, zk, router };
        let held = InterProcessMutex::new(&site.zk, LOCK).acquire().await.unwrap();
        // The first page of all reads the identity.
        site.get("/help").await;
        for address in [format!("/node{}", held.path()), format!("/node{LOCK}")] {
            let (begun, before) = (Instant::now(), site.server.probe().total_requests());
            assert!(site.get(&address).await.body.contains("card-heading"), "{address}");
            assert!(begun.elapsed() < 5 * latency, "{address}: {:?}", begun.elapsed());
            assert!(site.server.probe().total_requests() - before <= 6, "{address}");
        }
        held.release().await.unwrap();
    });
}

#[tokio::test]
async fn clients_are_shown_with_their_addresses() {
    let site = Site::on_tcp(WebOptions::new()).await;
    let other = site.client().await;
    let held = InterProcessMutex::new(&other, LOCK).label("ann").acquire().await.unwrap();
    let page = site.get("/why/locks/orders").await.body;
    for part in ["connected, timeout", "  on 127.0.0.1:", "as the servers knew them"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let why = site.json("/api/v1/why/locks/orders").await;
    let holder = &why["holders"][0];
    assert_eq!(holder["connected"], json!(true));
    assert!(holder["client"].as_str().unwrap().starts_with("127.0.0.1:"), "{holder}");
    assert!(why["sessions_age_ms"].is_u64(), "{why}");
    // The page of a node waits for no server.
    let node = site.get(&format!("/node{}", held.path())).await.body;
    assert!(node.contains("Owner&#39;s client") && node.contains("  on 127.0.0.1:"), "{node}");
    held.release().await.unwrap();
    other.close().await.unwrap();
}
