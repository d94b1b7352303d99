//! ZooKeeper's recipes for async Rust, on the framework [`zk_curator`]; wire-compatible with Apache Curator.
//!
//! | recipe | ZooKeeper's documentation | Apache Curator | here |
//! |---|---|---|---|
//! | lock | Recipes: Locks | `InterProcessMutex` | [`lock::InterProcessMutex`] |
//!
//! Every guard carries a [`FencingToken`](zk_curator::FencingToken), says when it is lost, and cleans up when
//! it is dropped, also when the future that was to return it is dropped at any point.

mod contender;
pub mod lock;
mod order;
