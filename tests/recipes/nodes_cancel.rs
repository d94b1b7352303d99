//! Futures of nodes that are kept, dropped at every point, with their handles: nothing stays
//! behind.

use std::time::Duration;

use futures_util::StreamExt;
use zk_curator::{CreateMode, CuratorFramework};
use zk_curator_recipes::node::{PersistentNode, PersistentTtlNode};
use zk_curator_testing::wait::past;
use zk_curator_tests::{assert_clean_after_close, in_memory, simulated_drops};

const NODE: &str = "/services/worker";
const MODES: [CreateMode; 4] = [
    CreateMode::Ephemeral,
    CreateMode::EphemeralSequential,
    CreateMode::Persistent,
    CreateMode::PersistentSequential,
];
const TTL: Duration = Duration::from_secs(60);

/// Drops the future that `run` makes at every step until it completes.
fn at_every_step<F: Future<Output = ()>>(more_than: usize, run: impl Fn(CuratorFramework) -> F) {
    simulated_drops(
        more_than,
        in_memory,
        async |(_, zk)| run(zk.clone()).await,
        async |(server, zk), _| {
            zk.close().await.unwrap();
            // A node with a time to live stays until then.
            past(TTL * 2).await;
            while !server.reap_containers().is_empty() {}
            assert_clean_after_close(&server);
        },
    );
}

#[test]
fn waits_writes_and_closes_leave_nothing() {
    for mode in MODES {
        for protected in [false, true] {
            at_every_step(6, async |zk| {
                let builder = PersistentNode::builder(&zk, NODE, mode).data("one");
                let node = if protected { builder.protected() } else { builder }.start();
                node.created().await.unwrap();
                node.set_data("two").await.unwrap();
                let path = std::pin::pin!(node.creations()).next().await;
                assert_eq!(path, node.path());
                node.close().await.unwrap();
            });
        }
    }
}

#[test]
fn nodes_that_come_back_leave_nothing() {
    for mode in MODES {
        at_every_step(4, async |zk| {
            let node = PersistentNode::builder(&zk, NODE, mode).protected().start();
            let path = node.created().await.unwrap();
            zk.delete(path).await.unwrap();
            let mut creations = std::pin::pin!(node.creations());
            creations.next().await.unwrap();
            while !node.is_present() {
                node.created().await.unwrap();
            }
            drop(node);
        });
    }
}

#[test]
fn adopted_nodes_and_those_with_a_time_to_live_leave_nothing() {
    at_every_step(0, async |zk| {
        // The node that the other client creates here is closed with ours if ours adopted it.
        let theirs = PersistentNode::builder(&zk, NODE, CreateMode::Persistent).start();
        theirs.created().await.unwrap();
        let ours = PersistentNode::builder(&zk, NODE, CreateMode::Persistent).data("ours").start();
        ours.created().await.unwrap();
        ours.close().await.unwrap();
    });
    at_every_step(0, async |zk| {
        let node = PersistentTtlNode::builder(&zk, NODE, TTL).start();
        node.created().await.unwrap();
        node.set_data("two").await.unwrap();
    });
}
