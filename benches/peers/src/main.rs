//! The comparison of `zk-curator` with Apache Curator, kazoo and Rust clients: one Apache
//! ZooKeeper, and for each workload one process of each client after another.
//!
//! ```text
//! cargo compare                         # writes docs/benchmarks.md and docs/benchmarks/
//! cargo compare --page benchmarks-data  # counters, caches and discovery: docs/benchmarks-data.md
//! cargo compare --help
//! ```
//!
//! The program is also the Rust client of the comparison, when its first argument is `peer`: see
//! `benches/peers/PROTOCOL.md`.

#[path = "../../common/mod.rs"]
mod common;
mod harness;
mod peer;
mod shared;

use std::process::ExitCode;

/// One thread is enough for coordination, and leaves the other core to the server.
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    if std::env::args_os().nth(1).is_some_and(|argument| argument == "peer") {
        peer::main().await
    } else {
        harness::main().await
    }
}
