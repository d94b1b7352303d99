//! Backs up a node and the nodes below it, and compares the file with the servers.
//!
//! Run `cargo run -p zk-curator-ops --example backup -- zk1:2181 /config config.zkb`. Without
//! arguments, it backs up a node of its own: on the embedded server or, with
//! `ZK_CONNECT=host:port`, on Apache ZooKeeper.
#![expect(clippy::print_stdout, reason = "an example talks to its terminal")]

#[path = "../../examples/support/mod.rs"]
mod support;

use std::path::Path;

use support::{Result, Stage};
use zk_curator::CuratorFramework;
use zk_curator_ops::transfer::{Backup, DiffScope, DiffTree, differences};

async fn backup(servers: &str, root: &str, file: &Path) -> Result<()> {
    let zk = CuratorFramework::builder().connect_string(servers).build()?;
    zk.start().await?;

    let summary = Backup::new(root).write(&zk, file).await?;
    println!("{} nodes, {:?}", summary.trailer.nodes(), summary.trailer.consistency);
    for (path, why) in summary.unreadable.iter() {
        println!("missing: {path}: {why}");
    }

    let (before, _) = DiffTree::of_file(file, DiffScope::new())?;
    let after = DiffTree::of_servers(&zk, root, DiffScope::new()).await?;
    for difference in differences(&before, &after) {
        println!("changed since: {}", difference.path());
    }
    zk.close().await?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [servers, root, file] = arguments.as_slice() {
        return backup(servers, root, Path::new(file)).await;
    }
    let stage = Stage::new("backup").await;
    let zk = stage.client().await?;
    zk.create(format!("{}/a", stage.root)).creating_parents().data("x").await?;
    let file = std::env::temp_dir().join(format!("zk-curator-{}.zkb", std::process::id()));
    backup(&stage.servers, &stage.root, &file).await?;
    std::fs::remove_file(file)?;
    stage.clear(&zk).await
}
