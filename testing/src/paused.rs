//! Tests under a paused clock.

use tokio::runtime::Builder;

/// Runs a test on a runtime of its own with a paused clock, which advances whenever all tasks wait.
/// So session timeouts and retries take no time, and are the same in every run. Does the same as
/// `#[tokio::test(start_paused = true)]`, for a test that is a plain function.
///
/// For servers [in memory](crate::TestServer::in_memory): with TCP, the clock advances while bytes
/// are in the kernel.
///
/// ```
/// use std::time::Duration;
/// use tokio::time::{Instant, sleep};
///
/// zk_curator_testing::paused(async {
///     let begun = Instant::now();
///     sleep(Duration::from_secs(3600)).await;
///     assert_eq!(begun.elapsed(), Duration::from_secs(3600));
/// });
/// ```
///
/// # Panics
/// Panics if the test does, inside another runtime, or if no runtime can be built.
pub fn paused<F: Future>(test: F) -> F::Output {
    match Builder::new_current_thread().enable_all().start_paused(true).build() {
        Ok(runtime) => runtime.block_on(test),
        Err(error) => panic!("no runtime: {error}"),
    }
}
