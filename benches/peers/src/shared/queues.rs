//! A queue without consumers: items are put and taken by calls, one after another.

use futures_util::future::try_join_all;

use super::counts::{Taken, item};
use super::measure::{Outcome, Result, at_most};
use super::session::Session;
use super::stage::Stage;

/// The number of items that are put in one round trip while a queue is filled.
const BATCH: usize = 500;

pub(crate) async fn put<S: Session>(
    stage: &mut Stage<S>,
    put: impl AsyncFn(Vec<u8>) -> Result<()>,
) -> Result<()> {
    let length = stage.payload;
    let run = async |operations| {
        let latencies =
            at_most(1, operations, async |number| put(item(number, length)).await).await?;
        Ok(Outcome { operations, check: format!("items={}", latencies.len()), latencies })
    };
    stage.run_plain(run).await
}

pub(crate) async fn take<S: Session, T: AsRef<[u8]>>(
    stage: &mut Stage<S>,
    put: impl AsyncFn(Vec<u8>) -> Result<()>,
    take: impl AsyncFn() -> Result<T>,
) -> Result<()> {
    let length = stage.payload;
    let prepare = async |operations| {
        for first in (0..operations).step_by(BATCH) {
            let numbers = first..operations.min(first + BATCH);
            try_join_all(numbers.map(async |number| put(item(number, length)).await)).await?;
        }
        Ok(())
    };
    let run = async |operations| {
        let mut taken = Taken::of(operations);
        for _ in 0..operations {
            taken.take(take().await?.as_ref(), false)?;
        }
        Ok(taken.outcome())
    };
    stage.run(prepare, run).await
}
