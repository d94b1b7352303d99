//! Many tasks of one process and one lock: an owner that acquires it again, and tasks that pass the
//! lock on to each other.
//!
//! Run `cargo run --example local_locks`; set `ZK_CONNECT=host:port` to use Apache ZooKeeper.
#![expect(clippy::print_stdout, reason = "an example talks to its terminal")]

mod support;

use std::time::Duration;

use support::{Result, Stage};
use tokio::task::JoinSet;
use zk_curator_recipes::lock::{InterProcessMutex, ReentrantMutex};

#[tokio::main]
async fn main() -> Result<()> {
    let stage = Stage::new("local").await;
    let zk = stage.client().await?;

    let lock = ReentrantMutex::new(&zk, format!("{}/reentrant", stage.root));
    let outer = lock.acquire("request 7").await?;
    let inner = lock.acquire("request 7").await?;
    println!(
        "{} holds it twice; request 8 has to wait: {}",
        inner.owner(),
        lock.try_acquire("request 8").await?.is_none()
    );
    inner.release().await?;
    outer.release().await?;

    let lock = InterProcessMutex::new(&zk, format!("{}/handover", stage.root))
        .local_batch(3, Duration::from_secs(1));
    let mut tasks = JoinSet::new();
    for task in 1..=8 {
        let lock = lock.clone();
        tasks.spawn(async move {
            let guard = lock.acquire().await?;
            println!("task {task} holds {}, turn {}", guard.path(), guard.local_token().turn);
            guard.release().await?;
            Result::Ok(())
        });
    }
    while let Some(task) = tasks.join_next().await {
        task??;
    }
    stage.clear(&zk).await
}
