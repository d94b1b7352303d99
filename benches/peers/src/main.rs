//! The comparison of `zk-curator` with Apache Curator and kazoo: one Apache ZooKeeper, and by turns a process of each client
//! for each workload.
//!
//! ```text
//! cargo run --release -p zk-curator-peers                            # writes docs/benchmarks.md and docs/benchmarks/
//! cargo run --release -p zk-curator-peers -- --page benchmarks-data  # counters and caches: docs/benchmarks-data.md
//! cargo run --release -p zk-curator-peers -- --help
//! ```
//!
//! The program is also the Rust client of the comparison, when its first argument is `peer`: see
//! `benches/peers/PROTOCOL.md`.

#[path = "../../common/mod.rs"]
mod common;
mod harness;
mod peer;

use std::process::ExitCode;

/// One thread: what a service that coordinates needs, and what leaves the other core to the server.
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    if std::env::args_os().nth(1).is_some_and(|argument| argument == "peer") {
        peer::main().await
    } else {
        harness::main().await
    }
}
