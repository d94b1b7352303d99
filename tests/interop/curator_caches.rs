//! Java Curator's `CuratorCache` and ours on one tree, while nodes come and go and servers are
//! killed; and that one request of many reads shows one state of a server.

use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::timeout;
use zk_curator::{CreateMode, CuratorFramework};
use zk_curator_real::{self as real, RealZooKeeper, java};
use zk_curator_recipes::cache::CuratorCache;
use zk_curator_testing::wait;
use zk_curator_tests::{Server, builder_for, on_each_server, start};

use crate::contest::compiled;
use crate::peer::Peer;

const ROOT: &str = "/tree";
/// The time for the program to catch up.
const PATIENCE: Duration = Duration::from_secs(30);
/// The time for one response of the Java program.
const ANSWER: Duration = Duration::from_secs(60);

fn dump(cache: &CuratorCache) -> String {
    let mut nodes = cache.read(|view| {
        let text = |node: &std::sync::Arc<zk_curator_recipes::cache::CachedNode>| {
            let (stat, data) = (&node.stat, String::from_utf8_lossy(&node.data));
            format!("{}={}/{}/{data}", node.path, stat.czxid, stat.mzxid)
        };
        view.nodes().map(text).collect::<Vec<_>>()
    });
    nodes.sort();
    nodes.join(" ")
}

async fn connected(connect_string: &str) -> CuratorFramework {
    start(builder_for(connect_string)).await
}

/// Nodes come, change and go. Some writes are refused, or have no response.
async fn disturb(zk: &CuratorFramework, random: &mut fastrand::Rng, writes: usize) {
    for _ in 0..writes {
        let (dir, name) = (random.u8(..5), random.u8(..8));
        let (parent, path) = (format!("/tree/{dir}"), format!("/tree/{dir}/{name}"));
        let value = random.u16(..).to_string();
        match random.u8(..8) {
            0 | 1 => drop(zk.create(path).creating_parents().data(value).await),
            2 => drop(zk.create(path).mode(CreateMode::Ephemeral).data(value).await),
            3 | 4 => drop(zk.set_data(path, value).await),
            5 => drop(zk.transaction().delete(path.clone()).create(path, value).commit().await),
            6 if random.u8(..4) == 0 => drop(zk.delete(parent).deleting_children().await),
            _ => drop(zk.delete(path).await),
        }
    }
}

/// Both caches end with the contents of the server.
async fn assert_equal(java: &mut Peer, cache: &CuratorCache, zk: &CuratorFramework) {
    cache.synced().await.unwrap();
    let ours = dump(cache);
    assert!(ours.matches('=').count() > 3, "{ours}");
    for node in cache.read(|view| view.nodes().cloned().collect::<Vec<_>>()) {
        let (data, stat) = zk.get_data(&*node.path).with_stat().await.unwrap();
        assert_eq!(
            (data, stat.czxid, stat.mzxid),
            (node.data.clone(), node.stat.czxid, node.stat.mzxid)
        );
    }
    let java = Mutex::new(java);
    let same = wait::until(async || java.lock().await.tell("dump").await == ours);
    if timeout(PATIENCE, same).await.is_err() {
        panic!("Curator: {}\nours: {ours}", java.lock().await.tell("dump").await);
    }
}

/// A tree that changes during and after its loading.
async fn on_one_server(connect_string: &str) {
    let program = compiled("CuratorTree.java").await;
    let other = connected(connect_string).await;
    let mut random = fastrand::Rng::with_seed(1);
    other.create(ROOT).await.unwrap();
    for n in 0..5 {
        other.create(format!("/tree/{n}/0")).creating_parents().data("first").await.unwrap();
    }
    let mut java = Peer::java(&program, [connect_string, ROOT], ANSWER);
    let zk = connected(connect_string).await;
    let cache = CuratorCache::tree(&zk, ROOT).start();
    disturb(&other, &mut random, 200).await;
    assert_eq!(java.tell("load").await, "ok");
    cache.loaded().await.unwrap();
    for _ in 0..5 {
        disturb(&other, &mut random, 200).await;
        other.create("/tree/0/kept").creating_parents().idempotent().await.unwrap();
        assert_equal(&mut java, &cache, &other).await;
    }
    cache.close().await;
    java.end().await;
    for zk in [zk, other] {
        zk.close().await.unwrap();
    }
}

/// All of them in one response would need more than the server has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: scripts/test-all"]
async fn a_load_of_large_nodes_does_not_kill_a_small_server() {
    const NODES: usize = 300;
    const SIZE: usize = 900_000;
    let builder = RealZooKeeper::builder().jvm_option("-Xmx1g");
    let name = "a_load_of_large_nodes_does_not_kill_a_small_server";
    let Some(server) = real::or_skip_with(name, builder).await else { return };
    let zk = connected(&server.connect_string()).await;
    zk.create("/tree/small").creating_parents().await.unwrap();
    for n in 0..NODES {
        zk.create(format!("/tree/{n}")).data(vec![0; SIZE]).idempotent().await.unwrap();
    }
    let cache = CuratorCache::tree(&zk, "/tree").without_data().start();
    let loaded = timeout(Duration::from_secs(120), cache.loaded()).await.unwrap().unwrap();
    assert_eq!((loaded.nodes, loaded.unreadable), (NODES + 2, 0));
    zk.set_data("/tree/small", "the server is alive").await.unwrap();
    cache.close().await;
    zk.close().await.unwrap();
}

