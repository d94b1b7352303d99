//! Caches: the load of a tree, and the way of a change to its subscriber.

use std::time::Instant;

use bytes::Bytes;
use futures_util::future::try_join_all;
use zk_curator::CuratorFramework;
use zk_curator_recipes::cache::{CacheEvent, CuratorCache};

use super::scale::each;
use super::stage::{Outcome, Result, Samples, Stage};
use crate::common::resident;

/// The nodes that are created in one transaction, and the transactions under way.
const AT_ONCE: usize = 100;
const IN_FLIGHT: usize = 16;
/// The nodes of the cache that is changed.
const NODES: usize = 100;

/// Creates a node with `count` children.
async fn plant(zk: &CuratorFramework, path: &str, count: usize, payload: &[u8]) -> Result<()> {
    zk.create(path).creating_parents().await?;
    let payload = Bytes::copy_from_slice(payload);
    let firsts: Vec<_> = (0..count).step_by(AT_ONCE).collect();
    for firsts in firsts.chunks(IN_FLIGHT) {
        let all = firsts.iter().map(|&first| {
            let numbers = first..count.min(first + AT_ONCE);
            let create = |transaction: zk_curator::op::Transaction, number| {
                transaction.create(format!("{path}/{number:08}"), payload.clone())
            };
            numbers.fold(zk.transaction(), create).commit()
        });
        try_join_all(all).await?;
    }
    Ok(())
}

pub(crate) async fn load(stage: &mut Stage) -> Result<()> {
    let (path, size) = (stage.below("tree"), stage.size);
    let zk = stage.client().await?;
    plant(&zk, &path, size, &stage.payload()).await?;
    let run = async |operations: usize| {
        let (mut latencies, mut nodes) = (Samples::new(), 0);
        for _ in 0..operations {
            let began = Instant::now();
            let cache = CuratorCache::tree(&zk, path.as_str()).start();
            cache.loaded().await?;
            latencies.push(began.elapsed());
            nodes += cache.len() - 1;
            cache.close().await;
        }
        Ok(Outcome { operations, latencies, check: format!("nodes={nodes}") })
    };
    stage.run_plain(run).await
}

pub(crate) async fn change(stage: &mut Stage) -> Result<()> {
    let (path, payload) = (stage.below("tree"), stage.payload());
    let (reading, writing) = (stage.client().await?, stage.client().await?);
    plant(&reading, &path, NODES, &payload).await?;
    let cache = CuratorCache::tree(&reading, path.as_str()).start();
    let run = async |operations| changes(&cache, &writing, &path, NODES, &payload, operations).await;
    stage.run_plain(run).await
}

/// Writes to nodes, evenly over all of them, and waits for each event.
async fn changes(
    cache: &CuratorCache,
    writing: &CuratorFramework,
    path: &str,
    nodes: usize,
    payload: &[u8],
    operations: usize,
) -> Result<Outcome> {
    let (mut latencies, mut seen) = (Samples::new(), 0);
    let mut changes = cache.changes();
    cache.loaded().await?;
    for turn in 0..operations {
        let node = format!("{path}/{:08}", turn * nodes / operations);
        let began = Instant::now();
        let write = writing.set_data(&node, payload.to_vec());
        let (written, told) = futures_util::future::join(write.into_future(), changes.next()).await;
        written?;
        match told {
            Some(CacheEvent::Changed { new, .. }) if *new.path == *node => seen += 1,
            other => return Err(format!("{other:?} instead of a change of {node}").into()),
        }
        latencies.push(began.elapsed());
    }
    Ok(Outcome { operations, latencies, check: format!("changes={seen}") })
}

/// The memory of each node, and the same way in a large tree.
pub(crate) async fn large(stage: &mut Stage) -> Result<()> {
    let (path, payload, size) = (stage.below("tree"), stage.payload(), stage.size);
    let (reading, writing) = (stage.client().await?, stage.client().await?);
    plant(&writing, &path, size, &payload).await?;
    let before = resident("self");
    let cache = CuratorCache::tree(&reading, path.as_str()).start();
    cache.loaded().await?;
    let bytes = each(before, size);
    let run = async |operations| changes(&cache, &writing, &path, size, &payload, operations).await;
    stage.measure(bytes, run).await?;
    cache.close().await;
    stage.clear().await
}
