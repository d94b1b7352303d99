//! Watches: one-shot and persistent watches of ZooKeeper, and followed states.
//!
//! | to learn | use | cost |
//! |---|---|---|
//! | that something has changed since a read | [`watched`](crate::op::GetDataBuilder::watched) of that read: a [`Watch`] | nothing: the request is the read |
//! | the data of one node, now and after every change | [`watch_data`](crate::CuratorFramework::watch_data) | one request and one notification a change |
//! | the children of one node | [`watch_children`](crate::CuratorFramework::watch_children) | the same; every change transfers all names |
//! | that a node exists, is gone, or has certain data | [`wait_exists`](crate::CuratorFramework::wait_exists), [`wait_gone`](crate::CuratorFramework::wait_gone), [`wait_data`](crate::CuratorFramework::wait_data) | the same |
//! | every event, without the new state | [`add_watch`](crate::CuratorFramework::add_watch): a [`PersistentWatch`] | one notification a change; events during an outage are not reported |
//! | the data of many nodes, without waiting for a read | `CuratorCache` of `zk_curator_recipes::cache` | a notification and a request a change, and memory for all of them |
//!
//! # Followed reads
//!
//! [`DataWatch`], [`ChildrenWatch`] and [`ChildrenDiff`] return the present state first, and then
//! every state that differs from the previous one, without a time limit and across sessions. They
//! may skip intermediate states, but never the newest one: after an outage, they return the last
//! state once if it differs. They never return an older state after a newer one, even if a server
//! lags.
//!
//! They have no task and no persistent watch. Nothing is sent unless the next state is awaited, and
//! a change costs one request. Dropping one removes its watch. The namespace, schemas, compression,
//! retry policy and deadline of the handle apply to every read. When the retry policy has given up,
//! a transient error is [waited for](crate::CuratorFramework::wait_for_recovery).
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = zk_curator_testing::TestServer::start().await;
//! # let zk = zk_curator::CuratorFramework::builder().connect_string(server.connect_string()).build()?;
//! # zk.start().await?;
//! let mut limit = zk.watch_data("/limit");
//! assert!(limit.next().await?.is_none());
//! zk.create("/limit").data("8").await?;
//! let (data, stat) = limit.next().await?.expect("a node");
//! assert_eq!((&data[..], stat.version), (&b"8"[..], 0));
//!
//! zk.create("/workers").await?;
//! let mut workers = zk.watch_children("/workers");
//! zk.create("/workers/a").await?;
//! let (names, _) = workers.next().await?.expect("a node");
//! assert_eq!(names, ["a"]);
//!
//! zk.set_data("/limit", "9").await?;
//! zk.wait_data("/limit", |data| data == "9").await?;
//! # zk.close().await?;
//! # Ok(()) }
//! ```

mod children;
mod data;
mod diff;
mod follower;
mod handles;
mod order;
pub(crate) mod stream;
mod wait;

pub use children::ChildrenWatch;
pub use data::DataWatch;
pub use diff::{ChildEvent, ChildrenDiff};
pub(crate) use handles::visible;
pub use handles::{PersistentWatch, Watch, Watched};
pub(crate) use stream::until_error;
