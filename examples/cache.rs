//! A router keeps the list of its backends in memory. Its server is cut off. The cache becomes
//! stale, then fresh, and reports the two differences.
//!
//! Run `cargo run --example cache`; set `ZK_CONNECT=host:port` to use Apache ZooKeeper.
#![expect(clippy::print_stdout, reason = "an example talks to its terminal")]

mod support;

use support::{Result, Stage};
use tokio::net::lookup_host;
use zk_curator::CuratorFramework;
use zk_curator_recipes::cache::{CacheEvent, CuratorCache, Lookup};
use zk_curator_testing::FaultProxy;

#[tokio::main]
async fn main() -> Result<()> {
    let stage = Stage::new("cache").await;
    let administrator = stage.client().await?;
    let root = format!("{}/backends", stage.root);
    for (name, address) in [("blue", "10.0.0.7:8080"), ("green", "10.0.0.8:8080")] {
        administrator.create(format!("{root}/{name}")).creating_parents().data(address).await?;
    }

    // The connection of the router can be cut.
    let server = lookup_host(&stage.servers).await?.next().ok_or("no server")?;
    let network = FaultProxy::start(&[server]).await?;
    let zk = CuratorFramework::builder().connect_string(network.connect_string()).build()?;
    zk.start().await?;

    let backends = CuratorCache::children(&zk, root.as_str()).start();
    let mut events = backends.events();
    while let Some(event) = events.next().await {
        match event {
            CacheEvent::Loaded(snapshot) => {
                println!("fresh: {} backends", snapshot.nodes.len() - 1);
                network.down();
            }
            CacheEvent::Stale { .. } => {
                println!("STALE: routes with the previous list");
                administrator.delete(format!("{root}/blue")).await?;
                administrator.set_data(format!("{root}/green"), "10.0.0.9:8080").await?;
                network.up();
            }
            CacheEvent::Deleted(node) => println!("{} is gone", node.name()),
            CacheEvent::Changed { old, new } => {
                let text = |data| String::from_utf8_lossy(data).into_owned();
                println!(
                    "{} has moved from {} to {}",
                    new.name(),
                    text(&old.data),
                    text(&new.data)
                );
            }
            CacheEvent::Fresh { .. } => break,
            _ => {}
        }
    }
    println!("fresh: {} backend", backends.len() - 1);

    // A client can read its own write from memory after the response.
    let stat = zk.set_data(format!("{root}/green"), "10.0.0.10:8080").await?;
    backends.reflects(stat.mzxid).await?;
    match backends.get(&format!("{root}/green")) {
        Lookup::Present(green) => println!("green is at {}", String::from_utf8_lossy(&green.data)),
        Lookup::Absent | Lookup::Unknown => println!("green is not known"),
    }
    backends.close().await;
    zk.close().await?;
    stage.clear(&administrator).await
}
