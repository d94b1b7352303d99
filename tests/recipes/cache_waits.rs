//! Caches: the cost and the results of waiting callers.

use std::time::Duration;

use tokio::time::timeout;
use zk_curator_proto::OpCode;
use zk_curator_recipes::cache::{CacheEvent, CuratorCache, Lookup, StaleCause};
use zk_curator_recipes::shared::{SharedValue, ValueEvent};
use zk_curator_testing::wait::{idle, spend};
use zk_curator_testing::{RuleRequest, TestServer, Verdict, ZooKeeperVersion};
use zk_curator_tests::{
    always, assert_matches, connected, cut_off, join_all, once, rule_if, session_id, simulated,
    simulated_on, simulated_with, two_in_memory, until,
};

use crate::cache::{ROOT, assert_same, create, data, loaded, next};
use crate::cache_cost::distant;

/// A deletion needs no read, so nothing else proves the state after it.
#[test]
fn exact_finds_the_moment_after_a_change_that_it_waits_for() {
    simulated_with(async |server, other| {
        let zk = distant(&server).await;
        create(&other, "/tree/a", "1").await;
        create(&other, "/tree/b", "1").await;
        let cache = loaded(&zk).await;
        other.set_data("/tree/b", "2").await.unwrap();
        // The change is reported, and its node is being read.
        let is_read = |request: &RuleRequest<'_>| {
            request.is(OpCode::MultiRead) || request.is(OpCode::GetData)
        };
        let slow = rule_if(
            &server,
            move |request| is_read(request),
            Verdict::Delay(Duration::from_secs(1)),
        );
        slow.fired().await;
        let change = async { other.delete("/tree/a").await.unwrap() };
        let (exact, ()) = tokio::join!(cache.exact(Duration::from_secs(60)), change);
        let exact = exact.unwrap().expect("the tree is quiet");
        assert!(exact.nodes.iter().all(|node| &*node.path != "/tree/a"));
        assert!(exact.undecided.is_empty());
    });
}

#[test]
fn writes_below_the_scope_wake_no_waiter() {
    simulated_with(async |server, other| {
        let zk = distant(&server).await;
        create(&other, "/tree/a/b", "1").await;
        let cache = CuratorCache::children(&zk, ROOT).start();
        cache.loaded().await.unwrap();
        let writer = async {
            for n in 0_u64.. {
                other.set_data("/tree/a/b", n.to_string()).await.unwrap();
                spend(Duration::from_micros(100)).await;
            }
        };
        let mut looks = 0;
        let reader = async {
            let exact =
                cache.exact(Duration::from_secs(1)).await.unwrap().expect("nothing changes");
            assert_eq!(exact.nodes.len(), 2);
            let never = cache.wait_for(|_| {
                looks += 1;
                None::<()>
            });
            assert!(timeout(Duration::from_secs(1), never).await.is_err());
        };
        tokio::select! {
            biased;
            () = reader => {}
            () = writer => {}
        }
        assert!(looks <= 3, "{looks} looks");
    });
}

#[test]
fn concurrent_barriers_share_a_request() {
    simulated_with(async |server, other| {
        let zk = distant(&server).await;
        create(&other, "/tree/a", "1").await;
        let cache = loaded(&zk).await;
        let syncs = || server.probe().total_requests() - server.probe().requests(OpCode::Ping);
        let before = syncs();
        for shown in join_all((0..1000).map(|_| cache.synced())).await {
            shown.unwrap();
        }
        assert!(syncs() - before <= 6, "{} requests", syncs() - before);
        // The ones that have given up during an outage are not sent after it.
        let away = cut_off(&server, &zk);
        for _ in 0..1000 {
            assert!(timeout(Duration::from_millis(1), cache.synced()).await.is_err());
        }
        let before = syncs();
        drop(away);
        zk.wait_connected().await.unwrap();
        idle(Duration::from_secs(5)).await;
        assert!(syncs() - before <= 8, "{} requests", syncs() - before);
        assert_same(&cache, &server).await;
    });
}

#[test]
fn a_stale_event_names_its_cause_and_others_their_path() {
    simulated_with(async |server, zk| {
        create(&zk, "/tree/a", "1").await;
        let cache = loaded(&zk).await;
        let mut changes = cache.events_from_now();
        server.disconnect(session_id(&zk).get());
        let stale = changes.next().await.unwrap();
        assert_matches!(stale, CacheEvent::Stale { cause: StaleCause::Suspended, .. });
        assert_eq!((stale.path(), changes.next().await.unwrap().path()), (None, None));
        zk.set_data("/tree/a", "2").await.unwrap();
        assert_eq!(changes.next().await.unwrap().path(), Some("/tree/a"));
        zk.delete("/tree/a").await.unwrap();
        assert_eq!(changes.next().await.unwrap().path(), Some("/tree/a"));
        assert!(server.expire(session_id(&zk).get()).await);
        let stale = changes.next().await.unwrap();
        assert!(matches!(stale, CacheEvent::Stale { .. }), "{stale:?}");
    });
}

