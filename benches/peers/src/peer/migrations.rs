//! Migrations: a set that is applied already, one that is new, and a fleet that starts at once.

use std::time::Instant;

use futures_util::future::try_join_all;
use zk_curator::CuratorFramework;
use zk_curator_recipes::migration::{MigrationManager, MigrationSet, MigrationSetBuilder};

use super::stage::{Outcome, Result, Samples, Stage};

/// The missing migrations of a fleet.
const MISSING: usize = 3;

/// A set of migrations that each create one node.
fn set(nodes: &str, id: &str, count: usize) -> Result<MigrationSet> {
    let add = |set: MigrationSetBuilder, number: usize| {
        let path = format!("{nodes}/{id}-{number}");
        set.migration(format!("m{number}"), |m| m.create(path, ""))
    };
    Ok((0..count).fold(MigrationSet::builder(id), add).build()?)
}

/// The managers of some sessions, and the parent of the nodes.
async fn managers(
    stage: &Stage,
    clients: &[CuratorFramework],
) -> Result<(Vec<MigrationManager>, String)> {
    let [locks, meta, nodes] = ["locks", "meta", "nodes"].map(|name| stage.below(name));
    clients[0].create(&nodes).creating_parents().await?;
    let manager = |zk| MigrationManager::new(zk, &*locks, &*meta);
    Ok((clients.iter().map(manager).collect(), nodes))
}

pub(crate) async fn none(stage: &mut Stage) -> Result<()> {
    let clients = [stage.client().await?];
    let (managers, nodes) = managers(stage, &clients).await?;
    let set = set(&nodes, "known", stage.size)?;
    managers[0].migrate(&set).await?;
    let run = async |operations: usize| {
        let (mut latencies, mut already) = (Samples::new(), 0);
        for _ in 0..operations {
            let began = Instant::now();
            already += managers[0].migrate(&set).await?.already;
            latencies.push(began.elapsed());
        }
        Ok(Outcome { operations, latencies, check: format!("already={already}") })
    };
    stage.run_plain(run).await
}

pub(crate) async fn missing(stage: &mut Stage) -> Result<()> {
    let clients = [stage.client().await?];
    new_sets(stage, &clients, stage.size).await
}

pub(crate) async fn fleet(stage: &mut Stage) -> Result<()> {
    let clients = stage.contenders().await?;
    new_sets(stage, &clients, MISSING).await
}

/// All sessions are given the same new set, again and again.
async fn new_sets(stage: &mut Stage, clients: &[CuratorFramework], count: usize) -> Result<()> {
    let (managers, nodes) = managers(stage, clients).await?;
    let mut sets = 0;
    let run = async |operations: usize| {
        let (mut latencies, mut applied) = (Samples::new(), 0);
        for _ in 0..operations {
            sets += 1;
            let set = set(&nodes, &format!("set-{sets}"), count)?;
            let began = Instant::now();
            let all = try_join_all(managers.iter().map(|manager| manager.migrate(&set))).await?;
            latencies.push(began.elapsed());
            applied += all.iter().map(|outcome| outcome.applied.len()).sum::<usize>();
        }
        Ok(Outcome { operations, latencies, check: format!("applied={applied}") })
    };
    stage.run_plain(run).await
}
