//! [`two_phase`](zk_curator_recipes::two_phase) with ephemeral votes: sites vote to commit, and
//! some of them then end their session. If such a site finds no decision after that, it knows that
//! the transaction will be aborted, regardless of the votes that coordinators have seen.
//!
//! Most sites never acknowledge, so no other client removes a transaction. A client that finds
//! [`MOST`] transactions begins none, but discards one, as a service has to. Otherwise more
//! transactions remain at the end than the clients can end in time.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::sleep;
use zk_curator::CuratorFramework;
use zk_curator_recipes::two_phase::{Coordinator, Form, Outcome, Site, SiteState, Vote, inspect};

use super::Scenario;
use super::two_phase::{PARENT, coordinate, decided, finish, path, transactions};
use crate::checkers::AtomicCommit;
use crate::history::{Commit, Name, ProcessId};
use crate::{Client, Failure};

/// The maximum number of sites of a transaction: the clients with the lowest numbers.
const SITES: u32 = 3;

/// The number of transactions at which clients discard instead of beginning.
const MOST: usize = 8;

pub(super) const SCENARIO: Scenario = Scenario::new(
    "two_phase_leaving",
    "two-phase commit: sites that vote and end their session",
    &["decisions"],
    |sim| sim.workload(work).common(["/transactions/*/*"]).checker(AtomicCommit),
);

async fn work(client: Client) -> Result<(), Failure> {
    let zk = client.connect().await?;
    let mut rng = client.rng();
    // In an earlier life the site may have voted and left. It must not vote again.
    let votes =
        client.number() < SITES && matches!(client.who(), ProcessId::Client { incarnation: 0, .. });
    let mut known = BTreeSet::new();
    let mut coordinators = Vec::new();
    while client.next_round().is_some() {
        sleep(client.moment(Duration::from_millis(50))).await;
        let names = transactions(&zk).await.unwrap_or_default();
        if names.len() >= MOST {
            let name = names[rng.usize(..names.len())].clone();
            coordinators.push(client.spawn(discard(client.clone(), zk.clone(), name)));
        } else if rng.u8(..3) == 0 {
            coordinators.push(client.spawn(begin(client.clone(), zk.clone())));
        }
        for name in names {
            if !known.insert(name.clone()) {
                continue;
            }
            if rng.u8(..3) == 0 {
                coordinators.push(client.spawn(take_over(
                    client.clone(),
                    zk.clone(),
                    name.clone(),
                )));
            }
            if votes {
                take_part(&client, &zk, &name).await?;
            }
        }
    }
    for coordinator in coordinators {
        coordinator.await;
    }
    client.faults_are_over().await;
    finish(&client, &zk).await
}

async fn begin(client: Client, zk: CuratorFramework) {
    let name = format!("t{}", client.unique());
    let sites: Vec<String> = (0..client.clients().min(SITES)).map(site).collect();
    let proposed = sites.iter().map(|site| Name::from(site.as_str())).collect();
    client.record(Commit::Proposed { txn: Name::from(name.as_str()), sites: proposed });
    let begin = Coordinator::begin(&zk, path(&name), sites, name.clone())
        .form(Form::Ephemeral)
        .deadline(client.moment(client.session_timeout()));
    if let Ok(coordinator) = begin.await {
        coordinate(&client, coordinator, &name, false).await;
    }
}

async fn take_over(client: Client, zk: CuratorFramework, name: String) {
    if let Ok(coordinator) = Coordinator::resume(&zk, path(&name)).await {
        coordinate(&client, coordinator, &name, false).await;
    }
}

/// Decides a transaction at its deadline or earlier, and removes it without waiting for its sites.
async fn discard(client: Client, zk: CuratorFramework, name: String) {
    let Ok(mut coordinator) = Coordinator::resume(&zk, path(&name)).await else { return };
    if let Some(Ok(outcome)) = client.maybe_cancel(coordinator.outcome()).await {
        decided(&client, &name, "coordinator", outcome);
        client.maybe_cancel(coordinator.discard()).await;
    }
}

/// Votes in a session of its own, and then waits for the decision or ends the session.
async fn take_part(client: &Client, zk: &CuratorFramework, name: &str) -> Result<(), Failure> {
    let site = site(client.number());
    let own = client.connect().await?;
    let session = own.session().map(|session| session.id);
    let Ok(mut participant) = Site::join(&own, path(name), site.as_str()).await else {
        drop(own.close().await);
        return Ok(());
    };
    client.record(Commit::Voted {
        txn: Name::from(name),
        site: Name::from(site.as_str()),
        yes: true,
    });
    let cast = participant.vote(Vote::Commit).await.is_ok();
    if client.rng().u8(..3) == 0 {
        if let Ok(outcome) = participant.outcome().await {
            decided(client, name, &site, outcome);
        }
        drop(own.close().await);
        return Ok(());
    }
    sleep(client.moment(Duration::from_millis(20))).await;
    // With two sessions, a request of the first one might still be in flight.
    let one_session = session.is_some() && own.session().map(|session| session.id) == session;
    if own.close().await.is_ok() && cast && one_session && is_out(zk, name, &site).await {
        decided(client, name, &site, Outcome::Aborted);
    }
    Ok(())
}

/// Returns `true` if the vote of a site is gone, and there is no decision yet.
async fn is_out(zk: &CuratorFramework, name: &str, site: &str) -> bool {
    if zk.sync(PARENT).await.is_err() {
        return false;
    }
    match inspect(zk, path(name)).await {
        Ok(Some(seen)) => {
            let pending = (site.to_owned(), SiteState::Pending);
            seen.outcome.is_none() && seen.sites.contains(&pending)
        }
        Ok(None) | Err(_) => false,
    }
}

fn site(number: u32) -> String {
    format!("s{number}")
}
