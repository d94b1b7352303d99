//! Workloads of locks with one holder at a time.

use std::sync::Arc;

use zk_curator::CuratorFramework;
use zk_curator_recipes::lock::InterProcessLock;

use super::holding::{Attempt, Pauses, acquire, last_visit, work};
use crate::history::{Mode, Name};
use crate::{Client, Failure};

/// Contends for a lock, and uses a resource and a znode under it. Some clients visit again after
/// the last fault.
pub(in crate::scenarios) async fn contend(
    client: Client,
    node: &str,
    lock: impl FnOnce(&CuratorFramework) -> Arc<dyn InterProcessLock>,
) -> Result<(), Failure> {
    let lock = lock(&client.connect().await?);
    let (resource, node) = (Name::from(lock.path()), Name::from(node));
    let pauses = Pauses::of(&client);
    while client.next_round().is_some() {
        pauses.wait(&client).await;
        let attempt = Attempt::begin(&client, &resource, Mode::Exclusive);
        let Some(guard) = acquire(&client, lock.acquire(), lock.try_acquire()).await else {
            attempt.missed();
            continue;
        };
        let holding = attempt.acquired(guard.fencing_token());
        if holding.hold_on(guard.lost(), work(&holding, &node, || guard.fenced())).await {
            holding.let_go(guard.release()).await;
        }
    }
    let attempt = Attempt::begin(&client, &resource, Mode::Exclusive);
    match last_visit(&client, lock.acquire()).await? {
        Some(guard) => attempt.acquired(guard.fencing_token()).let_go(guard.release()).await,
        None => attempt.missed(),
    }
    Ok(())
}