#[test]
fn nodes_that_are_not_kept_are_passed_through() {
    simulated_with(async |server, zk| {
        for path in ["/tree/a/leaf", "/tree/b/c/leaf", "/tree/d"] {
            create(&zk, path, "1").await;
        }
        let cache = CuratorCache::tree(&zk, ROOT).keep(|path| path.ends_with("/leaf")).start();
        let told = cache.loaded().await.unwrap();
        assert_eq!((told.nodes, cache.len()), (2, 2));
        let paths = || {
            cache.read(|view| view.nodes().map(|node| node.path.to_string()).collect::<Vec<_>>())
        };
        assert_eq!(paths(), ["/tree/a/leaf", "/tree/b/c/leaf"]);
        assert_eq!(
            (cache.get("/tree/a"), cache.get("/tree/none")),
            (Lookup::Unknown, Lookup::Unknown)
        );
        assert!(cache.get("/tree/d/leaf").is_absent());
        let mut changes = cache.events_from_now();
        zk.set_data("/tree/a", "2").await.unwrap();
        create(&zk, "/tree/e/leaf", "1").await;
        zk.delete("/tree/b").deleting_children().await.unwrap();
        cache.synced().await.unwrap();
        assert_eq!(next(&mut changes, 2).await, ["-/tree/b/c/leaf", "+/tree/e/leaf"]);
        let away = cut_off(&server, &zk);
        assert_eq!(next(&mut changes, 1).await, ["stale"]);
        let other = connected(&server).await;
        other.delete("/tree/a").deleting_children().await.unwrap();
        drop(away);
        assert_eq!(next(&mut changes, 2).await, ["-/tree/a/leaf", "fresh"]);
        assert_eq!(paths(), ["/tree/e/leaf"]);
    });
}

#[test]
fn a_refresh_reads_what_no_event_tells() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        create(&other, "/tree/a/b", "1").await;
        create(&other, "/tree/c", "1").await;
        let cache = loaded(&zk).await;
        let reads = || server.probe().requests(OpCode::MultiRead);
        let before = reads();
        cache.refresh("/tree/a").await.unwrap();
        cache.refresh("/tree/none").await.unwrap();
        assert!((3..=6).contains(&(reads() - before)), "{} reads", reads() - before);
        assert!(cache.get("/tree/none").is_absent() && cache.get("/tree/a/b").is_present());
        assert!(cache.refresh("/elsewhere").await.is_err());
        // Without an event, as of a change of an ACL.
        let blind = server.rule(|request| match request.opcode() {
            OpCode::MultiRead if request.paths().any(|path| path == "/tree/c") => {
                Verdict::Refuse(zk_curator::ErrorCode::MarshallingError)
            }
            _ => Verdict::Pass,
        });
        cache.rebuild().await.unwrap();
        assert_eq!(cache.unreadable().len(), 1);
        drop(blind);
        cache.rebuild().await.unwrap();
        assert!(cache.unreadable().is_empty());
        assert_same(&cache, &server).await;
        // It waits for the end of an outage.
        let away = cut_off(&server, &zk);
        let refreshed = async {
            spend(Duration::from_secs(1)).await;
            other.set_data("/tree/c", "2").await.unwrap();
            drop(away);
        };
        let (refreshed, ()) = tokio::join!(cache.rebuild(), refreshed);
        refreshed.unwrap();
        assert_eq!(data(&cache, "/tree/c"), "2");
        let closing = cache.clone();
        closing.close().await;
        assert!(cache.rebuild().await.is_err());
    });
}

#[test]
fn read_through_has_the_data_that_the_cache_would_have() {
    simulated_with(async |_server, zk| {
        create(&zk, "/tree/a", "12345").await;
        let cache = CuratorCache::node(&zk, ROOT).without_data().start();
        cache.loaded().await.unwrap();
        let node = cache.get_through("/tree/a").await.unwrap().unwrap();
        assert_eq!((node.data.len(), node.stat.data_length), (0, 5));
        assert!(cache.get_through("/tree/b").await.unwrap().is_none());
    });
}

