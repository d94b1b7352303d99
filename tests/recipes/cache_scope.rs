//! Caches: the covered nodes, the releases of servers, and the names of reported paths.

use std::sync::Arc;
use std::time::Duration;

use zk_curator::{CreateMode, CuratorFramework};
use zk_curator_proto::OpCode;
use zk_curator_recipes::cache::{CacheBuilder, CacheEvent, CuratorCache, Lookup, TypedCache};
use zk_curator_testing::{TestServer, Verdict, ZooKeeperVersion, wait};
use zk_curator_tests::{
    builder_for, connected, cut_off, in_memory, rule_if, session_id, simulated, simulated_each_on,
    simulated_on, simulated_with, start, two_in_memory, until,
};

use crate::cache::{ROOT, create, loaded, next, short};

/// The paths in a cache.
fn paths(cache: &CuratorCache) -> Vec<String> {
    cache.read(|view| view.nodes().map(|node| node.path.to_string()).collect())
}

/// A cache of a tree that exists, and the same after each of its nodes was replaced.
async fn covered(settings: impl Fn(CacheBuilder) -> CacheBuilder) -> Vec<String> {
    let (server, zk) = in_memory().await;
    let other = connected(&server).await;
    let all = ["/tree", "/tree/a", "/tree/a/b", "/tree/a/b/c", "/tree/secret", "/tree/secret/d"];
    for path in all {
        create(&other, path, "1").await;
    }
    let cache = settings(CuratorCache::tree(&zk, ROOT)).start();
    cache.loaded().await.unwrap();
    let found = paths(&cache);
    let mut changes = cache.events_from_now();
    other.delete(ROOT).deleting_children().await.unwrap();
    cache.synced().await.unwrap();
    assert!(cache.is_empty());
    assert_eq!(next(&mut changes, found.len()).await.len(), found.len());
    for path in all {
        create(&other, path, "2").await;
    }
    cache.synced().await.unwrap();
    assert_eq!(paths(&cache), found);
    let told = next(&mut changes, found.len()).await;
    assert_eq!(told, found.iter().map(|path| format!("+{path}")).collect::<Vec<_>>());
    for path in all {
        let told = cache.get(path);
        assert_eq!(told.is_present(), found.contains(&path.to_owned()), "{path}");
        assert!(!told.is_absent(), "{path} exists, and is not covered at most");
    }
    found
}

#[test]
fn depths_and_filters_bound_what_is_covered() {
    simulated(async {
        let all =
            ["/tree", "/tree/a", "/tree/a/b", "/tree/a/b/c", "/tree/secret", "/tree/secret/d"];
        assert_eq!(covered(|cache| cache).await, all);
        assert_eq!(covered(|cache| cache.max_depth(0)).await, ["/tree"]);
        assert_eq!(covered(|cache| cache.max_depth(1)).await, ["/tree", "/tree/a", "/tree/secret"]);
        assert_eq!(covered(|cache| cache.max_depth(9)).await, all);
        let open = covered(|cache| cache.filter(|path| !path.ends_with("/secret"))).await;
        assert_eq!(open, ["/tree", "/tree/a", "/tree/a/b", "/tree/a/b/c"]);
        let both =
            covered(|cache| cache.max_depth(2).filter(|path| !path.ends_with("/secret"))).await;
        assert_eq!(both, ["/tree", "/tree/a", "/tree/a/b"]);
        // The root is covered whatever the filter says.
        assert_eq!(covered(|cache| cache.filter(|_| false)).await, ["/tree"]);
    });
}

#[test]
fn filtered_nodes_are_never_asked_for() {
    simulated_with(async |server, zk| {
        create(&zk, "/tree/open/a", "1").await;
        create(&zk, "/tree/secret/b", "1").await;
        let asked = rule_if(
            &server,
            |request| request.paths().any(|path| path.contains("secret")),
            Verdict::LoseRequest,
        );
        let cache = CuratorCache::tree(&zk, ROOT).filter(|path| !path.ends_with("/secret")).start();
        cache.loaded().await.unwrap();
        assert_eq!(paths(&cache), ["/tree", "/tree/open", "/tree/open/a"]);
        assert_eq!(asked.hits(), 0);
        drop(asked);
        let reads = server.probe().requests(OpCode::MultiRead);
        zk.set_data("/tree/secret/b", "2").await.unwrap();
        zk.delete("/tree/secret").deleting_children().await.unwrap();
        cache.synced().await.unwrap();
        assert_eq!(server.probe().requests(OpCode::MultiRead), reads);
    });
}

