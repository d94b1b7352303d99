//! Two producers and two consumers. One consumer is killed while it has an item, and the item is
//! delivered again.
//!
//! Run `cargo run --release --example queue` for the embedded server; set `ZK_CONNECT=host:port` to
//! use Apache ZooKeeper. Each consumer is a separate process, so that one can really be killed. The
//! exit code is 0 only if the other consumer has received all items, including the item of the
//! killed one after its death.
#![expect(clippy::print_stdout, reason = "an example talks to its terminal")]
#![expect(clippy::disallowed_methods, reason = "its work takes time")]

#[path = "support/process.rs"]
mod process;
mod support;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use process::start;
use support::{Result, Stage};
use tokio::sync::mpsc;
use zk_curator::CuratorFramework;
use zk_curator_recipes::queue::DistributedQueue;

const PRODUCERS: [&str; 2] = ["red", "blue"];
const ITEMS: usize = 5;
/// The time for which a killed consumer keeps its item; servers may grant more.
const SESSION: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(40);

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.as_slice() {
        [servers, root, name] => consume(servers, root, name).await,
        _ => tokio::time::timeout(PATIENCE, stage()).await?,
    }
}

/// Runs a consumer, which prints its items and acknowledges them. The slow consumer never finishes
/// its first item. The other half of this file produces and watches.
async fn consume(servers: &str, root: &str, name: &str) -> Result<()> {
    let zk =
        CuratorFramework::builder().connect_string(servers).session_timeout(SESSION).build()?;
    zk.start().await?;
    let mut consumer =
        DistributedQueue::new(&zk, format!("{root}/queue")).consumer(format!("{root}/locks"));
    loop {
        let delivery = consumer.next().await?;
        for item in delivery.items() {
            println!("{}", String::from_utf8_lossy(item));
        }
        if name == "slow" {
            std::future::pending::<()>().await;
        }
        delivery.ack().await?;
    }
}

async fn stage() -> Result<()> {
    let stage = Stage::new("queue").await;
    let zk = stage.client().await?;
    let (path, ids) = (format!("{}/queue", stage.root), format!("{}/ids", stage.root));
    let queue = DistributedQueue::new(&zk, &path).idempotent_puts(ids);
    let began = Instant::now();
    let say =
        |who: &str, what: &str| println!("{:>7.3}  {who:<5} {what}", began.elapsed().as_secs_f64());

    let mut expected = BTreeSet::new();
    for producer in PRODUCERS {
        for number in 1..=ITEMS {
            let item = format!("{producer} {number}");
            queue.put(item.clone()).await?;
            expected.insert(item);
        }
    }
    queue.flush().await?;
    say("", &format!("{} items are in the queue", queue.count().await?));

    let (sender, mut lines) = mpsc::unbounded_channel();
    let mut delivered = async |to: &str| -> Result<String> {
        let (name, item) = lines.recv().await.ok_or("nobody consumes")?;
        say(name, &format!("has {item:?}"));
        if name == to {
            Ok(item)
        } else {
            Err(format!("{name} has an item instead of {to}").into())
        }
    };
    let mut slow = start(&stage.servers, &stage.root, "slow", sender.clone())?;
    let held = delivered("slow").await?;
    let mut other = start(&stage.servers, &stage.root, "other", sender)?;
    let mut handled = BTreeSet::new();
    while handled.len() < expected.len() - 1 {
        handled.insert(delivered("other").await?);
    }
    assert!(!handled.contains(&held), "{held:?} was delivered while its consumer lived");
    slow.kill().await?;
    say("slow", &format!("is KILLED with {held:?} in its hands"));

    let again = delivered("other").await?;
    assert_eq!(again, held, "another item than that of the killed consumer");
    handled.insert(again);
    assert_eq!(handled, expected);
    // The last item is gone when it is acknowledged.
    while queue.count().await? > 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    say("", "all items are handled, and the queue is empty");
    other.kill().await?;
    stage.clear(&zk).await
}
