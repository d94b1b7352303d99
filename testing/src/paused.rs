//! Tests under a paused clock.

use std::pin::Pin;

use tokio::runtime::{Builder, Runtime};

/// Runs a test on a runtime of its own with a paused clock, which advances whenever all tasks wait.
/// So session timeouts and retries take no time, and are the same in every run. Does the same as
/// `#[tokio::test(start_paused = true)]`, for a test that is a plain function.
///
/// For servers [in memory](crate::TestServer::in_memory): with TCP, the clock advances while bytes
/// are in the kernel.
///
/// ```
/// use std::time::Duration;
/// use tokio::time::Instant;
/// use zk_curator_testing::wait::idle;
///
/// zk_curator_testing::paused(async {
///     let begun = Instant::now();
///     idle(Duration::from_secs(3600)).await;
///     assert_eq!(begun.elapsed(), Duration::from_secs(3600));
/// });
/// ```
///
/// # Panics
/// Panics if the test does, inside another runtime, or if no runtime can be built.
pub fn paused<F: Future>(test: F) -> F::Output {
    match Builder::new_current_thread().enable_all().start_paused(true).build() {
        Ok(runtime) => {
            let mut output = None;
            run(&runtime, Box::pin(async { output = Some(test.await) }));
            output.expect("invariant: the test has ended")
        }
        Err(error) => panic!("no runtime: {error}"),
    }
}

/// Takes any future, so that the loop of a runtime is not compiled for every test.
fn run(runtime: &Runtime, test: Pin<Box<dyn Future<Output = ()> + '_>>) {
    runtime.block_on(test);
}
