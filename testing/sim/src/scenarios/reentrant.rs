//! [`ReentrantMutex`]: two tasks of each client, which acquire the lock again while they hold it.

use zk_curator_recipes::lock::ReentrantMutex;

use super::Scenario;
use super::support::holding::{Attempt, Pauses, acquire, hold_on, let_go, work};
use crate::checkers::Exclusion;
use crate::history::HoldMode;
use crate::{Client, Failure};

const LOCK: &str = "/locks/orders";
const NODE: &str = "/data/orders";

pub(super) const SCENARIO: Scenario = Scenario::new(
    "reentrant",
    "ReentrantMutex: one owner at a time",
    &["acquisitions", "uses"],
    |sim| {
        sim.workload(two)
            .operator(["/locks/orders/*"])
            .checker(Exclusion::mutual())
            .nodes([NODE])
            .sequences([LOCK])
    },
);

async fn two(client: Client) -> Result<(), Failure> {
    let lock = ReentrantMutex::new(&client.connect().await?, LOCK);
    let tasks =
        ["one", "two"].map(|owner| client.spawn(contend(client.clone(), lock.clone(), owner)));
    for task in tasks {
        task.await;
    }
    Ok(())
}

async fn contend(client: Client, lock: ReentrantMutex<&'static str>, owner: &'static str) {
    let pauses = Pauses::of(&client);
    while client.next_round().is_some() {
        pauses.wait(&client).await;
        let attempt = Attempt::begin(&client, LOCK, HoldMode::Exclusive);
        let guard = acquire(&client, lock.acquire(owner), lock.try_acquire(owner)).await;
        let Some(guard) = guard else { continue };
        let held = attempt.acquired(guard.fencing_token());
        let twice = async {
            let again = client.maybe_cancel(lock.acquire(owner)).await;
            work(&client, &held, NODE, || guard.fenced()).await;
            drop(again);
        };
        if hold_on(&held, guard.lost(), twice).await {
            Box::pin(let_go(&client, &held, guard.release())).await;
        }
    }
}
