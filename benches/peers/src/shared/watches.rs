//! One session follows the data of a node, and another writes.

use std::time::Instant;

use futures_util::future::join;

use super::measure::{Outcome, Result, Samples};
use super::session::Session;
use super::stage::Stage;

/// Follows by watches that fire once.
pub(crate) async fn data<S: Session>(stage: &mut Stage<S>) -> Result<()> {
    let (reading, writing) = (stage.client().await?, stage.client().await?);
    let path = stage.below("watched");
    writing.plant(&path, b"").await?;
    let mut watch = Some(reading.watch(&path).await?.1);
    let told = async || {
        watch.take().ok_or("a watch fires once")?.await?;
        let (data, next) = reading.watch(&path).await?;
        watch = Some(next);
        Ok(data)
    };
    changes(stage, &writing, &path, told).await
}

/// Writes to the node once in each operation, until `told` has returned the new data.
pub(crate) async fn changes<S: Session, D: AsRef<[u8]>>(
    stage: &mut Stage<S>,
    writing: &S,
    path: &str,
    mut told: impl AsyncFnMut() -> Result<D>,
) -> Result<()> {
    let width = stage.payload;
    let mut turns = 0;
    let run = async |operations: usize| {
        let (mut latencies, mut seen) = (Samples::new(), 0);
        for _ in 0..operations {
            turns += 1;
            let new = format!("{turns:0>width$}");
            let began = Instant::now();
            let (written, data) = join(writing.set(path, new.as_bytes()), told()).await;
            written?;
            let data = data?;
            if data.as_ref() != new.as_bytes() {
                return Err(format!("{:?} instead of {new}", data.as_ref()).into());
            }
            seen += 1;
            latencies.push(began.elapsed());
        }
        Ok(Outcome { operations, latencies, check: format!("changes={seen}") })
    };
    stage.run_plain(run).await
}
