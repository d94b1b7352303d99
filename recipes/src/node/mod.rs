//! Nodes that are kept in existence: [`PersistentNode`], whatever happens to the session or the
//! node, and [`PersistentTtlNode`], which outlives its process for a while.

mod keeper;
mod persistent;
mod ttl;

pub use persistent::{PersistentNode, PersistentNodeBuilder};
pub use ttl::{PersistentTtlNode, PersistentTtlNodeBuilder};
