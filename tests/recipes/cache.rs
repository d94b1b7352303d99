//! Caches: contents, events, freshness, and the effects of an outage.

use std::time::Duration;

use zk_curator::{Acl, CreateMode, CuratorFramework, ErrorCode, ErrorKind, Permissions};
use zk_curator_proto::OpCode;
use zk_curator_recipes::cache::{
    CacheEvent, CacheEvents, CuratorCache, Freshness, Lookup, ServerDiffMode,
};
use zk_curator_testing::wait::idle;
use zk_curator_testing::{RuleGuard, TestServer, Verdict};
use zk_curator_tests::{
    always, connected, cut_off, expire, once, rule_if, session_id, simulated_on, simulated_with,
    two_in_memory, until,
};

pub(crate) const ROOT: &str = "/tree";

pub(crate) async fn loaded(zk: &CuratorFramework) -> CuratorCache {
    let cache = CuratorCache::tree(zk, ROOT).start();
    cache.loaded().await.unwrap();
    cache
}

pub(crate) async fn create(zk: &CuratorFramework, path: &str, data: &str) {
    zk.create(path).creating_parents().data(data.to_owned()).await.unwrap();
}

pub(crate) fn data(cache: &CuratorCache, path: &str) -> String {
    match cache.get(path) {
        Lookup::Present(node) => String::from_utf8_lossy(&node.data).into_owned(),
        other => format!("{other:?}"),
    }
}

/// An event in short.
pub(crate) fn short(event: &CacheEvent) -> String {
    match event {
        CacheEvent::Loaded(snapshot) => format!("loaded {}", snapshot.nodes.len()),
        CacheEvent::Created(node) => format!("+{}", node.path),
        CacheEvent::Changed { new, .. } => format!("={}", new.path),
        CacheEvent::Replaced { new, .. } => format!("~{}", new.path),
        CacheEvent::Deleted(node) => format!("-{}", node.path),
        CacheEvent::Unreadable { old, .. } => format!("?{}", old.path),
        CacheEvent::Stale { .. } => "stale".into(),
        CacheEvent::Fresh { .. } => "fresh".into(),
        other => format!("{other:?}"),
    }
}

pub(crate) async fn next(events: &mut CacheEvents, count: usize) -> Vec<String> {
    let mut told = Vec::new();
    while told.len() < count {
        told.push(short(&events.next().await.expect("an event")));
    }
    told
}

/// The contents are those of the server.
pub(crate) async fn assert_same(cache: &CuratorCache, server: &TestServer) {
    cache.synced().await.unwrap();
    let probe = server.probe();
    let mut there: Vec<_> =
        probe.paths().into_iter().filter(|path| path.starts_with(ROOT)).collect();
    there.sort_unstable();
    let mut known = cache.read(|view| {
        view.nodes().map(|node| (node.path.to_string(), node.stat)).collect::<Vec<_>>()
    });
    known.sort_unstable_by(|(one, _), (two, _)| one.cmp(two));
    assert_eq!(known.iter().map(|(path, _)| path.as_str()).collect::<Vec<_>>(), there);
    for (path, stat) in known {
        let server = probe.stat(&path).unwrap();
        assert_eq!((stat.czxid, stat.mzxid), (server.czxid, server.mzxid), "{path}");
        assert_eq!(cache.get(&path).present().unwrap().data, probe.data(&path).unwrap(), "{path}");
    }
}

/// Cuts a client off, with or without the end of its session, until its cache is stale.
async fn stale_by(
    server: &TestServer,
    zk: &CuratorFramework,
    is_expired: bool,
    changes: &mut CacheEvents,
) -> RuleGuard {
    let cut = cut_off(server, zk);
    if is_expired {
        expire(server, zk).await;
    }
    assert_eq!(next(changes, 1).await, ["stale"]);
    cut
}

