//! Caches next to writers, lost connections, and servers that lag.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use zk_curator::{ConnectionState, CreateMode, CuratorFramework};
use zk_curator_proto::OpCode;
use zk_curator_recipes::cache::{CacheEvent, CacheEvents, CachedNode, CuratorCache};
use zk_curator_testing::wait::{idle, spend};
use zk_curator_testing::{TestCluster, TestServer, Verdict};
use zk_curator_tests::{
    CONNECTION_TIMEOUT, SESSION_TIMEOUT, always, builder, cluster_of_three, connected, cut_off,
    in_memory, session_id, simulated, simulated_each_on, simulated_on, simulated_with, start,
    two_in_memory,
};

use crate::cache::{ROOT, assert_same, create, data, loaded, next, without_persistent_watches};
use crate::cache_cost::distant;

#[test]
fn a_recreated_node_of_the_same_version_is_replaced() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        for path in ["/tree/data", "/tree/bytes"] {
            create(&other, path, "0").await;
            other.set_data(path, "1").await.unwrap();
        }
        let cache = loaded(&zk).await;
        let mut changes = cache.events_from_now();
        let away = cut_off(&server, &zk);
        assert_eq!(next(&mut changes, 1).await, ["stale"]);
        for (path, value) in [("/tree/data", "2"), ("/tree/bytes", "1")] {
            other.delete(path).await.unwrap();
            create(&other, path, "0").await;
            other.set_data(path, value).await.unwrap();
        }
        drop(away);
        for (path, value) in [("/tree/bytes", "1"), ("/tree/data", "2")] {
            let event = changes.next().await.unwrap();
            let CacheEvent::Replaced { old, new } = event else { panic!("{event:?}") };
            assert_eq!((&*new.path, &new.data[..]), (path, value.as_bytes()));
            assert_eq!((&old.data[..], old.stat.version), (&b"1"[..], new.stat.version));
            assert_eq!(data(&cache, path), value);
        }
        assert_eq!(next(&mut changes, 1).await, ["fresh"]);
    });
}

/// Nodes hidden by an outage must not count as listed because of later events.
#[test]
fn a_child_of_an_outage_is_found_beside_a_later_one() {
    let cases = [Duration::ZERO, Duration::from_secs(10)];
    simulated_each_on(cases, two_in_memory, async |spread, (server, zk, other)| {
        create(&other, "/tree/a", "1").await;
        let cache = CuratorCache::tree(&zk, ROOT).resync_spread(spread).start();
        cache.loaded().await.unwrap();
        let mut freshness = cache.freshness_changes();
        assert!(freshness.next().await.unwrap().is_fresh());
        let away = cut_off(&server, &zk);
        assert!(!freshness.next().await.unwrap().is_fresh());
        create(&other, "/tree/hidden", "1").await;
        drop(away);
        zk.wait_connected().await.unwrap();
        create(&other, "/tree/reported", "1").await;
        cache.wait_for(|view| view.get("/tree/reported").present().cloned()).await.unwrap();
        assert!(freshness.next().await.unwrap().is_fresh());
        assert_eq!(data(&cache, "/tree/hidden"), "1");
        assert_same(&cache, &server).await;
    });
}

#[test]
fn nodes_that_vanish_during_the_load_do_not_hold_it_up() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        for dir in 0..8 {
            for n in 0..8 {
                create(&other, &format!("/tree/{dir}/{n}/x"), "1").await;
            }
        }
        let _slow = always(&server, OpCode::MultiRead, Verdict::Delay(Duration::from_millis(50)));
        let cache = CuratorCache::tree(&zk, ROOT).parallel(1).start();
        let mut events = cache.events();
        for dir in 0..8 {
            spend(Duration::from_millis(15)).await;
            other.delete(format!("/tree/{dir}/1")).deleting_children().await.unwrap();
            other.delete(format!("/tree/{dir}/2/x")).await.unwrap();
            if dir % 2 == 0 {
                other.delete(format!("/tree/{dir}")).deleting_children().await.unwrap();
                create(&other, &format!("/tree/{dir}/new"), "1").await;
            }
        }
        let told = cache.loaded().await.unwrap();
        assert_eq!(told.unreadable, 0);
        assert_same(&cache, &server).await;
        // The first state is reported first, and the rest follows.
        let mut folded = Folded::default();
        while folded.nodes != contents(&cache) {
            folded.take(events.next().await.unwrap());
        }
    });
}

