//! A subtree in memory that says how fresh it is.
//!
//! | Curator, kazoo | here |
//! |---|---|
//! | `CuratorCache`, `TreeCache` | [`CuratorCache::tree`] |
//! | `PathChildrenCache`, kazoo's `ChildrenWatch` with data | [`CuratorCache::children`] |
//! | `NodeCache`, `CuratorCache` with `SINGLE_NODE_CACHE` | [`CuratorCache::node`] |
//! | kazoo's `DataWatch`, `ChildrenWatch` | [`watch_data`], [`watch_children`]: one node, without a task |
//! | `CuratorCacheListener` | [`events`](CuratorCache::events), [`changes`](CuratorCache::changes) |
//! | `TreeCacheSelector` | [`filter`](CacheBuilder::filter), [`max_depth`](CacheBuilder::max_depth) |
//! | `CachedModeledFramework` | [`typed`](CuratorCache::typed), [`get_through`](CuratorCache::get_through) |
//!
//! # Layout
//! A cache only reads. The root need not exist; it is followed when it is created, deleted, and created again.
//!
//! # Protocol
//! 1. Add a recursive watch to the root (ZooKeeper 3.6).
//! 2. Read the tree level by level, up to 1,000 nodes in one request; list the children only of nodes that have some.
//! 3. Read a node again when the watch reports it. All nodes that are reported during a read share the next request.
//! 4. When the watch is armed again after an outage, compare: read nothing if the server has applied no transaction since;
//!    otherwise read all nodes, and list only those whose children have changed, after a random
//!    [pause](CacheBuilder::resync_spread).
//! 5. In the next session, and after a reconnect if events came behind the last answer, ask a quorum first, so that the server
//!    cannot be behind what was shown; then as 4.
//!
//! Where lasting watches cannot be had (servers before 3.6, some [raw clients](zk_curator::raw)), every node has a one-shot
//! watch for its data and one for its children, and is read in a request of its own. That is costly for the server.
//!
//! # Guarantees
//! * **Absence is never guessed**: [`Lookup::Absent`] is told only of a path that was seen to be absent.
//! * **Outages show**: a cache that may have missed changes is [`Stale`](Freshness::Stale) until it has caught up, and says
//!   which transaction its contents are not older than.
//! * **No last state is missed**: a subscriber is told every difference to what it was told before, however slow it is. It is
//!   not told the steps in between. A node that was deleted and created again is [`Replaced`](CacheEvent::Replaced), also with
//!   equal data and an equal version.
//! * **No path goes back in time**, also across sessions and servers, unless the ensemble was restored from a backup.
//! * **Own writes can be read**: [`reflects`](CuratorCache::reflects) waits for one, [`synced`](CuratorCache::synced) for
//!   everything that is committed.
//! * An error of one node does not stop the others: [`unreadable`](CuratorCache::unreadable) names it.
//!
//! Between two events the tree may show a part of a transaction: [`exact`](CuratorCache::exact) returns a state that the server
//! really had.
//!
//! # Assumptions
//! * The client may read what it follows. Servers do not report changes of nodes that the client may not read at that moment,
//!   nor changes of ACLs: see [`audit_every`](CacheBuilder::audit_every).
//! * All data fit into memory: about 300 bytes a node in addition to its data and its path.
//! * On one path, servers before 3.9 keep only the watch that was added last (ZOOKEEPER-4466): do not leave other watches on the
//!   root of a cache in the same session.
//!
//! # Connection loss
//! * SUSPENDED: the contents stay, and are stale. Reads from memory go on.
//! * LOST: the same. The next session compares, and only differences are told.
//! * RECONNECTED: the cache catches up by itself, and is fresh again.
//! * READ_ONLY: the same, if the server is known to have everything that was shown. Otherwise the contents stay, and are stale,
//!   until a quorum is back.
//!
//! # Cancel safety
//! Every future may be dropped at any point. Dropping the last handle removes the watch in the background.
//!
//! # Errors
//! [`loaded`](CuratorCache::loaded) and [`synced`](CuratorCache::synced) fail with the errors of the framework that do not pass
//! by themselves; the cache goes on trying, and [`health`](CuratorCache::health) says so.
//!
//! # Example
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = zk_curator_testing::TestServer::start().await;
//! # let zk = zk_curator::CuratorFramework::builder().connect_string(server.connect_string()).build()?;
//! # zk.start().await?;
//! use zk_curator_recipes::cache::{CacheEvent, CuratorCache, Lookup};
//!
//! zk.create("/flags/dark-mode").creating_parents().data("on").await?;
//! let flags = CuratorCache::tree(&zk, "/flags").start();
//! let mut changes = flags.changes();
//! flags.loaded().await?;
//!
//! let Lookup::Present(node) = flags.get("/flags/dark-mode") else { panic!("it is loaded") };
//! assert_eq!(node.data, "on");
//! assert!(flags.get("/flags/none").is_absent());
//!
//! let stat = zk.set_data("/flags/dark-mode", "off").await?;
//! flags.reflects(stat.mzxid).await?;
//! let Some(CacheEvent::Changed { old, new }) = changes.next().await else { panic!("it was changed") };
//! assert_eq!((&old.data[..], &new.data[..]), (&b"on"[..], &b"off"[..]));
//! assert!(flags.freshness().is_fresh());
//! # zk.close().await?;
//! # Ok(()) }
//! ```
//!
//! [`watch_data`]: zk_curator::CuratorFramework::watch_data
//! [`watch_children`]: zk_curator::CuratorFramework::watch_children

mod builder;
mod driver;
mod events;
mod freshness;
mod handle;
mod node;
mod options;
mod reads;
mod requests;
mod session;
mod shared;
mod snapshot;
mod source;
mod subscriber;
#[cfg(test)]
mod tests;
mod tree;
mod tree_state;
mod typed;
mod view;
mod watch;

pub use builder::CacheBuilder;
pub use events::CacheEvents;
pub use freshness::{Freshness, StaleCause};
pub use handle::{CuratorCache, Loaded};
pub use node::{CachedNode, Lookup};
pub use options::ServerDiff;
pub use snapshot::Snapshot;
pub use subscriber::CacheEvent;
pub use typed::{TypedCache, TypedNode};
pub use view::TreeView;
pub use watch::FreshnessWatch;