#[test]
fn contents_follow_the_tree() {
    simulated_with(async |server, zk| {
        create(&zk, "/tree/a/b", "1").await;
        let cache = loaded(&zk).await;
        assert_eq!(data(&cache, "/tree/a/b"), "1");
        assert_eq!(cache.get("/tree/none"), Lookup::Absent);
        assert_eq!(cache.get("/elsewhere"), Lookup::Unknown);
        assert_eq!(cache.len(), 3);
        let stat = zk.set_data("/tree/a/b", "2").await.unwrap();
        cache.reflects(stat.mzxid).await.unwrap();
        assert_eq!(data(&cache, "/tree/a/b"), "2");
        create(&zk, "/tree/c", "3").await;
        zk.delete("/tree/a").deleting_children().await.unwrap();
        assert_same(&cache, &server).await;
        assert_eq!(
            cache.children_of(ROOT).iter().map(|node| node.name().to_owned()).collect::<Vec<_>>(),
            ["c"]
        );
        zk.delete(ROOT).deleting_children().await.unwrap();
        cache.synced().await.unwrap();
        assert_eq!(cache.get(ROOT), Lookup::Absent);
        create(&zk, "/tree/again", "4").await;
        assert_same(&cache, &server).await;
        cache.close().await;
        until(&server, |probe| probe.watches().is_empty()).await;
    });
}

#[test]
fn absent_is_not_said_before_the_load() {
    simulated_with(async |server, zk| {
        create(&zk, "/tree/a", "1").await;
        let held = always(&server, OpCode::MultiRead, Verdict::Delay(Duration::from_secs(1)));
        let cache = CuratorCache::tree(&zk, ROOT).start();
        assert_eq!(cache.freshness(), Freshness::Loading);
        assert_eq!(
            (cache.get("/tree/a"), cache.get("/tree/none")),
            (Lookup::Unknown, Lookup::Unknown)
        );
        until(&server, |probe| !probe.watches().is_empty()).await;
        assert_eq!(cache.get("/tree/none"), Lookup::Unknown);
        drop(held);
        assert_eq!(cache.loaded().await.unwrap().nodes, 2);
        assert!(cache.get("/tree/none").is_absent());
        assert!(cache.freshness().is_fresh());
    });
}

#[test]
fn a_missing_root_costs_nothing() {
    simulated_with(async |server, zk| {
        let cache = loaded(&zk).await;
        assert_eq!((cache.get(ROOT), cache.len()), (Lookup::Absent, 0));
        let requests = |server: &TestServer| {
            server.probe().total_requests() - server.probe().requests(OpCode::Ping)
        };
        let before = requests(&server);
        idle(Duration::from_secs(3600)).await;
        assert_eq!(requests(&server), before);
        zk.create(ROOT).mode(CreateMode::Container).await.unwrap();
        create(&zk, "/tree/a", "1").await;
        assert_same(&cache, &server).await;
    });
}

#[test]
fn events_tell_the_loaded_state_and_then_every_difference() {
    simulated_with(async |_server, zk| {
        create(&zk, "/tree/a", "1").await;
        let cache = CuratorCache::tree(&zk, ROOT).start();
        let (mut events, mut changes) = (cache.events(), cache.events_from_now());
        assert_eq!(next(&mut events, 1).await, ["loaded 2"]);
        create(&zk, "/tree/b/c", "1").await;
        zk.set_data("/tree/a", "2").await.unwrap();
        cache.synced().await.unwrap();
        assert_eq!(next(&mut events, 3).await, ["+/tree/b", "+/tree/b/c", "=/tree/a"]);
        zk.delete("/tree/b").deleting_children().await.unwrap();
        zk.delete("/tree/a").await.unwrap();
        create(&zk, "/tree/a", "2").await;
        cache.synced().await.unwrap();
        assert_eq!(next(&mut events, 3).await, ["-/tree/b/c", "-/tree/b", "~/tree/a"]);
        // A subscriber that has not looked: the difference, and not the steps.
        assert_eq!(next(&mut changes, 1).await, ["~/tree/a"]);
        drop((events, cache));
        zk.close().await.unwrap();
        assert_eq!(next(&mut changes, 1).await, ["stale"]);
        assert!(changes.next().await.is_none());
    });
}

#[test]
fn an_outage_is_bracketed_by_stale_and_fresh() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        create(&zk, "/tree/a", "1").await;
        create(&zk, "/tree/gone/child", "1").await;
        create(&zk, "/tree/same", "1").await;
        let cache = loaded(&zk).await;
        let mut changes = cache.events_from_now();
        for is_expired in [false, true] {
            let cut = stale_by(&server, &zk, is_expired, &mut changes).await;
            assert!(matches!(cache.freshness(), Freshness::Stale { .. }));
            other.delete("/tree/gone").deleting_children().await.unwrap();
            other.delete("/tree/same").await.unwrap();
            create(&other, "/tree/same", "1").await;
            other.set_data("/tree/a", "2").await.unwrap();
            drop(cut);
            let told = next(&mut changes, 5).await;
            assert_eq!(
                told,
                ["-/tree/gone/child", "-/tree/gone", "~/tree/same", "=/tree/a", "fresh"]
            );
            assert_same(&cache, &server).await;
            create(&other, "/tree/gone/child", "1").await;
            assert_eq!(next(&mut changes, 2).await, ["+/tree/gone", "+/tree/gone/child"]);
        }
    });
}

