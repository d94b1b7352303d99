//! An in-memory copy of a subtree that knows how fresh it is.
//!
//! | Curator, kazoo | here |
//! |---|---|
//! | `CuratorCache`, `TreeCache` | [`CuratorCache::tree`] |
//! | `PathChildrenCache`, kazoo's `ChildrenWatch` with data | [`CuratorCache::children`] |
//! | `NodeCache`, `CuratorCache` with `SINGLE_NODE_CACHE` | [`CuratorCache::node`] |
//! | kazoo's `DataWatch`, `ChildrenWatch` | [`watch_data`], [`watch_children`]: one node, without a task |
//! | `CuratorCacheListener` | [`events`](CuratorCache::events), [`events_from_now`](CuratorCache::events_from_now) |
//! | the event `INITIALIZED` | [`loaded`](CuratorCache::loaded), or the event [`Loaded`](CacheEvent::Loaded) |
//! | `TreeCacheSelector`, `maxDepth` | [`filter`](CacheBuilder::filter), [`max_depth`](CacheBuilder::max_depth) |
//! | `TreeCacheSelector.acceptChild` | [`keep`](CacheBuilder::keep) |
//! | `rebuild`, `rebuildNode`, `clearAndRefresh` | [`rebuild`](CuratorCache::rebuild), [`refresh`](CuratorCache::refresh) |
//! | `dontCacheData` | [`without_data`](CacheBuilder::without_data) |
//! | `DO_NOT_DECOMPRESS`, `COMPRESSED_DATA` | [`undecompressed`](CacheBuilder::undecompressed), [`decompressed`](CacheBuilder::decompressed) |
//! | `CachedModeledFramework`, `readThrough` | [`typed`](CuratorCache::typed), [`TypedCache::of`], [`get_through`](CuratorCache::get_through) |
//!
//! # Layout
//! A cache only reads. The root need not exist: the cache follows it when it is created, deleted,
//! and created again.
//!
//! # Protocol
//! 1. Add a recursive watch to the root (ZooKeeper 3.6).
//! 2. Read the tree level by level, up to 1,000 nodes in one request; list the children only of
//!    nodes that have some.
//! 3. Read a node again when the watch reports it. All nodes that are reported during a read share
//!    the next request.
//! 4. When the watch is armed again after an outage, compare: read nothing if the server has
//!    applied no transaction since; otherwise read all nodes, and list only those whose children
//!    have changed, after a random [pause](CacheBuilder::resync_spread).
//! 5. In the next session, and after a reconnect if events came after the last response, ask a
//!    quorum first, so that the server cannot be behind the shown contents. Then continue as in
//!    step 4.
//!
//! Without persistent watches (servers before 3.6, some [raw clients](zk_curator::raw)), every node
//! has a one-shot watch for its data and one for its children, and is read by a separate request.
//! This is costly for the server.
//!
//! # Guarantees
//! * **Absence is never guessed**: [`Lookup::Absent`] is returned only for a path that the server
//!   has reported as absent.
//! * **Outages show**: a cache that may have missed changes is [`Stale`](Freshness::Stale) until it
//!   has caught up, and names a transaction that its contents include.
//! * **No last state is missed**: even a slow subscriber gets every difference from the state that
//!   it received last, but not the steps in between. A node that was deleted and created again is
//!   [`Replaced`](CacheEvent::Replaced), even with equal data and an equal version.
//! * **No path goes back in time**, even across sessions and servers, unless the ensemble was
//!   restored from a backup.
//! * **Clients can read their own writes**: [`reflects`](CuratorCache::reflects) waits for one
//!   write, [`synced`](CuratorCache::synced) for everything that is committed.
//! * An unreadable node does not affect other nodes: [`unreadable`](CuratorCache::unreadable) lists
//!   these nodes, and [`Fresh`](Freshness::Fresh) contains their number.
//! * A server that refuses reads is not taken for one without nodes: the cache retries, and is
//!   stale until it succeeds.
//! * The number of bytes that are requested at a time is [bounded](CacheBuilder::most_bytes).
//!
//! Between two events the tree may show a part of a transaction: [`exact`](CuratorCache::exact)
//! returns a state that the server really had.
//!
//! # Assumptions
//! * The client has permission to read the nodes. Servers report neither changes of nodes that the
//!   client may not read at that moment, nor changes of ACLs: see
//!   [`audit_every`](CacheBuilder::audit_every).
//! * All data fit into memory: each node needs about 300 bytes in addition to its data and its
//!   path.
//!
//! # Connection loss
//! * SUSPENDED: the contents stay, and are stale. Reads from memory continue.
//! * LOST: the same. The next session compares, and only differences are reported.
//! * RECONNECTED: the cache catches up by itself, and is fresh again.
//! * READ_ONLY: the same, if the server is known to have everything that was shown. Otherwise the
//!   contents stay, and are stale, until a quorum is back.
//!
//! # Cancel safety
//! Every future may be dropped at any point. Dropping the last handle removes the watch in the
//! background.
//!
//! # Errors
//! [`loaded`](CuratorCache::loaded) and [`synced`](CuratorCache::synced) fail with permanent errors
//! of the framework. The cache keeps retrying, and [`health`](CuratorCache::health) reports the
//! error.
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
//! let mut changes = flags.events_from_now();
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

mod handle;
mod state;
mod task;
#[cfg(test)]
mod tests;
mod told;

pub use handle::{
    CacheBuilder, CacheEvents, CacheIndex, CuratorCache, FreshnessWatch, Loaded, TreeView,
    TypedCache, TypedCacheBuilder, TypedEvents, TypedNode,
};
pub use state::{CachedNode, Freshness, Lookup, Snapshot, StaleCause};
pub use task::ServerDiffMode;
pub use told::{CacheEvent, Delivered};
