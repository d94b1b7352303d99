//! The clients of the world, and what they hold.

use std::any::Any;
use std::fmt::Display;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::task::JoinSet;
use zk_curator::CuratorFramework;
use zk_curator_browser::{BrowserError, connect};
use zk_curator_testing::TestServer;

/// The lock that a client holds, and for which two others wait.
pub(crate) const LOCK: &str = "/locks/orders";
/// A node with JSON, children, rights and a quota.
pub(crate) const SHOP: &str = "/config/shop";
/// The age of most nodes.
pub(super) const OLD: Duration = Duration::from_secs(3 * 3_600 + 1_800);

/// The clients other than the explorer, and everything that they hold. Dropping it ends them.
#[derive(Default)]
pub(crate) struct World {
    /// Each has a session of its own.
    clients: Vec<CuratorFramework>,
    held: Vec<Box<dyn Any + Send>>,
    /// The clients that wait, and those that work without an end.
    pub(super) tasks: JoinSet<()>,
}

impl World {
    /// Returns another client, with a session of its own.
    pub(super) async fn client(
        &mut self,
        server: &TestServer,
    ) -> Result<CuratorFramework, BrowserError> {
        let zk = connect(server.framework()).await?;
        self.clients.push(zk.clone());
        Ok(zk)
    }

    /// Keeps what a client holds.
    pub(super) fn hold(&mut self, held: impl Any + Send) {
        self.held.push(Box::new(held));
    }
}

/// Returns the time that was this long ago, in milliseconds since 1970.
pub(super) fn ago(age: Duration) -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    millis(now.expect("invariant: it is later than 1970")) - millis(age)
}

pub(super) fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).expect("invariant: it is less than a million years")
}

/// Returns what a recipe has made.
pub(super) fn made<T, E: Display>(result: Result<T, E>) -> T {
    result.unwrap_or_else(|error| panic!("the world cannot be filled: {error}"))
}
