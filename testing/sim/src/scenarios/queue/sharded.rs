//! [`QueueSharder`]: clients put items into one of several queues, and take them from all of them.
//! Checks that are refused are repeated ever more slowly.

use std::time::Duration;

use tokio::time::{sleep, timeout};
use zk_curator::{Acl, CuratorFramework, Permissions};
use zk_curator_recipes::queue::{DistributedQueue, QueueSharder};

use super::claiming::{Kind, settle};
use crate::scenarios::support::calling::started;
use crate::scenarios::support::creates::Creates;
use crate::scenarios::support::items::{LOCKS, put};
use crate::{Client, Failure};

/// The parent of the queues, and the path of the election.
pub(super) const QUEUES: &str = "/queues";
pub(super) const LEADER: &str = "/queues-leader";
/// The parent of queues that are full, next to which no other may be created.
pub(super) const FULL_QUEUES: &str = "/full-queues";
/// So few that the leader adds queues.
const FULL: u32 = 2;
const MOST_QUEUES: usize = 3;

pub(super) async fn shard(client: Client) -> Result<(), Failure> {
    let creates = Creates::of(|path| path.starts_with(FULL_QUEUES) && path.contains("/queue-"));
    let zk = client.connect_with(client.framework().acl_provider(creates.clone())).await?;
    let open = || {
        QueueSharder::builder(&zk, QUEUES, LEADER, |zk, path| DistributedQueue::new(zk, path))
            .new_queue_threshold(FULL)
            .max_queues(MOST_QUEUES)
            .check_every(Duration::from_millis(300))
            .open()
    };
    let Some(sharder) = started(&client, open).await else { return Ok(()) };
    let mut rng = client.rng();
    while client.next_round().is_some() {
        sleep(client.moment(Duration::from_millis(100))).await;
        if rng.u8(..3) > 0 {
            put(&client, |item| {
                let queue = sharder.queue();
                async move { queue.put(item).await }
            })
            .await;
        } else {
            take(&client, &sharder).await?;
        }
    }
    client.faults_are_over().await;
    while !is_empty(&zk, &sharder).await {
        take(&client, &sharder).await?;
    }
    sharder.close().await?;
    is_checked_slowly(&client, &zk, &creates).await
}

/// Keeps a sharder that needs another queue, which may not be created.
async fn is_checked_slowly(
    client: &Client,
    zk: &CuratorFramework,
    creates: &Creates,
) -> Result<(), Failure> {
    let path = format!("{FULL_QUEUES}/{}", client.unique());
    let sharder = QueueSharder::builder(zk, path.as_str(), format!("{path}-leader"), |zk, path| {
        DistributedQueue::new(zk, path)
    });
    let sharder =
        sharder.new_queue_threshold(1).check_every(Duration::from_millis(50)).open().await?;
    // Its queues can be removed after the run.
    let rights = vec![Acl::new(Permissions::READ | Permissions::DELETE, "world", "anyone")];
    zk.set_acl(path.as_str(), rights).await?;
    sharder.queue().put("one").await?;
    creates.are_tried_slowly(&path).await?;
    sharder.close().await?;
    Ok(())
}

/// Takes an item of each queue, if there is one soon.
async fn take(client: &Client, sharder: &QueueSharder<DistributedQueue>) -> Result<(), Failure> {
    for (name, queue) in sharder.queues() {
        let mut consumer = queue.consumer(format!("{LOCKS}/{name}"));
        let next = timeout(client.session_timeout() / 4, consumer.next());
        if let Some(Ok(Ok(delivery))) = client.maybe_cancel(next).await {
            settle(client, Kind::Plain, delivery).await?;
        }
    }
    Ok(())
}

/// Returns `true` if no queue of those that exist has items, whoever knows them.
async fn is_empty(zk: &CuratorFramework, sharder: &QueueSharder<DistributedQueue>) -> bool {
    let Ok(names) = zk.children(QUEUES).await else { return false };
    for name in names {
        let known = sharder.queues().remove(name.as_str());
        let queue = known.unwrap_or_else(|| DistributedQueue::new(zk, format!("{QUEUES}/{name}")));
        if !queue.count().await.is_ok_and(|count| count == 0) {
            return false;
        }
    }
    true
}
