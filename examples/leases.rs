//! A job of three hosts stays on one of them from run to run, although its process ends in between.
//! Then the host fails, and another one takes over when the lease is over. A presence with a
//! session of its own vanishes when its own time to live is over.
//!
//! Run `cargo run --example leases`; set `ZK_CONNECT=host:port` to use Apache ZooKeeper.
#![expect(clippy::print_stdout, reason = "an example talks to its terminal")]
#![expect(clippy::disallowed_methods, reason = "its work takes time")]

mod support;

use std::time::Duration;

use support::{Result, Stage};
use tokio::time::sleep;
use zk_curator_recipes::group::{Group, GroupMember};
use zk_curator_recipes::lease::{PreviousIncarnation, SessionLease, TimedLease};
use zk_curator_recipes::lock::InterProcessMutex;

const SECOND: Duration = Duration::from_secs(1);

#[tokio::main]
async fn main() -> Result<()> {
    let stage = Stage::new("leases").await;
    let path = format!("{}/cleanup", stage.root);

    for run in 1..=3 {
        for host in ["ada", "ben", "eve"] {
            // Ada fails after two runs.
            if host != "ada" || run < 3 {
                start(&stage, &path, host, run).await?;
            }
        }
        sleep(SECOND).await;
    }
    let zk = stage.client().await?;
    let eve = TimedLease::new(&zk, path.as_str(), "eve");
    println!("the lease is still with {}", eve.holder().await?.expect("a holder").id);
    // Ada's time, and a second in which the clocks of the servers may differ.
    let guard = loop {
        match eve.try_take(3 * SECOND).await? {
            Some(guard) => break guard,
            None => sleep(SECOND / 10).await,
        }
    };
    println!("eve takes over, with token {}", guard.fencing_token());
    guard.release().await?;

    // Others learn of a crash after the time to live, and not after the session timeout.
    let workers = format!("{}/workers", stage.root);
    let presence = SessionLease::builder(&zk).ttl(4 * SECOND).open().await?;
    let member = GroupMember::builder(presence.framework(), workers.as_str(), "eve").start();
    member.joined().await?;
    println!("eve is present, for {:?} without a server", presence.ttl());
    presence.revoke().await?;
    assert!(Group::new(&zk, workers.as_str()).members().await?.is_empty());

    // A process that is killed leaves its lock until its session has expired.
    let orders = format!("{}/orders", stage.root);
    let killed = stage.client().await?;
    let lost = InterProcessMutex::new(&killed, orders.as_str()).label("eve").acquire().await?;
    let former = PreviousIncarnation::of(&zk, "eve").below(orders.as_str());
    assert_eq!(former.delete().await?, [lost.path()]);
    let lock = InterProcessMutex::new(&zk, orders.as_str()).label("eve");
    assert!(lock.try_acquire().await?.is_some());
    println!("eve has her lock again, before the session of her former process has expired");

    killed.close().await?;
    stage.clear(&zk).await
}

/// A process that runs the job, if its host has the lease, and ends.
async fn start(stage: &Stage, path: &str, host: &str, run: u32) -> Result<()> {
    let zk = stage.client().await?;
    // Longer than the second between two runs.
    match TimedLease::new(&zk, path, host).try_take(3 * SECOND).await? {
        Some(guard) => println!("run {run}: on {host}, with {:?} left", guard.expires_in()),
        None => println!("run {run}: not on {host}"),
    }
    // Dropping the guard keeps the lease for this host.
    zk.close().await?;
    Ok(())
}
