//! Caches.

mod builder;
mod driver;
mod events;
mod freshness;
mod handle;
mod node;
mod shared;
mod tree;
mod tree_state;
mod typed;
mod view;

pub use builder::{CacheBuilder, ServerDiff};
pub use events::{CacheEvent, CacheEvents};
pub use freshness::{Freshness, FreshnessWatch, StaleCause};
pub use handle::{CuratorCache, Loaded};
pub use node::{CachedNode, Lookup};
pub use typed::{TypedCache, TypedNode};
pub use view::{Snapshot, TreeView};
