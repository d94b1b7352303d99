//! [`HandoverMutex`]: three tasks of each client pass the lock on among themselves.

use std::time::Duration;

use tokio::time::sleep;
use zk_curator::FencingToken;
use zk_curator_recipes::lock::{HandoverMutex, InterProcessMutex};

use super::Scenario;
use super::support::holding::{Attempt, Pauses, acquire, hold_on, work, write};
use crate::checkers::Exclusion;
use crate::history::HoldMode;
use crate::{Client, Failure};

const LOCK: &str = "/locks/orders";
const NODE: &str = "/data/orders";
/// Some batches end by their time, most by the number of their turns.
const WITHIN: Duration = Duration::from_millis(300);

pub(super) const SCENARIO: Scenario = Scenario::new(
    "handover",
    "HandoverMutex: one holder at a time",
    &["acquisitions", "uses"],
    |sim| {
        sim.workload(three)
            .operator(["/locks/orders/*"])
            .patience_after_faults(Duration::from_secs(120))
            .checker(Exclusion::in_turns())
            .nodes([NODE])
            .sequences([LOCK])
    },
);

async fn three(client: Client) -> Result<(), Failure> {
    let lock = InterProcessMutex::new(&client.connect().await?, LOCK);
    // Batches without an end outlive the deletion of their node by an operator.
    let is_endless = client.rng().u8(..4) == 0;
    let lock = if is_endless {
        lock.local_batch(u32::MAX, Duration::MAX)
    } else {
        lock.local_batch(4, WITHIN)
    };
    let tasks = [(); 3].map(|()| client.spawn(contend(client.clone(), lock.clone(), is_endless)));
    for task in tasks {
        task.await;
    }
    Ok(())
}

async fn contend(client: Client, lock: HandoverMutex, is_endless: bool) {
    let pauses = Pauses::of(&client);
    while is_endless && !client.no_more_faults() || client.next_round().is_some() {
        if !is_endless {
            pauses.wait(&client).await;
        }
        let attempt = Attempt::begin(&client, LOCK, HoldMode::Exclusive);
        let Some(guard) = acquire(&client, lock.acquire(), lock.try_acquire()).await else {
            drop(attempt);
            sleep(client.moment(Duration::from_millis(5))).await;
            continue;
        };
        let token = guard.local_token();
        let token = Exclusion::turn_token(token.fencing_token.get(), token.turn);
        let held = attempt.acquired(FencingToken::new(token));
        let ownership = guard.ownership().clone();
        if is_endless {
            // Nobody asks for the node: neither a watch nor a transaction shows that it is gone.
            let work = async {
                sleep(client.moment(Duration::from_secs(2))).await;
                client.use_resource(&held).await;
            };
            if hold_on(&held, ownership.over(), work).await {
                held.releasing();
                drop(guard);
            }
            continue;
        }
        let work = work(&client, &held, NODE, || guard.fenced());
        if hold_on(&held, guard.lost(), work).await {
            // Passing the lock on does not confirm the hold.
            held.releasing();
            drop(client.maybe_cancel(guard.release()).await);
            if client.rng().bool() {
                // A task that goes on although it has passed the lock on.
                sleep(client.moment(Duration::from_millis(20))).await;
                write(&client, &[(&held, NODE)], ownership.fenced()).await;
            }
        }
    }
}
