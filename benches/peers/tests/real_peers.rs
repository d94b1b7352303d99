//! The comparison with Apache Curator, kazoo and Rust clients, in its short form: whether every
//! client gets every workload right. Durations do not matter here.
#![expect(clippy::unwrap_used, reason = "helpers of a test are not recognised as tests")]

use std::process::Command;

use zk_curator_real::{self as real, RealZooKeeper};

#[test]
#[ignore = "slow: scripts/test-all"]
fn our_client_gets_every_workload_right() {
    let test = "our_client_gets_every_workload_right";
    let options = ["--clients", "rust", "--settings", "loopback", "--no-scale"];
    every_workload_is_right(test, &options);
}

mod night {
    use super::*;

    #[test]
    #[ignore = "night: scripts/night"]
    fn every_client_gets_every_workload_right() {
        every_workload_is_right("every_client_gets_every_workload_right", &[]);
    }
}

fn every_workload_is_right(test: &str, options: &[&str]) {
    if !real::runs(test, RealZooKeeper::builder().available()) {
        return;
    }
    let mut peers = Command::new(env!("CARGO_BIN_EXE_zk-curator-peers"));
    let output = peers.arg("--smoke").args(options).output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{}\n{told}{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    // Ours knows all of them.
    assert!(told.contains(" rust ") && told.contains("\n0 runs failed"), "{told}");
}
