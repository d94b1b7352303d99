//! [`HandoverMutex`]: three tasks of each client pass the lock on among themselves.

use std::time::Duration;

use tokio::time::sleep;
use zk_curator_recipes::lock::{HandoverMutex, InterProcessMutex};

use super::Scenario;
use super::support::holding::{Attempt, Pauses, acquire, work, write};
use crate::checkers::Exclusion;
use crate::history::{Mode, Name};
use crate::{Client, Failure};

const LOCK: &str = "/locks/orders";
const NODE: &str = "/data/orders";
/// Some batches end by their time, most by the number of their turns.
const WITHIN: Duration = Duration::from_millis(300);

pub(super) const SCENARIO: Scenario =
    Scenario::new("handover", "HandoverMutex: one holder at a time", |sim| {
        sim.workload(three)
            .operator(["/locks/orders/*"])
            .checker(Exclusion::in_turns())
            .nodes([NODE])
            .sequences([LOCK])
    });

async fn three(client: Client) -> Result<(), Failure> {
    let lock = InterProcessMutex::new(&client.connect().await?, LOCK).local_batch(4, WITHIN);
    let tasks = [(); 3].map(|()| client.spawn(contend(client.clone(), lock.clone())));
    for task in tasks {
        task.await;
    }
    Ok(())
}

async fn contend(client: Client, lock: HandoverMutex) {
    let (resource, node) = (Name::from(LOCK), Name::from(NODE));
    let pauses = Pauses::of(&client);
    while client.next_round().is_some() {
        pauses.wait(&client).await;
        let attempt = Attempt::begin(&client, &resource, Mode::Exclusive);
        let Some(guard) = acquire(&client, lock.acquire(), lock.try_acquire()).await else {
            attempt.missed();
            continue;
        };
        let holding = attempt.acquired_in_turn(guard.local_token());
        let ownership = guard.ownership().clone();
        if holding.hold_on(guard.lost(), work(&holding, &node, || guard.fenced())).await {
            // Passing the lock on does not confirm the hold.
            holding.releasing();
            drop(client.maybe_cancel(guard.release()).await);
            if client.rng().bool() {
                // A task that goes on although it has passed the lock on.
                sleep(client.moment(Duration::from_millis(20))).await;
                write(&[&holding], &[Name::clone(&node)], ownership.fenced()).await;
            }
        }
    }
}
