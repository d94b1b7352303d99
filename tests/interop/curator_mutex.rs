//! Java Curator and we contend for one mutex.

use std::time::Duration;

use tokio::time::timeout;
use zk_curator::{CreateMode, CuratorFramework};
use zk_curator_recipes::lock::InterProcessMutex;
use zk_curator_tests::{builder_for, start};

use crate::contest::compiled;

const LOCK: &str = "/locks/orders";
const WITNESS: &str = "/witness";
const COUNTER: &str = "/counter";
/// For each of the four contenders.
const ROUNDS: usize = 100;
const PATIENCE: Duration = Duration::from_secs(120);

async fn framework(connect_string: &str) -> CuratorFramework {
    start(builder_for(connect_string)).await
}

/// The same as the Java program does, with the same witness and the same counter. Answers the lock
/// nodes.
async fn contend(zk: CuratorFramework, label: &'static str) -> Vec<String> {
    let lock = InterProcessMutex::new(&zk, LOCK).label(label);
    let mut held = Vec::new();
    for round in 0..ROUNDS {
        let guard = lock.acquire().await.unwrap();
        let witness = zk.create(WITNESS).mode(CreateMode::Ephemeral).data(label).await;
        assert!(
            witness.is_ok(),
            "round {round} of {label}: another client holds the lock: {witness:?}"
        );
        let count = zk.get_data(COUNTER).await.unwrap();
        let count: u64 = std::str::from_utf8(&count).unwrap().parse().unwrap();
        zk.set_data(COUNTER, (count + 1).to_string()).await.unwrap();
        zk.delete(WITNESS).await.unwrap();
        held.push(guard.path().to_owned());
        guard.release().await.unwrap();
    }
    held
}

/// Two processes of Java Curator and two Rust sessions. A witness and a counter that do not depend
/// on the lock prove that two clients never hold it at the same time.
async fn java_and_rust_contend(connect_string: &str) {
    let program = compiled("CuratorMutexContender.java").await;
    let zk = framework(connect_string).await;
    zk.create(COUNTER).data("0").await.unwrap();
    let gate = InterProcessMutex::new(&zk, LOCK).acquire().await.unwrap();
    let rounds = ROUNDS.to_string();
    let start =
        |label| program.spawn([connect_string, LOCK, &rounds, label, WITNESS, COUNTER]).unwrap();
    let java = [("java-1", start("java-1")), ("java-2", start("java-2"))];
    let rust = ["rust-1", "rust-2"].map(|label| {
        let connect_string = connect_string.to_owned();
        tokio::spawn(async move { contend(framework(&connect_string).await, label).await })
    });
    // The gate opens when all four are in the queue behind it.
    loop {
        let queue = zk.children(LOCK).watched().await.unwrap();
        if queue.value.0.len() == 5 {
            break;
        }
        queue.watch.await.unwrap();
    }
    gate.release().await.unwrap();

    let mut nodes = Vec::new();
    for task in rust {
        nodes.extend(task.await.unwrap().into_iter().map(|node| (node, "rust")));
    }
    for (label, child) in java {
        let output = child.wait_with_output().await.unwrap();
        let lines = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(0), "{label}: {lines}");
        assert!(lines.ends_with("DONE\n"), "{label}: {lines}");
        let held = lines.lines().filter_map(|line| line.strip_prefix(&format!("HELD {label} ")));
        nodes.extend(held.map(|line| (line.rsplit(' ').next().unwrap().to_owned(), "java")));
    }
    assert_eq!(nodes.len(), 4 * ROUNDS);
    assert_eq!(zk.get_data(COUNTER).await.unwrap(), (4 * ROUNDS).to_string());

    // It was a contest: the lock went back and forth between the two languages. How often depends
    // on the speed of the processes.
    nodes.sort_by_key(|(node, _)| node[node.len() - 10..].to_owned());
    let changes = nodes.windows(2).filter(|pair| pair[0].1 != pair[1].1).count();
    assert!(changes > 1, "only {changes} hand-overs between the languages");
    assert_eq!(zk.children(LOCK).await.unwrap_or_default(), [""; 0]);
    zk.close().await.unwrap();
}

on_each_with_java! {
    never_two_hold_the_lock,
    |servers| timeout(PATIENCE, java_and_rust_contend(&servers)).await.unwrap()
}
