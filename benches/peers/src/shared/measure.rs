//! Measurements of the workloads: times, memory, and results.

use std::cell::Cell;
use std::error::Error;
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use rustix::time::{ClockId, clock_gettime};

use crate::common::resident;

pub(crate) type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// The largest number of reported latencies.
const SAMPLES: usize = 10_000;

/// The latency of each operation.
pub(crate) type Samples = Vec<Duration>;

/// The result of the operations.
pub(crate) struct Outcome {
    pub(crate) operations: usize,
    pub(crate) latencies: Samples,
    pub(crate) check: String,
}

/// At most [`SAMPLES`] of the latencies, evenly spaced.
pub(crate) fn thinned(latencies: Samples) -> Vec<f64> {
    let step = latencies.len().div_ceil(SAMPLES).max(1);
    latencies.iter().step_by(step).map(|latency| latency.as_secs_f64() * 1e6).collect()
}

/// The memory that each of `count` takes since `before`.
#[expect(clippy::cast_precision_loss, reason = "bytes of memory are far below 2^52")]
pub(crate) fn each(before: usize, count: usize) -> Option<f64> {
    Some(resident("self").saturating_sub(before) as f64 / count as f64)
}

/// The CPU time of all threads, user and system.
pub(crate) fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0))
}

/// Does `operations`, at most `size` at a time. `one` gets their numbers. Returns their latencies.
pub(crate) async fn at_most(
    size: usize,
    operations: usize,
    one: impl AsyncFn(usize) -> Result<()>,
) -> Result<Samples> {
    let next = Cell::new(0);
    let one = &one;
    let worker = async || {
        let mut samples = Samples::new();
        while next.get() < operations {
            let number = next.replace(next.get() + 1);
            let began = Instant::now();
            one(number).await?;
            samples.push(began.elapsed());
        }
        Result::Ok(samples)
    };
    Ok(try_join_all((0..size).map(|_| worker())).await?.concat())
}
