//! The page of the recipes below a node.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;
use zk_curator::CreateMode;
use zk_curator::op::fan_out;
use zk_curator_recipes::leader::LeaderLatch;
use zk_curator_recipes::lock::{InterProcessMutex, InterProcessSemaphore};
use zk_curator_recipes::queue::DistributedPriorityQueue;
use zk_curator_testing::{OpCode, paused, wait};
use zk_curator_web::{Limits, Redaction, WebOptions};

use crate::support::{Site, ask, news};

async fn site() -> Site {
    let limits = Limits::new().requests(10_000, 10_000);
    Site::start(WebOptions::new().limits(limits)).await
}

#[tokio::test]
async fn a_newcomer_finds_the_holder_in_three_clicks() {
    let site = site().await;
    let other = site.client().await;
    let lock = InterProcessMutex::new(&other, "/locks/orders").label("worker-1");
    let held = lock.acquire().await.unwrap();
    assert_eq!(site.get("/").await.header("location"), "/tree");
    assert!(site.get("/tree").await.body.contains("<a href=\"/recipes\">Recipes</a>"));
    let recipes = site.get("/recipes").await.body;
    for part in [
        "<a href=\"/why/locks/orders\"><bdi>/locks/orders</bdi></a>",
        "<bdi>worker-1</bdi>",
        "mutex (Curator)",
        "<td class=\"time\"><time datetime=\"20",
        "aria-current=\"page\">Recipes</a>",
        "data-live=\"/api/v1/watch?scope=subtree\"",
    ] {
        assert!(recipes.contains(part), "{part}: {recipes}");
    }
    let why = site.get("/why/locks/orders").await.body;
    assert!(why.contains("held by worker-1"), "{why}");
    held.release().await.unwrap();
}

