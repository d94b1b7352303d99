//! The handles of a cache, for its users.

mod builder;
mod cache;
mod events;
mod freshness_watch;
mod typed;
mod view;

pub use builder::CacheBuilder;
pub use cache::{CuratorCache, Loaded};
pub use events::CacheEvents;
pub use freshness_watch::FreshnessWatch;
pub use typed::{CacheIndex, TypedCache, TypedCacheBuilder, TypedEvents, TypedNode};
pub use view::TreeView;
