//! [`PreviousIncarnation`]: processes that are restarted delete the nodes of their former lives,
//! and then contend for a lock. No node of a former life may be left, and no other process may lose
//! its lock.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use zk_curator::{CuratorFramework, ErrorKind};
use zk_curator_recipes::lease::PreviousIncarnation;
use zk_curator_recipes::lock::InterProcessMutex;

use super::Scenario;
use super::support::exclusive::{Protected, contend};
use crate::checkers::Exclusion;
use crate::{Client, Failure};

const LOCK: &str = "/locks/orders";

pub(super) const SCENARIO: Scenario = Scenario::new(
    "previous_incarnation",
    "PreviousIncarnation: the nodes of a former life are deleted, and no others",
    &["acquisitions", "checks"],
    |sim| sim.workload(work).checker(Exclusion::mutual()),
);

async fn work(client: Client) -> Result<(), Failure> {
    let zk = client.connect().await?;
    let id = format!("worker-{}", client.number());
    let former = PreviousIncarnation::of(&zk, id.as_str()).below(LOCK);
    loop {
        match client.maybe_cancel(former.delete()).await {
            Some(Ok(_)) => break,
            Some(Err(error)) if !error.is_retryable() && error.kind() != ErrorKind::ReadOnly => {
                return Err(error.into());
            }
            _ => sleep(client.moment(Duration::from_millis(200))).await,
        }
    }
    nothing_is_left(&client, &zk, &id).await?;
    contend(&client, Arc::new(InterProcessMutex::new(&zk, LOCK).label(id)), Protected::Tokens)
        .await;
    Ok(())
}

/// Checks that no node with this id belongs to another session.
async fn nothing_is_left(client: &Client, zk: &CuratorFramework, id: &str) -> Result<(), Failure> {
    let Some(session) = zk.session() else { return Ok(()) };
    if zk.sync(LOCK).await.is_err() {
        return Ok(());
    }
    match zk.children_with_data(LOCK).await {
        Ok(nodes) => {
            let of_former = nodes
                .iter()
                .find(|node| node.data == id && node.stat.ephemeral_owner != session.id.get());
            if let Some(node) = of_former.filter(|_| zk.session() == Some(session)) {
                return Err(format!("{}/{} of a former life is left", LOCK, node.name).into());
            }
            client.checked("that no node of a former life is left");
        }
        Err(error) if error.kind() == ErrorKind::NoNode => {
            client.checked("that there is no node");
        }
        Err(_) => {}
    }
    Ok(())
}
