//! Counters: increments of one session, of several, and of many tasks of one session.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::time::Instant;

use futures_util::future::try_join_all;
use zk_curator_recipes::counter::DistributedAtomicLong;

use super::stage::{Outcome, Result, Samples, Stage};

pub(crate) async fn sessions(stage: &mut Stage) -> Result<()> {
    let path = stage.below("counter");
    let contenders = stage.contenders().await?;
    let counters = contenders.iter().map(|zk| DistributedAtomicLong::new(zk, &path)).collect();
    increments(stage, counters).await
}

pub(crate) async fn tasks(stage: &mut Stage) -> Result<()> {
    let counter = DistributedAtomicLong::new(&stage.client().await?, stage.below("counter"));
    increments(stage, vec![counter; stage.size]).await
}

/// Each increments one after the other, all of them at the same time.
async fn increments(stage: &mut Stage, counters: Vec<DistributedAtomicLong>) -> Result<()> {
    let highest = Cell::new(0);
    let run = async |operations: usize| {
        let before = highest.get();
        let (seen, latencies) = (RefCell::new(BTreeSet::new()), RefCell::new(Samples::new()));
        let increment = async |counter: &DistributedAtomicLong| {
            for _ in 0..operations / counters.len() {
                let began = Instant::now();
                let value = counter.increment().await?;
                latencies.borrow_mut().push(began.elapsed());
                seen.borrow_mut().insert(value);
                highest.set(highest.get().max(value));
            }
            Result::Ok(())
        };
        try_join_all(counters.iter().map(increment)).await?;
        let check = format!("highest={} distinct={}", highest.get() - before, seen.borrow().len());
        Ok(Outcome { operations, latencies: latencies.take(), check })
    };
    stage.run_plain(run).await
}