/// A value that cannot be read, or is being read when the first event is asked for, is not absent.
#[test]
fn a_value_that_is_not_known_is_not_absent() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let value = SharedValue::open(&zk, "/value", &"1".to_owned()).await.unwrap();
        // Deleted and created again; the read of the new one takes its time.
        let slow = once(&server, OpCode::MultiRead, Verdict::Delay(Duration::from_secs(1)));
        other.delete("/value").await.unwrap();
        other.create("/value").data("2").await.unwrap();
        until(&server, |_| slow.hits() == 1).await;
        let Some(ValueEvent::Value(told)) = value.follow().next().await else {
            panic!("it exists")
        };
        assert_eq!(told.value, "2");
        drop(slow);
        let refused = always(
            &server,
            OpCode::MultiRead,
            Verdict::Refuse(zk_curator::ErrorCode::MarshallingError),
        );
        let mut told = value.follow();
        assert!(matches!(told.next().await, Some(ValueEvent::Value(_))));
        other.set_data("/value", "3").await.unwrap();
        assert!(matches!(told.next().await, Some(ValueEvent::Unreadable(_))));
        assert!(matches!(value.follow().next().await, Some(ValueEvent::Unreadable(_))));
        assert!(value.get().is_err());
        drop(refused);
        let Some(ValueEvent::Value(told)) = told.next().await else { panic!("it can be read") };
        assert_eq!(told.value, "3");
    });
}

/// Nodes that a load has not decided yet are in the first event, and are not taken for absent.
#[test]
fn the_loaded_event_names_what_is_being_read() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        create(&other, "/tree/a", "1").await;
        let cache = loaded(&zk).await;
        let slow = once(&server, OpCode::MultiRead, Verdict::Delay(Duration::from_secs(1)));
        create(&other, "/tree/b", "1").await;
        until(&server, |_| slow.hits() == 1).await;
        let mut events = cache.events();
        let Some(CacheEvent::Loaded(snapshot)) = events.next().await else {
            panic!("it is loaded")
        };
        assert_eq!(
            (snapshot.nodes.len(), &snapshot.undecided[..]),
            (2, &["/tree/b".to_owned()][..])
        );
        assert_eq!(next(&mut events, 1).await, ["+/tree/b"]);
    });
}

/// Before 3.9, a server keeps only the last watch of a client on a path.
#[test]
#[expect(clippy::too_many_lines, reason = "one story")]
fn several_watches_on_one_path_do_not_blind_each_other() {
    simulated(async {
        for version in [ZooKeeperVersion::V3_8, ZooKeeperVersion::V3_9] {
            let server = TestServer::builder().tcp(false).version(version).start().await.unwrap();
            let (zk, other) = (connected(&server).await, connected(&server).await);
            create(&other, "/tree/a", "1").await;
            let tree = loaded(&zk).await;
            let mut node_data = zk.watch_data(ROOT);
            node_data.next().await.unwrap();
            let node = CuratorCache::node(&zk, ROOT).start();
            node.loaded().await.unwrap();
            let mut children = zk.watch_children(ROOT);
            children.next().await.unwrap();
            let mut freshness = tree.freshness_changes();
            assert!(freshness.next().await.unwrap().is_fresh());
            let mut persistent = zk.add_watch(ROOT).await.unwrap();
            for n in 0..5 {
                if n == 3 {
                    server.disconnect(session_id(&zk).get());
                    zk.wait_connected().await.unwrap();
                }
                other.set_data(ROOT, format!("{n}")).await.unwrap();
                create(&other, &format!("/tree/{n}"), "1").await;
                let hour = Duration::from_secs(3600);
                let told = timeout(hour, node_data.next()).await.expect("data").unwrap().unwrap();
                assert_eq!(told.0, format!("{n}"));
                let told =
                    timeout(hour, children.next()).await.expect("children").unwrap().unwrap();
                assert!(told.0.contains(&n.to_string()));
                for cache in [&tree, &node] {
                    let shown = cache.wait_for(|view| {
                        view.get(ROOT)
                            .present()
                            .filter(|node| node.data == n.to_string())
                            .map(|_| ())
                    });
                    timeout(hour, shown).await.expect("the cache is blind").unwrap();
                }
                let path = format!("/tree/{n}");
                let shown = tree.wait_for(|view| view.get(&path).present().map(|_| ()));
                timeout(hour, shown).await.expect("the tree is blind").unwrap();
                let mut told = Vec::new();
                while !told.contains(&zk_curator::EventType::NodeChildrenChanged) {
                    let event = timeout(hour, persistent.next())
                        .await
                        .expect("the watch is blind")
                        .unwrap();
                    if let zk_curator::PersistentEvent::Changed(event) = event {
                        told.push(event.event_type);
                    }
                }
            }
            // The last ones still see changes when the others are gone, and nothing is left.
            drop((tree, freshness, children, persistent));
            other.set_data(ROOT, "last").await.unwrap();
            assert_eq!(node_data.next().await.unwrap().unwrap().0, "last");
            node.wait_for(|view| {
                view.get(ROOT).present().filter(|node| node.data == "last").map(|_| ())
            })
            .await
            .unwrap();
            drop((node, node_data));
            until(&server, |probe| probe.watches().is_empty()).await;
        }
    });
}
