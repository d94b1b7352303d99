//! The comparison with Apache Curator and kazoo, in its short form: whether every client gets every
//! workload right. Durations do not matter here.

use std::process::Command;

use zk_curator_real::{self as real, RealZooKeeper};

#[test]
#[ignore = "slow: scripts/test-all"]
fn every_client_gets_every_workload_right() {
    if !real::runs("every_client_gets_every_workload_right", RealZooKeeper::builder().available()) {
        return;
    }
    let output =
        Command::new(env!("CARGO_BIN_EXE_zk-curator-peers")).arg("--smoke").output().unwrap();
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
