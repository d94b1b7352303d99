//! Prints the findings about an ensemble, and about the nodes at a path and below it.
//!
//! Run `cargo run -p zk-curator-ops --example doctor -- zk1:2181 /`. Without arguments, it examines
//! the embedded server or, with `ZK_CONNECT=host:port`, Apache ZooKeeper.
#![expect(clippy::print_stdout, reason = "an example talks to its terminal")]

#[path = "../../examples/support/mod.rs"]
mod support;

use support::{Result, Stage};
use zk_curator::CuratorFramework;
use zk_curator_ops::ensemble::{EnsembleProbe, doctor};

async fn examine(servers: &str, root: &str) -> Result<()> {
    let zk = CuratorFramework::builder().connect_string(servers).build()?;
    zk.start().await?;

    let ensemble = doctor::examine(&EnsembleProbe::of(&zk)).await?;
    let nodes = doctor::examine_tree(&zk, root, ensemble.max_packet).await?;
    for finding in ensemble.findings.iter().chain(&nodes.findings) {
        println!("{} {}: {}", finding.severity.name(), finding.subject, finding.text);
        println!("    {}", finding.advice);
    }
    for (path, why) in nodes.unreadable.iter() {
        println!("not examined: {path}: {why}");
    }
    zk.close().await?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [servers, root] = arguments.as_slice() {
        return examine(servers, root).await;
    }
    let stage = Stage::new("doctor").await;
    let zk = stage.client().await?;
    zk.create(format!("{}/large", stage.root)).creating_parents().data(vec![0_u8; 600_000]).await?;
    examine(&stage.servers, &stage.root).await?;
    stage.clear(&zk).await
}