#[tokio::test]
async fn all_kinds_are_listed() {
    let site = site().await;
    let zk = &site.zk;
    let lock = InterProcessMutex::new(zk, "/r/lock").acquire().await.unwrap();
    let leader = LeaderLatch::new(zk, "/r/leader").id("one").join();
    leader.await_leadership().await.unwrap();
    let permit = InterProcessSemaphore::new(zk, "/r/permits", 2).acquire().await.unwrap();
    let queue = DistributedPriorityQueue::new(zk, "/r/queue");
    queue.put("late", 5).await.unwrap();
    queue.put("first", 1).await.unwrap();
    let kazoo = "/r/kazoo/0123456789abcdef0123456789abcdef__lock__";
    let kazoo = zk.create(kazoo).creating_parents().mode(CreateMode::EphemeralSequential);
    kazoo.await.unwrap();
    let ghost = zk.create("/r/ghost/lock-").creating_parents();
    ghost.mode(CreateMode::PersistentSequential).data("restored").await.unwrap();
    zk.create("/r/config").data("no recipe").await.unwrap();
    let page = site.get("/recipes/r").await.body;
    for part in [
        "leader election (Curator)",
        "semaphore (Curator)",
        "priority queue (Curator)",
        "mutex (kazoo)",
        "1 persistent",
        "<td class=\"number depth\">2</td>",
        "6 recipes.",
        "locks <span class=\"count\">3</span>",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(!page.contains("/why/r/config"));
    let queues = site.get("/recipes/r?kind=queue").await.body;
    assert!(queues.contains("/why/r/queue") && !queues.contains("/why/r/lock"), "{queues}");
    let recipes = site.json("/api/v1/recipes/r?kind=jobs").await;
    assert_eq!((&recipes["matching"], &recipes["total"]), (&json!(0), &json!(6)));
    assert_eq!(site.get("/recipes/none").await.status, 404);
    drop((lock, permit));
    leader.close().await.unwrap();
}

#[test]
fn the_longest_wait_comes_first() {
    paused(async {
        let site = site().await;
        let mut tasks = Vec::new();
        for path in ["/a", "/b"] {
            for _ in 0..2 {
                let lock = InterProcessMutex::new(&site.client().await, path);
                tasks.push(tokio::spawn(async move { lock.acquire().await.unwrap() }));
            }
        }
        site.server.until(|probe| probe.children("/b").len() == 2).await;
        site.server.until(|probe| probe.children("/a").len() == 2).await;
        let quiet = InterProcessMutex::new(&site.zk, "/0").acquire().await.unwrap();
        let recipes = site.json("/api/v1/recipes").await;
        let rows = recipes["recipes"].as_array().unwrap();
        assert_eq!(rows.len(), 3);
        assert_eq!(rows[2]["path"], "/0", "no client waits there");
        assert_eq!((&rows[0]["waiting"], &rows[2]["waiting"]), (&json!(1), &json!(0)));
        assert!(rows[0]["longest_wait_ms"].is_u64() && rows[2]["longest_wait_ms"].is_null());
        drop((quiet, tasks));
    });
}

#[test]
fn growth_is_known_after_two_reads() {
    paused(async {
        let site = site().await;
        let queue = DistributedPriorityQueue::new(&site.zk, "/queue");
        queue.put("one", 1).await.unwrap();
        let growth = async || site.json("/api/v1/recipes").await["recipes"][0].clone();
        let first = growth().await;
        assert_eq!((&first["depth"], &first["growth_per_minute"]), (&json!(1), &json!(null)));
        assert!(site.get("/recipes").await.body.contains("<td class=\"number growth\">unknown"));
        wait::past(Duration::from_secs(60)).await;
        for _ in 0..6 {
            queue.put("item", 1).await.unwrap();
        }
        let grown = growth().await["growth_per_minute"].as_f64().unwrap();
        assert!((5.9..=6.0).contains(&grown), "{grown}");
        assert!(site.get("/recipes").await.body.contains("<td class=\"number growth\">+6.0"));
    });
}

#[test]
fn viewers_share_a_search() {
    paused(async {
        let site = site().await;
        let lock = InterProcessMutex::new(&site.zk, "/locks/orders").label("ann");
        let held = lock.acquire().await.unwrap();
        let (_, mut stream) = site.watch("/api/v1/watch?scope=subtree").await;
        let seen = news(&mut stream, "fresh").await;
        site.get("/recipes").await;
        let before = site.server.probe().total_requests();
        for _ in 0..100 {
            site.get("/recipes").await;
        }
        assert_eq!(site.server.probe().total_requests(), before);
        // Many changes, at any depth, are one announcement and one search.
        let searches = || site.server.probe().requests(OpCode::MultiRead);
        wait::past(Duration::from_secs(2)).await;
        let before = searches();
        held.release().await.unwrap();
        let held = InterProcessMutex::new(&site.zk, "/locks/deep/er").label("ben").acquire().await;
        let now = news(&mut stream, "fresh").await;
        assert!(now > seen, "{now} {seen}");
        wait::past(Duration::from_secs(2)).await;
        for _ in 0..100 {
            assert!(site.get("/recipes").await.body.contains("<bdi>ben</bdi>"));
        }
        assert!(searches() - before <= 12, "{}", searches() - before);
        drop(held);
    });
}

#[test]
fn a_quiet_page_is_read_again() {
    paused(async {
        let site = site().await;
        let (_, mut stream) = site.watch("/api/v1/watch?scope=subtree").await;
        let seen = news(&mut stream, "fresh").await;
        wait::past(Duration::from_secs(16)).await;
        assert_eq!(news(&mut stream, "fresh").await, seen + 1);
    });
}

#[tokio::test]
async fn a_scope_has_a_name() {
    let site = site().await;
    assert_eq!(site.watch("/api/v1/watch?scope=all").await.0, 400);
    assert_eq!(site.watch("/api/v1/watch?scope=recipe").await.0, 200);
}

#[tokio::test]
async fn hostile_labels_are_text() {
    let site = site().await;
    let label = "<img src=x onerror=alert(1)>\u{202e}evil\u{200b}";
    let path = "/it's <b>x";
    let held = InterProcessMutex::new(&site.zk, path).label(label).acquire().await.unwrap();
    let name = held.path().rsplit('/').next().unwrap().to_owned();
    let node = format!("/node/it%27s%20%3Cb%3Ex/{name}");
    for address in ["/recipes", "/why/it%27s%20%3Cb%3Ex", &*node] {
        let page = site.get(address).await;
        assert_eq!(page.status, 200, "{address}");
        for part in ["<img", "<b>", "\u{202e}", "\u{200b}"] {
            assert!(!page.body.contains(part), "{address} {part}");
        }
    }
    let why = site.json("/api/v1/why/it%27s%20%3Cb%3Ex").await;
    let command = why["next"][0]["command"].as_str().unwrap();
    assert_eq!(command, format!(r"zkc revoke '/it'\''s <b>x/{name}'"));
    held.release().await.unwrap();
}

#[tokio::test]
async fn labels_of_secrets_are_hidden() {
    let redaction = Redaction::new(["/secrets/**"]).unwrap();
    let site = Site::start(WebOptions::new().redaction(redaction)).await;
    let lock = InterProcessMutex::new(&site.zk, "/secrets/lock").label("s3cret");
    let held = lock.acquire().await.unwrap();
    let node = format!("/node{}", held.path());
    for address in
        ["/recipes", "/why/secrets/lock", &*node, "/api/v1/recipes", "/api/v1/why/secrets/lock"]
    {
        let page = site.get(address).await;
        assert_eq!(page.status, 200, "{address}");
        assert!(!page.body.contains("s3cret"), "{address}: {}", page.body);
        assert!(page.body.to_lowercase().contains("mutex"), "{address}: {}", page.body);
    }
    held.release().await.unwrap();
}

#[tokio::test]
async fn many_recipes_are_shown_in_pages() {
    let site = site().await;
    site.zk.create("/many").await.unwrap();
    let creates = (0..250).map(|n| {
        let path = format!("/many/{n:03}/lock-");
        site.zk.create(path).creating_parents().mode(CreateMode::EphemeralSequential)
    });
    assert!(fan_out(64, creates).await.iter().all(Result::is_ok));
    let page = site.get("/recipes/many").await.body;
    assert_eq!(page.matches("<tr data-state=").count(), 200);
    assert!(page.contains("href=\"/recipes/many?from=200\" rel=\"next\""), "{page}");
    let last = site.json("/api/v1/recipes/many?from=200").await;
    assert_eq!((&last["next"], &last["matching"]), (&json!(null), &json!(250)));
    assert_eq!(last["recipes"].as_array().unwrap().len(), 50);
    assert_eq!(site.get("/recipes/many?from=99999999999").await.status, 200);
    let request = ask("GET", "/recipes/many?from=200").header("accept", "application/json");
    let by_accept = site.send(request.body(axum::body::Body::empty()).unwrap()).await;
    assert_eq!(by_accept.header("content-type"), "application/json");
}

#[tokio::test]
async fn ten_thousand_recipes_are_bounded() {
    let site = site().await;
    site.zk.create("/many").await.unwrap();
    for hundred in 0..100 {
        let mut transaction = site.zk.transaction();
        for n in hundred * 100..(hundred + 1) * 100 {
            let path = format!("/many/{n}");
            transaction = transaction.create(&*path, "");
            transaction = transaction.create(format!("{path}/lock-0000000001"), "ann");
        }
        transaction.commit().await.unwrap();
    }
    let before = site.server.probe().total_requests();
    let page = site.get("/recipes/many").await.body;
    assert!(page.len() < 300_000 && page.contains("10,000 recipes."), "{}", page.len());
    // One request for 256 nodes, or for as many lists of children.
    assert!(site.server.probe().total_requests() - before < 200);
    let all = site.json("/api/v1/recipes/many").await;
    assert_eq!((&all["complete"], &all["total"]), (&json!(true), &json!(10_000)));
}

#[test]
fn the_number_of_reads_of_subtrees_is_bounded() {
    paused(async {
        let site = site().await;
        site.server.hold();
        let addresses: Vec<_> = (0..6).map(|n| format!("/api/v1/recipes/n{n}")).collect();
        let replies = join_all(addresses.iter().map(|address| site.get(address))).await;
        let titles = replies.iter().map(|reply| reply.problem()["title"].clone());
        let refused = titles.filter(|title| title == "Too much at the same time");
        assert_eq!(refused.count(), 2, "{replies:?}");
        site.server.release();
    });
}
