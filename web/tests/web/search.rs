//! Searches.

use std::time::Duration;

use axum::body::{Body, BodyDataStream};
use futures_util::StreamExt;
use serde_json::{Value, json};
use tower::ServiceExt;
use zk_curator::compression::{CompressionProvider, GzipCompressionProvider};
use zk_curator::op::fan_out;
use zk_curator::{Acl, Permissions};
use zk_curator_testing::{OpCode, paused, wait};
use zk_curator_web::paths::url_of;
use zk_curator_web::{Limits, WebOptions};

use crate::hostile::{NAMES, assert_harmless};
use crate::support::{Site, ask};

async fn site() -> Site {
    limited(Limits::new()).await
}

async fn limited(limits: Limits) -> Site {
    let site = Site::start(WebOptions::new().limits(limits.requests(10_000, 10_000))).await;
    for (path, data) in [
        ("/app", ""),
        ("/app/lock-1", "host: zk1\nport: 2181"),
        ("/app/lock-2", "port: 2182"),
        ("/app/other", "nothing"),
        ("/app/other/lock-3", "host: zk3"),
    ] {
        site.zk.create(path).data(data).await.unwrap();
    }
    site
}

/// Creates nodes with these data.
async fn fill(site: &Site, parent: &str, nodes: usize, data: &str) {
    let creates = (0..nodes).map(|n| {
        let path = format!("{parent}/n{n:05}");
        site.zk.create(path).data(data.to_owned())
    });
    assert!(fan_out(256, creates).await.iter().all(Result::is_ok));
}

/// Returns the address of a search in the REST interface.
fn address(root: &str, part: &str, pattern: &str) -> String {
    format!("/api/v1/search{}?in={part}&for={}", url_of(root), encoded(pattern))
}

fn encoded(pattern: &str) -> String {
    // The pattern stands for one name. A slash in it stays.
    url_of(&format!("/{pattern}")).trim_start_matches('/').to_owned()
}

async fn search(site: &Site, root: &str, part: &str, pattern: &str) -> Value {
    site.json(&address(root, part, pattern)).await
}

fn paths(found: &Value) -> Vec<&str> {
    let hits = found["hits"].as_array().unwrap();
    hits.iter().map(|hit| hit["path"].as_str().unwrap()).collect()
}

/// Opens the results of a search as lines.
async fn lines(site: &Site, address: &str) -> (u16, BodyDataStream) {
    let request = ask("GET", address).header("accept", "application/x-ndjson");
    let request = request.body(Body::empty()).unwrap();
    let response = site.router.clone().oneshot(request).await.unwrap();
    (response.status().as_u16(), response.into_body().into_data_stream())
}

#[tokio::test]
async fn names_paths_and_data_are_searched() {
    let site = site().await;
    for (root, part, pattern, expected) in [
        ("/", "name", "lock", &["/app/lock-1", "/app/lock-2", "/app/other/lock-3"][..]),
        ("/app", "name", "lock-[12]", &["/app/lock-1", "/app/lock-2"][..]),
        ("/app/other", "name", "o*r", &["/app/other"][..]),
        ("/app", "path", "other.*[0-9]$", &["/app/other/lock-3"][..]),
        ("/", "text", "host: zk", &["/app/lock-1", "/app/other/lock-3"][..]),
        ("/app", "regex", r"^port: \d+$", &["/app/lock-1", "/app/lock-2"][..]),
        ("/app", "regex", "(?i)NOTHING", &["/app/other"][..]),
        ("/app", "text", "none of them", &[][..]),
    ] {
        let found = search(&site, root, part, pattern).await;
        assert_eq!(paths(&found), expected, "{part} {pattern} {found}");
        assert_eq!((&found["truncated"], &found["ended_by"]), (&json!(false), &json!("complete")));
    }
    let found = search(&site, "/app", "regex", "port").await;
    assert_eq!(found["hits"][0]["line"], "port: 2181");
    assert_eq!(found["nodes"], 5);
    assert_eq!(found["compared"], 5);
}

