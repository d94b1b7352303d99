//! [`Election`]: candidates that campaign, proclaim and resign. Some of them run an observer.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::sleep;
use zk_curator::CuratorFramework;
use zk_curator_recipes::leader::{Elected, Election, Observer};

use super::Scenario;
use super::support::holding::{Attempt, hold_on};
use super::support::leading::{ORDERS, connect, work_as_leader};
use crate::checkers::{Exclusion, Violation};
use crate::history::HoldMode;
use crate::{Client, Failure};

pub(super) const SCENARIO: Scenario = Scenario::new(
    "election",
    "Election: one leader at a time, and what observers see",
    &["acquisitions", "uses"],
    |sim| sim.workload(work).operator(["/election/*"]).checker(Exclusion::leader()),
);

async fn work(client: Client) -> Result<(), Failure> {
    let zk = connect(&client).await?;
    if !client.number().is_multiple_of(2) {
        campaign(&client, &zk).await;
        return Ok(());
    }
    let observer = Election::new(&zk, "/election").observe();
    let done = Arc::new(Notify::new());
    let observing = client.spawn(observe(client.clone(), observer, Arc::clone(&done)));
    campaign(&client, &zk).await;
    done.notify_one();
    match observing.await {
        Some(observed) => observed,
        None => Ok(()),
    }
}

async fn campaign(client: &Client, zk: &CuratorFramework) {
    let election = Election::new(zk, "/election");
    let mut rng = client.rng();
    let pause = Duration::from_millis([5, 50, 500][rng.usize(..3)]);
    while client.next_round().is_some() {
        sleep(client.moment(pause)).await;
        let attempt = Attempt::begin(client, ORDERS, HoldMode::Leader);
        let elected = client.maybe_cancel(election.campaign("")).await;
        let Some(Ok(mut elected)) = elected else { continue };
        let leadership = elected.leadership().clone();
        let held = attempt.acquired(leadership.fencing_token());
        let work = async {
            proclaim(client, &mut elected).await;
            work_as_leader(client, &held).await;
            proclaim(client, &mut elected).await;
        };
        if hold_on(&held, leadership.lost(), work).await {
            held.releasing();
        }
        if rng.bool() {
            drop(client.maybe_cancel(elected.resign()).await);
        }
    }
}

/// Proclaims the token of the leader, so that an observer of the value knows its leader.
async fn proclaim(client: &Client, elected: &mut Elected) {
    let token = elected.fencing_token().to_string();
    if let Some(Err(error)) = client.maybe_cancel(elected.proclaim(token)).await {
        client.note(format!("not proclaimed: {error}"));
    }
}

/// Observes until all clients are `done`, and the last notification is that there is no leader.
async fn observe(client: Client, mut observer: Observer, done: Arc<Notify>) -> Result<(), Failure> {
    let (mut newest, mut leads, mut is_done) = (None, true, false);
    while leads || !is_done {
        let seen = tokio::select! {
            biased;
            () = done.notified(), if !is_done => {
                is_done = true;
                continue;
            }
            // The future is sometimes dropped and created again. No notification may be lost by
            // that.
            seen = client.maybe_cancel(observer.next()) => match seen {
                Some(seen) => seen?,
                None => continue,
            }
        };
        let wrong = |what: String| {
            client.run().fail(Violation::new(
                "observer",
                format!("{} {what}", client.who()),
                Vec::new(),
            ));
        };
        leads = seen.is_some();
        if let Some(seen) = seen {
            let token = seen.fencing_token;
            client.note(format!("sees {:?} of {token}", seen.value));
            if newest > Some(token) {
                wrong(format!("has seen {token} after {newest:?}"));
            }
            newest = Some(token);
            if !seen.value.is_empty() && seen.value != token.to_string() {
                wrong(format!("has seen {:?} from the leader with {token}", seen.value));
            }
        }
    }
    Ok(())
}
