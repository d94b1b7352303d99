//! Prints who holds a lock or another recipe, who waits, and why nothing moves.
//!
//! Run `cargo run -p zk-curator-ops --example why -- zk1:2181 /locks/orders`. Without arguments, it
//! holds a lock itself: on the embedded server or, with `ZK_CONNECT=host:port`, on Apache
//! ZooKeeper.
#![expect(clippy::print_stdout, reason = "an example talks to its terminal")]

#[path = "../../examples/support/mod.rs"]
mod support;

use support::{Result, Stage};
use zk_curator::CuratorFramework;
use zk_curator_ops::holders;
use zk_curator_recipes::lock::InterProcessMutex;

async fn why(servers: &str, path: &str) -> Result<()> {
    let zk = CuratorFramework::builder().connect_string(servers).build()?;
    zk.start().await?;

    let report = holders::why(&zk, path).await?;
    for holder in &report.finding.holders {
        let session = report.facts.describe(holder.session);
        println!("held by {}: {} {}", holder.label_str(), session.state, session.client);
    }
    println!("{} clients wait", report.finding.waiting.len());
    for sentence in report.verdicts() {
        println!("{sentence}");
    }
    for note in report.facts.notes() {
        println!("note: {note}");
    }
    zk.close().await?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [servers, path] = arguments.as_slice() {
        return why(servers, path).await;
    }
    let stage = Stage::new("why").await;
    let zk = stage.client().await?;
    let mutex = InterProcessMutex::new(&zk, stage.root.as_str()).label("worker-1");
    let guard = mutex.acquire().await?;
    why(&stage.servers, &stage.root).await?;
    guard.release().await?;
    stage.clear(&zk).await
}
