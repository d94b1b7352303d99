//! Two producers and two consumers; one consumer dies with an item in its hands, which is delivered again.
//!
//! `cargo run --example queue`; with `ZK_CONNECT=host:port` on Apache ZooKeeper.
#![expect(clippy::print_stdout, reason = "an example talks to its terminal")]

mod support;

use std::collections::BTreeSet;

use support::{Result, Stage};
use tokio::sync::mpsc;
use zk_curator_recipes::queue::{DistributedQueue, ErrorMode};

const ITEMS: usize = 5;

#[tokio::main]
async fn main() -> Result<()> {
    let stage = Stage::new("queue").await;
    let zk = stage.client().await?;
    let (path, locks) = (format!("{}/queue", stage.root), format!("{}/locks", stage.root));
    let queue = DistributedQueue::new(&zk, &path)?.ids(format!("{}/ids", stage.root))?;

    for producer in ["red", "blue"] {
        for number in 1..=ITEMS {
            queue.put(format!("{producer} {number}")).await?;
        }
    }
    queue.flush().await?;
    println!("{} items are in the queue", queue.count().await?);

    // One that dies: its session ends, and its claim with it.
    let dying = stage.client().await?;
    let delivery = DistributedQueue::new(&dying, &path)?.consumer(&locks)?.next().await?;
    println!("one dies with {:?} in its hands", delivery.items());
    dying.close().await?;
    drop(delivery);

    let (sender, mut handled) = mpsc::unbounded_channel();
    let mut consumers = Vec::new();
    for _ in 0..2 {
        let zk = stage.client().await?;
        let (consumer, sender) = (DistributedQueue::new(&zk, &path)?.consumer(&locks)?, sender.clone());
        consumers.push(tokio::spawn(async move {
            let body = |item| {
                let sent = sender.send(item);
                async move { sent }
            };
            consumer.run(2, ErrorMode::Requeue, body).await
        }));
    }
    let mut seen = BTreeSet::new();
    while seen.len() < 2 * ITEMS {
        let Some(item) = handled.recv().await else { break };
        println!("handled {item:?}");
        seen.insert(item);
    }
    for consumer in consumers {
        consumer.abort();
    }
    stage.clear(&zk).await
}
