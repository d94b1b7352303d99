//! [`PersistentNode`]: clients keep nodes whose names existed before with other data. When a node
//! is reported as present, the server must have its data.

use std::time::Duration;

use tokio::time::sleep;
use zk_curator::{CreateMode, CuratorFramework, ErrorKind};
use zk_curator_recipes::node::PersistentNode;

use super::Scenario;
use crate::{Client, Failure};

const NODES: &str = "/nodes";

pub(super) const SCENARIO: Scenario = Scenario::new(
    "persistent_node",
    "PersistentNode: a node that is reported as present has its data",
    |sim| sim.workload(work).leaves(["/nodes", "/nodes/*"]),
);

async fn work(client: Client) -> Result<(), Failure> {
    let zk = client.connect().await?;
    // A second client reads the nodes, after a sync.
    let other = client.connect().await?;
    let mut rng = client.rng();
    while client.next_round().is_some() {
        sleep(client.moment(Duration::from_millis(100))).await;
        // A unique path, which no other client and no late request writes.
        let path = format!("{NODES}/{}", client.unique());
        let lasts = rng.u8(..3) > 0;
        if lasts && rng.bool() {
            let create = zk.create(path.as_str()).data("before").creating_parents_as_containers();
            if create.idempotent().await.is_err() {
                continue;
            }
        }
        let mode = if lasts { CreateMode::Persistent } else { CreateMode::Ephemeral };
        let data = client.unique().to_string();
        let node = PersistentNode::builder(&zk, path.as_str(), mode).data(data.clone()).start();
        if let Some(Ok(_)) = client.maybe_cancel(node.created()).await {
            has(&other, &path, &data).await?;
        }
        let data = client.unique().to_string();
        if let Some(Ok(())) = client.maybe_cancel(node.set_data(data.clone())).await {
            has(&other, &path, &data).await?;
        }
        drop(client.maybe_cancel(node.close()).await);
    }
    Ok(())
}

/// Checks that a node has these data, if it exists. It may be gone with its session.
async fn has(zk: &CuratorFramework, path: &str, data: &str) -> Result<(), Failure> {
    // The sync brings the server up to date.
    if zk.sync(path).await.is_err() {
        return Ok(());
    }
    match zk.get_data(path).await {
        Ok(found) if found == data => Ok(()),
        Ok(found) => Err(format!("{path} exists with {found:?}, not with {data:?}").into()),
        Err(error) if error.kind() == ErrorKind::NoNode || error.is_retryable() => Ok(()),
        Err(error) => Err(error.into()),
    }
}
