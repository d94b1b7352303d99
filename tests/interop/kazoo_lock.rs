//! kazoo's `Lock` and our mutex share a lock, if ours is set up for kazoo, or each side is set up
//! for the names of the other.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use tokio::task::JoinSet;
use tokio::time::timeout;
use zk_curator::CreateMode;
use zk_curator_recipes::lock::InterProcessMutex;
use zk_curator_tests::{builder_for, start};

const LOCK: &str = "/locks/orders";
const WITNESS: &str = "/witness";
const ROUNDS: usize = 60;
const PATIENCE: Duration = Duration::from_secs(120);

/// The clients that know the node names of the other.
#[derive(Debug, Clone, Copy)]
enum Told {
    Ours,
    Both,
}

async fn contend(connect_string: &str, label: &str, told: Told) {
    let zk = start(builder_for(connect_string)).await;
    let lock = InterProcessMutex::new(&zk, LOCK).label(label.to_owned());
    let lock = match told {
        Told::Ours => lock.with_kazoo(),
        Told::Both => lock.extra_lock_patterns(["__lock__"]),
    };
    for _ in 0..ROUNDS {
        let guard = lock.acquire().await.unwrap();
        zk.create(WITNESS).mode(CreateMode::Ephemeral).await.unwrap();
        zk.delete(WITNESS).await.unwrap();
        guard.release().await.unwrap();
    }
    zk.close().await.unwrap();
}

async fn kazoo_and_rust_contend(python: &Path, connect_string: &str, told: Told) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("interop/kazoo_lock_contender.py");
    let rounds = ROUNDS.to_string();
    let kazoo = ["kazoo-1", "kazoo-2"].map(|label| {
        let mut command = Command::new(python);
        command.arg("-B").arg(&script).args([connect_string, LOCK, WITNESS, &rounds, label]);
        if let Told::Both = told {
            command.arg("-lock-");
        }
        command.stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap()
    });
    let mut ours = JoinSet::new();
    for label in ["rust-1", "rust-2"] {
        let connect_string = connect_string.to_owned();
        ours.spawn(async move { contend(&connect_string, label, told).await });
    }
    while let Some(contender) = ours.join_next().await {
        contender.unwrap();
    }
    for process in kazoo {
        let output = process.wait_with_output().await.unwrap();
        let lines = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{lines}");
        assert_eq!(lines, "HELD\n".repeat(ROUNDS) + "DONE\n");
    }
}

async fn both_ways(python: &Path, connect_string: &str) {
    for told in [Told::Ours, Told::Both] {
        timeout(PATIENCE, kazoo_and_rust_contend(python, connect_string, told)).await.unwrap();
    }
}

on_each_with_kazoo! {
    never_two_of_kazoo_and_rust_hold_the_lock,
    |python, servers| both_ways(&python, &servers).await
}
