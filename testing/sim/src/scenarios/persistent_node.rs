//! [`PersistentNode`]: clients keep nodes whose names existed before with other data. When a node
//! is reported as present, the server must have its data. An ephemeral one is not present while a
//! persistent one has its name, and says so. One that may not be created is tried again ever more
//! slowly.

use std::time::Duration;

use tokio::time::sleep;
use zk_curator::{Acl, CreateMode, CuratorFramework, ErrorCode, ErrorKind, Permissions};
use zk_curator_recipes::node::PersistentNode;

use super::Scenario;
use super::support::creates::Creates;
use crate::{Client, Failure};

const NODES: &str = "/nodes";
/// The name of a node that may not be created.
const FORBIDDEN: &str = "forbidden";

pub(super) const SCENARIO: Scenario = Scenario::new(
    "persistent_node",
    "PersistentNode: a node that is reported as present has its data",
    &["checks"],
    |sim| sim.workload(work).leaves(["/nodes", "/nodes/*"]),
);

async fn work(client: Client) -> Result<(), Failure> {
    let creates = Creates::of(|path| path.ends_with(FORBIDDEN));
    let zk = client.connect_with(client.framework().acl_provider(creates.clone())).await?;
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
        let is_occupied = !lasts && rng.bool();
        if is_occupied
            && other.create(path.as_str()).creating_parents_as_containers().await.is_err()
        {
            continue;
        }
        let mode = if lasts { CreateMode::Persistent } else { CreateMode::Ephemeral };
        let data = client.unique().to_string();
        let node = PersistentNode::builder(&zk, path.as_str(), mode).data(data.clone()).start();
        if is_occupied {
            waits_for_its_place(&client, &other, &node, &path).await?;
        }
        if let Some(Ok(_)) = client.maybe_cancel(node.created()).await {
            has(&client, &other, &path, &data).await?;
        }
        let data = client.unique().to_string();
        if let Some(Ok(())) = client.maybe_cancel(node.set_data(data.clone())).await {
            has(&client, &other, &path, &data).await?;
        }
        drop(client.maybe_cancel(node.close()).await);
    }
    client.faults_are_over().await;
    is_tried_slowly(&client, &zk, &creates).await
}

/// Removes the persistent node in the place of an ephemeral one, once its keeper has told of it.
async fn waits_for_its_place(
    client: &Client,
    other: &CuratorFramework,
    node: &PersistentNode,
    path: &str,
) -> Result<(), Failure> {
    match client.maybe_cancel(node.created()).await {
        Some(Ok(_)) => return Err(format!("{path} is present beside a persistent node").into()),
        Some(Err(error)) if error.kind() == ErrorKind::NodeExists || error.is_retryable() => {}
        Some(Err(error)) => return Err(error.into()),
        None => {}
    }
    loop {
        match other.delete(path).quietly().await {
            Ok(()) => break,
            Err(error) if error.is_retryable() => sleep(Duration::from_millis(100)).await,
            Err(error) => return Err(error.into()),
        }
    }
    // The keeper learns it from its watch.
    while let Some(Err(error)) = client.maybe_cancel(node.created()).await {
        client.note(format!("not yet in its place: {error}"));
        sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}

/// Keeps a node that may not be created.
async fn is_tried_slowly(
    client: &Client,
    zk: &CuratorFramework,
    creates: &Creates,
) -> Result<(), Failure> {
    let parent = format!("{NODES}/{}", client.unique());
    let read = vec![Acl::new(Permissions::READ, "world", "anyone")];
    let create = zk.create(parent.as_str()).acl(read).creating_parents_as_containers();
    create.idempotent().await?;
    let path = format!("{parent}/{FORBIDDEN}");
    let node = PersistentNode::builder(zk, path.as_str(), CreateMode::Ephemeral).start();
    match node.created().await {
        Err(error) if error.code() == Some(ErrorCode::NoAuth) => {}
        created => return Err(format!("{created:?} at {path}, which is forbidden").into()),
    }
    creates.are_tried_slowly(&path).await
}

/// Checks that a node has these data, if it exists. It may be gone with its session.
async fn has(
    client: &Client,
    zk: &CuratorFramework,
    path: &str,
    data: &str,
) -> Result<(), Failure> {
    // The sync brings the server up to date.
    if zk.sync(path).await.is_err() {
        return Ok(());
    }
    match zk.get_data(path).await {
        Ok(found) if found == data => {
            client.checked("the data of a node");
            Ok(())
        }
        Ok(found) => Err(format!("{path} exists with {found:?}, not with {data:?}").into()),
        Err(error) if error.kind() == ErrorKind::NoNode || error.is_retryable() => Ok(()),
        Err(error) => Err(error.into()),
    }
}