#[tokio::test]
async fn a_page_has_the_results_without_script() {
    let site = site().await;
    let form = site.get("/search/app").await;
    assert_eq!(form.status, 200);
    assert!(form.body.contains("hidden") && form.body.contains("action=\"/search/app\""));
    let page = site.get("/search/app?for=port&in=text").await;
    assert_eq!(page.header("content-type"), "text/html; charset=utf-8");
    for part in [
        "<a href=\"/node/app/lock-1\"><bdi>/app/lock-1</bdi></a>",
        "port: 2182",
        "2 nodes match. Compared the data of 5 of 5 nodes",
        "<option value=\"text\" selected>",
    ] {
        assert!(page.body.contains(part), "{part}: {}", page.body);
    }
    assert!(!page.body.contains("<!--"), "{}", page.body);
    assert!(page.body.trim_end().ends_with("</html>"));
    assert_eq!(page.body.matches("<tr>").count(), 3);
    let none = site.get("/search/none?for=x").await;
    assert_eq!(none.status, 404);
    assert!(site.get("/tree/app").await.body.contains("href=\"/search/app\""));
}

#[tokio::test]
async fn lines_appear_while_the_search_runs() {
    let site = site().await;
    let (status, mut stream) = lines(&site, &address("/app", "text", "port")).await;
    assert_eq!(status, 200);
    let mut text = String::new();
    while let Some(part) = stream.next().await {
        text.push_str(std::str::from_utf8(&part.unwrap()).unwrap());
    }
    let values: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(values.len(), 3);
    assert_eq!(values[0], json!({ "path": "/app/lock-1", "line": "port: 2181" }));
    assert_eq!(values[2]["summary"]["truncated"], false);
}

#[test]
fn a_dropped_search_stops() {
    paused(async {
        let site = site().await;
        fill(&site, "/app", 3_000, "needle").await;
        let (_, mut stream) = lines(&site, &address("/app", "text", "needle")).await;
        let part = stream.next().await.unwrap().unwrap();
        assert!(!part.is_empty());
        drop(stream);
        let requests = || site.server.probe().requests(OpCode::MultiRead);
        let before = requests();
        wait::idle(Duration::from_secs(5)).await;
        assert_eq!(requests(), before);
        // Its place is free.
        assert_eq!(search(&site, "/app", "name", "lock").await["truncated"], false);
    });
}

#[test]
fn a_user_runs_one_search_at_a_time() {
    paused(async {
        let site = site().await;
        fill(&site, "/app", 1_000, "needle").await;
        let (status, stream) = lines(&site, &address("/app", "text", "needle")).await;
        assert_eq!(status, 200);
        let refused = site.get(&address("/app", "name", "x")).await;
        assert_eq!(refused.problem()["status"], 429);
        assert_eq!(site.get("/search/app?for=x").await.status, 429);
        // A browser that leaves a page begins the next search a little earlier.
        let next = async {
            wait::past(Duration::from_millis(300)).await;
            drop(stream);
        };
        let (reply, ()) = tokio::join!(site.get("/search/app?for=x"), next);
        assert_eq!(reply.status, 200);
        let none = limited(Limits::new().searches(0)).await;
        assert_eq!(none.get(&address("/app", "name", "x")).await.status, 429);
    });
}

#[test]
fn a_search_that_nobody_reads_ends_in_time() {
    paused(async {
        let limits = Limits::new().search(10_000, 1 << 20, Duration::from_secs(9));
        let site = limited(limits.searches(1)).await;
        fill(&site, "/app", 1_000, "needle").await;
        let (status, mut stream) = lines(&site, &address("/app", "text", "needle")).await;
        assert_eq!(status, 200);
        assert_eq!(site.get(&address("/app", "name", "lock")).await.status, 429);
        wait::past(Duration::from_secs(9)).await;
        // Its place is free, and the results so far are kept for the client.
        assert_eq!(search(&site, "/app", "name", "lock").await["truncated"], false);
        let mut text = String::new();
        while let Some(part) = stream.next().await {
            text.push_str(std::str::from_utf8(&part.unwrap()).unwrap());
        }
        let values = text.lines().map(|line| serde_json::from_str(line).unwrap());
        let mut values: Vec<Value> = values.collect();
        let summary = values.pop().unwrap();
        assert_eq!(summary["summary"]["ended_by"], "time");
        assert!((1..300).contains(&values.len()), "{text}");
        let left = &summary["summary"]["not_searched"]["not_compared"]["total"];
        assert!(left.as_u64().unwrap() > 0, "{text}");
    });
}