#[test]
fn caches_of_children_and_of_one_node() {
    simulated_with(async |server, zk| {
        create(&zk, "/tree/a/b", "1").await;
        let children = CuratorCache::children(&zk, ROOT).start();
        let node = CuratorCache::node(&zk, ROOT).start();
        children.loaded().await.unwrap();
        node.loaded().await.unwrap();
        assert_eq!(paths(&children), ["/tree", "/tree/a"]);
        assert_eq!(paths(&node), ["/tree"]);
        let (mut of_children, mut of_node) = (children.events_from_now(), node.events_from_now());
        let reads = server.probe().requests(OpCode::MultiRead);
        zk.set_data("/tree/a/b", "2").await.unwrap();
        children.synced().await.unwrap();
        assert_eq!(server.probe().requests(OpCode::MultiRead), reads, "it is too deep");
        create(&zk, "/tree/c/d", "1").await;
        zk.set_data(ROOT, "2").await.unwrap();
        children.synced().await.unwrap();
        node.synced().await.unwrap();
        assert_eq!(next(&mut of_children, 2).await, ["+/tree/c", "=/tree"]);
        assert_eq!(next(&mut of_node, 1).await, ["=/tree"]);
        zk.delete(ROOT).deleting_children().await.unwrap();
        children.synced().await.unwrap();
        node.synced().await.unwrap();
        assert_eq!(next(&mut of_children, 3).await, ["-/tree/c", "-/tree/a", "-/tree"]);
        assert_eq!(next(&mut of_node, 1).await, ["-/tree"]);
    });
}

#[test]
fn the_root_of_zookeeper_is_followed() {
    simulated_with(async |server, zk| {
        let cache = CuratorCache::tree(&zk, "/").filter(|path| path != "/zookeeper").start();
        cache.loaded().await.unwrap();
        assert_eq!(paths(&cache), ["/"]);
        let mut changes = cache.events_from_now();
        create(&zk, "/a/b", "1").await;
        cache.synced().await.unwrap();
        assert_eq!(next(&mut changes, 2).await, ["+/a", "+/a/b"]);
        server.disconnect(session_id(&zk).get());
        assert_eq!(next(&mut changes, 2).await, ["stale", "fresh"]);
        zk.delete("/a/b").await.unwrap();
        assert_eq!(next(&mut changes, 1).await, ["-/a/b"]);
        assert_eq!(paths(&cache), ["/", "/a"]);
    });
}

#[test]
fn without_data_only_stats_are_stored() {
    simulated_with(async |_server, zk| {
        create(&zk, "/tree/a", "12345").await;
        let cache = CuratorCache::tree(&zk, ROOT).without_data().start();
        cache.loaded().await.unwrap();
        let node = cache.get("/tree/a").present().unwrap();
        assert_eq!((node.data.len(), node.stat.data_length), (0, 5));
        let mut changes = cache.events_from_now();
        zk.set_data("/tree/a", "1").await.unwrap();
        assert_eq!(next(&mut changes, 1).await, ["=/tree/a"]);
        let node = cache.get("/tree/a").present().unwrap();
        assert_eq!((node.data.len(), node.stat.data_length), (0, 1));
    });
}

/// The events of a cache for a tree whose nodes come, change and go, with and without connection.
async fn told(version: ZooKeeperVersion) -> Vec<String> {
    let server = TestServer::builder().tcp(false).version(version).start().await.unwrap();
    let (zk, other) = (connected(&server).await, connected(&server).await);
    create(&other, "/tree/a/b", "1").await;
    let cache = loaded(&zk).await;
    let mut changes = cache.events_from_now();
    let mut told = Vec::new();
    other.set_data("/tree/a/b", "2").await.unwrap();
    create(&other, "/tree/c/d", "1").await;
    cache.synced().await.unwrap();
    told.extend(next(&mut changes, 3).await);
    let replace =
        other.transaction().delete("/tree/c/d").create("/tree/c/d", "1").set_data("/tree/a", "2");
    replace.commit().await.unwrap();
    cache.synced().await.unwrap();
    told.extend(next(&mut changes, 2).await);
    let away = cut_off(&server, &zk);
    told.extend(next(&mut changes, 1).await);
    other.delete("/tree/c").deleting_children().await.unwrap();
    create(&other, "/tree/c/e", "1").await;
    drop(away);
    told.extend(next(&mut changes, 4).await);
    let ended = connected(&server).await;
    for path in ["/tree/e1", "/tree/e2"] {
        ended.create(path).mode(CreateMode::Ephemeral).await.unwrap();
    }
    cache.synced().await.unwrap();
    told.extend(next(&mut changes, 2).await);
    ended.close().await.unwrap();
    cache.synced().await.unwrap();
    told.extend(next(&mut changes, 2).await);
    cache.close().await;
    until(&server, |probe| probe.watches().is_empty()).await;
    told
}

