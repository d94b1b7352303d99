//! Values instead of bytes: reads and changes through a typed cache; and reads without a cache.

use std::time::Instant;

use zk_curator_recipes::cache::{CuratorCache, TypedCache};

use super::stage::{Outcome, Result, Samples, Stage};
use crate::shared::session::{Session, numbered};
use crate::shared::watches::changes;

pub(crate) async fn children(stage: &mut Stage) -> Result<()> {
    let (zk, path, payload) = (stage.client().await?, stage.below("tree"), stage.payload());
    zk.plant_many(&path, stage.size, &payload).await?;
    let run = async |operations: usize| {
        let (mut latencies, mut nodes) = (Samples::new(), 0);
        for _ in 0..operations {
            let began = Instant::now();
            let children = zk.children_with_data(&path).await?;
            latencies.push(began.elapsed());
            nodes += children.iter().filter(|child| child.data.len() == payload.len()).count();
        }
        Ok(Outcome { operations, latencies, check: format!("nodes={nodes}") })
    };
    stage.run_plain(run).await
}

pub(crate) async fn get(stage: &mut Stage) -> Result<()> {
    let (zk, path, size) = (stage.client().await?, stage.below("tree"), stage.size);
    zk.plant_many(&path, size, b"7").await?;
    let cache = CuratorCache::tree(&zk, path.as_str()).start();
    cache.loaded().await?;
    let typed: TypedCache<u64> = cache.typed();
    let paths: Vec<_> = (0..size).map(|number| numbered(&path, number)).collect();
    let run = async |operations: usize| {
        let mut read = 0;
        for number in 0..operations {
            let node = typed.get(&paths[number % size]).present().ok_or("the node is missing")?;
            read += usize::from(*node.value? == 7);
        }
        Ok(Outcome { operations, latencies: Samples::new(), check: format!("read={read}") })
    };
    stage.run_plain(run).await
}

pub(crate) async fn modify(stage: &mut Stage) -> Result<()> {
    let (zk, path) = (stage.client().await?, stage.below("number"));
    zk.create(&path).data("0").creating_parents().await?;
    let cache = CuratorCache::tree(&zk, path.as_str()).start();
    cache.loaded().await?;
    let typed: TypedCache<u64> = cache.typed();
    let mut before = 0;
    let run = async |operations: usize| {
        let (mut latencies, mut highest) = (Samples::new(), before);
        for _ in 0..operations {
            let began = Instant::now();
            highest = typed.modify(&path, |number| number + 1).await?.value;
            latencies.push(began.elapsed());
        }
        let check = format!("highest={}", highest - before);
        before = highest;
        Ok(Outcome { operations, latencies, check })
    };
    stage.run_plain(run).await
}

pub(crate) async fn watch(stage: &mut Stage) -> Result<()> {
    let (reading, writing) = (stage.client().await?, stage.client().await?);
    let path = stage.below("watched");
    writing.create(&path).creating_parents().await?;
    let mut watch = reading.watch_data(&path);
    watch.next().await?;
    let told = async || Ok(watch.next().await?.ok_or("there is no node")?.0);
    changes(stage, &writing, &path, told).await
}
