//! Caches: the load of a tree, the notification of a subscriber, and the cost of a new connection.

use std::time::Instant;

use bytes::Bytes;
use futures_util::future::try_join_all;
use zk_curator::CuratorFramework;
use zk_curator_recipes::cache::{CacheEvent, CuratorCache};

use super::stage::{Outcome, Result, Samples, Stage, each, say};
use crate::common::resident;
use crate::shared::session::{Session, numbered};

/// The nodes that are created in one transaction, and the transactions under way.
const AT_ONCE: usize = 100;
const IN_FLIGHT: usize = 16;
/// The nodes of the cache that is changed.
const NODES: usize = 100;

/// The children of a node of a large tree: a response with a million names is longer than clients
/// and servers accept.
const GROUP: usize = 1_000;

/// The path of a node below another: [`numbered`] or [`grouped`].
type PathOf = fn(&str, usize) -> String;

fn grouped(path: &str, number: usize) -> String {
    format!("{path}/{:04}/{:03}", number / GROUP, number % GROUP)
}

/// Creates a node with `count` [grouped] nodes below it.
async fn plant_groups(
    zk: &CuratorFramework,
    path: &str,
    count: usize,
    payload: &[u8],
) -> Result<()> {
    zk.create(path).creating_parents().await?;
    let payload = Bytes::copy_from_slice(payload);
    let firsts: Vec<_> = (0..count).step_by(AT_ONCE).collect();
    for firsts in firsts.chunks(IN_FLIGHT) {
        let all = firsts.iter().map(|&first| {
            let numbers = first..count.min(first + AT_ONCE);
            let create = |transaction: zk_curator::op::Transaction, number| {
                let node = grouped(path, number);
                let transaction = match node.strip_suffix("/000") {
                    Some(group) => transaction.create(group, ""),
                    None => transaction,
                };
                transaction.create(node, payload.clone())
            };
            numbers.fold(zk.transaction(), create).commit()
        });
        // Sent in this order, so that a group exists before its nodes.
        try_join_all(all).await?;
    }
    Ok(())
}

/// Waits until a cache knows all nodes.
async fn loaded(cache: &CuratorCache) -> Result<()> {
    let loaded = cache.loaded().await?;
    if loaded.unreadable > 0 {
        return Err(format!("{} nodes could not be read", loaded.unreadable).into());
    }
    Ok(())
}

pub(crate) async fn load(stage: &mut Stage) -> Result<()> {
    let (path, size) = (stage.below("tree"), stage.size);
    let zk = stage.client().await?;
    zk.plant_many(&path, size, &stage.payload()).await?;
    let run = async |operations: usize| {
        let (mut latencies, mut nodes) = (Samples::new(), 0);
        for _ in 0..operations {
            let began = Instant::now();
            let cache = CuratorCache::tree(&zk, path.as_str()).start();
            loaded(&cache).await?;
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
    reading.plant_many(&path, NODES, &payload).await?;
    let cache = CuratorCache::tree(&reading, path.as_str()).start();
    let run = async |operations| {
        changes(&cache, &writing, &path, (NODES, numbered), &payload, operations).await
    };
    stage.run_plain(run).await
}

/// Writes to nodes, evenly over all of them, and waits for each event.
async fn changes(
    cache: &CuratorCache,
    writing: &CuratorFramework,
    path: &str,
    (nodes, path_of): (usize, PathOf),
    payload: &[u8],
    operations: usize,
) -> Result<Outcome> {
    let (mut latencies, mut seen) = (Samples::new(), 0);
    let mut changes = cache.events_from_now();
    loaded(cache).await?;
    for turn in 0..operations {
        let node = path_of(path, turn * nodes / operations);
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
    plant_groups(&writing, &path, size, &payload).await?;
    let before = resident("self");
    let cache = CuratorCache::tree(&reading, path.as_str()).start();
    loaded(&cache).await?;
    let bytes = each(before, size);
    let run = async |operations| {
        changes(&cache, &writing, &path, (size, grouped), &payload, operations).await
    };
    stage.measure(bytes, run).await?;
    cache.close().await;
    stage.clear().await
}

/// Caches of several clients, whose connections the harness cuts; it writes to `changes` nodes
/// in between.
pub(crate) async fn reconnect(
    stage: &mut Stage,
    clients: usize,
    nodes: usize,
    changes: usize,
) -> Result<()> {
    let (path, payload) = (stage.below("measured"), stage.payload());
    let mut caches = Vec::new();
    for number in 0..clients {
        let zk = stage.client().await?;
        if number == 0 {
            zk.plant_many(&path, nodes, &payload).await?;
        }
        caches.push(CuratorCache::tree(&zk, path.as_str()).start());
    }
    try_join_all(caches.iter().map(loaded)).await?;
    let mut all_told: Vec<_> = caches.iter().map(CuratorCache::events_from_now).collect();
    let begun = stage.begin().await?;
    for _ in 0..stage.operations {
        for told in &mut all_told {
            let mut seen = 0;
            while seen < changes {
                let event = told.next().await.ok_or("the cache has ended")?;
                seen += usize::from(matches!(event, CacheEvent::Changed { .. }));
            }
        }
        if changes > 0 {
            say("seen");
        }
    }
    stage.hear("tell").await?;
    let all = caches.iter().flat_map(|cache| cache.children_of(&path));
    let (mut nodes, mut changed) = (0, 0);
    for node in all {
        nodes += 1;
        changed += usize::from(node.data != payload);
    }
    let check = format!("nodes={nodes} changed={changed}");
    let outcome = Outcome { operations: stage.operations, latencies: Samples::new(), check };
    stage.report(&begun, None, outcome).await?;
    for cache in caches {
        cache.close().await;
    }
    stage.clear().await
}