#[test]
fn on_3_8_and_3_9_alike() {
    let setup = async || told(ZooKeeperVersion::V3_9).await;
    simulated_on(setup, async |new| {
        assert_eq!(
            new,
            [
                "+/tree/c",
                "+/tree/c/d",
                "=/tree/a/b",
                "~/tree/c/d",
                "=/tree/a",
                "stale",
                "-/tree/c/d",
                "~/tree/c",
                "+/tree/c/e",
                "fresh",
                "+/tree/e1",
                "+/tree/e2",
                "-/tree/e2",
                "-/tree/e1"
            ]
        );
        assert_eq!(told(ZooKeeperVersion::V3_8).await, new);
    });
}

/// A framework with a chroot, in memory.
async fn below(server: &TestServer, chroot: &str) -> CuratorFramework {
    let zk = builder_for(&format!("{}{chroot}", server.connect_string()));
    start(zk.connector(Arc::new(server.connector()))).await
}

#[test]
fn paths_are_within_the_chroot_and_the_namespace() {
    let cases = [("", ""), ("/app", ""), ("", "orders"), ("/app", "orders")];
    simulated_each_on(cases, TestServer::in_memory, async |(chroot, namespace), server| {
        let plain = connected(&server).await;
        let within = match namespace {
            "" => chroot.to_owned(),
            namespace => format!("{chroot}/{namespace}"),
        };
        // Siblings with similar names.
        for path in ["/app/treetop/a", "/orders2/tree/a", "/app/orders2/tree/a", "/apptree/a"] {
            create(&plain, path, "0").await;
        }
        create(&plain, &format!("{within}/tree/a/b"), "1").await;
        create(&plain, &format!("{within}/treetop/b"), "1").await;
        let zk = below(&server, chroot).await;
        let zk = if namespace.is_empty() { zk } else { zk.using_namespace(namespace).unwrap() };
        let cache = loaded(&zk).await;
        assert_eq!(paths(&cache), ["/tree", "/tree/a", "/tree/a/b"], "{within}");
        let mut changes = cache.events_from_now();
        plain.set_data(format!("{within}/tree/a/b"), "2").await.unwrap();
        create(&plain, &format!("{within}/tree/c"), "1").await;
        create(&plain, &format!("{within}/treetop/c"), "1").await;
        cache.synced().await.unwrap();
        assert_eq!(next(&mut changes, 2).await, ["+/tree/c", "=/tree/a/b"], "{within}");
        assert_eq!(cache.get("/tree/a/b").present().unwrap().data, "2");
        assert_eq!(cache.children_of(ROOT).len(), 2);
        server.disconnect_all();
        assert_eq!(next(&mut changes, 2).await, ["stale", "fresh"]);
        plain.delete(format!("{within}/tree/c")).await.unwrap();
        assert_eq!(next(&mut changes, 1).await, ["-/tree/c"], "{within}");
        let everything = CuratorCache::tree(&zk, "/").filter(|path| path != "/zookeeper").start();
        everything.loaded().await.unwrap();
        assert!(
            everything.get("/tree/a/b").is_present() && everything.get("/treetop/c").is_present()
        );
    });
}

