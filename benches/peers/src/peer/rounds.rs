//! Double barriers and two-phase commits.

use std::cell::Cell;
use std::time::Instant;

use futures_util::future::{join, try_join_all};
use zk_curator::CuratorFramework;
use zk_curator_recipes::barrier::DistributedDoubleBarrier;
use zk_curator_recipes::two_phase::{Coordinator, Outcome as Decision, Site, Vote};

use super::stage::{Outcome, Result, Samples, Stage};

pub(crate) async fn double_barrier(stage: &mut Stage) -> Result<()> {
    let (path, members) = (stage.below("barrier"), stage.size);
    let contenders = stage.contenders().await?;
    let barrier = |zk: &CuratorFramework| DistributedDoubleBarrier::new(zk, &path, members);
    let barriers: Vec<_> = contenders.iter().map(barrier).collect();
    let run = async |operations: usize| {
        let (mut latencies, early) = (Samples::new(), Cell::new(0));
        for _ in 0..operations {
            let called = Cell::new(0);
            let round = async |barrier: &DistributedDoubleBarrier| {
                called.set(called.get() + 1);
                let round = barrier.enter().await?;
                early.set(early.get() + usize::from(called.get() < members));
                round.leave().await?;
                Result::Ok(())
            };
            let began = Instant::now();
            try_join_all(barriers.iter().map(round)).await?;
            latencies.push(began.elapsed());
        }
        let check = format!("rounds={} early={}", latencies.len(), early.get());
        Ok(Outcome { operations: latencies.len(), latencies, check })
    };
    stage.run_plain(run).await
}

/// The coordinator has a session of its own, as every site.
pub(crate) async fn two_phase(stage: &mut Stage) -> Result<()> {
    let names: Vec<String> = (0..stage.size).map(|site| format!("site-{site}")).collect();
    let (coordinates, sites) = (stage.client().await?, stage.contenders().await?);
    let (parent, payload) = (stage.below("transactions"), stage.payload());
    let number = Cell::new(0);
    let run = async |operations: usize| {
        let (mut latencies, mut committed) = (Samples::new(), 0);
        for _ in 0..operations {
            let path = format!("{parent}/{}", number.replace(number.get() + 1));
            let began = Instant::now();
            let mut coordinator =
                Coordinator::begin(&coordinates, &path, &names, payload.clone()).await?;
            let site = async |(zk, name): (&CuratorFramework, &String)| {
                let mut site = Site::join(zk, &path, name).await?;
                site.vote(Vote::Commit).await?;
                let outcome = site.outcome().await?;
                Result::Ok((site, outcome))
            };
            let all = try_join_all(sites.iter().zip(&names).map(site));
            let (decided, all) = join(coordinator.outcome(), all).await;
            latencies.push(began.elapsed());
            let (decided, all) = (decided?, all?);
            let agreed = all.iter().all(|(_, outcome)| *outcome == Decision::Committed);
            committed += usize::from(agreed && decided == Decision::Committed);
            try_join_all(all.into_iter().map(async |(mut site, _)| site.acknowledge().await))
                .await?;
            coordinator.clean_up().await?;
        }
        Ok(Outcome {
            operations: latencies.len(),
            latencies,
            check: format!("committed={committed}"),
        })
    };
    stage.run_plain(run).await
}
