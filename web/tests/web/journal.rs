//! The changes below a node.

use std::time::Duration;

use axum::body::{Body, BodyDataStream};
use futures_util::StreamExt;
use serde_json::{Value, json};
use tower::ServiceExt;
use zk_curator::op::fan_out;
use zk_curator::{Acl, Permissions};
use zk_curator_testing::{WatchKind, paused, wait};
use zk_curator_web::{Limits, WebOptions};

use crate::support::{Site, ask, news};

async fn site(limits: Limits) -> Site {
    let limits = limits.requests(10_000, 10_000);
    let site = Site::start(WebOptions::new().limits(limits)).await;
    site.zk.create("/a").data("1").await.unwrap();
    site
}

fn watches(site: &Site, path: &str) -> usize {
    let probe = site.server.probe();
    let watches = probe.watches().iter().filter(|watch| watch.path == path);
    watches.filter(|watch| watch.kind == WatchKind::PersistentRecursive).count()
}

/// The events of a stream.
struct Events {
    stream: BodyDataStream,
    text: String,
}

impl Events {
    /// Opens the changes of a path, and waits until they are recorded.
    async fn open(site: &Site, address: &str) -> Self {
        let (status, mut stream) = site.watch(address).await;
        assert_eq!(status, 200);
        news(&mut stream, "fresh").await;
        Self { stream, text: String::new() }
    }

    /// Continues after the event with an id.
    async fn resume(site: &Site, address: &str, id: &str) -> Self {
        let request = ask("GET", address).header("last-event-id", id);
        let request = request.body(Body::empty()).unwrap();
        let response = site.router.clone().oneshot(request).await.unwrap();
        assert_eq!(response.status(), 200);
        Self { stream: response.into_body().into_data_stream(), text: String::new() }
    }

    /// Returns the data of the next event of a kind.
    async fn next(&mut self, kind: &str) -> Value {
        self.next_with_id(kind).await.0
    }

    /// Returns the data of the next event of a kind, and its id.
    async fn next_with_id(&mut self, kind: &str) -> (Value, String) {
        loop {
            while let Some((event, rest)) = self.text.split_once("\n\n") {
                let (event, rest) = (event.to_owned(), rest.to_owned());
                self.text = rest;
                let field = |name: &str| {
                    let line = event.lines().find_map(|line| line.strip_prefix(name));
                    line.map(|value| value.trim_start_matches(':').trim().to_owned())
                };
                if field("event").as_deref() == Some(kind) {
                    let data = serde_json::from_str(&field("data").unwrap()).unwrap();
                    return (data, field("id").unwrap_or_default());
                }
            }
            let part = self.stream.next().await.expect("the stream continues").unwrap();
            self.text.push_str(std::str::from_utf8(&part).unwrap());
        }
    }
}

#[test]
fn viewers_of_a_path_share_one_watch_and_its_changes() {
    paused(async {
        let site = site(Limits::new()).await;
        let mut one = Events::open(&site, "/api/v1/changes/a").await;
        let mut two = Events::open(&site, "/api/v1/changes/a").await;
        assert_eq!(watches(&site, "/a"), 1);
        site.zk.set_data("/a", "2").await.unwrap();
        let change = one.next("change").await;
        assert_eq!(two.next("change").await, change);
        assert_eq!((&change["change"], &change["path"]), (&json!("changed"), &json!("/a")));
        assert_eq!(change["old"], json!({ "text": "1", "length": 1, "cut": false }));
        assert_eq!(change["new"], json!({ "text": "2", "length": 1, "cut": false }));
        site.zk.create("/a/b").data("x").await.unwrap();
        let change = one.next("change").await;
        assert_eq!((&change["change"], &change["old"]), (&json!("created"), &Value::Null));
        site.zk.delete("/a/b").await.unwrap();
        let change = one.next("change").await;
        assert_eq!((&change["change"], &change["new"]), (&json!("deleted"), &Value::Null));
        assert_eq!(change["old"]["text"], "x");
    });
}

