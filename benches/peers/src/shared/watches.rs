//! One session follows the data of a node by watches that fire once, and another writes.

use std::time::Instant;

use futures_util::future::join;

use super::measure::{Outcome, Result, Samples};
use super::session::Session;
use super::stage::Stage;

pub(crate) async fn data<S: Session>(stage: &mut Stage<S>) -> Result<()> {
    let (reading, writing) = (stage.client().await?, stage.client().await?);
    let (path, width) = (stage.below("watched"), stage.payload);
    writing.plant(&path, b"").await?;
    let mut watch = Some(reading.watch(&path).await?.1);
    let mut turns = 0;
    let run = async |operations: usize| {
        let (mut latencies, mut seen) = (Samples::new(), 0);
        for _ in 0..operations {
            turns += 1;
            let new = format!("{turns:0>width$}");
            let began = Instant::now();
            let told = async {
                watch.take().ok_or("a watch fires once")?.await?;
                reading.watch(&path).await
            };
            let (written, told) = join(writing.set(&path, new.as_bytes()), told).await;
            written?;
            let (data, next) = told?;
            if data.as_ref() != new.as_bytes() {
                return Err(format!("{:?} instead of {new}", data.as_ref()).into());
            }
            seen += 1;
            watch = Some(next);
            latencies.push(began.elapsed());
        }
        Ok(Outcome { operations, latencies, check: format!("changes={seen}") })
    };
    stage.run_plain(run).await
}
