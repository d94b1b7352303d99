//! Four processes count orders. The response to one write is lost, and the total is still exact.
//!
//! Run `cargo run --example counter`; set `ZK_CONNECT=host:port` to use Apache ZooKeeper.
#![expect(clippy::print_stdout, reason = "an example talks to its terminal")]

mod support;

use support::{Result, Stage};
use tokio::net::lookup_host;
use zk_curator::CuratorFramework;
use zk_curator_recipes::counter::{DistributedAtomicLong, IdBlocks};
use zk_curator_testing::{FaultProxy, Flow};

const EACH: i64 = 25;

#[tokio::main]
async fn main() -> Result<()> {
    let stage = Stage::new("counter").await;
    let path = format!("{}/orders", stage.root);
    let zk = stage.client().await?;

    // The network of one of the four can lose responses.
    let server = lookup_host(&stage.servers).await?.next().ok_or("no server")?;
    let network = FaultProxy::start(&[server]).await?;
    let cut_off = CuratorFramework::builder().connect_string(network.connect_string()).build()?;
    cut_off.start().await?;

    let mut processes = Vec::new();
    for client in [stage.client().await?, stage.client().await?, stage.client().await?] {
        let orders = DistributedAtomicLong::new(&client, path.as_str());
        processes.push(tokio::spawn(async move {
            for _ in 0..EACH {
                orders.increment().await?;
            }
            client.close().await?;
            Result::Ok(())
        }));
    }
    let orders = DistributedAtomicLong::new(&cut_off, path.as_str());
    for turn in 0..EACH {
        let before = network.counts().requests;
        let lost = turn == EACH / 2;
        if lost {
            network.replies(Flow::Lost);
        }
        let increment = orders.increment();
        let cut = async {
            if lost {
                // The write has reached the server, and its response is lost.
                network.passed(before + 1).await;
                network.cut();
                network.replies(Flow::Open);
                println!("the response to an increment is lost");
            }
        };
        let (counted, ()) = tokio::join!(increment, cut);
        counted?;
    }
    for process in processes {
        process.await??;
    }
    println!("4 × {EACH} orders: {}", DistributedAtomicLong::new(&zk, path.as_str()).get().await?);

    let ids = IdBlocks::new(&DistributedAtomicLong::new(&zk, format!("{}/ids", stage.root)), 100);
    println!(
        "ids, one write for a hundred of them: {}, {}, {}",
        ids.next().await?,
        ids.next().await?,
        ids.next().await?
    );
    drop((orders, ids));
    cut_off.close().await?;
    stage.clear(&zk).await
}