type Nodes = BTreeMap<String, (i64, i64)>;

fn identity(node: &CachedNode) -> (i64, i64) {
    (node.stat.czxid, node.stat.mzxid)
}

fn contents(cache: &CuratorCache) -> Nodes {
    cache.read(|view| view.nodes().map(|node| (node.path.to_string(), identity(node))).collect())
}

/// The state that a subscriber knows from the events.
#[derive(Default)]
struct Folded {
    nodes: Nodes,
    is_loaded: bool,
    is_stale: bool,
    events: usize,
}

impl Folded {
    fn take(&mut self, event: CacheEvent) {
        self.events += 1;
        let add = |nodes: &mut Nodes, node: &CachedNode, old: Option<(i64, i64)>| {
            let before = nodes.insert(node.path.to_string(), identity(node));
            assert_eq!(before, old, "{node:?}");
            assert!(old.is_none_or(|old| old < identity(node)), "{node:?} goes back from {old:?}");
        };
        match event {
            CacheEvent::Loaded(snapshot) => {
                assert!(!std::mem::replace(&mut self.is_loaded, true));
                self.nodes.extend(
                    snapshot.nodes.iter().map(|node| (node.path.to_string(), identity(node))),
                );
                self.events = 0;
            }
            CacheEvent::Created(node) => add(&mut self.nodes, &node, None),
            CacheEvent::Changed { old, new } => {
                assert_eq!(old.stat.czxid, new.stat.czxid);
                add(&mut self.nodes, &new, Some(identity(&old)));
            }
            CacheEvent::Replaced { old, new } => {
                assert!(old.stat.czxid < new.stat.czxid);
                add(&mut self.nodes, &new, Some(identity(&old)));
            }
            CacheEvent::Deleted(node) => {
                assert_eq!(self.nodes.remove(&*node.path), Some(identity(&node)));
            }
            CacheEvent::Stale { .. } => assert!(!std::mem::replace(&mut self.is_stale, true)),
            CacheEvent::Fresh { .. } => assert!(std::mem::take(&mut self.is_stale)),
            other => panic!("{other:?}"),
        }
    }

    async fn catch_up(&mut self, events: &mut CacheEvents, cache: &CuratorCache) {
        while self.nodes != contents(cache) || self.is_stale {
            self.take(events.next().await.unwrap());
        }
    }
}

/// Nodes come, change and go.
async fn disturb(zk: &CuratorFramework, random: &mut fastrand::Rng) {
    let (dir, name) = (random.u8(..3), random.u8(..4));
    let (parent, path) = (format!("/tree/{dir}"), format!("/tree/{dir}/{name}"));
    // Many are refused, for there is no such node or one already.
    match random.u8(..8) {
        0 => drop(zk.create(ROOT).await),
        1 | 2 => drop(zk.create(parent).await),
        3 => drop(zk.create(path).mode(CreateMode::Ephemeral).await),
        4 => drop(zk.create(path).creating_parents().await),
        5 => drop(zk.set_data(path, "x").await),
        6 => drop(zk.transaction().delete(path.clone()).create(path, "").commit().await),
        _ if random.u8(..4) == 0 => drop(zk.delete(parent).deleting_children().await),
        _ => drop(zk.delete(path).await),
    }
}

