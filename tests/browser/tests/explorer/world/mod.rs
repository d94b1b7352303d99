//! A world to explore: the nodes of a shop, and the clients that work with them.
//!
//! The nodes have ages, so that pages with times are the same in every run.

mod nodes;
mod recipes;

use std::any::Any;
use std::fmt::Display;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::task::JoinSet;
use zk_curator::CuratorFramework;
use zk_curator_browser::{BrowserError, Explorer};
use zk_curator_testing::TestServer;
use zk_curator_web::WebOptions;

use super::explorer;

/// The lock that a client holds, and for which two others wait.
pub(super) const LOCK: &str = "/locks/orders";
/// The label of the client that holds it.
pub(super) const HOLDER: &str = "orders-worker-1";
/// The labels of the clients that wait, in their order.
pub(super) const WAITERS: [&str; 2] = ["orders-worker-2", "orders-worker-3"];
/// The age of the holder on a page.
pub(super) const HELD_SINCE: &str = "2 h ago";
/// A node with JSON, children, rights and a quota.
pub(super) const SHOP: &str = "/config/shop";

/// The session timeout: a session does not end on a busy machine. The server grants it.
const SESSION: Duration = Duration::from_secs(40);
/// The age of most nodes.
const OLD: Duration = Duration::from_secs(3 * 3_600 + 1_800);

/// The clients other than the explorer, and everything that they hold. Dropping it ends them.
#[derive(Default)]
pub(super) struct World {
    /// Each has a session of its own.
    clients: Vec<CuratorFramework>,
    held: Vec<Box<dyn Any + Send>>,
    /// The clients that wait, and those that work without an end.
    tasks: JoinSet<()>,
}

/// Starts an explorer of a world.
pub(super) async fn explore(options: WebOptions) -> Result<(Explorer, World), BrowserError> {
    let explorer = explorer(options).await?;
    let world = World::fill(&explorer).await?;
    Ok((explorer, world))
}

impl World {
    /// Fills the server of an explorer. Returns when every client waits, or holds what it wants.
    async fn fill(explorer: &Explorer) -> Result<Self, BrowserError> {
        let mut world = Self::default();
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

    /// Returns another client, with a session of its own.
    async fn client(&mut self, server: &TestServer) -> Result<CuratorFramework, BrowserError> {
        let zk = server.framework().session_timeout(SESSION).connection_timeout(SESSION).build()?;
        zk.start().await?;
        self.clients.push(zk.clone());
        Ok(zk)
    }

    /// Keeps what a client holds.
    fn hold(&mut self, held: impl Any + Send) {
        self.held.push(Box::new(held));
    }
}

/// Lets the nodes that a future creates be this old.
async fn aged<T>(server: &TestServer, age: Duration, past: impl Future<Output = T>) -> T {
    let age = millis(age);
    server.shift_wall_clock(-age);
    let result = past.await;
    server.shift_wall_clock(age);
    result
}

/// Returns the time that was this long ago, in milliseconds since 1970.
fn ago(age: Duration) -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    millis(now.expect("invariant: it is later than 1970")) - millis(age)
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).expect("invariant: it is less than a million years")
}

/// Returns what a recipe has made.
fn made<T, E: Display>(result: Result<T, E>) -> T {
    result.unwrap_or_else(|error| panic!("the world cannot be filled: {error}"))
}
