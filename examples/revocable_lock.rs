//! A client asks the holder of a lock to release it. One holder does; another holder does not
//! respond, and its lock is removed.
//!
//! Run `cargo run --example revocable_lock`; set `ZK_CONNECT=host:port` to use Apache ZooKeeper.
#![expect(clippy::print_stdout, reason = "an example talks to its terminal")]

mod support;

use std::time::Duration;

use support::{Result, Stage};
use zk_curator_recipes::lock::RevocableReadWriteLock;

#[tokio::main]
async fn main() -> Result<()> {
    let stage = Stage::new("revocable").await;
    let (zk, other) = (stage.client().await?, stage.client().await?);
    let path = format!("{}/report", stage.root);
    let ours = RevocableReadWriteLock::new(&zk, path.as_str());
    let theirs = RevocableReadWriteLock::new(&other, path.as_str()).label("nightly job");

    let polite = theirs.write_lock().acquire().await?;
    let node = polite.path().to_owned();
    let job = tokio::spawn(async move {
        polite.revoked().await;
        println!("the nightly job was asked to release the lock, and does");
        polite.release().await
    });
    println!("the holder was {:?}", ours.revoke(&node, Duration::from_secs(10)).await?);
    job.await??;

    let deaf = theirs.write_lock().acquire().await?;
    println!("the holder was {:?}", ours.revoke(deaf.path(), Duration::from_millis(200)).await?);
    deaf.lost().await;
    let late = deaf.fenced().create(format!("{}/late", stage.root), "").commit().await;
    println!("its late write is refused: {}", late.is_err());
    drop(ours.write_lock().acquire().await?);

    drop(deaf);
    other.close().await?;
    stage.clear(&zk).await
}
