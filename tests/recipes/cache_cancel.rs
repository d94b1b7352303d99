//! Futures of a cache, dropped at every point, and caches dropped during their load: nothing stays
//! on the server, and a cache with a handle continues.

use std::time::Duration;

use zk_curator::CuratorFramework;
use zk_curator_recipes::cache::CuratorCache;
use zk_curator_testing::TestServer;
use zk_curator_testing::wait::{idle, settled};
use zk_curator_tests::{connected, in_memory, simulated_drops, simulated_each_on, until};

use crate::cache::{ROOT, assert_same, create, loaded};
use crate::cache_cost::distant;

/// A tree, a cache of it, and another client.
struct Stage {
    server: TestServer,
    zk: CuratorFramework,
    other: CuratorFramework,
    cache: CuratorCache,
    /// The transaction of the last write.
    zxid: i64,
}

/// A cache that has begun to load, or is loaded, and a write that it may not show yet.
async fn stage(is_loaded: bool) -> Stage {
    let server = TestServer::in_memory().await;
    let (zk, other) = (distant(&server).await, connected(&server).await);
    create(&other, "/tree/a/b", "1").await;
    let cache = if is_loaded { loaded(&zk).await } else { CuratorCache::tree(&zk, ROOT).start() };
    let zxid = other.set_data("/tree/a/b", "2").await.unwrap().mzxid;
    Stage { server, zk, other, cache, zxid }
}

async fn leaves_nothing(server: &TestServer, clients: [CuratorFramework; 2], cache: CuratorCache) {
    drop(cache);
    until(server, |probe| probe.watches().is_empty()).await;
    for zk in clients {
        zk.close().await.unwrap();
    }
    assert!(server.probe().sessions().is_empty());
}

/// The cache continues, and leaves nothing.
async fn goes_on(stage: Stage) {
    let Stage { server, zk, other, cache, .. } = stage;
    create(&other, "/tree/later", "1").await;
    assert_same(&cache, &server).await;
    leaves_nothing(&server, [zk, other], cache).await;
}

/// Drops the future of `wait` at every step, and checks its result if it completed.
fn dropped<T>(
    more_than: usize,
    is_loaded: bool,
    wait: impl AsyncFn(&Stage) -> T,
    look: impl AsyncFn(&Stage, T),
) {
    simulated_drops(
        more_than,
        async || stage(is_loaded).await,
        async |stage| wait(stage).await,
        async |stage, output| {
            if let Some(output) = output {
                look(&stage, output).await;
            }
            goes_on(stage).await;
        },
    );
}

#[test]
fn waits_for_the_load() {
    dropped(
        2,
        false,
        async |stage| stage.cache.loaded().await,
        async |_, loaded| {
            assert_eq!(loaded.unwrap().nodes, 3);
        },
    );
}

#[test]
fn barriers() {
    for is_loaded in [false, true] {
        dropped(
            2,
            is_loaded,
            async |stage| stage.cache.synced().await,
            async |stage, shown| {
                assert!(shown.unwrap() >= stage.zxid);
                assert_eq!(stage.cache.get("/tree/a/b").present().unwrap().data, "2");
            },
        );
    }
}

#[test]
fn waits_for_a_transaction() {
    for is_loaded in [false, true] {
        dropped(
            2,
            is_loaded,
            async |stage| stage.cache.reflects(stage.zxid).await,
            async |stage, shown| {
                shown.unwrap();
                assert_eq!(stage.cache.get("/tree/a/b").present().unwrap().data, "2");
            },
        );
    }
}

#[test]
fn waits_for_a_condition() {
    for is_loaded in [false, true] {
        dropped(
            2,
            is_loaded,
            async |stage| {
                let later = async {
                    settled().await;
                    create(&stage.other, "/tree/awaited", "1").await;
                };
                let found =
                    stage.cache.wait_for(|view| view.get("/tree/awaited").present().cloned());
                let (found, ()) = tokio::join!(found, later);
                found.unwrap()
            },
            async |_, found| assert_eq!(found.data, "1"),
        );
    }
}

#[test]
fn exact_states() {
    for is_loaded in [false, true] {
        dropped(
            1,
            is_loaded,
            async |stage| stage.cache.exact(Duration::from_secs(10)).await,
            async |_, snapshot| assert_eq!(snapshot.unwrap().unwrap().nodes.len(), 3),
        );
    }
}

#[test]
fn events_are_not_lost_with_the_wait_for_them() {
    let cases = 0..12;
    let setup = async || stage(true).await;
    simulated_each_on(cases, setup, async |step, stage| {
        let mut changes = stage.cache.events_from_now();
        stage.cache.synced().await.unwrap();
        for n in 0..4 {
            let write = create(&stage.other, "/tree/new", "1");
            let (told, ()) =
                tokio::join!(zk_curator_tests::poll_then_drop(changes.next(), step), write);
            let told = match told {
                Some(told) => told,
                None => changes.next().await,
            };
            let told = crate::cache::short(&told.unwrap());
            // The write before the subscription may be reported first.
            let told = match told.as_str() {
                "=/tree/a/b" => crate::cache::next(&mut changes, 1).await.remove(0),
                _ => told,
            };
            assert_eq!(told, "+/tree/new", "step {step}, round {n}");
            stage.other.delete("/tree/new").await.unwrap();
            assert_eq!(crate::cache::next(&mut changes, 1).await, ["-/tree/new"]);
        }
        drop(changes);
        goes_on(stage).await;
    });
}

#[test]
fn a_close_that_is_given_up_has_begun() {
    simulated_drops(
        2,
        async || stage(true).await,
        async |stage| stage.cache.clone().close().await,
        async |stage, closed| {
            let Stage { server, zk, other, cache, .. } = stage;
            if closed.is_some() {
                assert!(server.probe().watches().is_empty(), "{}", server.probe());
                assert!(cache.synced().await.is_err());
                assert!(cache.get("/tree/a/b").is_present(), "the contents stay");
            }
            leaves_nothing(&server, [zk, other], cache).await;
        },
    );
}

/// The cache itself is dropped with the future.
#[test]
fn a_cache_that_is_dropped_during_its_load_leaves_nothing() {
    simulated_drops(
        4,
        async || {
            let (server, zk) = in_memory().await;
            for n in 0..3 {
                create(&zk, &format!("/tree/{n}/{n}"), "1").await;
            }
            (server, zk)
        },
        async |(_, zk)| {
            let cache = CuratorCache::tree(zk, ROOT).start();
            cache.loaded().await.unwrap();
            zk.set_data("/tree/1", "2").await.unwrap();
            cache.synced().await.unwrap();
            cache.get("/tree/1").present().unwrap().data.clone()
        },
        async |(server, zk), data| {
            assert!(data.is_none_or(|data| data == "2"));
            // Everything that was under way is over when this has its response.
            zk.exists(ROOT).await.unwrap();
            until(&server, |probe| probe.watches().is_empty()).await;
            let before = server.probe().requests(zk_curator_proto::OpCode::MultiRead);
            zk.set_data("/tree/1", "3").await.unwrap();
            idle(Duration::from_secs(60)).await;
            assert_eq!(server.probe().requests(zk_curator_proto::OpCode::MultiRead), before);
            assert!(server.probe().watches().is_empty());
            zk.close().await.unwrap();
            assert!(server.probe().sessions().is_empty());
        },
    );
}
