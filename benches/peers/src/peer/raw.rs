//! Plain operations of the framework, one session.

use std::cell::Cell;

use super::stage::{Outcome, Result, Stage, at_most};

pub(crate) async fn get(stage: &mut Stage) -> Result<()> {
    let (zk, path, size) = (stage.client().await?, stage.below("node"), stage.size);
    zk.create(&path).data(stage.payload()).creating_parents().await?;
    let run = async |operations| {
        let bytes = Cell::new(0);
        let one = async |_| {
            let data = zk.get_data(&path).await?;
            bytes.set(bytes.get() + data.len());
            Ok(())
        };
        let latencies = at_most(size, operations, one).await?;
        Ok(Outcome { operations, latencies, check: format!("bytes={}", bytes.get()) })
    };
    stage.run_plain(run).await
}

pub(crate) async fn set(stage: &mut Stage) -> Result<()> {
    let (zk, path, size, payload) =
        (stage.client().await?, stage.below("node"), stage.size, stage.payload());
    zk.create(&path).data(payload.clone()).creating_parents().await?;
    let version = Cell::new(0);
    let run = async |operations| {
        let before = version.get();
        let one = async |_| {
            let stat = zk.set_data(&path, payload.clone()).await?;
            version.set(version.get().max(stat.version));
            Ok(())
        };
        let latencies = at_most(size, operations, one).await?;
        Ok(Outcome { operations, latencies, check: format!("version={}", version.get() - before) })
    };
    stage.run_plain(run).await
}

pub(crate) async fn create_delete(stage: &mut Stage) -> Result<()> {
    let (zk, path, size, payload) =
        (stage.client().await?, stage.below("nodes"), stage.size, stage.payload());
    zk.create(&path).creating_parents().await?;
    let run = async |operations| {
        let (created, deleted) = (Cell::new(0), Cell::new(0));
        let one = async |number| {
            let node = format!("{path}/{number}");
            zk.create(&node).data(payload.clone()).await?;
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
