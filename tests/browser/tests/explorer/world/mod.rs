//! A world to explore: the nodes of a shop, and the clients that work with them.
//!
//! The nodes have ages, so that pages with times are the same in every run.

mod clients;
mod nodes;
mod recipes;

use std::time::Duration;

use zk_curator_browser::{BrowserError, Explorer};
use zk_curator_testing::TestServer;
use zk_curator_web::WebOptions;

pub(super) use clients::{LOCK, SHOP, World};

use super::explorer;
use clients::{OLD, millis};

/// The label of the client that holds it.
pub(super) const HOLDER: &str = "orders-worker-1";
/// The labels of the clients that wait, in their order.
pub(super) const WAITERS: [&str; 2] = ["orders-worker-2", "orders-worker-3"];
/// The age of the holder on a page.
pub(super) const HELD_SINCE: &str = "2 h ago";

/// Starts an explorer of a world.
pub(super) async fn explore(options: WebOptions) -> Result<(Explorer, World), BrowserError> {
    let explorer = explorer(options).await?;
    let world = fill(&explorer).await?;
    Ok((explorer, world))
}

/// Fills the server of an explorer. Returns when every client waits, or holds what it wants.
async fn fill(explorer: &Explorer) -> Result<World, BrowserError> {
    let mut world = World::default();
    let (server, zk) = (explorer.server(), explorer.zk());
    let minutes = |count: u64| Duration::from_secs(60 * count);
    aged(server, OLD, Box::pin(nodes::fill(zk))).await?;
    aged(server, OLD, Box::pin(world.presence(server))).await?;
    aged(server, OLD, Box::pin(world.services(server))).await?;
    aged(server, OLD, Box::pin(world.lease(server))).await?;
    aged(server, OLD, Box::pin(recipes::migrate(zk))).await;
    aged(server, minutes(130), Box::pin(world.contend(server, HOLDER, 1))).await?;
    aged(server, minutes(70), Box::pin(world.contend(server, WAITERS[0], 2))).await?;
    aged(server, minutes(50), Box::pin(world.barrier(server))).await?;
    aged(server, minutes(40), Box::pin(world.election(server))).await?;
    aged(server, minutes(20), Box::pin(world.contend(server, WAITERS[1], 3))).await?;
    aged(server, minutes(15), Box::pin(world.permits(server))).await?;
    aged(server, minutes(10), Box::pin(recipes::queue(zk))).await;
    aged(server, minutes(5), Box::pin(world.jobs(server))).await?;
    Box::pin(world.shards(server)).await?;
    Ok(world)
}

/// Lets the nodes that a future creates be this old.
async fn aged<T>(server: &TestServer, age: Duration, past: impl Future<Output = T>) -> T {
    let age = millis(age);
    server.shift_wall_clock(-age);
    let result = past.await;
    server.shift_wall_clock(age);
    result
}
