//! Live pages.

use std::time::Duration;

use zk_curator_testing::{OpCode, WatchKind, paused, wait};
use zk_curator_web::{Limits, WebOptions};

use crate::support::{Site, news};

async fn site(limits: Limits) -> Site {
    let site =
        Site::start(WebOptions::new().write(true).limits(limits.requests(10_000, 10_000))).await;
    site.zk.create("/a").data("1").await.unwrap();
    site
}

/// Returns the number of recursive watches on a path.
fn watches(site: &Site, path: &str) -> usize {
    let probe = site.server.probe();
    let watches = probe.watches().iter().filter(|watch| watch.path == path);
    watches.filter(|watch| watch.kind == WatchKind::PersistentRecursive).count()
}

#[test]
fn viewers_of_a_path_share_one_watch() {
    paused(async {
        let site = site(Limits::new()).await;
        let (_, mut one) = site.watch("/api/v1/watch/a").await;
        let (_, mut two) = site.watch("/api/v1/watch/a").await;
        let seen = news(&mut one, "fresh").await;
        assert_eq!(news(&mut two, "fresh").await, seen);
        assert_eq!(watches(&site, "/a"), 1);
        site.zk.set_data("/a", "2").await.unwrap();
        assert_eq!(news(&mut one, "fresh").await, seen + 1);
        assert_eq!(news(&mut two, "fresh").await, seen + 1);
        drop(one);
        wait::past(Duration::from_secs(120)).await;
        assert_eq!(watches(&site, "/a"), 1, "another viewer is there");
        drop(two);
        wait::idle(Duration::from_secs(50)).await;
        assert_eq!(watches(&site, "/a"), 1);
        wait::past(Duration::from_secs(15)).await;
        assert_eq!(watches(&site, "/a"), 0);
    });
}

#[test]
fn a_returning_viewer_keeps_the_watch() {
    paused(async {
        let site = site(Limits::new()).await;
        let (_, mut one) = site.watch("/api/v1/watch/a").await;
        news(&mut one, "fresh").await;
        drop(one);
        wait::past(Duration::from_secs(50)).await;
        let (_, mut two) = site.watch("/api/v1/watch/a").await;
        news(&mut two, "fresh").await;
        wait::past(Duration::from_secs(50)).await;
        assert_eq!(watches(&site, "/a"), 1);
        assert_eq!(site.server.probe().requests(OpCode::AddWatch), 1);
        drop(two);
    });
}

#[test]
fn viewers_share_the_reads_after_a_change() {
    paused(async {
        let site = site(Limits::new()).await;
        let (_, mut stream) = site.watch("/api/v1/watch/a").await;
        let seen = news(&mut stream, "fresh").await;
        site.get("/tree/a").await;
        let before = site.server.probe().total_requests();
        for _ in 0..100 {
            site.get("/tree/a").await;
        }
        assert_eq!(site.server.probe().total_requests(), before);
        site.zk.create("/a/b").await.unwrap();
        assert_eq!(news(&mut stream, "fresh").await, seen + 1);
        let before = site.server.probe().total_requests();
        for _ in 0..100 {
            assert!(site.get("/tree/a").await.body.contains("/tree/a/b"));
        }
        // The names, and the stats.
        assert_eq!(site.server.probe().total_requests(), before + 2);
    });
}

#[test]
fn a_user_sees_the_own_change() {
    paused(async {
        let site = site(Limits::new()).await;
        let (_, mut stream) = site.watch("/api/v1/watch/a").await;
        news(&mut stream, "fresh").await;
        let ann = site.browser("/node/a").await;
        for version in 0..20 {
            let (version, data) = (version.to_string(), format!("value {version}"));
            let fields = [("action", "set"), ("version", &*version), ("data", &*data)];
            assert_eq!(site.form(&ann, "/node/a", &fields).await.status, 303);
            assert!(site.get("/node/a").await.body.contains(&data), "{data}");
        }
    });
}

#[test]
fn many_changes_are_announced_together() {
    paused(async {
        let site = site(Limits::new()).await;
        let (_, mut stream) = site.watch("/api/v1/watch/a").await;
        let seen = news(&mut stream, "fresh").await;
        for number in 0..500 {
            site.zk.create(format!("/a/n{number}")).await.unwrap();
        }
        wait::past(Duration::from_secs(2)).await;
        // A slow browser gets the newest state, and not those before it.
        let now = news(&mut stream, "fresh").await;
        assert!((1..=10).contains(&(now - seen)), "{seen} {now}");
    });
}

#[test]
fn changes_deep_below_are_not_announced() {
    paused(async {
        let site = site(Limits::new()).await;
        site.zk.create("/a/b/c/d").creating_parents().await.unwrap();
        let (_, mut stream) = site.watch("/api/v1/watch/a").await;
        let seen = news(&mut stream, "fresh").await;
        site.zk.set_data("/a/b/c", "x").await.unwrap();
        site.zk.create("/a/b/c/e").await.unwrap();
        wait::past(Duration::from_secs(1)).await;
        site.zk.create("/a/b/f").await.unwrap();
        assert_eq!(news(&mut stream, "fresh").await, seen + 1, "the number of children of b");
    });
}

#[test]
fn an_outage_shows_on_the_page() {
    paused(async {
        let site = site(Limits::new()).await;
        let (_, mut stream) = site.watch("/api/v1/watch/a").await;
        let seen = news(&mut stream, "fresh").await;
        site.server.stop().await;
        assert_eq!(news(&mut stream, "stale").await, seen);
        site.server.restart().await.unwrap();
        assert!(news(&mut stream, "fresh").await >= seen);
        site.server.expire(&site.zk).await;
        news(&mut stream, "stale").await;
        assert!(news(&mut stream, "fresh").await > seen, "the next session reads again");
        assert_eq!(watches(&site, "/a"), 1);
    });
}

#[test]
fn streams_and_watches_are_bounded() {
    paused(async {
        let site = site(Limits::new().streams(3, 2).watches(1)).await;
        let (status, one) = site.watch("/api/v1/watch/a").await;
        assert_eq!(status, 200);
        assert_eq!(site.watch("/api/v1/watch").await.0, 503, "one path only");
        let (status, two) = site.watch("/api/v1/watch/a").await;
        assert_eq!(status, 200);
        assert_eq!(site.watch("/api/v1/watch/a").await.0, 503, "two streams of one client");
        drop((one, two));
        let (status, mut other) = site.watch("/api/v1/watch").await;
        assert_eq!(status, 200, "the place of a path without viewers");
        news(&mut other, "fresh").await;
        wait::settled().await;
        assert_eq!((watches(&site, "/a"), watches(&site, "/")), (0, 1));
    });
}

#[test]
fn pages_are_not_live_without_streams() {
    paused(async {
        let site = site(Limits::new().streams(0, 0)).await;
        assert!(site.get("/tree/a").await.body.contains("data-live=\"\""));
        assert_eq!(site.watch("/api/v1/watch/a").await.0, 503);
    });
}

#[test]
fn a_stream_ends_with_the_framework() {
    paused(async {
        let site = site(Limits::new()).await;
        let (_, mut stream) = site.watch("/api/v1/watch/a").await;
        news(&mut stream, "fresh").await;
        site.zk.close().await.unwrap();
        while futures_util::StreamExt::next(&mut stream).await.is_some() {}
    });
}
