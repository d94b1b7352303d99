//! Java Curator and we are members of one double barrier, and wait for each other at barriers.

use std::time::Duration;

use tokio::time::timeout;
use zk_curator::CuratorFramework;
use zk_curator_recipes::barrier::{DistributedBarrier, DistributedDoubleBarrier};
use zk_curator_tests::{builder_for, start};

use crate::contest::compiled;

const BARRIER: &str = "/barriers/sort";
const LEDGER: &str = "/ledger";
/// Two in Java, two in Rust.
const MEMBERS: usize = 4;
const ROUNDS: usize = 25;
const PATIENCE: Duration = Duration::from_secs(120);

async fn framework(connect_string: &str) -> CuratorFramework {
    start(builder_for(connect_string)).await
}

/// The same as the Java program does, in the same ledger. Answers who began each round: whether it
/// was one of us.
async fn member(zk: CuratorFramework, label: &'static str) -> Vec<bool> {
    let barrier = DistributedDoubleBarrier::new(&zk, BARRIER, MEMBERS).label(label);
    let mut begun_by_us = Vec::new();
    for round in 0..ROUNDS {
        write(&zk, round, "entering", label).await;
        if round % 2 == 0 {
            others(&zk).await;
        }
        let entered = barrier.enter().await.unwrap();
        assert_eq!(
            count(&zk, round, "entering").await,
            MEMBERS,
            "{label} has entered round {round} early"
        );
        let ready = zk.get_data(format!("{BARRIER}/ready")).await.unwrap();
        begun_by_us.push(ready.starts_with(b"members of the round:"));
        write(&zk, round, "entered", label).await;
        all(&zk, round, "entered").await;
        write(&zk, round, "leaving", label).await;
        entered.leave().await.unwrap();
        assert_eq!(
            count(&zk, round, "leaving").await,
            MEMBERS,
            "{label} has left round {round} early"
        );
        write(&zk, round, "left", label).await;
        all(&zk, round, "left").await;
    }
    begun_by_us
}

/// Waits until the half that is Java's is at the barrier.
async fn others(zk: &CuratorFramework) {
    loop {
        let Ok(there) = zk.children(BARRIER).watched().await else {
            let parent = zk.exists(BARRIER).watched().await.unwrap();
            if parent.value.is_none() {
                parent.watch.await.unwrap();
            }
            continue;
        };
        if there.value.0.len() >= MEMBERS / 2 {
            return;
        }
        there.watch.await.unwrap();
    }
}

async fn write(zk: &CuratorFramework, round: usize, what: &str, label: &str) {
    zk.create(format!("{LEDGER}/{round}-{what}-{label}")).await.unwrap();
}

fn of(names: &[String], round: usize, what: &str) -> usize {
    let prefix = format!("{round}-{what}-");
    names.iter().filter(|name| name.starts_with(&prefix)).count()
}

async fn count(zk: &CuratorFramework, round: usize, what: &str) -> usize {
    zk.sync(LEDGER).await.unwrap();
    of(&zk.children(LEDGER).await.unwrap(), round, what)
}

async fn all(zk: &CuratorFramework, round: usize, what: &str) {
    loop {
        let names = zk.children(LEDGER).watched().await.unwrap();
        if of(&names.value.0, round, what) == MEMBERS {
            return;
        }
        names.watch.await.unwrap();
    }
}

/// Two processes of Java Curator and two Rust sessions go through rounds together. A ledger that
/// does not depend on the barrier proves that no member passes early.
async fn java_and_rust_are_members(connect_string: &str) {
    let program = compiled("CuratorBarrierMember.java").await;
    let zk = framework(connect_string).await;
    zk.create(LEDGER).await.unwrap();
    let (members, rounds) = (MEMBERS.to_string(), ROUNDS.to_string());
    let start = |label| {
        program
            .spawn(["member", connect_string, BARRIER, LEDGER, &members, &rounds, label])
            .unwrap()
    };
    let java = [("java-1", start("java-1")), ("java-2", start("java-2"))];
    let rust = ["rust-1", "rust-2"].map(|label| {
        let connect_string = connect_string.to_owned();
        tokio::spawn(async move { member(framework(&connect_string).await, label).await })
    });
    let mut begun_by_us = Vec::new();
    for task in rust {
        begun_by_us = task.await.unwrap();
    }
    for (label, child) in java {
        let output = child.wait_with_output().await.unwrap();
        let lines = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(0), "{label}: {lines}");
        assert_eq!(lines, "DONE\n", "{label}");
    }
    // In even rounds the Rust members come last, but a Java member may count the members only after
    // that.
    assert!(begun_by_us.contains(&true), "we have begun none");
    assert!(begun_by_us.contains(&false), "Java has begun none");
    assert_eq!(zk.children(BARRIER).await.unwrap_or_default(), [""; 0]);

    // Each waits at the other's barrier.
    let (first, second) = ("/barriers/rust", "/barriers/java");
    let ours = DistributedBarrier::new(&zk, first);
    ours.set().await.unwrap();
    let java = program.spawn(["gate", connect_string, first, second]).unwrap();
    loop {
        let barrier = zk.exists(second).watched().await.unwrap();
        if barrier.value.is_some() {
            break;
        }
        barrier.watch.await.unwrap();
    }
    let theirs = DistributedBarrier::new(&zk, second);
    let waiting = tokio::spawn(async move { theirs.wait().await });
    // Java passes only after our barrier is removed.
    zk.sync("/").await.unwrap();
    assert!(!waiting.is_finished());
    ours.remove().await.unwrap();
    waiting.await.unwrap().unwrap();
    let output = java.wait_with_output().await.unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "DONE\n");
    zk.close().await.unwrap();
}

on_each_with_java! {
    nobody_passes_a_barrier_early,
    |servers| timeout(PATIENCE, java_and_rust_are_members(&servers)).await.unwrap()
}
