//! [`two_phase`](zk_curator_recipes::two_phase): transactions at paths that are used again and again. Each is told from others
//! at its path by its payload: it is executed once, and gone when somebody has removed it.

use std::future::IntoFuture;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use zk_curator::{CuratorFramework, ErrorKind};
use zk_curator_recipes::two_phase::{Coordinator, Error, Form, Site, Vote};

use super::Scenario;
use super::two_phase::{PARENT, decided, path};
use crate::checkers::{AtomicCommit, OncePerBegin};
use crate::history::{Event, Name};
use crate::{Client, Failure};

const SITES: [&str; 2] = ["a", "b"];
const FORMS: [Form; 3] = [Form::Symmetric, Form::Coordinated, Form::Ephemeral];
/// So many paths there are.
const PATHS: usize = 2;

pub(super) const SCENARIO: Scenario = Scenario::new(
    "two_phase_reused",
    "two-phase commit at paths that are used again: once for each begin",
    |client| Box::pin(work(client)),
)
.common(&["/transactions/*/*"])
.checked_by(|| vec![Arc::new(AtomicCommit), Arc::new(OncePerBegin)]);

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
    // Those who begin have receipts beside the transactions.
    for name in names.iter().filter(|name| !name.starts_with("_r_")) {
        match end(&client, &zk, &path(name)).await {
            Ok(()) | Err(Error::Gone { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// What all who see a transaction know it by.
fn id(payload: &[u8]) -> Name {
    Name::from(&*String::from_utf8_lossy(payload))
}

async fn begin(client: &Client, zk: &CuratorFramework, at: &str) {
    let mut rng = client.rng();
    let txn = Name::from(format!("t{}", client.unique()));
    client.record(Event::Proposed { txn: Name::clone(&txn), sites: SITES.map(Name::from).to_vec() });
    let begin = Coordinator::begin(zk, at, SITES, txn.to_string())
        .form(FORMS[rng.usize(..FORMS.len())])
        .deadline(client.moment(client.session_timeout()));
    let Some(Ok(coordinator)) = client.maybe_cancel(begin.into_future()).await else {
        // If it has begun, somebody removes it.
        client.record(Event::Removing { txn });
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

/// Sees to the end of a transaction, and perhaps removes it.
async fn coordinate(client: &Client, mut coordinator: Coordinator) {
    let txn = id(coordinator.payload());
    match client.maybe_cancel(coordinator.outcome()).await {
        Some(Ok(outcome)) => decided(client, &txn, "coordinator", outcome),
        Some(Err(Error::Gone { .. })) => return client.record(Event::Missing { txn }),
        _ => return,
    }
    if client.rng().u8(..4) == 0 {
        return;
    }
    client.record(Event::Removing { txn: Name::clone(&txn) });
    if let Some(Ok(())) = client.maybe_cancel(coordinator.discard()).await {
        client.record(Event::Ended { txn });
    }
}

async fn take_part(client: &Client, zk: &CuratorFramework, at: &str, site: &str) {
    let Some(visit) = open(client, zk, at).await else { return };
    let Some(Ok(mut participant)) = client.maybe_cancel(Site::join(zk, at, site)).await else {
        return;
    };
    opened(client, visit, participant.payload());
    let txn = id(participant.payload());
    client.record(Event::Voted { txn: Name::clone(&txn), site: Name::from(site), yes: true });
    sleep(client.moment(Duration::from_millis(100))).await;
    match client.maybe_cancel(participant.vote(Vote::Commit)).await {
        Some(Ok(())) => {}
        Some(Err(Error::Late { outcome })) => decided(client, &txn, site, outcome),
        Some(Err(Error::Gone { .. })) => return client.record(Event::Missing { txn }),
        _ => return,
    }
    match client.maybe_cancel(participant.outcome()).await {
        Some(Ok(outcome)) => decided(client, &txn, site, outcome),
        Some(Err(Error::Gone { .. })) => client.record(Event::Missing { txn }),
        _ => {}
    }
}

/// Begins to look, in a session that knows what was there before.
async fn open(client: &Client, zk: &CuratorFramework, at: &str) -> Option<u64> {
    let visit = client.unique();
    client.record(Event::Opening { visit });
    client.maybe_cancel(zk.sync(at).into_future()).await?.ok()?;
    Some(visit)
}

fn opened(client: &Client, visit: u64, payload: &[u8]) {
    client.record(Event::Opened { visit, txn: id(payload) });
}

async fn end(client: &Client, zk: &CuratorFramework, at: &str) -> Result<(), Error> {
    let mut coordinator = Coordinator::resume(zk, at).await?;
    let txn = id(coordinator.payload());
    let outcome = coordinator.outcome().await?;
    decided(client, &txn, "coordinator", outcome);
    client.record(Event::Removing { txn });
    coordinator.discard().await
}
