//! [`two_phase`](zk_curator_recipes::two_phase): clients begin transactions of all forms, vote as
//! sites of their own transactions and of others, take over as coordinators, abort, sweep, and give
//! up in the middle. After the last fault, every client ends and removes all transactions.

use std::future::IntoFuture;
use std::time::Duration;

use tokio::time::sleep;
use zk_curator::{CuratorFramework, ErrorKind};
use zk_curator_recipes::two_phase::{Coordinator, Error, Form, Outcome, Site, Vote, sweep};

use super::Scenario;
use crate::checkers::AtomicCommit;
use crate::history::{Commit, Name};
use crate::{Client, Failure};

pub(super) const PARENT: &str = "/transactions";
const SITES: [&str; 3] = ["a", "b", "c"];
const FORMS: [Form; 3] = [Form::Symmetric, Form::Coordinated, Form::Ephemeral];

pub(super) const SCENARIO: Scenario = Scenario::new(
    "two_phase",
    "two-phase commit: committed everywhere or nowhere",
    &["decisions"],
    |sim| sim.workload(work).common(["/transactions/*/*"]).checker(AtomicCommit::default()),
);

async fn work(client: Client) -> Result<(), Failure> {
    let zk = client.connect().await?;
    let mut rng = client.rng();
    while client.next_round().is_some() {
        sleep(client.moment(Duration::from_millis(200))).await;
        let known = transactions(&zk).await.unwrap_or_default();
        if known.is_empty() || rng.u8(..3) == 0 {
            begin(&client, &zk).await;
            continue;
        }
        let name = &known[rng.usize(..known.len())];
        match rng.u8(..8) {
            0 => take_over(&client, &zk, name, false).await,
            1 => take_over(&client, &zk, name, true).await,
            2 => tidy(&client, &zk).await,
            3 => drop(take_part(&client, &zk, name, SITES[rng.usize(..SITES.len())]).await),
            _ => take_all_parts(&client, &zk, name).await,
        }
    }
    client.faults_are_over().await;
    finish(&client, &zk).await
}

/// Removes finished transactions, and perhaps decides overdue ones.
async fn tidy(client: &Client, zk: &CuratorFramework) {
    let sweep = sweep(zk, PARENT).at_once(1 + client.rng().usize(..4));
    let sweep = if client.rng().bool() { sweep.deciding_overdue() } else { sweep };
    client.maybe_cancel(sweep.into_future()).await;
}

async fn begin(client: &Client, zk: &CuratorFramework) {
    let mut rng = client.rng();
    let name = format!("t{}", client.unique());
    let sites = SITES.map(Name::from).to_vec();
    client.record(Commit::Proposed { txn: Name::from(name.as_str()), sites });
    let form = FORMS[rng.usize(..FORMS.len())];
    let begin = Coordinator::begin(zk, path(&name), SITES, name.clone())
        .form(form)
        .deadline(client.moment(client.session_timeout() * 3));
    let Some(Ok(coordinator)) = client.maybe_cancel(begin.into_future()).await else { return };
    // In most cases the sites are declared.
    let sites = async {
        if rng.u8(..4) > 0 {
            take_all_parts(client, zk, &name).await;
        }
    };
    tokio::join!(coordinate(client, coordinator, &name, false), sites);
}

async fn take_over(client: &Client, zk: &CuratorFramework, name: &str, abort: bool) {
    if let Some(Ok(coordinator)) = client.maybe_cancel(Coordinator::resume(zk, path(name))).await {
        coordinate(client, coordinator, name, abort).await;
    }
}

pub(super) async fn coordinate(
    client: &Client,
    mut coordinator: Coordinator,
    name: &str,
    abort: bool,
) {
    let decide =
        async { if abort { coordinator.abort().await } else { coordinator.outcome().await } };
    if let Some(Ok(outcome)) = client.maybe_cancel(decide).await {
        decided(client, name, "coordinator", outcome);
    }
}

async fn take_all_parts(client: &Client, zk: &CuratorFramework, name: &str) {
    let [a, b, c] = SITES.map(|site| Box::pin(take_part(client, zk, name, site)));
    tokio::join!(a, b, c);
}

/// Votes as a site, unless it is too late, and learns the decision.
async fn take_part(client: &Client, zk: &CuratorFramework, name: &str, site: &str) -> Option<Site> {
    let mut participant = client.maybe_cancel(Site::join(zk, path(name), site)).await?.ok()?;
    let yes = votes_yes(name, site);
    client.record(Commit::Voted { txn: Name::from(name), site: Name::from(site), yes });
    let vote = if yes { Vote::Commit } else { Vote::Abort };
    sleep(client.moment(Duration::from_millis(100))).await;
    if let Err(Error::Late { outcome, .. }) = client.maybe_cancel(participant.vote(vote)).await? {
        decided(client, name, site, outcome);
    }
    let outcome = client.maybe_cancel(participant.outcome()).await?.ok()?;
    decided(client, name, site, outcome);
    if client.rng().bool() {
        client.maybe_cancel(participant.acknowledge()).await?.ok()?;
    }
    Some(participant)
}

/// Returns the vote of a site, which does not depend on the client that acts for it.
fn votes_yes(name: &str, site: &str) -> bool {
    let sum = name
        .bytes()
        .chain(site.bytes())
        .fold(7u32, |sum, byte| sum.wrapping_mul(31) + u32::from(byte));
    sum % 16 > 0
}

pub(super) fn decided(client: &Client, name: &str, site: &str, outcome: Outcome) {
    let commit = outcome == Outcome::Committed;
    client.record(Commit::Decided { txn: Name::from(name), site: Name::from(site), commit });
}

/// Returns the names of the transactions: all children except the receipts of the clients.
pub(super) async fn transactions(zk: &CuratorFramework) -> zk_curator::Result<Vec<String>> {
    match zk.children(PARENT).await {
        Ok(mut names) => {
            names.retain(|name| !name.starts_with("_r_"));
            Ok(names)
        }
        Err(error) if error.kind() == ErrorKind::NoNode => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Ends and removes every transaction. A missing transaction was removed by another client.
pub(super) async fn finish(client: &Client, zk: &CuratorFramework) -> Result<(), Failure> {
    zk.sync("/").await?;
    for name in transactions(zk).await? {
        match end(client, zk, &name).await {
            Ok(()) | Err(Error::Gone { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

async fn end(client: &Client, zk: &CuratorFramework, name: &str) -> Result<(), Error> {
    let mut coordinator = Coordinator::resume(zk, path(name)).await?;
    let outcome = coordinator.outcome().await?;
    decided(client, name, "coordinator", outcome);
    for site in coordinator.sites().to_vec() {
        let mut participant = Site::join(zk, path(name), site.as_str()).await?;
        decided(client, name, &site, participant.outcome().await?);
        participant.acknowledge().await?;
    }
    coordinator.clean_up().await
}

pub(super) fn path(name: &str) -> String {
    format!("{PARENT}/{name}")
}