on_each_with_java! {
    caches_end_as_curators_do,
    |servers| on_one_server(&servers).await
}

/// Followers are killed, and with them the connections of the caches, while other clients write.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: scripts/test-all"]
async fn on_apache_zookeeper_caches_outlive_their_servers() {
    let name = "on_apache_zookeeper_caches_outlive_their_servers";
    if !real::runs(name, java::available()) {
        return;
    }
    let Some(mut ensemble) = real::or_skip_ensemble(name, 3).await else { return };
    let program = compiled("CuratorTree.java").await;
    let servers: Vec<_> = ensemble.servers().iter().map(RealZooKeeper::connect_string).collect();
    let mut random = fastrand::Rng::with_seed(2);
    let leader = ensemble.leader().await.unwrap();
    let other = connected(&servers[leader]).await;
    other.create("/tree/0/kept").creating_parents().await.unwrap();
    let all = ensemble.connect_string();
    let mut java = Peer::java(&program, [&all, ROOT], ANSWER);
    let zk = connected(&all).await;
    let cache = CuratorCache::tree(&zk, ROOT).start();
    cache.loaded().await.unwrap();
    assert_eq!(java.tell("load").await, "ok");
    for follower in (0..3).filter(|server| *server != leader) {
        disturb(&other, &mut random, 50).await;
        ensemble.kill(follower).await.unwrap();
        disturb(&other, &mut random, 50).await;
        ensemble.restart(follower).await.unwrap();
        disturb(&other, &mut random, 50).await;
        other.create("/tree/0/kept").creating_parents().idempotent().await.unwrap();
        other.set_data("/tree/0/kept", follower.to_string()).await.unwrap();
        cache.synced().await.unwrap();
        let ours = dump(&cache);
        for node in cache.read(|view| view.nodes().cloned().collect::<Vec<_>>()) {
            let (data, stat) = other.get_data(&*node.path).with_stat().await.unwrap();
            assert_eq!((data, stat.mzxid), (node.data.clone(), node.stat.mzxid), "{ours}");
        }
    }
    // Curator takes a node with the same version for the same node; a change of every node shows
    // it.
    for node in cache.read(|view| view.nodes().cloned().collect::<Vec<_>>()) {
        other.set_data(&*node.path, "last").await.unwrap();
    }
    assert_equal(&mut java, &cache, &other).await;
    java.end().await;
    for zk in [zk, other] {
        zk.close().await.unwrap();
    }
}

on_each_server! {
    one_request_of_many_reads_shows_one_state
}

async fn one_request_of_many_reads_shows_one_state(server: Server) {
    let (zk, other) = (server.connected().await, server.connected().await);
    pairs(&zk, &other).await;
}

/// Pairs are written in transactions while they are read.
async fn pairs(zk: &CuratorFramework, other: &CuratorFramework) {
    const PAIRS: usize = 50;
    let halves = || (0..PAIRS).map(|pair| [format!("/pairs/{pair}-a"), format!("/pairs/{pair}-b")]);
    for path in halves().flatten() {
        other.create(path).creating_parents().data("0").await.unwrap();
    }
    zk.sync("/").await.unwrap();
    let writer = async {
        for round in 1..=20 {
            for [first, second] in halves() {
                let value = round.to_string();
                let transaction = other.transaction().set_data(first, value.clone());
                transaction.set_data(second, value).commit().await.unwrap();
            }
        }
    };
    let reader = async {
        let mut states = std::collections::BTreeSet::new();
        loop {
            let mut read = zk.multi_read();
            // All first halves before all second ones: between them there would be time for a
            // write.
            for path in halves().map(|[first, _]| first).chain(halves().map(|[_, second]| second)) {
                read = read.get_data(path);
            }
            let answers: Vec<_> = read
                .await
                .unwrap()
                .into_iter()
                .map(|read| read.unwrap().into_data().unwrap().0)
                .collect();
            let (first, second) = answers.split_at(PAIRS);
            assert_eq!(first, second);
            let is_last = first.iter().all(|value| value == "20");
            states.insert(answers.iter().map(|value| value.to_vec()).collect::<Vec<_>>());
            if is_last {
                return states.len();
            }
        }
    };
    let (states, ()) = tokio::join!(reader, writer);
    assert!(states > 10, "only {states} states were seen");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: scripts/test-all"]
async fn on_apache_zookeeper_a_follower_reads_from_one_state() {
    let name = "on_apache_zookeeper_a_follower_reads_from_one_state";
    let Some(ensemble) = real::or_skip_ensemble(name, 3).await else { return };
    let leader = ensemble.leader().await.unwrap();
    let servers: Vec<_> = ensemble.servers().iter().map(RealZooKeeper::connect_string).collect();
    let (zk, other) =
        (connected(&servers[(leader + 1) % 3]).await, connected(&servers[leader]).await);
    pairs(&zk, &other).await;
}
