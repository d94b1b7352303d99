//! Three services share a schedule: each slot runs in one of them. One dies in the middle of a
//! slot, and another one takes the slot over.
//!
//! Run `cargo run --example cron`; set `ZK_CONNECT=host:port` to use Apache ZooKeeper.
#![expect(clippy::print_stdout, reason = "an example talks to its terminal")]
#![expect(clippy::disallowed_methods, reason = "its work takes time")]

mod support;

use std::time::Duration;

use support::{Result, Stage};
use tokio::time::sleep;
use zk_curator::CuratorFramework;
use zk_curator::retry::RetryForever;
use zk_curator_recipes::schedule::{OncePer, Schedule, Slot, SlotState};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::main]
async fn main() -> Result<()> {
    let stage = Stage::new("cron").await;
    let path = format!("{}/cleanup", stage.root);
    // An unfinished slot is taken over half a second after its runner is gone.
    let schedule = |zk: &CuratorFramework, id: &str| {
        OncePer::new(zk, path.as_str(), Schedule::every(SECOND))
            .id(id)
            .at_least_once(RetryForever::new(SECOND / 2))
    };

    let zk = stage.client().await?;
    let overview = schedule(&zk, "");
    let mut services = Vec::new();
    for id in ["ada", "ben", "eve"] {
        let zk = stage.client().await?;
        let service = schedule(&zk, id);
        let task = tokio::spawn(async move { service.run(|slot| clean_up(id, slot)).await });
        services.push((id, zk, task));
    }

    while overview.slots().await?.len() < 3 {
        sleep(SECOND / 10).await;
    }
    // Waits for a service that runs a slot, and lets it die.
    let victim = loop {
        let slots = overview.slots().await?.into_iter();
        let mut running = slots.filter(|slot| slot.state == SlotState::Running);
        if let Some(slot) = running.next() {
            break slot.claimed_by;
        }
        sleep(SECOND / 50).await;
    };
    println!("{victim} dies");
    for (id, zk, task) in &services {
        if *id == victim {
            task.abort();
            zk.close().await?;
        }
    }
    let taken_over = loop {
        let mut slots = overview.slots().await?.into_iter();
        if let Some(slot) = slots.find(|slot| slot.attempt > 1 && slot.state == SlotState::Done) {
            break slot;
        }
        sleep(SECOND / 10).await;
    };
    println!(
        "{} has run {} at attempt {}",
        taken_over.claimed_by, taken_over.name, taken_over.attempt
    );
    for (id, zk, task) in services {
        task.abort();
        if id != victim {
            zk.close().await?;
        }
    }
    stage.clear(&zk).await
}

/// Does the work of a slot.
async fn clean_up(id: &str, slot: Slot) -> Result<()> {
    println!("{id} runs {}, attempt {}", slot.name(), slot.attempt());
    sleep(SECOND / 5).await;
    Ok(())
}