#[test]
fn a_slow_subscriber_gets_the_last_state_of_each_path() {
    simulated(async {
        for seed in 0..40 {
            let mut random = fastrand::Rng::with_seed(seed);
            let (server, zk) = in_memory().await;
            let other = connected(&server).await;
            let cache =
                CuratorCache::tree(&zk, ROOT).resync_spread(Duration::from_millis(100)).start();
            let (mut quick, mut slow) = (cache.events(), cache.events());
            let (mut by_quick, mut by_slow) = (Folded::default(), Folded::default());
            for _ in 0..30 {
                for _ in 0..random.u8(..10) {
                    disturb(&other, &mut random).await;
                }
                match random.u8(..12) {
                    0 => drop(server.disconnect(session_id(&zk).get())),
                    // It may be over already, as the session that has ended.
                    1 => drop(server.expire(session_id(&zk).get()).await),
                    2 => {
                        let away = cut_off(&server, &zk);
                        for _ in 0..10 {
                            disturb(&other, &mut random).await;
                        }
                        spend(Duration::from_millis(random.u64(..50))).await;
                        drop(away);
                    }
                    _ => {
                        // The contents that are available immediately.
                        while let Some(event) =
                            zk_curator_tests::poll_then_drop(quick.next(), 2).await
                        {
                            by_quick.take(event.unwrap());
                        }
                    }
                }
                spend(Duration::from_millis(random.u64(..20))).await;
                zk.wait_connected().await.unwrap();
            }
            assert_same(&cache, &server).await;
            by_quick.catch_up(&mut quick, &cache).await;
            by_slow.catch_up(&mut slow, &cache).await;
            // It has looked once: every path at most, and one outage.
            assert!(by_slow.is_loaded && by_slow.events <= 16 + 2, "{} events", by_slow.events);
        }
    });
}

#[test]
fn exact_equals_the_servers_tree_at_its_zxid() {
    simulated(async {
        let server = TestServer::builder().tcp(false).keep_writes(true).start().await.unwrap();
        let connector = server.connector();
        connector.set_latency(0, Duration::from_micros(100)..=Duration::from_millis(3), 1);
        let zk = start(builder(&server).connector(Arc::new(connector))).await;
        let other = connected(&server).await;
        let cache = loaded(&zk).await;
        let mut random = fastrand::Rng::with_seed(1);
        let mut snapshots = Vec::new();
        for _ in 0..60 {
            let writer = async {
                for _ in 0..random.u8(1..20) {
                    disturb(&other, &mut random).await;
                    spend(Duration::from_micros(random.u64(..8000))).await;
                }
            };
            let (snapshot, ()) = tokio::join!(cache.exact(Duration::from_secs(1)), writer);
            snapshots.push(snapshot.unwrap().expect("there are quiet moments"));
        }
        let writes = server.writes();
        let mut found = 0;
        for snapshot in &snapshots {
            let mut there = Nodes::new();
            for write in writes.iter().take_while(|write| write.zxid <= snapshot.zxid) {
                if !write.path.starts_with(ROOT) {
                    continue;
                }
                match write.kind {
                    zk_curator_testing::WriteKind::Deleted => drop(there.remove(&write.path)),
                    _ => drop(there.insert(write.path.clone(), (write.czxid, write.zxid))),
                }
            }
            let nodes: Nodes =
                snapshot.nodes.iter().map(|node| (node.path.to_string(), identity(node))).collect();
            assert_eq!(nodes, there, "at {}", snapshot.zxid);
            found += nodes.len();
        }
        assert!(found > snapshots.len(), "the trees are empty");
    });
}

/// Writes to different nodes without a pause leave no moment in which nothing is being read.
#[test]
fn a_cache_is_fresh_while_others_never_stop_writing() {
    simulated(async {
        for has_persistent_watches in [true, false] {
            let server = TestServer::builder().tcp(false).start().await.unwrap();
            let _before_3_6 =
                (!has_persistent_watches).then(|| without_persistent_watches(&server));
            let (zk, other) = (distant(&server).await, connected(&server).await);
            for n in 0..100 {
                create(&other, &format!("/tree/n-{n}"), "0").await;
            }
            let writer = async {
                for n in 0_u64.. {
                    other.set_data(format!("/tree/n-{}", n % 100), n.to_string()).await.unwrap();
                    spend(Duration::from_micros(100)).await;
                }
            };
            let follower = async {
                let cache = loaded(&zk).await;
                for n in 0..10 {
                    let stat = zk.set_data("/tree", n.to_string()).await.unwrap();
                    cache.reflects(stat.mzxid).await.unwrap();
                    assert_eq!(data(&cache, ROOT), n.to_string());
                    let stat = other.set_data("/tree", "other").await.unwrap();
                    assert!(cache.synced().await.unwrap() >= stat.mzxid);
                    assert_eq!(data(&cache, ROOT), "other");
                }
                // It did not come to rest.
                assert!(cache.exact(Duration::from_millis(100)).await.unwrap().is_none());
                let away = cut_off(&server, &zk);
                let mut freshness = cache.freshness_changes();
                while freshness.next().await.unwrap().is_fresh() {}
                drop(away);
                while !freshness.next().await.unwrap().is_fresh() {}
            };
            let end = timeout(Duration::from_secs(60), async {
                tokio::select! {
                    biased;
                    () = follower => {}
                    () = writer => {}
                }
            });
            end.await.expect("it is never fresh");
        }
    });
}

