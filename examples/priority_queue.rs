//! The most urgent item is delivered first, even if it is put last.
//!
//! Run `cargo run --example priority_queue`; set `ZK_CONNECT=host:port` to use Apache ZooKeeper.
#![expect(clippy::print_stdout, reason = "an example talks to its terminal")]

mod support;

use support::{Result, Stage};
use zk_curator_recipes::queue::DistributedPriorityQueue;

#[tokio::main]
async fn main() -> Result<()> {
    let stage = Stage::new("priority_queue").await;
    let zk = stage.client().await?;
    let queue = DistributedPriorityQueue::new(&zk, format!("{}/queue", stage.root));
    for (task, priority) in [("tidy up", 100), ("answer mail", 5), ("pay the bill", 5)] {
        queue.put(task, priority).await?;
    }

    let mut consumer = queue.consumer(format!("{}/locks", stage.root));
    let first = consumer.next().await?;
    println!("first {:?}", first.items());
    queue.put("put out the fire", -10).await?;
    first.ack().await?;
    for _ in 0..3 {
        let delivery = consumer.next().await?;
        println!("then {:?}", delivery.items());
        delivery.ack().await?;
    }
    drop(consumer);
    stage.clear(&zk).await
}
