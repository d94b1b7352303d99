//! Transfers between accounts, under the locks of both accounts.
//!
//! Run `cargo run --example multi_lock`; set `ZK_CONNECT=host:port` to use Apache ZooKeeper.
#![expect(clippy::print_stdout, reason = "an example talks to its terminal")]

mod support;

use support::{Result, Stage};
use tokio::task::JoinSet;
use zk_curator::CuratorFramework;
use zk_curator_recipes::lock::InterProcessMultiLock;

async fn transfer(zk: CuratorFramework, root: String, from: &str, to: &str) -> Result<()> {
    let [from, to] = [from, to].map(|name| format!("{root}/{name}"));
    let locks =
        InterProcessMultiLock::of_mutexes(&zk, [format!("{from}-lock"), format!("{to}-lock")]);
    let guard = locks.acquire().await?;
    let balance =
        async |path| Result::Ok(std::str::from_utf8(&zk.get_data(path).await?)?.parse::<i32>()?);
    let (less, more) = (balance(&from).await? - 1, balance(&to).await? + 1);
    guard
        .fenced()
        .set_data(&from, less.to_string())
        .set_data(&to, more.to_string())
        .commit()
        .await?;
    println!("{from} {less} -> {to} {more}");
    guard.release().await?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    let stage = Stage::new("multi").await;
    let zk = stage.client().await?;
    for account in ["a", "b", "c"] {
        zk.create(format!("{}/{account}", stage.root)).data("10").creating_parents().await?;
    }
    let mut transfers = JoinSet::new();
    // All directions run concurrently. The locks are always taken in one order, so there is no
    // deadlock.
    for (from, to) in [("a", "b"), ("b", "a"), ("b", "c"), ("c", "a"), ("a", "c"), ("c", "b")] {
        transfers.spawn(transfer(zk.clone(), stage.root.clone(), from, to));
    }
    while let Some(transfer) = transfers.join_next().await {
        transfer??;
    }
    for account in ["a", "b", "c"] {
        assert_eq!(zk.get_data(format!("{}/{account}", stage.root)).await?, "10");
    }
    stage.clear(&zk).await
}