/// A framework that knows one server of a cluster.
pub(crate) async fn on_member(cluster: &TestCluster, member: usize) -> CuratorFramework {
    let servers = cluster.connect_string();
    start(
        CuratorFramework::builder()
            .connect_string(servers.split(',').nth(member).unwrap())
            .session_timeout(SESSION_TIMEOUT)
            .connection_timeout(CONNECTION_TIMEOUT)
            .connector(Arc::new(cluster.connector())),
    )
    .await
}

#[test]
fn reflects_own_write_on_a_lagging_follower() {
    simulated_on(cluster_of_three, async |cluster| {
        let leader = cluster.leader().unwrap();
        let follower = (leader + 1) % 3;
        let (zk, other) = (on_member(&cluster, follower).await, on_member(&cluster, leader).await);
        create(&other, "/tree/a", "0").await;
        zk.sync("/").await.unwrap();
        let cache = loaded(&zk).await;
        assert_eq!(data(&cache, "/tree/a"), "0");
        let _late = cluster.lag_by(follower, Duration::from_secs(1));
        for n in 1..4 {
            // Through the same session, and through a session on another server, which is ahead.
            let stat = zk.set_data("/tree/a", format!("{n}")).await.unwrap();
            cache.reflects(stat.mzxid).await.unwrap();
            assert_eq!(data(&cache, "/tree/a"), format!("{n}"));
            let stat = other.set_data("/tree/a", format!("{n}+")).await.unwrap();
            assert_eq!(data(&cache, "/tree/a"), format!("{n}"), "the follower does not lag");
            cache.reflects(stat.mzxid).await.unwrap();
            assert_eq!(data(&cache, "/tree/a"), format!("{n}+"));
        }
    });
}

#[test]
fn synced_sees_the_state_of_earlier_responses() {
    simulated_on(cluster_of_three, async |cluster| {
        let leader = cluster.leader().unwrap();
        let follower = (leader + 1) % 3;
        let (zk, other) = (on_member(&cluster, follower).await, on_member(&cluster, leader).await);
        create(&other, "/tree/a", "0").await;
        let cache = loaded(&zk).await;
        let _late = cluster.lag_by(follower, Duration::from_secs(1));
        for n in 1..10 {
            let stat = other.set_data("/tree/a", n.to_string()).await.unwrap();
            assert!(cache.synced().await.unwrap() >= stat.mzxid);
            assert_eq!(data(&cache, "/tree/a"), n.to_string());
        }
    });
}

/// The next session may begin at a server that is behind the last one.
#[test]
fn no_path_goes_back_in_a_session_on_a_lagging_server() {
    simulated_on(cluster_of_three, async |cluster| {
        let leader = cluster.leader().unwrap();
        let other = on_member(&cluster, leader).await;
        create(&other, "/tree/a", "0").await;
        let zk = start(
            CuratorFramework::builder()
                .connect_string(cluster.connect_string())
                .session_timeout(SESSION_TIMEOUT)
                .connector(Arc::new(cluster.connector())),
        )
        .await;
        let cache = loaded(&zk).await;
        let mut changes = cache.events_from_now();
        let mut folded = Folded { nodes: contents(&cache), is_loaded: true, ..Folded::default() };
        for n in 1..12 {
            let stat = other.set_data("/tree/a", n.to_string()).await.unwrap();
            cache.reflects(stat.mzxid).await.unwrap();
            let lags: Vec<_> =
                (0..3).filter(|member| *member != leader).map(|m| cluster.lag(m)).collect();
            cluster.expire(session_id(&zk).get());
            other.set_data("/tree/a", "later").await.unwrap();
            let caught_up = async {
                spend(Duration::from_secs(1)).await;
                drop(lags);
            };
            let (shown, ()) = tokio::join!(cache.synced(), caught_up);
            shown.unwrap();
            assert_eq!(data(&cache, "/tree/a"), "later");
            folded.catch_up(&mut changes, &cache).await;
        }
    });
}

