//! Caches: the number of requests of a load, an outage and a change.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::Instant;
use zk_curator::op::fan_out;
use zk_curator::{CuratorFramework, ErrorKind};
use zk_curator_proto::{ErrorCode, OpCode};
use zk_curator_recipes::cache::{CuratorCache, Freshness, Lookup};
use zk_curator_testing::wait::{idle, past, spend};
use zk_curator_testing::{TestServer, Verdict};
use zk_curator_tests::{
    always, builder, connected, cut_off, join_all, session_id, simulated_on, simulated_with, size,
    start, two_in_memory,
};

use crate::cache::{ROOT, assert_same, create, loaded};

pub(crate) const ONE_WAY: Duration = Duration::from_millis(1);

/// Requests but for the ones that keep a session.
fn requests(server: &TestServer) -> u64 {
    let probe = server.probe();
    let kept = [OpCode::Ping, OpCode::SetWatches, OpCode::SetWatches2];
    probe.total_requests() - kept.iter().map(|kind| probe.requests(*kind)).sum::<u64>()
}

/// Creates children of nodes that exist.
async fn fill(zk: &CuratorFramework, paths: impl IntoIterator<Item = String>, value: &str) {
    let paths: Vec<_> = paths.into_iter().collect();
    for paths in paths.chunks(500) {
        let mut transaction = zk.transaction();
        for path in paths {
            transaction = transaction.create(path.clone(), value.to_owned());
        }
        transaction.commit().await.unwrap();
    }
}

/// A tree of directories with this many nodes each.
async fn fill_dirs(zk: &CuratorFramework, dirs: usize, nodes: usize) {
    zk.create(ROOT).await.unwrap();
    fill(zk, (0..dirs).map(|dir| format!("/tree/{dir}")), "").await;
    let value = "x".repeat(100);
    fill(zk, (0..dirs).flat_map(|dir| (0..nodes).map(move |n| format!("/tree/{dir}/{n}"))), &value)
        .await;
}

async fn until_fresh(cache: &CuratorCache, is_fresh: bool) {
    let mut freshness = cache.freshness_changes();
    while freshness.next().await.unwrap().is_fresh() != is_fresh {}
}

#[test]
fn ten_changes_among_many_nodes() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        let dirs = size(40, 100);
        fill_dirs(&other, dirs, 500).await;
        let cache = loaded(&zk).await;
        assert_eq!(cache.len(), dirs * 501 + 1);
        let guard = cut_off(&server, &zk);
        until_fresh(&cache, false).await;
        for n in 0..5 {
            other.set_data(format!("/tree/{n}/{n}"), "changed").await.unwrap();
        }
        for n in 5..8 {
            other.delete(format!("/tree/{n}/{n}")).await.unwrap();
        }
        for n in 8..10 {
            other.create(format!("/tree/{n}/new")).await.unwrap();
        }
        let before = requests(&server);
        drop(guard);
        until_fresh(&cache, true).await;
        let cost = requests(&server) - before;
        let dirs = dirs as u64;
        assert!((dirs / 2..=dirs + 10).contains(&cost), "{cost} requests");
        assert_same(&cache, &server).await;
    });
}