#[test]
fn a_page_shows_old_and_new_values() {
    paused(async {
        let site = site(Limits::new()).await;
        // Without script: the first load begins the record.
        let page = site.get("/changes/a").await;
        assert_eq!(page.status, 200);
        assert!(page.body.contains("data-live=\"/api/v1/changes/a?news=only\""));
        wait::past(Duration::from_secs(2)).await;
        site.zk.set_data("/a", "{\"limit\":5}").await.unwrap();
        wait::past(Duration::from_secs(2)).await;
        let page = site.get("/changes/a").await.body;
        for part in
            ["<del>1</del>", "<ins>  &#34;limit&#34;: 5</ins>", "0 created, 1 changed", "number 1"]
        {
            assert!(page.contains(part), "{part}: {page}");
        }
        let page = site.get("/changes/a?after=1").await.body;
        assert!(page.contains("Nothing has changed since.") && !page.contains("<del>"));
        // 10 minutes after the last page.
        wait::past(Duration::from_secs(590)).await;
        assert_eq!(watches(&site, "/a"), 1);
        wait::past(Duration::from_secs(30)).await;
        assert_eq!(watches(&site, "/a"), 0);
    });
}

#[test]
fn changes_of_a_missing_node_are_recorded() {
    paused(async {
        let site = site(Limits::new()).await;
        let mut events = Events::open(&site, "/api/v1/changes/none").await;
        site.zk.create("/none").data("x").await.unwrap();
        let change = events.next("change").await;
        assert_eq!((&change["change"], &change["path"]), (&json!("created"), &json!("/none")));
    });
}

#[test]
fn a_slow_client_gets_the_newest_changes() {
    paused(async {
        let site = site(Limits::new()).await;
        let mut events = Events::open(&site, "/api/v1/changes/a").await;
        for number in 0..600 {
            site.zk.create(format!("/a/n{number}")).await.unwrap();
        }
        wait::past(Duration::from_secs(10)).await;
        let mut dropped = 0;
        let mut seen = 0;
        while seen + dropped < 600 {
            if seen == 0 {
                dropped += events.next("news").await["dropped"].as_u64().unwrap();
            }
            let number = events.next("change").await["number"].as_u64().unwrap();
            seen = number - dropped;
        }
        let page = site.get("/changes/a").await.body;
        assert!(page.contains("600 created"), "{page}");
        assert!(page.contains("100 older changes were dropped: the newest 500 are kept."));
        assert!(page.contains("450 older changes are not shown here."));
        assert!(page.len() < 200_000, "{}", page.len());
    });
}

#[test]
fn secrets_are_not_recorded() {
    paused(async {
        let site = site(Limits::new()).await;
        site.zk.create("/a/password").data("s3cret").await.unwrap();
        let mut events = Events::open(&site, "/api/v1/changes/a").await;
        site.zk.set_data("/a/password", "n3w").await.unwrap();
        let change = events.next("change").await;
        let hidden = json!({ "hidden": "redacted" });
        assert_eq!((&change["old"], &change["new"]), (&hidden, &hidden));
        let page = site.get("/changes/a").await.body;
        assert!(page.contains("/a/password") && page.contains("treat them as a secret"));
        assert!(!page.contains("s3cret") && !page.contains("n3w"));
    });
}

#[test]
fn changes_during_a_lost_session_are_found() {
    paused(async {
        let site = site(Limits::new()).await;
        let mut events = Events::open(&site, "/api/v1/changes/a").await;
        let other = site.server.framework().build().unwrap();
        other.start().await.unwrap();
        site.server.expire(&site.zk).await;
        other.set_data("/a", "2").await.unwrap();
        other.create("/a/new").await.unwrap();
        let one = events.next("change").await;
        let two = events.next("change").await;
        let mut paths = [one["path"].as_str().unwrap(), two["path"].as_str().unwrap()];
        paths.sort_unstable();
        assert_eq!(paths, ["/a", "/a/new"]);
        other.close().await.unwrap();
    });
}

#[test]
fn the_number_of_journals_is_bounded() {
    paused(async {
        let site = site(Limits::new().journals(1)).await;
        let events = Events::open(&site, "/api/v1/changes/a").await;
        assert_eq!(site.get("/changes/b").await.status, 503);
        assert_eq!(site.watch("/api/v1/changes/b").await.0, 503);
        drop(events);
        assert_eq!(site.get("/changes/b").await.status, 200, "the place of a path without viewers");
        let none = Site::start(WebOptions::new().limits(Limits::new().journals(0))).await;
        assert_eq!(none.get("/changes").await.status, 503);
    });
}

