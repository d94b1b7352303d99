//! Runs that are dropped at every step leave nothing behind.

use zk_curator_testing::wait::{past, spend};
use zk_curator_tests::{closes_clean, in_memory, simulated_drops, stopped_by};

use super::*;

#[test]
fn a_dropped_run_leaves_nothing() {
    for with_kazoo in [false, true] {
        simulated_drops(
            10,
            in_memory,
            async |(_, zk)| {
                let set = partitioner(zk, "a", 2).settle(SECOND);
                let set = if with_kazoo { set.with_kazoo() } else { set };
                let body = async |part: Partition| {
                    part.revoked().await;
                    Ok::<_, String>(())
                };
                stopped_by(spend(5 * SECOND), |stop| set.run(body).until(stop)).await.unwrap();
            },
            async |(server, zk), _| {
                zk.close().await.unwrap();
                let probe = server.probe();
                let is_parent = |path: &str| with_kazoo && !path.contains("__lock__");
                zk_curator_tests::assert_clean_but_for(&server, |probe, path| {
                    probe.is_container(path) || is_parent(path)
                });
                assert!(!probe.paths().iter().any(|path| path.ends_with("-a")), "{probe}");
            },
        );
    }
}

/// While another member owns the parts, and gives some up.
#[test]
fn a_dropped_run_gives_parts_back() {
    simulated_drops(
        10,
        async || {
            let stage = Stage::new().await;
            let other = stage.join("b", 4, SECOND).await;
            stage.until(&["b"], 4).await;
            let zk = connected(&stage.server).await;
            (stage, other, zk)
        },
        async |(stage, _, zk)| {
            let set = partitioner(zk, "a", 4);
            let body = async |part: Partition| {
                let at_work = AtWork::begin(&stage.board, "a", &part);
                part.revoked().await;
                drop(at_work);
                Ok::<_, String>(())
            };
            stopped_by(spend(15 * SECOND), |stop| set.run(body).until(stop)).await.unwrap();
        },
        async |(stage, other, zk), _| {
            past(SETTLED).await;
            stage.until(&["b"], 4).await;
            let theirs = other.zk.clone();
            other.stop().await;
            zk.close().await.unwrap();
            closes_clean(&stage.server, &theirs).await;
        },
    );
}

#[test]
fn dropped_changes_of_a_shared_list_leave_a_list() {
    simulated_drops(
        3,
        in_memory,
        async |(_, zk)| {
            let set = partitioner(zk, "a", 2).shared_parts();
            set.set_parts(names(3)).await.unwrap();
            set.set_parts(names(4)).await.unwrap();
            set.view().await.unwrap()
        },
        async |(server, zk), view| {
            if let Some(view) = view {
                assert_eq!(view.parts.len(), 4);
            }
            let list = format!("{PATH}/list");
            if zk.exists(&list).await.unwrap().is_some() {
                let parts = partitioner(&zk, "b", 0).shared_parts().view().await.unwrap().parts;
                assert!((3..=4).contains(&parts.len()));
                zk.delete(list).await.unwrap();
            }
            closes_clean(&server, &zk).await;
        },
    );
}