#[test]
fn the_requests_of_a_load_grow_with_the_nodes_and_no_faster() {
    simulated_with(async |server, zk| {
        let mut costs = Vec::new();
        zk.create(ROOT).await.unwrap();
        for thousands in 1..=8 {
            let paths = (0..1000).map(|n| format!("/tree/{}-{n}", thousands * 1000));
            fill(&zk, paths, &"x".repeat(100)).await;
            let before = requests(&server);
            drop(loaded(&zk).await);
            costs.push(requests(&server) - before);
        }
        let growth: Vec<_> = costs.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(costs[0] <= 6 && growth.iter().all(|more| *more <= 1), "{costs:?}");
    });
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn children_are_loaded_400_at_a_time() {
    let count = size(50_000, 200_000);
    simulated_with(async |server, zk| {
        zk.create(ROOT).await.unwrap();
        fill(&zk, (0..count).map(|n| format!("/tree/n-{n}")), "x").await;
        let before = requests(&server);
        let cache = loaded(&zk).await;
        let cost = requests(&server) - before;
        assert_eq!((cache.len(), cache.unreadable().len()), (count + 1, 0));
        assert!(cost <= count as u64 / 400 + 4, "{cost} requests");
        let (last, next) = (format!("/tree/n-{}", count - 1), format!("/tree/n-{count}"));
        assert!(cache.get(&last).is_present() && cache.get(&next).is_absent());
    });
}

#[test]
fn a_list_over_the_limit_is_named_and_the_rest_loads() {
    simulated_on(TestServer::in_memory, async |server| {
        let other = connected(&server).await;
        for path in ["/tree/few/a", "/tree/many"] {
            create(&other, path, "1").await;
        }
        fill(&other, (0..1000).map(|n| format!("/tree/many/a-long-name-{n}")), "").await;
        let zk = start(builder(&server).max_frame(8000).max_response(8000)).await;
        let cache = CuratorCache::tree(&zk, ROOT).start();
        let told = cache.loaded().await.unwrap();
        assert_eq!((told.nodes, told.unreadable), (4, 1));
        let too_large = [("/tree/many".to_owned(), ErrorKind::ResponseTooLarge)];
        let check = |version: i32| {
            assert_eq!(cache.unreadable(), too_large);
            assert_eq!(cache.get("/tree/many").present().unwrap().stat.version, version);
            assert_eq!(cache.get("/tree/many/a-long-name-1"), Lookup::Unknown);
            assert!(cache.get("/tree/few/a").is_present() && cache.get("/tree/few/b").is_absent());
        };
        check(0);
        // A change of the node alone does not make the list known.
        other.set_data("/tree/many", "2").await.unwrap();
        cache.synced().await.unwrap();
        check(1);
        // A child that is reported is known.
        other.set_data("/tree/many/a-long-name-0", "2").await.unwrap();
        cache.synced().await.unwrap();
        assert!(cache.get("/tree/many/a-long-name-0").is_present());
        check(1);
        // The list is tried again after a change, and has become short.
        let deletions = (10..1000).map(|n| other.delete(format!("/tree/many/a-long-name-{n}")));
        assert!(fan_out(64, deletions).await.iter().all(Result::is_ok));
        other.set_data("/tree/many", "3").await.unwrap();
        cache.synced().await.unwrap();
        assert!(cache.unreadable().is_empty());
        assert_same(&cache, &server).await;
    });
}

/// A framework that is 1 ms away.
pub(crate) async fn distant(server: &TestServer) -> CuratorFramework {
    let connector = server.connector();
    connector.set_latency(0, ONE_WAY..=ONE_WAY, 0);
    start(builder(server).connector(Arc::new(connector))).await
}

#[test]
fn a_burst_on_one_node_costs_few_reads() {
    simulated_with(async |server, other| {
        let zk = distant(&server).await;
        create(&other, "/tree/a", "0").await;
        let cache = loaded(&zk).await;
        let (before, began) = (server.probe().requests(OpCode::MultiRead), Instant::now());
        for n in 1..=1000 {
            other.set_data("/tree/a", n.to_string()).await.unwrap();
            spend(Duration::from_micros(100)).await;
        }
        let stat = other.exists("/tree/a").await.unwrap().unwrap();
        cache.reflects(stat.mzxid).await.unwrap();
        let reads = u128::from(server.probe().requests(OpCode::MultiRead) - before);
        let round_trips = began.elapsed().as_micros().div_ceil((2 * ONE_WAY).as_micros());
        assert!(
            (2..=1 + round_trips).contains(&reads),
            "{reads} reads in {round_trips} round_trips"
        );
        assert_same(&cache, &server).await;
    });
}

#[test]
fn own_writes_cost_one_read_each_and_reflects_costs_none() {
    simulated_with(async |server, zk| {
        create(&zk, "/tree/a", "0").await;
        let cache = loaded(&zk).await;
        let before = requests(&server);
        for n in 1..=50 {
            let stat = zk.set_data("/tree/a", n.to_string()).await.unwrap();
            cache.reflects(stat.mzxid).await.unwrap();
            assert_eq!(cache.get("/tree/a").present().unwrap().stat.mzxid, stat.mzxid);
        }
        assert_eq!(requests(&server) - before, 100);
        let before = requests(&server);
        idle(Duration::from_secs(3600)).await;
        assert_eq!(requests(&server), before, "an idle cache asks nothing");
    });
}

/// The requests of each session, and the time of its first.
type Asked = Arc<Mutex<BTreeMap<i64, (u64, Instant)>>>;

#[test]
fn many_clients_do_not_storm() {
    let clients = size(60, 200);
    simulated_on(TestServer::in_memory, async |server| {
        let other = connected(&server).await;
        fill_dirs(&other, 5, 100).await;
        let caches = join_all((0..clients).map(async |_| {
            let zk = connected(&server).await;
            let cache = CuratorCache::tree(&zk, ROOT).resync_spread(Duration::from_secs(2)).start();
            cache.loaded().await.unwrap();
            (zk, cache)
        }))
        .await;
        let writer = session_id(&other).get();
        for (changes, most) in [(false, 2), (true, 13)] {
            let asked = Asked::default();
            let count = server.rule({
                let asked = Arc::clone(&asked);
                move |request| {
                    let kept = matches!(
                        request.opcode(),
                        OpCode::Ping | OpCode::SetWatches | OpCode::SetWatches2
                    );
                    if !kept && request.session_id() != writer {
                        let mut asked = asked.lock().unwrap();
                        asked
                            .entry(request.session_id())
                            .or_insert_with(|| (0, Instant::now()))
                            .0 += 1;
                    }
                    Verdict::Pass
                }
            });
            if changes {
                // The others are disconnected.
                let away = server.rule(move |request| {
                    if request.session_id() == writer { Verdict::Pass } else { Verdict::Disconnect }
                });
                server.disconnect_all();
                other.wait_connected().await.unwrap();
                other.set_data("/tree/1/1", "changed").await.unwrap();
                drop(away);
            } else {
                server.disconnect_all();
            }
            join_all(caches.iter().map(async |(_, cache)| until_fresh(cache, false).await)).await;
            join_all(caches.iter().map(async |(_, cache)| until_fresh(cache, true).await)).await;
            drop(count);
            let asked = asked.lock().unwrap();
            let worst = asked.values().map(|(count, _)| *count).max().unwrap_or_default();
            assert!(worst <= most, "{worst} requests of one client");
            if changes {
                assert_eq!(asked.len(), clients);
                let times = || asked.values().map(|(_, first)| *first);
                let spread = times().max().unwrap() - times().min().unwrap();
                assert!(spread >= Duration::from_secs(1), "within {spread:?}");
            }
        }
        for (_, cache) in &caches {
            assert!(cache.get("/tree/1/1").present().unwrap().data == "changed");
        }
    });
}

#[test]
fn a_server_that_refuses_the_watch_is_not_pressed() {
    simulated_with(async |server, zk| {
        create(&zk, "/tree/a", "1").await;
        let mut errors = zk.background_errors();
        let refused = always(&server, OpCode::AddWatch, Verdict::Refuse(ErrorCode::NoAuth));
        let cache = CuratorCache::tree(&zk, ROOT).start();
        assert_eq!(cache.loaded().await.unwrap_err().kind(), ErrorKind::NoAuth);
        past(Duration::from_secs(3600)).await;
        let tried = refused.hits();
        assert!((110..=260).contains(&tried), "{tried} requests in an hour");
        assert_eq!(errors.next().await.map(|error| error.kind()), Some(ErrorKind::NoAuth));
        assert!(errors.next().now_or_never().is_none(), "it is reported once");
        assert_eq!(cache.freshness(), Freshness::Loading);
        assert_eq!(cache.get("/tree/a"), Lookup::Unknown);
        drop(refused);
        until_fresh(&cache, true).await;
        assert_same(&cache, &server).await;
    });
}