#[test]
fn a_client_of_an_earlier_journal_is_told_of_a_gap() {
    paused(async {
        let (site, address) = (site(Limits::new().journals(1)).await, "/api/v1/changes/a");
        let mut events = Events::open(&site, address).await;
        site.zk.set_data("/a", "2").await.unwrap();
        let (_, id) = events.next_with_id("change").await;
        drop(events);
        site.zk.set_data("/a", "3").await.unwrap();
        let mut events = Events::resume(&site, address, &id).await;
        assert_eq!(events.next("news").await["dropped"], 0);
        assert_eq!(events.next("change").await["number"], 2);
        drop(events);
        // Another path takes the place, and the new journal soon has more changes.
        assert_eq!(site.get("/changes/b").await.status, 200);
        let mut events = Events::open(&site, address).await;
        for data in ["4", "5", "6"] {
            site.zk.set_data("/a", data).await.unwrap();
            assert_eq!(events.next("change").await["new"]["text"], data);
        }
        drop(events);
        for other in [&*id, "1", "99", "-", "none-1"] {
            let mut events = Events::resume(&site, address, other).await;
            assert_eq!(events.next("news").await["dropped"], 1, "{other}");
            assert_eq!(events.next("change").await["number"], 1, "{other}");
        }
        for (after, dropped, next) in [("99", 1, 1), ("2", 0, 3)] {
            let (_, stream) = site.watch(&format!("{address}?after={after}")).await;
            let mut events = Events { stream, text: String::new() };
            assert_eq!(events.next("news").await["dropped"], dropped, "{after}");
            assert_eq!(events.next("change").await["number"], next, "{after}");
        }
    });
}

#[test]
fn names_and_values_are_text() {
    paused(async {
        let site = site(Limits::new()).await;
        let _events = Events::open(&site, "/api/v1/changes/a").await;
        site.zk.create("/a/<img src=x>").data("<script>alert(1)</script>").await.unwrap();
        wait::past(Duration::from_secs(2)).await;
        let page = site.get("/changes/a").await.body;
        assert!(page.contains("alert(1)"));
        assert!(!page.contains("<img") && !page.contains("<script>"), "{page}");
    });
}

#[tokio::test]
async fn nodes_that_cannot_be_read_are_named() {
    let site = site(Limits::new()).await;
    let mut events = Events::open(&site, "/api/v1/changes/a").await;
    assert!(!site.get("/changes/a").await.body.contains("were not read"));
    let nobody = vec![Acl::new(Permissions::READ, "digest", "nobody:nobody")];
    site.zk.create("/b").acl(nobody).await.unwrap();
    let unreadable = Events::open(&site, "/api/v1/changes/b").await;
    let page = site.get("/changes/b").await.body;
    assert!(page.contains("were not read") && page.contains("Nothing has changed yet"), "{page}");
    site.zk.set_data("/a", "2").await.unwrap();
    assert_eq!(events.next("change").await["path"], "/a");
    drop(unreadable.stream);
}

#[test]
fn the_values_that_are_read_first_are_bounded() {
    paused(async {
        let site = site(Limits::new()).await;
        let create = |n| site.zk.create(format!("/a/{n}")).data(vec![b'x'; 55_000]);
        assert!(fan_out(64, (0..700).map(create)).await.iter().all(Result::is_ok));
        let _events = Events::open(&site, "/api/v1/changes/a").await;
        let page = site.get("/changes/a").await.body;
        assert!(page.contains("were not read"), "{page}");
    });
}

#[test]
fn nodes_that_are_too_many_by_now_are_named() {
    paused(async {
        let site = site(Limits::new()).await;
        let _events = Events::open(&site, "/api/v1/changes/a").await;
        assert!(!site.get("/changes/a").await.body.contains("were not read"));
        let creates = (0..5_000).map(|n| site.zk.create(format!("/a/{n}")));
        assert!(fan_out(256, creates).await.iter().all(Result::is_ok));
        wait::past(Duration::from_secs(10)).await;
        let page = site.get("/changes/a").await.body;
        assert!(page.contains("were not read"), "{page}");
    });
}
