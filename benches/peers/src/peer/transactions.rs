//! Transactions over several nodes: alone, and of sessions that disturb each other.

use std::cell::RefCell;
use std::time::Instant;

use futures_util::future::try_join_all;
use zk_curator::CuratorFramework;
use zk_curator_recipes::stm::{Committed, Error, Stm, Tx};

use super::stage::{Outcome, Result, Samples, Stage};

/// A space with nodes that have the number zero.
async fn space(zk: &CuratorFramework, root: &str, nodes: &[&str]) -> Result<Stm> {
    zk.create(root).creating_parents().await?;
    let space = Stm::space(zk, root);
    space.atomically(async |tx: Tx| nodes.iter().try_for_each(|path| tx.put(*path, &0))).await?;
    Ok(space)
}

async fn number(tx: &Tx, path: &str) -> std::result::Result<i64, Error> {
    tx.get_typed(path).await?.ok_or_else(|| Error::abort("the node is missing"))
}

pub(crate) async fn transfer(stage: &mut Stage) -> Result<()> {
    let (zk, root) = (stage.client().await?, stage.below("numbers"));
    let [from, to] = ["from", "to"].map(|name| format!("{root}/{name}"));
    let (from, to) = (&*from, &*to);
    let space = space(&zk, &root, &[from, to]).await?;
    let mut before = 0;
    let run = async |operations: usize| {
        let (mut latencies, mut last) = (Samples::new(), (0, before));
        for _ in 0..operations {
            let began = Instant::now();
            let body = async |tx: Tx| {
                let values = (number(&tx, from).await? - 1, number(&tx, to).await? + 1);
                tx.put(from, &values.0)?;
                tx.put(to, &values.1)?;
                Ok::<_, Error>(values)
            };
            last = space.transaction().prefetch([from, to]).run(body).await?.value;
            latencies.push(began.elapsed());
        }
        let check = format!("moved={} total={}", last.1 - before, last.0 + last.1);
        before = last.1;
        Ok(Outcome { operations, latencies, check })
    };
    stage.run_plain(run).await
}

pub(crate) async fn contended(stage: &mut Stage) -> Result<()> {
    let contenders = stage.contenders().await?;
    let (root, numbers) = (stage.below("numbers"), stage.numbers.clone());
    let node = format!("{root}/number");
    let node = node.as_str();
    space(&contenders[0], &root, &[node]).await?;
    let spaces: Vec<_> = contenders.iter().map(|zk| Stm::space(zk, &root)).collect();
    let mut before = 0;
    let run = async |operations: usize| {
        let (latencies, attempts) = (RefCell::new(Samples::new()), RefCell::new(Vec::new()));
        let increments = async |space: &Stm| {
            let mut highest = 0;
            for _ in 0..operations / spaces.len() {
                let began = Instant::now();
                let body = async |tx: Tx| {
                    let value = number(&tx, node).await? + 1;
                    tx.put(node, &value)?;
                    Ok::<_, Error>(value)
                };
                let done: Committed<i64> = space.transaction().prefetch([node]).run(body).await?;
                latencies.borrow_mut().push(began.elapsed());
                attempts.borrow_mut().push(done.attempts);
                highest = done.value;
            }
            Result::Ok(highest)
        };
        let all = try_join_all(spaces.iter().map(increments)).await?;
        let highest = all.into_iter().max().unwrap_or(0);
        let mut attempts = attempts.into_inner();
        attempts.sort_unstable();
        if let Some(last) = attempts.len().checked_sub(1) {
            let sum: f64 = attempts.iter().copied().map(f64::from).sum();
            numbers.set("attempts, mean", sum / f64::from(u32::try_from(attempts.len())?));
            numbers.set("attempts, 99th percentile", attempts[last * 99 / 100].into());
        }
        let check = format!("highest={}", highest - before);
        before = highest;
        Ok(Outcome { operations: attempts.len(), latencies: latencies.into_inner(), check })
    };
    stage.run_plain(run).await
}
