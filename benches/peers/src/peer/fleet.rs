//! Many sessions that come back after an outage.

use futures_util::future::try_join_all;
use zk_curator::CuratorFramework;

use super::stage::{Outcome, Result, Samples, Stage, say};

const CLOSED: &str = "the client was closed";

/// The harness cuts all connections. Every session waits for its next connection, and reads.
pub(crate) async fn come_back(stage: &mut Stage) -> Result<()> {
    let (path, payload) = (stage.below("node"), stage.payload());
    let clients = stage.contenders().await?;
    clients[0].create(&path).data(payload).creating_parents().await?;
    let id_of = |zk: &CuratorFramework| zk.session().map(|session| session.id);
    let ids: Vec<_> = clients.iter().map(id_of).collect();
    let begun = stage.begin().await?;
    let (mut bytes, mut kept) = (0, 0);
    for _ in 0..stage.operations {
        let back = async |(zk, id): (&CuratorFramework, &Option<_>)| {
            let mut states = zk.states();
            states.until(|status| !status.state.is_connected()).await.ok_or(CLOSED)?;
            states.until(|status| status.state.is_connected()).await.ok_or(CLOSED)?;
            let read = zk.get_data(&path).await?.len();
            Result::Ok((read, id.is_some() && id_of(zk) == *id))
        };
        for (read, same) in try_join_all(clients.iter().zip(&ids).map(back)).await? {
            bytes += read;
            kept += usize::from(same);
        }
        say("seen");
    }
    stage.hear("tell").await?;
    let check = format!("bytes={bytes} kept={kept}");
    let outcome = Outcome { operations: stage.operations, latencies: Samples::new(), check };
    stage.report(&begun, None, outcome).await?;
    stage.clear().await
}
