//! Three services commit together, abort together, and learn the outcome of a killed coordinator's
//! transaction from another coordinator.
//!
//! Run `cargo run --release --example two_phase_commit` for the embedded server; set
//! `ZK_CONNECT=host:port` to use Apache ZooKeeper. The coordinator of the third order is a separate
//! process, so that it can really be killed: after all services have voted, and before it has
//! decided. The exit code is 0 only if another coordinator has decided, and all services have
//! committed.
#![expect(clippy::print_stdout, reason = "an example talks to its terminal")]
#![expect(clippy::disallowed_methods, reason = "its work takes time")]

#[path = "support/process.rs"]
mod process;
mod support;

use std::time::Duration;

use process::start;
use support::{Result, Stage};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use zk_curator::CuratorFramework;
use zk_curator_recipes::two_phase::{
    Coordinator, Outcome, Site, SiteState, TransactionInspection, Vote, inspect,
};

const SITES: [&str; 3] = ["orders", "stock", "billing"];
/// The time after which sites end a transaction by themselves. In this example another coordinator
/// comes first.
const DEADLINE: Duration = Duration::from_secs(60);
const PATIENCE: Duration = Duration::from_secs(40);

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.as_slice() {
        [servers, root, _] => hesitate(servers, root).await,
        _ => tokio::time::timeout(PATIENCE, stage()).await?,
    }
}

/// Runs the coordinator that is killed: it collects the votes and never decides.
async fn hesitate(servers: &str, root: &str) -> Result<()> {
    let zk = CuratorFramework::builder().connect_string(servers).build()?;
    zk.start().await?;
    let path = format!("{root}/order-3");
    let _coordinator = Coordinator::begin(&zk, &path, SITES, "order-3").deadline(DEADLINE).await?;
    println!("has begun");
    while !inspect(&zk, &path).await?.is_some_and(|order| all_vote_to_commit(&order)) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    println!("sees that all have voted");
    // Here `_coordinator.outcome()` would decide.
    std::future::pending().await
}

fn all_vote_to_commit(order: &TransactionInspection) -> bool {
    order.sites.iter().all(|(_, state)| *state == SiteState::Voted(Vote::Commit))
}

/// Runs a service: it votes, carries out the decision, and prints it.
async fn site(
    zk: CuratorFramework,
    path: String,
    name: &'static str,
    vote: Vote,
) -> Result<Outcome> {
    let mut site = Site::join(&zk, path, name).await?;
    site.vote(vote).await.or_else(|error| match error {
        zk_curator_recipes::two_phase::Error::Late { .. } => Ok(()),
        error => Err(error),
    })?;
    let outcome = site.outcome().await?;
    match outcome {
        Outcome::Committed => println!("  {name}: carries out {:?}", site.payload()),
        Outcome::Aborted => println!("  {name}: forgets {:?}", site.payload()),
    }
    site.acknowledge().await?;
    Ok(outcome)
}

/// Starts all services. The service `stock` casts this vote, the others vote to commit.
fn services(zk: &CuratorFramework, path: &str, stock: Vote) -> JoinSet<Result<Outcome>> {
    let mut services = JoinSet::new();
    for name in SITES {
        let vote = if name == "stock" { stock } else { Vote::Commit };
        services.spawn(site(zk.clone(), path.to_owned(), name, vote));
    }
    services
}

async fn stage() -> Result<()> {
    let stage = Stage::new("two-phase").await;
    let zk = stage.client().await?;

    for (order, stock, expected) in
        [("order-1", Vote::Commit, Outcome::Committed), ("order-2", Vote::Abort, Outcome::Aborted)]
    {
        let path = format!("{}/{order}", stage.root);
        let mut coordinator = Coordinator::begin(&zk, &path, SITES, order).await?;
        let services = services(&zk, &path, stock);
        let outcome = coordinator.outcome().await?;
        println!("{order}: {outcome:?}");
        assert_eq!(outcome, expected);
        for done in services.join_all().await {
            assert_eq!(done?, expected);
        }
        coordinator.clean_up().await?;
    }

    // The coordinator is killed between the votes and the decision.
    let path = format!("{}/order-3", stage.root);
    let (sender, mut lines) = mpsc::unbounded_channel();
    let mut until = async |wanted: &str| -> Result<()> {
        let (name, line) = lines.recv().await.ok_or("the coordinator has ended")?;
        println!("order-3: the {name} {line}");
        if line == wanted { Ok(()) } else { Err(format!("it was to say that it {wanted}").into()) }
    };
    let mut coordinator = start(&stage.servers, &stage.root, "coordinator", sender)?;
    until("has begun").await?;
    let services = services(&zk, &path, Vote::Commit);
    until("sees that all have voted").await?;
    coordinator.kill().await?;
    println!("order-3: the coordinator is KILLED");
    let left = inspect(&zk, &path).await?.ok_or("the transaction is gone")?;
    print!("{left}");
    assert!(all_vote_to_commit(&left) && left.outcome.is_none(), "{left}");

    // Another coordinator decides by the nodes, and cleans up.
    let mut other = Coordinator::resume(&zk, &path).await?;
    let outcome = other.outcome().await?;
    println!("order-3: another coordinator decides: {outcome:?}");
    assert_eq!(outcome, Outcome::Committed);
    for done in services.join_all().await {
        assert_eq!(done?, Outcome::Committed);
    }
    other.clean_up().await?;
    println!("removed: {}", inspect(&zk, &path).await?.is_none());
    stage.clear(&zk).await
}
