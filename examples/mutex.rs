//! Three workers share one lock. Each writes under the lock, in a transaction that fails if the
//! lock is lost.
//!
//! Run `cargo run --example mutex`; set `ZK_CONNECT=host:port` to use Apache ZooKeeper.
#![expect(clippy::print_stdout, reason = "an example talks to its terminal")]

mod support;

use support::{Result, Stage};
use tokio::task::JoinSet;
use zk_curator_recipes::lock::InterProcessMutex;

#[tokio::main]
async fn main() -> Result<()> {
    let stage = Stage::new("mutex").await;
    let zk = stage.client().await?;
    let (lock, total) = (format!("{}/lock", stage.root), format!("{}/total", stage.root));
    zk.create(&total).data("0").creating_parents().await?;

    let mut workers = JoinSet::new();
    for worker in ["ada", "ben", "cleo"] {
        let (zk, total) = (stage.client().await?, total.clone());
        let lock = InterProcessMutex::new(&zk, lock.as_str()).label(worker);
        workers.spawn(async move {
            for _ in 0..5 {
                let guard = lock.acquire().await?;
                let read = zk.get_data(&total).await?;
                let sum = std::str::from_utf8(&read)?.parse::<u32>()? + 1;
                guard.fenced().set_data(&total, sum.to_string()).commit().await?;
                println!(
                    "{worker:>5} has the lock with token {} and counts {sum}",
                    guard.fencing_token()
                );
                guard.release().await?;
            }
            zk.close().await?;
            Result::Ok(())
        });
    }
    while let Some(worker) = workers.join_next().await {
        worker??;
    }
    assert_eq!(zk.get_data(&total).await?, "15");
    stage.clear(&zk).await
}