/// A cache at one of two followers, and the other follower, which is not up to date.
struct Behind {
    other: CuratorFramework,
    zk: CuratorFramework,
    cache: CuratorCache,
    attached: usize,
    behind: usize,
}

async fn one_behind(cluster: &TestCluster, read_only: bool) -> Behind {
    let leader = cluster.leader().unwrap();
    let (first, second) = ((leader + 1) % 3, (leader + 2) % 3);
    let other = on_member(cluster, leader).await;
    create(&other, "/tree/a", "0").await;
    other.sync("/").await.unwrap();
    let servers = [first, second].map(|member| cluster.member(member).connect_string());
    let zk = start(
        CuratorFramework::builder()
            .connect_string(servers.join(","))
            .session_timeout(SESSION_TIMEOUT)
            .connector(Arc::new(cluster.connector()))
            .read_only(read_only),
    )
    .await;
    let cache = loaded(&zk).await;
    let attached = cluster.attached_to(session_id(&zk).get()).unwrap();
    let behind = first + second - attached;
    // The follower has seen more than the last response to the cache, so that something may have
    // been missed, and less than the next event.
    create(&other, "/elsewhere", "0").await;
    on_member(cluster, behind).await.sync("/").await.unwrap();
    Behind { other, zk, cache, attached, behind }
}

/// An event is not a response: a reconnect does not require a server that has the reported change.
#[test]
fn no_path_goes_back_on_a_lagging_server_of_the_same_session() {
    simulated_on(cluster_of_three, async |cluster| {
        let Behind { other, zk, cache, attached, behind } = one_behind(&cluster, false).await;
        let mut changes = cache.events_from_now();
        let lag = cluster.lag(behind);
        other.delete("/tree/a").await.unwrap();
        assert_eq!(next(&mut changes, 1).await, ["-/tree/a"]);
        cluster.kill(attached).await;
        assert_eq!(next(&mut changes, 1).await, ["stale"]);
        let caught_up = async {
            cluster.until(|_| cluster.attached_to(session_id(&zk).get()) == Some(behind)).await;
            // Long enough for reads, if there were any.
            idle(Duration::from_secs(1)).await;
            assert!(!cache.get("/tree/a").is_present());
            drop(lag);
        };
        let (told, ()) = tokio::join!(next(&mut changes, 1), caught_up);
        assert_eq!(told, ["fresh"]);
        assert!(cache.get("/tree/a").is_absent());
    });
}

/// A server without a quorum serves clients that allow read-only mode.
#[test]
fn no_path_goes_back_on_a_read_only_server() {
    simulated(async {
        let cluster = TestCluster::builder(3).tcp(false).read_only(true).start().await.unwrap();
        let Behind { other, zk, cache, attached, behind } = one_behind(&cluster, true).await;
        let mut changes = cache.events_from_now();
        cluster.partition(&[&[behind]]);
        other.delete("/tree/a").await.unwrap();
        assert_eq!(next(&mut changes, 1).await, ["-/tree/a"]);
        cluster.kill(attached).await;
        assert_eq!(next(&mut changes, 1).await, ["stale"]);
        zk.states().until(|status| status.state == ConnectionState::ReadOnly).await.unwrap();
        let told = timeout(SESSION_TIMEOUT, next(&mut changes, 1)).await;
        assert!(told.is_err(), "{told:?}");
        assert!(!cache.get("/tree/a").is_present());
        cluster.heal();
        assert_eq!(next(&mut changes, 1).await, ["fresh"]);
        assert!(cache.get("/tree/a").is_absent());
    });
}

#[test]
fn a_filter_that_panics_ends_the_cache() {
    simulated_with(async |_server, zk| {
        create(&zk, "/tree/a", "1").await;
        let filter =
            |path: &str| if path.ends_with("/bug") { panic!("a bug of the filter") } else { true };
        let cache = CuratorCache::tree(&zk, ROOT).filter(filter).start();
        cache.loaded().await.unwrap();
        let mut events = cache.events_from_now();
        create(&zk, "/tree/bug", "1").await;
        while events.next().await.is_some() {}
        assert!(!cache.freshness().is_fresh());
        assert!(cache.synced().await.is_err());
        cache.close().await;
    });
}