#[test]
fn a_reconnect_without_changes_costs_no_request() {
    simulated_with(async |server, zk| {
        for n in 0..100 {
            create(&zk, &format!("/tree/n{n}"), "1").await;
        }
        let cache = loaded(&zk).await;
        let mut freshness = cache.freshness_changes();
        assert!(freshness.next().await.unwrap().is_fresh());
        let before = server.probe().requests(OpCode::MultiRead);
        server.disconnect(session_id(&zk).get());
        assert!(!freshness.next().await.unwrap().is_fresh());
        assert!(freshness.next().await.unwrap().is_fresh());
        assert_eq!(server.probe().requests(OpCode::MultiRead), before);
        assert_same(&cache, &server).await;
    });
}

#[test]
fn fifty_thousand_nodes_cost_n_over_400_requests() {
    simulated_with(async |server, zk| {
        zk.create(ROOT).await.unwrap();
        let value = "x".repeat(100);
        for batch in 0..100 {
            let mut transaction = zk.transaction();
            for n in 0..500 {
                transaction =
                    transaction.create(format!("/tree/node-{}", batch * 500 + n), value.clone());
            }
            transaction.commit().await.unwrap();
        }
        let before = server.probe().total_requests();
        let cache = loaded(&zk).await;
        assert_eq!(cache.len(), 50_001);
        let requests = server.probe().total_requests() - before;
        assert!(requests <= 50_000 / 400 + 4, "{requests}");
    });
}

#[test]
fn an_unreadable_node_is_named() {
    simulated_with(async |server, zk| {
        create(&zk, "/tree/open", "1").await;
        let hidden =
            Acl::new(Permissions::from_bits(31 ^ Permissions::READ.bits()), "world", "anyone");
        zk.create("/tree/closed").acl(vec![hidden.clone()]).data("1").await.unwrap();
        let cache = CuratorCache::tree(&zk, ROOT).audit_every(Duration::from_secs(60)).start();
        let loaded = cache.loaded().await.unwrap();
        assert_eq!((loaded.nodes, loaded.unreadable), (2, 1));
        assert_eq!(cache.unreadable(), [("/tree/closed".to_owned(), ErrorKind::NoAuth)]);
        assert_eq!(cache.get("/tree/closed"), Lookup::Unknown);
        assert_eq!(cache.get_through("/tree/closed").await.unwrap_err().kind(), ErrorKind::NoAuth);
        // No event reports a change of an ACL: an audit finds it.
        let mut changes = cache.events_from_now();
        zk.set_acl("/tree/closed", Acl::open_unsafe()).await.unwrap();
        assert_eq!(next(&mut changes, 1).await, ["+/tree/closed"]);
        assert!(cache.unreadable().is_empty());
        zk.set_acl("/tree/closed", vec![hidden]).await.unwrap();
        assert_eq!(next(&mut changes, 1).await, ["?/tree/closed"]);
        assert_eq!(cache.get("/tree/closed"), Lookup::Unknown);
        // Only an observer that was notified of the node is notified of its end.
        let mut later = cache.events_from_now();
        zk.delete("/tree/closed").await.unwrap();
        let told = changes.next().await.unwrap();
        let CacheEvent::Deleted(old) = told else { panic!("{told:?}") };
        assert_eq!((&*old.path, &old.data[..]), ("/tree/closed", &b"1"[..]));
        assert_eq!(cache.get("/tree/closed"), Lookup::Absent);
        zk.set_data("/tree/open", "2").await.unwrap();
        assert_eq!(next(&mut later, 1).await, ["=/tree/open"]);
        drop(later);
        drop(cache);
        drop(changes);
        until(&server, |probe| probe.watches().is_empty()).await;
    });
}

/// The server is one from before 3.6.
pub(crate) fn without_persistent_watches(server: &TestServer) -> RuleGuard {
    server.rule(|request| match request.opcode() {
        OpCode::AddWatch | OpCode::MultiRead => Verdict::Refuse(ErrorCode::Unimplemented),
        _ => Verdict::Pass,
    })
}

