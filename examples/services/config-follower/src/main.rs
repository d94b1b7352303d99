//! A service that follows its configuration, and a flag that other programs set with plain writes.
//!
//! It starts without ZooKeeper, with its built-in configuration, and keeps the last known one in an
//! outage.

use std::error::Error;
use std::time::Duration;

use zk_curator_recipes::Shutdown;
use zk_curator_recipes::config::{self, ConfigStore, Snapshot};
use zk_curator_recipes::zk_curator::CuratorFramework;

/// The configuration of the service.
#[derive(Debug)]
struct Limits {
    requests: u32,
    burst: u32,
}

impl TryFrom<Snapshot> for Limits {
    type Error = config::Error;

    fn try_from(now: Snapshot) -> Result<Self, config::Error> {
        Ok(Self {
            requests: now.get("requests")?.unwrap_or(100),
            burst: now.get("burst")?.unwrap_or(10),
        })
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let timeout =
        std::env::var("SESSION_TIMEOUT_MS").map_or(Ok(10_000), |millis| millis.parse())?;
    let zk = CuratorFramework::builder()
        .connect_string(std::env::var("ZOOKEEPER")?)
        .session_timeout(Duration::from_millis(timeout))
        .build()?;
    zk.start_in_background()?;
    println!("serves");

    let mut limits = ConfigStore::new(&zk, "/config/limits").follow_as::<Limits>().await?;
    let now = limits.get();
    println!("limits {} {}", now.requests, now.burst);
    // Other programs write it, for example kazoo: zk.set("/flags/checkout", b"on").
    let mut flag = zk.watch_data("/flags/checkout");
    let shutdown = Shutdown::on_signals()?;
    loop {
        tokio::select! {
            Some(now) = limits.changed() => println!("limits {} {}", now.requests, now.burst),
            flag = flag.next() => match flag? {
                Some((data, _)) => println!("flag {}", String::from_utf8_lossy(&data)),
                None => println!("flag is not set"),
            },
            () = shutdown.begun() => break,
        }
    }
    shutdown.close(&zk).await;
    Ok(())
}
