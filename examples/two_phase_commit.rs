//! Three services commit together, abort together, and finish what a coordinator that dies has begun.
//!
//! `cargo run --example two_phase_commit`; with `ZK_CONNECT=host:port` on Apache ZooKeeper.
#![expect(clippy::print_stdout, reason = "an example talks to its terminal")]

mod support;

use std::time::Duration;

use support::{Result, Stage};
use tokio::task::JoinSet;
use zk_curator::CuratorFramework;
use zk_curator_recipes::two_phase::{Coordinator, Outcome, Participant, Vote, inspect};

const SITES: [&str; 3] = ["orders", "stock", "billing"];

/// A service: votes, does what was decided, and says so.
async fn site(zk: CuratorFramework, path: String, name: &'static str, vote: Vote) -> Result<()> {
    let mut site = Participant::join(&zk, path, name).await?;
    site.vote(vote).await.or_else(|error| match error {
        zk_curator_recipes::two_phase::Error::Late { .. } => Ok(()),
        error => Err(error),
    })?;
    match site.outcome().await? {
        Outcome::Committed => println!("  {name}: carries out {:?}", site.payload()),
        Outcome::Aborted => println!("  {name}: forgets {:?}", site.payload()),
    }
    site.acknowledge().await?;
    Ok(())
}

/// All services, where this one votes as it is told.
fn services(zk: &CuratorFramework, path: &str, stock: Vote) -> JoinSet<Result<()>> {
    let mut services = JoinSet::new();
    for name in SITES {
        let vote = if name == "stock" { stock } else { Vote::Commit };
        services.spawn(site(zk.clone(), path.to_owned(), name, vote));
    }
    services
}

#[tokio::main]
async fn main() -> Result<()> {
    let stage = Stage::new("two-phase").await;
    let zk = stage.client().await?;

    for (order, stock) in [("order-1", Vote::Commit), ("order-2", Vote::Abort)] {
        let path = format!("{}/{order}", stage.root);
        let mut coordinator = Coordinator::begin(&zk, &path, SITES, order).await?;
        let services = services(&zk, &path, stock);
        println!("{order}: {:?}", coordinator.outcome().await?);
        for done in services.join_all().await {
            done?;
        }
        coordinator.clean_up().await?;
    }

    // The coordinator dies between the votes and the decision.
    let path = format!("{}/order-3", stage.root);
    let mortal = stage.client().await?;
    let deadline = Duration::from_secs(1);
    drop(Coordinator::begin(&mortal, &path, SITES, "order-3").deadline(deadline).await?);
    mortal.close().await?;
    println!("order-3: the coordinator is dead");
    let services = services(&zk, &path, Vote::Commit);
    for done in services.join_all().await {
        done?; // at the deadline a service has found all votes there
    }
    if let Some(inspection) = inspect(&zk, &path).await? {
        print!("{inspection}");
    }
    // Somebody else cleans up.
    Coordinator::resume(&zk, &path).await?.clean_up().await?;
    println!("removed: {}", inspect(&zk, &path).await?.is_none());
    stage.clear(&zk).await
}
