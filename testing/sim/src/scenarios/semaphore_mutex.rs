//! [`InterProcessSemaphoreMutex`]: a mutex that is a semaphore with one lease.

use std::sync::Arc;

use zk_curator_recipes::lock::{InterProcessLock, InterProcessSemaphoreMutex};

use super::Scenario;
use super::support::exclusive::{Protected, contend};
use super::support::holding::{Attempt, last_visit, let_go};
use crate::checkers::Exclusion;
use crate::history::HoldMode;
use crate::{Client, Failure};

const LOCK: &str = "/locks/orders";
const NODE: &str = "/data/orders";

pub(super) const SCENARIO: Scenario = Scenario::new(
    "semaphore_mutex",
    "InterProcessSemaphoreMutex: one holder at a time",
    &["acquisitions", "uses"],
    |sim| {
        sim.workload(work)
            .operator(["/locks/orders/leases/*"])
            .checker(Exclusion::mutual())
            .nodes([NODE])
            .sequences(["/locks/orders/locks", "/locks/orders/leases"])
    },
);

async fn work(client: Client) -> Result<(), Failure> {
    let zk = client.connect().await?;
    let lock: Arc<dyn InterProcessLock> = Arc::new(InterProcessSemaphoreMutex::new(&zk, LOCK));
    let protected = [Protected::Tokens, Protected::Node(NODE)][client.rng().usize(..2)];
    contend(&client, Arc::clone(&lock), protected).await;
    let attempt = Attempt::begin(&client, LOCK, HoldMode::Exclusive);
    if let Some(guard) = last_visit(&client, lock.acquire()).await? {
        let held = attempt.acquired(guard.fencing_token());
        let_go(&client, &held, guard.release()).await;
    }
    Ok(())
}
