//! Memory limits, as the allocator counts them, and hostile bytes. One test at a time.
#![expect(clippy::unwrap_used, reason = "helpers of a test are not recognised as tests")]

use std::alloc::System;

use cap::Cap;
use tokio::sync::Mutex;

#[path = "../../testing/tests/common/mod.rs"]
mod common;
mod fuzz;
mod recipes;
mod server;
mod server_memory;

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

/// Each test holds this lock, because allocations of other tests would be counted, too. It takes it
/// before it makes its runtime, which allocates.
static ALONE: Mutex<()> = Mutex::const_new(());

/// Runs a test in simulated time, while no other test runs.
fn alone<T>(test: impl Future<Output = T>) -> T {
    let _alone = ALONE.blocking_lock();
    zk_curator_tests::simulated(test)
}
