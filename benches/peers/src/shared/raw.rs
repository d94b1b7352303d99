//! Plain operations, one session.

use std::cell::Cell;

use super::measure::{Outcome, Result, at_most};
use super::session::Session;
use super::stage::Stage;

pub(crate) async fn get<S: Session>(stage: &mut Stage<S>) -> Result<()> {
    let (zk, path, size) = (stage.client().await?, stage.below("node"), stage.size);
    zk.plant(&path, &stage.payload()).await?;
    let run = async |operations| {
        let bytes = Cell::new(0);
        let one = async |_| {
            let data = zk.get(&path).await?;
            bytes.set(bytes.get() + data.as_ref().len());
            Ok(())
        };
        let latencies = at_most(size, operations, one).await?;
        Ok(Outcome { operations, latencies, check: format!("bytes={}", bytes.get()) })
    };
    stage.run_plain(run).await
}

pub(crate) async fn set<S: Session>(stage: &mut Stage<S>) -> Result<()> {
    let (zk, path, size, payload) =
        (stage.client().await?, stage.below("node"), stage.size, stage.payload());
    zk.plant(&path, &payload).await?;
    let version = Cell::new(0);
    let run = async |operations| {
        let before = version.get();
        let one = async |_| {
            let new = zk.set(&path, &payload).await?;
            version.set(version.get().max(new));
            Ok(())
        };
        let latencies = at_most(size, operations, one).await?;
        Ok(Outcome { operations, latencies, check: format!("version={}", version.get() - before) })
    };
    stage.run_plain(run).await
}

pub(crate) async fn create_delete<S: Session>(stage: &mut Stage<S>) -> Result<()> {
    let (zk, path, size, payload) =
        (stage.client().await?, stage.below("nodes"), stage.size, stage.payload());
    zk.create_all(&path).await?;
    let run = async |operations| {
        let (created, deleted) = (Cell::new(0), Cell::new(0));
        let one = async |number| {
            let node = format!("{path}/{number}");
            zk.create(&node, &payload, false).await?;
            created.set(created.get() + 1);
            zk.delete(&node).await?;
            deleted.set(deleted.get() + 1);
            Ok(())
        };
        let latencies = at_most(size, operations, one).await?;
        let check = format!("created={} deleted={}", created.get(), deleted.get());
        Ok(Outcome { operations, latencies, check })
    };
    stage.run_plain(run).await
}
