//! Workers come and go, and an administrator follows them.
//!
//! Run `cargo run --example group`; set `ZK_CONNECT=host:port` to use Apache ZooKeeper.
#![expect(clippy::print_stdout, reason = "an example talks to its terminal")]

mod support;

use std::collections::BTreeMap;

use support::{Result, Stage};
use zk_curator_recipes::group::{Group, GroupEvent};

#[tokio::main]
async fn main() -> Result<()> {
    let stage = Stage::new("group").await;
    let zk = stage.client().await?;
    let workers = Group::new(&zk, format!("{}/workers", stage.root));
    workers.create().await?;

    let mut watch = workers.follow();
    let follower = tokio::spawn(async move {
        let mut gone = 0;
        while gone < 3 {
            match watch.next().await? {
                GroupEvent::Joined { id, data } => println!("{id} has joined from {data:?}"),
                GroupEvent::Changed { id, data } => println!("{id} has moved to {data:?}"),
                GroupEvent::Left { id } => {
                    println!("{id} has left");
                    gone += 1;
                }
                _ => {}
            }
        }
        Result::Ok(())
    });

    let mut members = BTreeMap::new();
    for number in 1..=3 {
        let client = stage.client().await?;
        let group = Group::new(&client, workers.path());
        let member = group.join(format!("worker-{number}"), format!("10.0.0.{number}"));
        members.insert(number, (member, client));
    }
    println!("large enough: {:?}", workers.wait_for(3).await?.keys());

    if let Some((member, _)) = members.get(&1) {
        member.set_data("10.0.1.1").await?;
    }
    // One member leaves, one dies, and the group is deleted with the last member.
    if let Some((member, _)) = members.remove(&1) {
        member.leave().await?;
    }
    if let Some((_member, client)) = members.remove(&2) {
        client.close().await?;
    }
    workers.delete().await?;
    follower.await??;
    stage.clear(&zk).await
}
