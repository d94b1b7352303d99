//! [`LeaderLatch`]: candidates that join, wait, lead, and leave or stay, and observers.

use std::time::Duration;

use tokio::time::sleep;
use zk_curator_recipes::leader::{Candidate, LeaderLatch};

use super::Scenario;
use super::support::holding::{Attempt, hold_on};
use super::support::leading::{ORDERS, connect, is_observed, observed, work_as_leader};
use crate::checkers::{Exclusion, Observed};
use crate::history::HoldMode;
use crate::{Client, Failure};

pub(super) const SCENARIO: Scenario = Scenario::new(
    "leader_latch",
    "LeaderLatch: one leader at a time, and what observers see",
    &["acquisitions", "leaders observed", "uses"],
    |sim| {
        sim.workload(work)
            .operator(["/election/*"])
            .checker(Exclusion::leader())
            .checker(Observed::default())
    },
);

async fn work(client: Client) -> Result<(), Failure> {
    let zk = connect(&client).await?;
    let latch = LeaderLatch::new(&zk, "/election").id(client.who().to_string());
    let observe = {
        let latch = latch.clone();
        move || latch.observe()
    };
    let lead = async {
        lead(&client, &latch).await;
        last_visit(&client, &latch).await
    };
    observed(&client, observe, lead).await
}

async fn lead(client: &Client, latch: &LeaderLatch) {
    let mut rng = client.rng();
    let pause = Duration::from_millis([5, 50, 500][rng.usize(..3)]);
    let mut joined = None;
    while client.next_round().is_some() {
        sleep(client.moment(pause)).await;
        let attempt = Attempt::begin(client, ORDERS, HoldMode::Leader);
        let candidate = match joined.take() {
            Some(candidate) => candidate,
            None => latch.join(),
        };
        match client.maybe_cancel(candidate.await_leadership()).await {
            Some(Ok(leadership)) => {
                let held = attempt.acquired(leadership.fencing_token());
                hold_on(&held, leadership.lost(), work_as_leader(client, &held)).await;
            }
            Some(Err(_)) | None => drop(attempt),
        }
        // A leader that does nothing delays the other candidates, but not forever.
        if rng.u8(..3) == 0 {
            joined = Some(candidate);
        } else {
            leave(client, candidate).await;
        }
    }
}

async fn leave(client: &Client, candidate: Candidate) {
    if client.rng().bool() {
        // A close without a response goes on in the background. A response does not confirm the
        // leadership until then, unlike the release of a lock: the session may have ended before.
        drop(client.maybe_cancel(candidate.close()).await);
    }
}

/// Lets some clients lead again after the last fault. An observer must be notified of that.
async fn last_visit(client: &Client, latch: &LeaderLatch) -> Result<(), Failure> {
    if client.rng().u8(..4) > 0 {
        return Ok(());
    }
    client.faults_are_over().await;
    sleep(client.session_timeout() * 3).await;
    let candidate = latch.join();
    let leadership = candidate.await_leadership().await?;
    is_observed(latch.observe(), &leadership).await?;
    Ok(candidate.close().await?)
}
