//! Many sessions that come back after an outage.

use futures_util::future::try_join_all;

use super::measure::{Outcome, Result, Samples};
use super::session::Session;
use super::stage::{Stage, say};

/// A client that reports its connections.
pub(crate) trait Reports: Session {
    /// Watches the connection from now on. The future waits until it was lost and there is another
    /// one, also if both have happened before it is polled.
    fn lost_and_back(&self) -> impl Future<Output = Result<()>> + use<Self>;
}

/// The harness cuts all connections. Every session waits for its next connection, and reads.
pub(crate) async fn come_back<S: Reports>(stage: &mut Stage<S>) -> Result<()> {
    let (path, payload) = (stage.below("node"), stage.payload());
    let clients = stage.contenders().await?;
    clients[0].plant(&path, &payload).await?;
    // Each exists for as long as its session.
    let owned: Vec<_> = (0..clients.len()).map(|number| format!("{path}-{number}")).collect();
    try_join_all(clients.iter().zip(&owned).map(|(zk, own)| zk.create(own, b"", true))).await?;
    // The harness cuts the connections at once when it has heard of the beginning.
    let watched = || clients.iter().map(S::lost_and_back).collect::<Vec<_>>();
    let mut returns = watched();
    let begun = stage.begin().await?;
    let mut bytes = 0;
    for _ in 0..stage.operations {
        let back = clients.iter().zip(returns).map(async |(zk, returns)| {
            returns.await?;
            Result::Ok(zk.get(&path).await?.as_ref().len())
        });
        bytes += try_join_all(back).await?.iter().sum::<usize>();
        returns = watched();
        say("seen");
    }
    stage.hear("tell").await?;
    let survivors = try_join_all(owned.iter().map(|own| clients[0].exists(own))).await?;
    let kept = survivors.iter().filter(|survives| **survives).count() * stage.operations;
    let check = format!("bytes={bytes} kept={kept}");
    let outcome = Outcome { operations: stage.operations, latencies: Samples::new(), check };
    stage.report(&begun, None, outcome).await?;
    stage.clear().await
}
