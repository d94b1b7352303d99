//! The same cases on every kind of server, and clients in other languages beside ours.
#![expect(clippy::unwrap_used, reason = "helpers of a test are not recognised as tests")]

mod contest;
mod counters;
mod curator_barrier;
mod curator_caches;
mod curator_framework;
mod curator_leader;
mod curator_locks;
mod curator_mutex;
mod curator_nodes;
mod curator_queue;
mod followed_reads;
mod framework;
mod framework_options;
mod kazoo_barrier;
mod kazoo_lock;
mod mutex;
mod peer;
mod raw_clients;
