//! A cache whose nodes are values of a type.

mod builder;
mod cache;
mod events;
mod index;
mod node;

pub use builder::TypedCacheBuilder;
pub use cache::TypedCache;
pub use events::TypedEvents;
pub use index::CacheIndex;
pub use node::TypedNode;
