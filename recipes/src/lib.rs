//! ZooKeeper's recipes for async Rust, on the framework [`zk_curator`]; wire-compatible with Apache
//! Curator.
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
//! | cache | | `CuratorCache`, `TreeCache`, `PathChildrenCache`, `NodeCache` | [`cache::CuratorCache`] |
//! | counter | | `DistributedAtomicLong`, `DistributedAtomicInteger` | [`counter::DistributedAtomicLong`] |
//! | atomic value | | `DistributedAtomicValue` | [`counter::DistributedAtomicValue`] |
//! | latch that counts down | | | [`counter::CountDownLatch`] |
//! | ids in blocks | | `CachedAtomicLong` | [`counter::IdBlocks`] |
//! | shared value, shared count | | `SharedValue`, `SharedCount` | [`shared::SharedValue`] |
//! | node that is kept | | `PersistentNode` | [`node::PersistentNode`] |
//! | node that outlives its process | | `PersistentTtlNode` | [`node::PersistentTtlNode`] |
//! | group membership | Name Service, Configuration, Group Membership | `GroupMember` | [`group::GroupMember`], [`group::Group`] |
//! | configuration | Name Service, Configuration, Group Membership | | [`config::ConfigStore`] |
//! | name service | Name Service, Configuration, Group Membership | | [`name::NameService`] |
//! | two-phase commit | Recipes: Two-phased Commit | | [`two_phase`] |
//! | migrations of nodes | | `MigrationManager` | [`migration::MigrationManager`] |
//! | transactions over many nodes | | etcd's `STM` | [`stm::Stm`] |
//! | once per period | | | [`schedule::OncePer`] |
//! | set divided among members | | kazoo's `SetPartitioner` | [`partition::SetPartitioner`] |
//! | lease for a time | | kazoo's `NonBlockingLease` | [`lease::TimedLease`], [`lease::MultiLease`] |
//! | nodes with a session of their own | | etcd's leases | [`lease::SessionLease`] |
//! | leader election | Recipes: Leader Election | `LeaderLatch` | [`leader::LeaderLatch`] |
//! | work of the leader | Recipes: Leader Election | `LeaderSelector` | [`leader::LeaderSelector`] |
//! | observer of leaders, in Java too | Recipes: Leader Election | `LeaderLatch.getLeader()` | [`leader::LeaderObserver`] |
//! | leader with a value, and observers | Recipes: Leader Election | etcd's `Election` | [`leader::Election`] |
//! | barrier | Recipes: Barriers | `DistributedBarrier` | [`barrier::DistributedBarrier`] |
//! | double barrier | Recipes: Double Barriers | `DistributedDoubleBarrier` | [`barrier::DistributedDoubleBarrier`] |
//! | queue | Recipes: Queues | `SimpleDistributedQueue` | [`queue::SimpleDistributedQueue`] |
//! | queue without a herd, exactly once into it | Recipes: Queues | | [`queue::FifoQueue`] |
//! | queue of a family | | `DistributedQueue` | [`queue::DistributedQueue`] |
//! | priority queue | Recipes: Priority Queues | `DistributedPriorityQueue` | [`queue::DistributedPriorityQueue`] |
//! | delay queue | | `DistributedDelayQueue` | [`queue::DistributedDelayQueue`] |
//! | queue with ids | | `DistributedIdQueue` | [`queue::DistributedIdQueue`] |
//! | several queues as one | | `QueueSharder` | [`queue::QueueSharder`] |
//! | queue with claims, counts and dead letters | | kazoo's `LockingQueue` | [`queue::LockingQueue`] |
//! | jobs, claimed and completed | | | [`queue::jobs`] |
//! | recipes of all kinds, recognised by their nodes | | | [`inspect`] |
//!
//! Every guard carries a [`FencingToken`](zk_curator::FencingToken), says when it is lost, and
//! cleans up when it is dropped, also when the future that was to return it is dropped at any
//! point.

/// The framework, for crates that depend on the recipes alone. The recipes have the same features
/// as the framework.
pub use zk_curator;

mod advice;
mod attention;
pub mod barrier;
#[cfg(feature = "blocking")]
pub mod blocking;
pub mod cache;
pub mod config;
mod contender;
pub mod counter;
mod failure;
pub mod group;
pub mod health;
pub mod inspect;
pub mod leader;
pub mod lease;
pub mod lock;
mod measure;
pub mod migration;
pub mod name;
pub mod node;
pub mod observe;
mod order;
mod participant;
pub mod partition;
mod path;
pub mod queue;
mod race;
mod random;
mod reason;
mod removal;
mod run;
pub mod schedule;
mod server_clock;
pub mod shared;
mod shutdown;
pub mod stm;
pub mod two_phase;

pub use run::Run;
pub use shutdown::Shutdown;

/// The size of a slow test: `gate` when a change is judged, and `night` with `ZK_CURATOR_NIGHT=1`.
#[cfg(test)]
fn size(gate: usize, night: usize) -> usize {
    let is_night = std::env::var_os("ZK_CURATOR_NIGHT").is_some_and(|value| value == "1");
    if is_night { night } else { gate }
}

/// Compiles and runs the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
