//! Three services divide twelve shards. One more joins, and one dies: most shards stay where they
//! are.
//!
//! Run `cargo run --example partitions`; set `ZK_CONNECT=host:port` to use Apache ZooKeeper.
#![expect(clippy::print_stdout, reason = "an example talks to its terminal")]
#![expect(clippy::disallowed_methods, reason = "its work takes time")]

mod support;

use std::collections::BTreeMap;
use std::time::Duration;

use support::{Result, Stage};
use tokio::task::JoinHandle;
use tokio::time::sleep;
use zk_curator::CuratorFramework;
use zk_curator_recipes::partition::{Error, Partition, SetPartitioner};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::main]
async fn main() -> Result<()> {
    let stage = Stage::new("partitions").await;
    let path = format!("{}/shards", stage.root);
    let shards = |zk: &CuratorFramework, id: &str| {
        let names = (0..12).map(|shard| format!("s{shard}"));
        SetPartitioner::new(zk, path.as_str(), names).id(id).settle(SECOND / 4).drain(SECOND)
    };

    let zk = stage.client().await?;
    let overview = shards(&zk, "overview");
    let mut services: BTreeMap<&str, (CuratorFramework, JoinHandle<Result<()>>)> = BTreeMap::new();
    for id in ["ada", "ben", "eve"] {
        let zk = stage.client().await?;
        services.insert(id, (zk.clone(), tokio::spawn(serve(id, shards(&zk, id)))));
    }
    let first = settled(&overview, 3).await?;

    let zoe = stage.client().await?;
    services.insert("zoe", (zoe.clone(), tokio::spawn(serve("zoe", shards(&zoe, "zoe")))));
    let second = settled(&overview, 4).await?;
    println!("zoe has joined: {} of 12 shards have moved", moved(&first, &second));

    let (ben, task) = services.remove("ben").expect("ben is there");
    task.abort();
    ben.close().await?;
    let third = settled(&overview, 3).await?;
    println!("ben has died: {} of 12 shards have moved", moved(&second, &third));

    for (zk, task) in services.into_values() {
        task.abort();
        zk.close().await?;
    }
    stage.clear(&zk).await
}

/// Works on the shards of a service.
async fn serve(id: &'static str, shards: SetPartitioner) -> Result<()> {
    let body = async |shard: Partition| {
        println!("{id} has {}, token {}", shard.name(), shard.fencing_token());
        shard.revoked().await;
        println!("{id} gives {} up", shard.name());
        Ok::<_, Error>(())
    };
    Ok(shards.run(body).await?)
}

/// Waits until every shard is owned by the member that it is assigned to; the owners.
async fn settled(overview: &SetPartitioner, members: usize) -> Result<BTreeMap<String, String>> {
    loop {
        let view = overview.view().await?;
        let is_settled = view.members.len() == members
            && view
                .parts
                .values()
                .all(|part| part.owner.is_some() && part.owner == part.assigned_to);
        if is_settled {
            let owners = view.parts.into_iter();
            return Ok(owners.filter_map(|(shard, part)| Some((shard, part.owner?))).collect());
        }
        sleep(SECOND / 20).await;
    }
}

fn moved(before: &BTreeMap<String, String>, after: &BTreeMap<String, String>) -> usize {
    before.iter().filter(|(shard, owner)| after.get(*shard) != Some(*owner)).count()
}
