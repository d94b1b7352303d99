//! Six jobs share two printers.
//!
//! Run `cargo run --example semaphore`; set `ZK_CONNECT=host:port` to use Apache ZooKeeper.
#![expect(clippy::print_stdout, reason = "an example talks to its terminal")]
#![expect(clippy::disallowed_methods, reason = "its work takes time")]

mod support;

use std::time::Duration;

use support::{Result, Stage};
use tokio::task::JoinSet;
use zk_curator_recipes::lock::{InterProcessSemaphore, InterProcessSemaphoreMutex};

#[tokio::main]
async fn main() -> Result<()> {
    let stage = Stage::new("semaphore").await;
    let zk = stage.client().await?;
    let printers = InterProcessSemaphore::new(&zk, format!("{}/printers", stage.root), 2);

    let mut jobs = JoinSet::new();
    for job in 1..=6 {
        let printers = printers.clone().label(format!("job {job}"));
        jobs.spawn(async move {
            let permit = printers.acquire().await?;
            println!("job {job} prints; {} permits are out", printers.participants().await?.len());
            tokio::time::sleep(Duration::from_millis(100)).await; // the work
            permit.release().await?;
            Result::Ok(())
        });
    }
    while let Some(job) = jobs.join_next().await {
        job??;
    }

    // A semaphore with one permit is a lock; Curator has this class.
    let stapler = InterProcessSemaphoreMutex::new(&zk, format!("{}/stapler", stage.root));
    let held = stapler.acquire().await?;
    println!("the stapler is taken: {}", stapler.try_acquire().await?.is_none());
    held.release().await?;
    stage.clear(&zk).await
}