#[test]
fn a_root_that_is_created_between_single_reads_is_shown() {
    simulated_with(async |server, zk| {
        let _before_3_6 = without_persistent_watches(&server);
        let other = connected(&server).await;
        // After the reads of its data and of its children have found no node.
        let late = once(&server, OpCode::Exists, Verdict::Delay(Duration::from_millis(100)));
        let cache = CuratorCache::tree(&zk, ROOT).start();
        until(&server, |_| late.hits() == 1).await;
        create(&other, ROOT, "1").await;
        cache.loaded().await.unwrap();
        cache.synced().await.unwrap();
        assert_eq!(data(&cache, ROOT), "1");
        create(&other, "/tree/a", "2").await;
        cache.synced().await.unwrap();
        assert_eq!(data(&cache, "/tree/a"), "2");
    });
}

#[test]
fn a_session_that_ends_before_its_first_single_read_is_replaced() {
    simulated_with(async |server, zk| {
        let _before_3_6 = without_persistent_watches(&server);
        let session = session_id(&zk).get();
        let cut = rule_if(
            &server,
            move |request| request.session_id() == session && !request.is(OpCode::AddWatch),
            Verdict::Disconnect,
        );
        let cache = CuratorCache::tree(&zk, ROOT).start();
        until(&server, |_| cut.hits() > 1).await;
        expire(&server, &zk).await;
        cache.loaded().await.unwrap();
    });
}

#[test]
fn a_server_without_persistent_watches_is_followed() {
    simulated_with(async |server, zk| {
        let _before_3_6 = without_persistent_watches(&server);
        let other = connected(&server).await;
        let cache = loaded(&zk).await;
        let mut changes = cache.events_from_now();
        create(&other, "/tree/a/b", "1").await;
        assert_eq!(next(&mut changes, 3).await, ["+/tree", "+/tree/a", "+/tree/a/b"]);
        other.set_data("/tree/a/b", "2").await.unwrap();
        assert_eq!(next(&mut changes, 1).await, ["=/tree/a/b"]);
        for is_expired in [false, true] {
            let cut = stale_by(&server, &zk, is_expired, &mut changes).await;
            other.delete("/tree/a").deleting_children().await.unwrap();
            create(&other, "/tree/c", "1").await;
            drop(cut);
            let mut told = next(&mut changes, 4).await;
            assert_eq!(told.pop().unwrap(), "fresh");
            told.sort_unstable();
            assert_eq!(told, ["+/tree/c", "-/tree/a", "-/tree/a/b"]);
            assert_same(&cache, &server).await;
            other.delete("/tree/c").await.unwrap();
            create(&other, "/tree/a/b", "1").await;
            assert_eq!(next(&mut changes, 3).await.len(), 3);
            assert_same(&cache, &server).await;
        }
        cache.close().await;
        drop(changes);
        until(&server, |probe| probe.watches().is_empty()).await;
    });
}

#[test]
fn the_server_says_what_has_changed_during_an_outage() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        for n in 0..300 {
            create(&zk, &format!("/tree/n{}/{n}", n % 10), "1").await;
        }
        let cache = CuratorCache::tree(&zk, ROOT).server_diff(ServerDiffMode::Always).start();
        cache.loaded().await.unwrap();
        let mut changes = cache.events_from_now();
        for is_expired in [false, true] {
            let cut = stale_by(&server, &zk, is_expired, &mut changes).await;
            other.set_data("/tree/n1/11", "2").await.unwrap();
            other.delete("/tree/n2/12").await.unwrap();
            other.delete("/tree/n3/13").await.unwrap();
            create(&other, "/tree/n3/13", "1").await;
            // Below a node that had no children.
            create(&other, "/tree/n4/14/new", "1").await;
            let before = server.probe().requests(OpCode::MultiRead);
            drop(cut);
            let mut told = next(&mut changes, 5).await;
            assert_eq!(told.pop().unwrap(), "fresh");
            told.sort_unstable();
            assert_eq!(told, ["+/tree/n4/14/new", "-/tree/n2/12", "=/tree/n1/11", "~/tree/n3/13"]);
            let reads = server.probe().requests(OpCode::MultiRead) - before;
            assert!(reads <= 4, "{reads}");
            assert_same(&cache, &server).await;
            other.delete("/tree/n4/14/new").await.unwrap();
            create(&other, "/tree/n2/12", "1").await;
            assert_eq!(next(&mut changes, 2).await.len(), 2);
        }
        // Its session is gone, and its watches.
        until(&server, |probe| probe.watches().len() == 1).await;
    });
}