#[test]
fn nodes_are_bounded() {
    paused(async {
        let site = limited(Limits::new().search(10, 1 << 20, Duration::from_secs(9))).await;
        fill(&site, "/app", 20, "needle").await;
        let found = search(&site, "/app", "name", "*").await;
        assert_eq!((&found["ended_by"], &found["nodes"]), (&json!("nodes"), &json!(10)));
        assert_eq!(found["hits"].as_array().unwrap().len(), 10);
        let gaps = &found["not_searched"];
        assert_eq!(gaps["partly_listed"], json!({ "total": 1, "first": ["/app"] }));
        assert_eq!(gaps["not_listed"]["total"], 9, "{found}");
        let found = search(&site, "/app", "text", "needle").await;
        assert_eq!((&found["ended_by"], &found["compared"]), (&json!("nodes"), &json!(10)));
        assert_eq!(found["not_searched"]["not_compared"]["total"], 0);
        let page = site.get("/search/app?for=*").await.body;
        assert!(page.contains("at its limit of nodes"), "{page}");
        assert!(page.contains("More children than were visited: 1 node: /app."), "{page}");
    });
}

#[test]
fn bytes_and_time_are_bounded() {
    paused(async {
        let site = limited(Limits::new().search(10_000, 1_000, Duration::from_secs(9))).await;
        fill(&site, "/app", 500, &"x".repeat(100)).await;
        let found = search(&site, "/app", "text", "none").await;
        assert_eq!((&found["truncated"], &found["ended_by"]), (&json!(true), &json!("bytes")));
        let read = found["bytes"].as_u64().unwrap();
        assert!((1_000..60_000).contains(&read), "{read}");
        let (compared, left) = (&found["compared"], &found["not_searched"]["not_compared"]);
        let all = compared.as_u64().unwrap() + left["total"].as_u64().unwrap();
        assert_eq!(all, found["nodes"].as_u64().unwrap(), "{found}");
        let names = search(&site, "/app", "name", "none").await;
        assert_eq!((&names["ended_by"], &names["bytes"]), (&json!("complete"), &json!(0)));
        let late = limited(Limits::new().search(10_000, 1_000, Duration::ZERO)).await;
        let found = search(&late, "/app", "name", "lock").await;
        assert_eq!(found["ended_by"], "time");
        assert_eq!(found["not_searched"]["not_listed"]["first"], json!(["/app"]));
    });
}

#[test]
fn results_are_bounded() {
    paused(async {
        let site = site().await;
        fill(&site, "/app", 1_500, "").await;
        let found = search(&site, "/app", "name", "*").await;
        assert_eq!((&found["ended_by"], &found["truncated"]), (&json!("results"), &json!(true)));
        assert_eq!(found["hits"].as_array().unwrap().len(), 1_000);
        let (compared, left) = (&found["compared"], &found["not_searched"]["not_compared"]);
        assert_eq!((compared, &left["total"]), (&json!(1_000), &json!(504)));
        assert_eq!(left["first"].as_array().unwrap().len(), 20);
    });
}

#[test]
fn large_data_are_read_one_by_one() {
    paused(async {
        let site = site().await;
        let large = "x".repeat(900_000);
        fill(&site, "/app", 12, &large).await;
        site.zk.set_data("/app/n00007", format!("{large}\nneedle")).await.unwrap();
        let found = search(&site, "/app", "text", "needle").await;
        assert_eq!(paths(&found), ["/app/n00007"]);
        assert_eq!(found["truncated"], false, "{found}");
        // Only the beginning of a long line is compared.
        assert_eq!(found["not_searched"]["compared_in_part"]["total"], 12);
    });
}

