//! [`two_phase`](zk_curator_recipes::two_phase) with ephemeral votes: sites vote to commit, and some end their session
//! then. One that finds nothing decided after that knows that it will be aborted, whatever coordinators have seen before.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use zk_curator::CuratorFramework;
use zk_curator_recipes::two_phase::{Coordinator, Form, Outcome, Site, SiteState, Vote, inspect};

use super::Scenario;
use super::two_phase::{PARENT, coordinate, decided, finish, path, transactions};
use crate::checkers::AtomicCommit;
use crate::history::{Event, Name, ProcessId};
use crate::{Client, Failure};

/// The most sites of a transaction: the clients with the first numbers.
const SITES: u32 = 3;

pub(super) const SCENARIO: Scenario =
    Scenario::new("two_phase_leaving", "two-phase commit: sites that vote and end their session", |client| {
        Box::pin(work(client))
    })
    .common(&["/transactions/*/*"])
    .checked_by(|| vec![Arc::new(AtomicCommit)]);

async fn work(client: Client) -> Result<(), Failure> {
    let zk = client.connect().await?;
    let mut rng = client.rng();
    // In an earlier life it may have voted and left, and is not to come back to that.
    let votes = client.number() < SITES && matches!(client.who(), ProcessId::Client { incarnation: 0, .. });
    let mut known = BTreeSet::new();
    let mut coordinators = Vec::new();
    while client.next_round().is_some() {
        sleep(client.moment(Duration::from_millis(50))).await;
        if rng.u8(..3) == 0 {
            coordinators.push(client.spawn(begin(client.clone(), zk.clone())));
        }
        for name in transactions(&zk).await.unwrap_or_default() {
            if !known.insert(name.clone()) {
                continue;
            }
            if rng.u8(..3) == 0 {
                coordinators.push(client.spawn(take_over(client.clone(), zk.clone(), name.clone())));
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
    client.record(Event::Proposed { txn: Name::from(name.as_str()), sites: proposed });
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

/// Votes in a session of its own, and waits for the outcome or ends the session.
async fn take_part(client: &Client, zk: &CuratorFramework, name: &str) -> Result<(), Failure> {
    let site = site(client.number());
    let own = client.connect().await?;
    let session = own.session().map(|session| session.id);
    let Ok(mut participant) = Site::join(&own, path(name), site.as_str()).await else {
        drop(own.close().await);
        return Ok(());
    };
    client.record(Event::Voted { txn: Name::from(name), site: Name::from(site.as_str()), yes: true });
    let cast = participant.vote(Vote::Commit).await.is_ok();
    if client.rng().u8(..3) == 0 {
        if let Ok(outcome) = participant.outcome().await {
            decided(client, name, &site, outcome);
        }
        drop(own.close().await);
        return Ok(());
    }
    sleep(client.moment(Duration::from_millis(20))).await;
    // Else something that it has sent in another session might still be on its way.
    let one_session = session.is_some() && own.session().map(|session| session.id) == session;
    if own.close().await.is_ok() && cast && one_session && is_out(zk, name, &site).await {
        decided(client, name, &site, Outcome::Aborted);
    }
    Ok(())
}

/// Whether the vote of a site is gone, and nothing is decided yet.
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
