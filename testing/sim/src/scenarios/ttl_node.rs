//! [`PersistentTtlNode`]: clients keep nodes with a time to live. A node that is touched stays, and
//! one whose client has gone disappears after its time. Touches that are refused are repeated ever
//! more slowly.

use std::time::Duration;

use tokio::time::sleep;
use zk_curator::{Acl, CuratorFramework, ErrorKind, Permissions};
use zk_curator_recipes::node::PersistentTtlNode;

use super::Scenario;
use super::support::creates::Creates;
use crate::{Client, Failure};

const NODES: &str = "/workers";
/// The name of a node below which none may be created.
const CHILDLESS: &str = "childless";
/// The longest time between two looks of the servers for nodes that have expired.
const REAPING: Duration = Duration::from_secs(2);

pub(super) const SCENARIO: Scenario = Scenario::new(
    "ttl_node",
    "PersistentTtlNode: it stays while it is touched, and then for its time to live",
    &["checks"],
    |sim| {
        sim.workload(work)
            .leaves([NODES, "/workers/**"])
            .patience_after_faults(Duration::from_secs(120))
    },
);

async fn work(client: Client) -> Result<(), Failure> {
    let creates = Creates::of(|path| path.contains("/childless/"));
    let zk = client.connect_with(client.framework().acl_provider(creates.clone())).await?;
    let (path, ttl) = (format!("{NODES}/{}", client.number()), client.session_timeout());
    let keep = |data: String| PersistentTtlNode::builder(&zk, &path, ttl).data(data).start();
    while client.next_round().is_some() {
        sleep(client.moment(Duration::from_millis(200))).await;
        let data = client.unique().to_string();
        let node = keep(data.clone());
        if let Some(Ok(_)) = client.maybe_cancel(node.created()).await {
            has(&client, &zk, &path, &data).await?;
        }
        let data = client.unique().to_string();
        if let Some(Ok(())) = client.maybe_cancel(node.set_data(data.clone())).await {
            has(&client, &zk, &path, &data).await?;
        }
        sleep(client.moment(ttl)).await;
    }
    client.faults_are_over().await;
    // The node of the last round may still be there, with its own time to live.
    let node = keep("last".to_owned());
    node.created().await?;
    node.set_data("last").await?;
    sleep(ttl * 4).await;
    match zk.get_data(path.as_str()).await {
        Ok(data) if data == "last" => client.checked("that a touched node stays"),
        found => return Err(format!("{path}, which is touched: {found:?}").into()),
    }
    drop(node);
    // The child first, and then the node.
    sleep((ttl + REAPING) * 3).await;
    zk.sync(path.as_str()).await?;
    match zk.exists(path.as_str()).await? {
        None => client.checked("that a node disappears after its time to live"),
        Some(stat) => return Err(format!("{path} is there after its time: {stat:?}").into()),
    }
    is_touched_slowly(&client, &zk, &creates).await
}

/// Keeps a node whose child may not be created.
async fn is_touched_slowly(
    client: &Client,
    zk: &CuratorFramework,
    creates: &Creates,
) -> Result<(), Failure> {
    let path = format!("{NODES}/{}/{CHILDLESS}", client.unique());
    let rights = vec![Acl::new(Permissions::READ | Permissions::WRITE, "world", "anyone")];
    let create = zk.create(path.as_str()).acl(rights).creating_parents_as_containers();
    create.idempotent().await?;
    let node = PersistentTtlNode::builder(zk, path.as_str(), Duration::from_secs(1)).start();
    node.created().await?;
    creates.are_tried_slowly(&path).await?;
    drop(node);
    zk.delete(path).quietly().await?;
    Ok(())
}

/// Checks that a node has these data, if it is there. It is not, if it could not be touched.
async fn has(
    client: &Client,
    zk: &CuratorFramework,
    path: &str,
    data: &str,
) -> Result<(), Failure> {
    if zk.sync(path).await.is_err() {
        return Ok(());
    }
    match zk.get_data(path).await {
        Ok(found) if found == data => client.checked("the data of a node"),
        Ok(found) => return Err(format!("{path} has {found:?}, not {data:?}").into()),
        Err(error) if error.kind() == ErrorKind::NoNode || error.is_retryable() => {}
        Err(error) => return Err(error.into()),
    }
    Ok(())
}
