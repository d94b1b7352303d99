//! Members in Java, with Curator's `LeaderLatch` and `LeaderSelector`, and ours are in the same elections, and processes of
//! both are killed meanwhile.

use std::future::pending;

use crate::contest::{Java, PATIENCE, comes_with_a_lost_session, compiled, enter, framework, leave};
use tokio::time::timeout;
use zk_curator::CuratorFramework;
use zk_curator_real as real;
use zk_curator_real::java;
use zk_curator_recipes::leader::{Error, LeaderLatch, LeaderSelector, Participant};
use zk_curator_testing::TestServer;

const BASE: &str = "/elections";
/// For each member and kind.
const ROUNDS: usize = 25;

fn latch(zk: &CuratorFramework, id: &str) -> LeaderLatch {
    LeaderLatch::new(zk, format!("{BASE}/latch")).id(id.to_owned())
}

fn selector(zk: &CuratorFramework, id: &str) -> LeaderSelector {
    LeaderSelector::new(zk, format!("{BASE}/selector")).id(id.to_owned())
}

/// Whoever leads is alone: as the Java program does.
async fn lead(zk: &CuratorFramework, kind: &str, label: &str) -> Result<(), Error> {
    let place = format!("{BASE}/witness/{kind}");
    enter(zk, &place, label, |inside| inside.len() > 1).await?;
    Ok(leave(zk, &place, label).await?)
}

fn assert_done(done: &Result<(), Error>) {
    // A session may be lost where everything is slow: the witness is gone with it.
    let is_lost = |error: &Error| match error {
        Error::Lost => true,
        Error::Framework(error) => comes_with_a_lost_session(error),
        _ => false,
    };
    assert!(done.is_ok() || done.as_ref().is_err_and(is_lost), "{done:?}");
}

async fn contend(connect_string: String, label: String, rounds: usize) {
    let zk = framework(&connect_string).await;
    let latches = async {
        for _ in 0..rounds {
            let candidate = latch(&zk, &label).join();
            candidate.await_leadership().await.unwrap();
            assert_done(&lead(&zk, "latch", &label).await);
            candidate.close().await.unwrap();
        }
    };
    let selectors = async {
        let selector = selector(&zk, &label);
        for _ in 0..rounds {
            let led = selector.run(|_| lead(&zk, "selector", &label)).await;
            assert_done(&led.and_then(|led| led));
        }
    };
    tokio::join!(latches, selectors);
    zk.close().await.unwrap();
}

async fn java_and_rust_are_in_one_election(connect_string: &str) {
    let program = compiled("CuratorLeaders.java").await;
    let zk = framework(connect_string).await;
    for kind in ["latch", "selector"] {
        zk.create(format!("{BASE}/witness/{kind}")).creating_parents().await.unwrap();
    }
    let ours = |label, rounds| contend(connect_string.to_owned(), label, rounds);
    let java = ["contend", connect_string, BASE];
    let led = crate::contest::java_and_rust_contend(&program, java, ROUNDS, ours).await;
    assert!(led >= 2 * ROUNDS, "{led}");
    zk.close().await.unwrap();
}

/// Each sees the other, and takes over from the other.
async fn java_and_rust_meet(connect_string: &str) {
    let program = compiled("CuratorLeaders.java").await;
    let zk = framework(connect_string).await;
    let ids = |participants: Vec<Participant>| -> Vec<String> {
        participants.iter().map(|member| String::from_utf8_lossy(&member.label).into_owned()).collect()
    };

    let candidate = latch(&zk, "rust").join();
    candidate.await_leadership().await.unwrap();
    let mut java = Java::start(&program, ["meet", connect_string, BASE]);
    java.says("SEES rust (leader), java").await;
    assert_eq!(ids(latch(&zk, "").participants().await.unwrap()), ["rust", "java"]);
    candidate.close().await.unwrap();
    java.says("HELD latch").await;
    assert_eq!(latch(&zk, "").leader().await.unwrap().unwrap().label, "java");

    // Ours is there before the other's turn at the selector.
    let selector = selector(&zk, "rust");
    let leading = tokio::spawn({
        let selector = selector.clone();
        async move { selector.run(|_| pending::<()>()).await }
    });
    while !selector.has_leadership() {
        tokio::task::yield_now().await;
    }
    let candidate = latch(&zk, "again").join();
    java.says("SEES java (leader), again").await;
    candidate.await_leadership().await.unwrap();
    candidate.close().await.unwrap();

    java.says("SEES rust (leader), java").await;
    assert_eq!(ids(selector.participants().await.unwrap()), ["rust", "java"]);
    assert!(selector.interrupt_leadership());
    assert!(matches!(leading.await.unwrap(), Err(Error::Interrupted)));
    java.says("HELD selector").await;
    assert_eq!(selector.leader().await.unwrap().unwrap().label, "java");
    let next = tokio::spawn({
        let selector = selector.clone();
        async move { selector.run(|_| async {}).await }
    });
    java.says("SEES java (leader), rust").await;
    next.await.unwrap().unwrap();
    assert_eq!(java.done().await, 0);
    zk.close().await.unwrap();
}

async fn mixed_elections(connect_string: &str) {
    timeout(PATIENCE, java_and_rust_meet(connect_string)).await.unwrap();
    timeout(PATIENCE, java_and_rust_are_in_one_election(connect_string)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: scripts/test-all"]
async fn on_apache_zookeeper_java_and_rust_are_in_one_election() {
    let name = "on_apache_zookeeper_java_and_rust_are_in_one_election";
    if !real::runs(name, java::available()) {
        return;
    }
    let Some(zookeeper) = real::or_skip(name).await else { return };
    mixed_elections(&zookeeper.connect_string()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: scripts/test-all"]
async fn on_the_embedded_server_java_and_rust_are_in_one_election() {
    if !real::runs("on_the_embedded_server_java_and_rust_are_in_one_election", java::available()) {
        return;
    }
    let server = TestServer::start().await;
    mixed_elections(&server.connect_string()).await;
}
