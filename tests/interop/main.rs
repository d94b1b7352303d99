//! Apache ZooKeeper, and clients in other languages beside ours.
#![expect(clippy::unwrap_used, reason = "helpers of a test are not recognised as tests")]

mod contest;
mod curator_barrier;
mod curator_framework;
mod curator_leader;
mod curator_locks;
mod curator_mutex;
mod curator_nodes;
mod curator_queue;
mod kazoo_lock;
mod real_framework;
mod real_framework_options;
mod real_mutex;
mod real_raw_clients;
