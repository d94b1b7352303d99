//! Rust clients of other authors in the comparison: the first argument is the name of the crate.
//! See `benches/peers/PROTOCOL.md`.

#[path = "../../../common/process.rs"]
mod common;
#[path = "../../src/shared/mod.rs"]
mod shared;
mod tokio_zookeeper;
mod zookeeper_async;
mod zookeeper_client;

use std::process::ExitCode;

use shared::measure::Result;
use shared::{Session, Stage, growth, outage, raw, watches};

/// The workloads that need only what every client has.
const PLAIN: [&str; 9] = [
    "raw-get",
    "raw-set",
    "raw-create-delete",
    "watch-data",
    "scale-sessions",
    "scale-watches",
    "cut",
    "expiry",
    "startup",
];

/// One thread, as in our program.
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let ended = match std::env::args().nth(1).as_deref() {
        Some("tokio-zookeeper") => tokio_zookeeper::run().await,
        Some("zookeeper-async") => zookeeper_async::run().await,
        Some("zookeeper-client") => zookeeper_client::run().await,
        other => Err(format!("there is no client {other:?}").into()),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("peer: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the wanted workload, or lists all: the plain ones and `names`, which `own` runs.
async fn run<S: Session>(
    names: &[&str],
    own: impl AsyncFnOnce(&mut Stage<S>) -> Result<()>,
) -> Result<()> {
    let Some(mut stage) = Stage::from_arguments()? else {
        PLAIN.iter().chain(names).for_each(|name| println!("{name}"));
        return Ok(());
    };
    let workload = &mut stage;
    match workload.workload.as_str() {
        "raw-get" => raw::get(workload).await,
        "raw-set" => raw::set(workload).await,
        "raw-create-delete" => raw::create_delete(workload).await,
        "watch-data" => watches::data(workload).await,
        "scale-sessions" => growth::sessions(workload).await,
        "scale-watches" => growth::watches(workload).await,
        "cut" | "expiry" => outage::reads(workload).await,
        "startup" => growth::startup(workload).await,
        _ => own(workload).await,
    }?;
    stage.end().await;
    Ok(())
}

/// The end of a match over workloads.
fn unknown<S>(stage: &Stage<S>) -> Result<()> {
    Err(format!("there is no workload {}", stage.workload).into())
}