#[tokio::test]
async fn secrets_are_not_searched() {
    let site = site().await;
    site.zk.create("/app/password").data("needle").await.unwrap();
    site.zk.create("/app/password/below").data("needle").await.unwrap();
    let found = search(&site, "/app", "text", "needle").await;
    assert_eq!(paths(&found), ["/app/password/below"]);
    let redacted = &found["not_searched"]["redacted"];
    assert_eq!(*redacted, json!({ "total": 1, "first": ["/app/password"] }));
    let named = search(&site, "/app", "name", "pass").await;
    assert_eq!(paths(&named), ["/app/password"]);
    let page = site.get("/search/app?in=text&for=needle").await.body;
    assert!(
        page.contains("Data hidden by the settings, and never searched: 1 node: /app/password."),
        "{page}"
    );
    let only_ann = vec![Acl::new(Permissions::ALL, "digest", "ann:kJh=")];
    site.zk.create("/app/hers").acl(only_ann).data("needle").await.unwrap();
    let found = search(&site, "/app", "text", "needle").await;
    let unreadable = &found["not_searched"]["unreadable"];
    assert_eq!(*unreadable, json!({ "total": 1, "first": ["/app/hers (no permission)"] }));
}

#[tokio::test]
async fn compressed_data_are_searched_as_plain() {
    let site = site().await;
    let stored = GzipCompressionProvider::new().compress("/app/gz", b"the needle").unwrap();
    site.zk.create("/app/gz").data(stored).await.unwrap();
    let found = search(&site, "/app", "text", "needle").await;
    assert_eq!(found["hits"], json!([{ "path": "/app/gz", "line": "the needle" }]));
}

#[tokio::test]
async fn hostile_patterns_are_problems() {
    let site = site().await;
    for (part, pattern, status) in [
        ("regex", r"\w{9999}", 400),
        ("path", "((a{99}){99}){99}", 400),
        ("regex", "(", 400),
        ("name", "[", 400),
        ("text", "", 400),
        ("text", "(((((", 200),
        ("regex", r"(a*)*b", 200),
        ("name", "<script>alert(1)</script>", 200),
    ] {
        let reply = site.get(&address("/app", part, pattern)).await;
        assert_eq!(reply.status, status, "{part} {pattern} {}", reply.body);
        if status == 400 {
            assert_eq!(reply.problem()["kind"], "usage");
        }
        let page = site.get(&format!("/search/app?in={part}&for={}", encoded(pattern))).await;
        let status = if pattern.is_empty() { 200 } else { status };
        assert_eq!(page.status, status, "{part} {pattern}");
        assert_harmless(&page.body);
    }
    let long = "x".repeat(257);
    assert_eq!(site.get(&address("/app", "name", &long)).await.status, 400);
    assert_eq!(site.get(&address("/app", "other", "x")).await.status, 400);
    assert_eq!(site.get("/api/v1/search/app").await.status, 400);
    assert_eq!(site.get(&address("/none", "name", "x")).await.problem()["kind"], "no-node");
}

#[tokio::test]
async fn results_are_text() {
    let site = site().await;
    for name in NAMES {
        let node = site.zk.create(format!("/app/{name}"));
        node.data(format!("needle {name}")).await.unwrap();
    }
    for address in ["/search/app?for=*", "/search/app?in=text&for=needle"] {
        let page = site.get(address).await;
        assert_eq!(page.status, 200);
        assert_harmless(&page.body);
        assert!(page.body.contains("⟨U+202E⟩gpj.exe"), "{}", page.body);
        let rows: Vec<_> = page.body.split("<th scope=\"row\"><a href=\"").skip(1).collect();
        assert!(rows.len() >= NAMES.len());
        for row in rows {
            let address = row.split('"').next().unwrap();
            assert!(address.starts_with("/node/") && address.is_ascii(), "{address}");
            assert_eq!(site.get(address).await.status, 200, "{address}");
        }
    }
}