#[test]
fn a_typed_view_hides_and_removes_nothing() {
    simulated_with(async |_server, zk| {
        let values = ["1", "x", "", "-1", "300", "7"];
        for (n, value) in values.iter().enumerate() {
            create(&zk, &format!("/tree/{n}/deeper"), value).await;
            zk.set_data(format!("/tree/{n}"), *value).await.unwrap();
        }
        let cache = loaded(&zk).await;
        let typed: TypedCache<u8> = cache.typed();
        let mut changes = cache.events_from_now();
        let check = || {
            let nodes = cache.read(|view| view.nodes().cloned().collect::<Vec<_>>());
            assert_eq!(nodes.len(), 1 + 2 * values.len());
            for node in nodes {
                let value = std::str::from_utf8(&node.data).unwrap().parse::<u8>().ok();
                let Lookup::Present(told) = typed.get(&node.path) else {
                    panic!("{} is hidden", node.path)
                };
                assert!(Arc::ptr_eq(&told.node, &node));
                assert_eq!(told.value.ok().as_deref(), value.as_ref(), "{}", node.path);
                let children = typed.children_of(&node.path);
                let raw = cache.children_of(&node.path);
                assert_eq!(children.len(), raw.len());
                assert!(
                    children.iter().zip(&raw).all(|(typed, raw)| Arc::ptr_eq(&typed.node, raw))
                );
            }
            assert!(typed.get("/tree/none").is_absent());
            assert!(matches!(typed.get("/none"), Lookup::Unknown));
        };
        check();
        // A value that stops being decodable, and later is decodable again.
        zk.set_data("/tree/0", "x").await.unwrap();
        zk.set_data("/tree/1", "1").await.unwrap();
        cache.synced().await.unwrap();
        assert_eq!(next(&mut changes, 2).await, ["=/tree/0", "=/tree/1"]);
        check();
    });
}

/// The requests of a cache, through everything that happens to it, change nothing on the server.
#[test]
fn a_cache_never_writes() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let ours = session_id(&zk).get();
        let wrote = server.rule(move |request| {
            let reads = [
                OpCode::AddWatch,
                OpCode::MultiRead,
                OpCode::Exists,
                OpCode::Ping,
                OpCode::SetWatches2,
                OpCode::RemoveWatches,
            ];
            let is_read = reads.contains(&request.opcode())
                || request.is(OpCode::Multi) && !zk_curator_tests::is_write_multi(request);
            if request.session_id() == ours && !is_read {
                Verdict::LoseRequest
            } else {
                Verdict::Pass
            }
        });
        let cache = loaded(&zk).await;
        let mut changes = cache.events_from_now();
        for _ in 0..2 {
            // The root is a container that the server removes and other clients create again.
            other.create(ROOT).mode(CreateMode::Container).await.unwrap();
            create(&other, "/tree/a", "1").await;
            cache.synced().await.unwrap();
            assert_eq!(next(&mut changes, 2).await, ["+/tree", "+/tree/a"]);
            other.delete("/tree/a").await.unwrap();
            wait::until(async || server.reap_containers().contains(&ROOT.to_owned())).await;
            cache.synced().await.unwrap();
            assert_eq!(next(&mut changes, 2).await, ["-/tree/a", "-/tree"]);
            assert!(cache.get(ROOT).is_absent());
            server.disconnect(ours);
            assert_eq!(next(&mut changes, 2).await, ["stale", "fresh"]);
        }
        cache.exact(Duration::from_secs(1)).await.unwrap().unwrap();
        cache.close().await;
        assert_eq!(wrote.hits(), 0);
    });
}

#[test]
fn events_begin_with_the_loaded_state_at_every_subscription() {
    simulated_with(async |_server, zk| {
        create(&zk, "/tree/a", "1").await;
        let cache = CuratorCache::tree(&zk, ROOT).start();
        let (mut early, mut early_changes) = (cache.events(), cache.events_from_now());
        cache.loaded().await.unwrap();
        create(&zk, "/tree/b", "1").await;
        cache.synced().await.unwrap();
        let mut late = cache.events();
        for events in [&mut early, &mut late] {
            let Some(CacheEvent::Loaded(snapshot)) = events.next().await else {
                panic!("not loaded")
            };
            assert_eq!(snapshot.nodes.len(), 3);
        }
        assert_eq!(next(&mut early_changes, 1).await, ["+/tree/b"]);
        zk.set_data("/tree/a", "2").await.unwrap();
        for events in [&mut early, &mut late, &mut early_changes] {
            assert_eq!(short(&events.next().await.unwrap()), "=/tree/a");
        }
    });
}
