//! Many sessions that come back after an outage.

use futures_util::future::try_join_all;

use super::measure::{Outcome, Result, Samples};
use super::session::Session;
use super::stage::{Stage, say};

/// A client that reports its connections.
pub(crate) trait Reports: Session {
    /// Waits until the connection is lost, and then until there is another one.
    async fn lost_and_back(&self) -> Result<()>;
}

/// The harness cuts all connections. Every session waits for its next connection, and reads.
pub(crate) async fn come_back<S: Reports>(stage: &mut Stage<S>) -> Result<()> {
    let (path, payload) = (stage.below("node"), stage.payload());
    let clients = stage.contenders().await?;
    clients[0].plant(&path, &payload).await?;
    // Each exists for as long as its session.
    let owned: Vec<_> = (0..clients.len()).map(|number| format!("{path}-{number}")).collect();
    try_join_all(clients.iter().zip(&owned).map(|(zk, own)| zk.create(own, b"", true))).await?;
    let begun = stage.begin().await?;
    let mut bytes = 0;
    for _ in 0..stage.operations {
        let back = async |zk: &S| {
            zk.lost_and_back().await?;
            Result::Ok(zk.get(&path).await?.as_ref().len())
        };
        bytes += try_join_all(clients.iter().map(back)).await?.iter().sum::<usize>();
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
