//! ZooKeeper's recipes for async Rust, on the framework [`zk_curator`]; wire-compatible with Apache Curator.
//!
//! | recipe | ZooKeeper's documentation | Apache Curator | here |
//! |---|---|---|---|
//! | lock | Recipes: Locks | `InterProcessMutex` | [`lock::InterProcessMutex`] |
//! | read/write lock | Recipes: Shared Locks | `InterProcessReadWriteLock` | [`lock::InterProcessReadWriteLock`] |
//! | revocable shared lock | Recipes: Revocable Shared Locks | `Revoker` asks, nothing is removed | [`lock::RevocableReadWriteLock`] |
//! | semaphore | | `InterProcessSemaphoreV2` | [`lock::InterProcessSemaphore`] |
//! | lock that is a semaphore | | `InterProcessSemaphoreMutex` | [`lock::InterProcessSemaphoreMutex`] |
//! | several locks as one | | `InterProcessMultiLock` | [`lock::InterProcessMultiLock`] |
//! | re-entrant lock | | `InterProcessMutex` | [`lock::ReentrantMutex`] |
//! | lock passed on within a process | | | [`lock::HandoverMutex`] |
//!
//! Every guard carries a [`FencingToken`](zk_curator::FencingToken), says when it is lost, and cleans up when
//! it is dropped, also when the future that was to return it is dropped at any point.

mod contender;
pub mod lock;
mod order;
