//! The known state of the tree, and the reads that are needed. Pure: no requests, no clock, no
//! async.
//!
//! | file | content |
//! |---|---|
//! | `tree_state` | the rules; events in, changes and wanted reads out |
//! | `answers` | responses in, changes and further reads out |
//! | `batches`, `pace` | the reads of one request, and how much is asked for at a time |
//! | `reads`, `need` | which reads are wanted and under way, and which checkpoints need them |
//! | `scope`, `lookup` | the covered paths, and the knowledge of one path |
//! | `tour`, `route` | reads of everything below a path, a part at a time |
//! | `tree`, `node` | the nodes in memory |
//! | `unreadable` | the paths that could not be read |
//! | `freshness`, `snapshot` | how users see the state |

mod answers;
mod batches;
mod freshness;
mod lookup;
mod need;
mod node;
mod pace;
mod reads;
mod route;
mod scope;
mod snapshot;
mod tour;
mod tree;
mod tree_state;
mod unreadable;

pub use freshness::{Freshness, StaleCause};
pub use node::{CachedNode, Lookup};
pub use snapshot::Snapshot;

pub(crate) use need::{CacheRead, CacheReadAnswer, Cause, ReadKind};
pub(crate) use scope::CacheScope;
pub(crate) use tree_state::{ReadsLeft, TreeChange, TreeState};
