//! [`InterProcessSemaphore`]: one lease, or several at once.

use std::sync::Arc;

use tokio::time::sleep;
use zk_curator_recipes::lock::{InterProcessSemaphore, Lease};

use super::Scenario;
use super::holding::{Attempt, Holding, Pauses, acquire, ends, last_visit};
use crate::checkers::Exclusion;
use crate::history::{Mode, Name};
use crate::{Client, Failure};

const SEMAPHORE: &str = "/locks/printers";
const LEASES: u32 = 3;

pub(super) const SCENARIO: Scenario =
    Scenario::new("semaphore", "InterProcessSemaphore: three leases", |client| Box::pin(print(client)))
        .operator(&["/locks/printers/leases/*"])
        .checked_by(|| vec![Arc::new(Exclusion::at_most(LEASES as usize))])
        .sequences(&["/locks/printers/locks", "/locks/printers/leases"]);

async fn print(client: Client) -> Result<(), Failure> {
    let semaphore = InterProcessSemaphore::new(&client.connect().await?, SEMAPHORE, LEASES);
    let resource = Name::from(SEMAPHORE);
    let mut rng = client.rng();
    let pauses = Pauses::of(&client);
    while client.next_round().is_some() {
        pauses.wait(&client).await;
        let count = [1, 1, 1, 2, 3][rng.usize(..5)];
        let attempts = begin(&client, &resource, count);
        let some = semaphore.acquire_many(count);
        match Box::pin(acquire(&client, some, semaphore.try_acquire_many(count))).await {
            Some(leases) => hold(&client, attempts, leases).await,
            None => attempts.into_iter().for_each(Attempt::missed),
        }
    }
    let attempts = begin(&client, &resource, LEASES);
    match last_visit(&client, semaphore.acquire_many(LEASES)).await? {
        Some(leases) => hold(&client, attempts, leases).await,
        None => attempts.into_iter().for_each(Attempt::missed),
    }
    Ok(())
}

fn begin(client: &Client, resource: &Name, count: u32) -> Vec<Attempt> {
    (0..count).map(|_| Attempt::begin(client, resource, Mode::Lease)).collect()
}

async fn hold(client: &Client, attempts: Vec<Attempt>, leases: Vec<Lease>) {
    let acquired = |(attempt, lease): (Attempt, &Lease)| attempt.acquired(lease.fencing_token());
    let holdings: Vec<Holding> = attempts.into_iter().zip(&leases).map(acquired).collect();
    let work = async {
        for holding in &holdings {
            holding.use_it().await;
        }
        sleep(client.moment(client.session_timeout() / 10)).await;
    };
    tokio::select! {
        biased;
        // All belong to one session.
        () = leases[0].lost() => {
            holdings.iter().for_each(Holding::lost);
            return;
        }
        () = work => {}
    }
    holdings.iter().for_each(Holding::releasing);
    for (holding, lease) in holdings.iter().zip(leases) {
        if ends(client, lease.release()).await {
            holding.released();
        }
    }
}
