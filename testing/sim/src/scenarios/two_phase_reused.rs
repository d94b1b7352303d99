//! [`two_phase`](zk_curator_recipes::two_phase): transactions at paths that are used repeatedly.
//! The payload tells a transaction from the others at its path. Each transaction is executed once,
//! and does not exist after a client has removed it.

use std::future::IntoFuture;
use std::time::Duration;

use tokio::time::sleep;
use zk_curator::{CuratorFramework, ErrorKind};
use zk_curator_recipes::two_phase::{Coordinator, Error, Form, Site, Vote};

use super::Scenario;
use super::two_phase::{PARENT, decided, path};
use crate::checkers::{AtomicCommit, OncePerBegin};
use crate::history::{Commit, Name};
use crate::{Client, Failure};

const SITES: [&str; 2] = ["a", "b"];
const FORMS: [Form; 3] = [Form::Symmetric, Form::Coordinated, Form::Ephemeral];
/// The number of paths.
const PATHS: usize = 2;

pub(super) const SCENARIO: Scenario = Scenario::new(
    "two_phase_reused",
    "two-phase commit at reused paths: executed once for each begin",
    &["decisions"],
    |sim| {
        sim.workload(work).common(["/transactions/*/*"]).checker(AtomicCommit).checker(OncePerBegin)
    },
);

async fn work(client: Client) -> Result<(), Failure> {
    let zk = client.connect().await?;
    let mut rng = client.rng();
    while client.next_round().is_some() {
        sleep(client.moment(Duration::from_millis(200))).await;
        let at = path(&format!("p{}", rng.usize(..PATHS)));
        match rng.u8(..4) {
            0 | 1 => begin(&client, &zk, &at).await,
            2 => finish(&client, &zk, &at).await,
            _ => take_part(&client, &zk, &at, SITES[rng.usize(..SITES.len())]).await,
        }
    }
    client.faults_are_over().await;
    zk.sync("/").await?;
    let names = match zk.children(PARENT).await {
        Err(error) if error.kind() == ErrorKind::NoNode => return Ok(()),
        names => names?,
    };
    // Clients that begin a transaction have receipts next to the transactions.
    for name in names.iter().filter(|name| !name.starts_with("_r_")) {
        match end(&client, &zk, &path(name)).await {
            Ok(()) | Err(Error::Gone { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Returns the identity of a transaction, from its payload.
fn id(payload: &[u8]) -> Name {
    Name::from(&*String::from_utf8_lossy(payload))
}

async fn begin(client: &Client, zk: &CuratorFramework, at: &str) {
    let mut rng = client.rng();
    let txn = Name::from(format!("t{}", client.unique()));
    client
        .record(Commit::Proposed { txn: Name::clone(&txn), sites: SITES.map(Name::from).to_vec() });
    let begin = Coordinator::begin(zk, at, SITES, txn.to_string())
        .form(FORMS[rng.usize(..FORMS.len())])
        .deadline(client.moment(client.session_timeout()));
    let Some(Ok(coordinator)) = client.maybe_cancel(begin.into_future()).await else {
        // If the transaction has begun, some client removes it.
        client.record(Commit::Removing { txn });
        return;
    };
    let sites = async {
        if rng.u8(..4) > 0 {
            let [a, b] = SITES.map(|site| Box::pin(take_part(client, zk, at, site)));
            tokio::join!(a, b);
        }
    };
    tokio::join!(coordinate(client, coordinator), sites);
}

async fn finish(client: &Client, zk: &CuratorFramework, at: &str) {
    let Some(visit) = open(client, zk, at).await else { return };
    if let Some(Ok(coordinator)) = client.maybe_cancel(Coordinator::resume(zk, at)).await {
        opened(client, visit, coordinator.payload());
        coordinate(client, coordinator).await;
    }
}

/// Leads a transaction to its end, and perhaps removes it.
async fn coordinate(client: &Client, mut coordinator: Coordinator) {
    let txn = id(coordinator.payload());
    match client.maybe_cancel(coordinator.outcome()).await {
        Some(Ok(outcome)) => decided(client, &txn, "coordinator", outcome),
        Some(Err(Error::Gone { .. })) => return client.record(Commit::Missing { txn }),
        _ => return,
    }
    if client.rng().u8(..4) == 0 {
        return;
    }
    client.record(Commit::Removing { txn: Name::clone(&txn) });
    if let Some(Ok(())) = client.maybe_cancel(coordinator.discard()).await {
        client.record(Commit::Ended { txn });
    }
}

async fn take_part(client: &Client, zk: &CuratorFramework, at: &str, site: &str) {
    let Some(visit) = open(client, zk, at).await else { return };
    let Some(Ok(mut participant)) = client.maybe_cancel(Site::join(zk, at, site)).await else {
        return;
    };
    opened(client, visit, participant.payload());
    let txn = id(participant.payload());
    client.record(Commit::Voted { txn: Name::clone(&txn), site: Name::from(site), yes: true });
    sleep(client.moment(Duration::from_millis(100))).await;
    match client.maybe_cancel(participant.vote(Vote::Commit)).await {
        Some(Ok(())) => {}
        Some(Err(Error::Late { outcome, .. })) => decided(client, &txn, site, outcome),
        Some(Err(Error::Gone { .. })) => return client.record(Commit::Missing { txn }),
        _ => return,
    }
    match client.maybe_cancel(participant.outcome()).await {
        Some(Ok(outcome)) => decided(client, &txn, site, outcome),
        Some(Err(Error::Gone { .. })) => client.record(Commit::Missing { txn }),
        _ => {}
    }
}

/// Begins to read, in a session that has seen the earlier transactions.
async fn open(client: &Client, zk: &CuratorFramework, at: &str) -> Option<u64> {
    let visit = client.unique();
    client.record(Commit::Opening { visit });
    client.maybe_cancel(zk.sync(at).into_future()).await?.ok()?;
    Some(visit)
}

fn opened(client: &Client, visit: u64, payload: &[u8]) {
    client.record(Commit::Opened { visit, txn: id(payload) });
}

async fn end(client: &Client, zk: &CuratorFramework, at: &str) -> Result<(), Error> {
    let mut coordinator = Coordinator::resume(zk, at).await?;
    let txn = id(coordinator.payload());
    let outcome = coordinator.outcome().await?;
    decided(client, &txn, "coordinator", outcome);
    client.record(Commit::Removing { txn });
    coordinator.discard().await
}
