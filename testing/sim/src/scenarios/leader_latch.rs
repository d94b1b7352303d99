//! [`LeaderLatch`]: candidates that join, wait, lead, and leave or stay.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use zk_curator_recipes::leader::{Candidate, LeaderLatch};

use super::Scenario;
use super::leading::{Term, acquiring, connect};
use crate::checkers::Exclusion;
use crate::history::Event;
use crate::{Client, Failure};

pub(super) const SCENARIO: Scenario =
    Scenario::new("leader_latch", "LeaderLatch: one leader at a time", |client| Box::pin(work(client)))
        .operator(&["/election/*"])
        .checked_by(|| vec![Arc::new(Exclusion::leader())]);

async fn work(client: Client) -> Result<(), Failure> {
    let zk = connect(&client).await?;
    let latch = LeaderLatch::new(&zk, "/election").id(client.who().to_string());
    let mut rng = client.rng();
    let pause = Duration::from_millis([5, 50, 500][rng.usize(..3)]);
    let mut joined = None;
    while client.next_round().is_some() {
        sleep(client.moment(pause)).await;
        let hold = acquiring(&client);
        let candidate = match joined.take() {
            Some(candidate) => candidate,
            None => latch.join(),
        };
        match client.maybe_cancel(candidate.await_leadership()).await {
            Some(Ok(leadership)) => {
                let term = Term::begin(&client, hold, &leadership);
                tokio::select! {
                    biased;
                    () = leadership.lost() => drop(term),
                    () = term.work() => term.resigns(),
                }
            }
            Some(Err(_)) | None => client.record(Event::Missed { hold }),
        }
        // One that leads and does nothing is in everybody's way, but not for ever.
        if rng.u8(..3) == 0 {
            joined = Some(candidate);
        } else {
            leave(&client, candidate).await;
        }
    }
    Ok(())
}

async fn leave(client: &Client, candidate: Candidate) {
    if client.rng().bool() {
        // What could not be answered is done in the background.
        drop(client.maybe_cancel(candidate.close()).await);
    }
}
