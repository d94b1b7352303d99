//! Locks, leaders and barriers, by subject: what each does, its faults, and its cancellation at
//! every step, side by side.
#![expect(clippy::unwrap_used, reason = "helpers of a test are not recognised as tests")]

mod barrier;
mod barrier_cancel;
mod double_barrier;
mod double_barrier_faults;
mod handover;
mod kazoo_names;
mod leader_cancel;
mod leader_election;
mod leader_faults;
mod leader_latch;
mod leader_observer;
mod leader_selector;
mod locks;
mod locks_cancel;
mod locks_random;
mod multi;
mod mutex;
mod mutex_faults;
mod read_write;
mod reentrant;
mod revocable;
mod semaphore;

/// The harness of tests that another program runs in its own way, too.
mod harness {
    pub(crate) use zk_curator_tests::*;

    /// `true` if they run through the adapter for `zookeeper-async`.
    pub(crate) const ADAPTED: bool = false;
}
