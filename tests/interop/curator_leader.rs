//! Members in Java, with Curator's `LeaderLatch` and `LeaderSelector`, and ours are in the same
//! elections, and processes of both are killed in between.

use std::future::pending;

use crate::contest::{
    Java, PATIENCE, comes_with_a_lost_session, compiled, enter, framework, leave,
};
use tokio::time::timeout;
use zk_curator::CuratorFramework;
use zk_curator_recipes::leader::{Error, LeaderLatch, LeaderObserver, LeaderSelector, Participant};

const BASE: &str = "/elections";
/// For each member and kind.
const ROUNDS: usize = 25;

fn latch(zk: &CuratorFramework, id: &str) -> LeaderLatch {
    LeaderLatch::new(zk, format!("{BASE}/latch")).id(id.to_owned())
}

fn selector(zk: &CuratorFramework, id: &str) -> LeaderSelector {
    LeaderSelector::new(zk, format!("{BASE}/selector")).id(id.to_owned())
}

/// Checks that the leader is alone, as the Java program does.
async fn lead(zk: &CuratorFramework, kind: &str, label: &str) -> Result<(), Error> {
    let place = format!("{BASE}/witness/{kind}");
    enter(zk, &place, label, |inside| inside.len() > 1).await?;
    Ok(leave(zk, &place, label).await?)
}

fn assert_done(done: &Result<(), Error>) {
    // A session may be lost where everything is slow: the witness is gone with it.
    let is_lost = |error: &Error| match error {
        Error::Lost { .. } => true,
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
            let led = selector.run_once(|_| lead(&zk, "selector", &label)).await;
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

/// Returns the id of the next leader that an observer reports; empty if there is none.
async fn next(observer: &mut LeaderObserver) -> String {
    let leader = observer.next().await.unwrap();
    leader.map(|leader| leader.label_str().into_owned()).unwrap_or_default()
}

/// Each sees the other, and takes over from the other. An observer sees all of them, and takes no
/// part.
#[expect(clippy::too_many_lines, reason = "one story")]
async fn java_and_rust_meet(connect_string: &str) {
    let program = compiled("CuratorLeaders.java").await;
    let zk = framework(connect_string).await;
    let ids = |participants: Vec<Participant>| -> Vec<String> {
        participants
            .iter()
            .map(|member| String::from_utf8_lossy(&member.label).into_owned())
            .collect()
    };

    let watching = framework(connect_string).await;
    let (mut at_latch, mut at_selector) =
        (latch(&watching, "").observe(), selector(&watching, "").observe());
    assert_eq!(
        (next(&mut at_latch).await, next(&mut at_selector).await),
        (String::new(), String::new())
    );

    let candidate = latch(&zk, "rust").join();
    candidate.await_leadership().await.unwrap();
    assert_eq!(next(&mut at_latch).await, "rust");
    let mut java = Java::start(&program, ["meet", connect_string, BASE]);
    java.says("SEES rust (leader), java").await;
    assert_eq!(ids(latch(&zk, "").participants().await.unwrap()), ["rust", "java"]);
    candidate.close().await.unwrap();
    java.says("HELD latch").await;
    assert_eq!(next(&mut at_latch).await, "java");
    assert_eq!(latch(&zk, "").leader().await.unwrap().unwrap().label, "java");

    // The Rust candidate exists before the turn of the other one.
    let selector = selector(&zk, "rust");
    let leading = tokio::spawn({
        let selector = selector.clone();
        async move { selector.run_once(|_| pending::<()>()).await }
    });
    while !selector.has_leadership() {
        tokio::task::yield_now().await;
    }
    assert_eq!(next(&mut at_selector).await, "rust");
    let candidate = latch(&zk, "again").join();
    java.says("SEES java (leader), again").await;
    candidate.await_leadership().await.unwrap();
    assert_eq!(next(&mut at_latch).await, "again");
    candidate.close().await.unwrap();
    assert_eq!(next(&mut at_latch).await, "");

    java.says("SEES rust (leader), java").await;
    assert_eq!(ids(selector.participants().await.unwrap()), ["rust", "java"]);
    assert!(selector.interrupt_leadership());
    assert!(matches!(leading.await.unwrap(), Err(Error::Interrupted { .. })));
    java.says("HELD selector").await;
    assert_eq!(next(&mut at_selector).await, "java");
    assert_eq!(selector.leader().await.unwrap().unwrap().label, "java");
    let next = tokio::spawn({
        let selector = selector.clone();
        async move { selector.run_once(|_| async {}).await }
    });
    java.says("SEES java (leader), rust").await;
    next.await.unwrap().unwrap();
    // Of leaders that follow each other quickly some may be left out.
    let last = self::next(&mut at_selector).await;
    assert!(["rust", ""].contains(&last.as_str()), "{last}");
    assert_eq!(java.done().await, 0);
    drop((at_latch, at_selector));
    watching.close().await.unwrap();
    zk.close().await.unwrap();
}

async fn mixed_elections(connect_string: &str) {
    timeout(PATIENCE, java_and_rust_meet(connect_string)).await.unwrap();
    timeout(PATIENCE, java_and_rust_are_in_one_election(connect_string)).await.unwrap();
}

on_each_with_java! {
    java_and_rust_are_in_one_election,
    |servers| mixed_elections(&servers).await
}
