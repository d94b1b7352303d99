//! Leases by the clock, and slots that one of several processes claims.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use zk_curator::CuratorFramework;
use zk_curator_recipes::Shutdown;
use zk_curator_recipes::lease::TimedLease;
use zk_curator_recipes::schedule::{OncePer, Schedule, Slot};

use super::stage::{Outcome, Result, Samples, Stage};

/// The time of a lease.
const LEASE: Duration = Duration::from_secs(30);
/// The time from slot to slot.
const PERIOD: Duration = Duration::from_secs(1);

pub(crate) async fn take(stage: &mut Stage) -> Result<()> {
    let (zk, path) = (stage.client().await?, stage.below("lease"));
    let lease = TimedLease::new(&zk, &path, "bench");
    // The drop of the guard sends nothing: the next one takes the lease again.
    lease.try_take(LEASE).await?;
    let run = async |operations: usize| {
        let (mut latencies, mut taken) = (Samples::new(), 0);
        for _ in 0..operations {
            let began = Instant::now();
            let guard = lease.try_take(LEASE).await?;
            latencies.push(began.elapsed());
            taken += usize::from(guard.is_some());
        }
        Ok(Outcome { operations, latencies, check: format!("taken={taken}") })
    };
    stage.run_plain(run).await
}

pub(crate) async fn once_per(stage: &mut Stage) -> Result<()> {
    let (contenders, path) = (stage.contenders().await?, stage.below("slots"));
    let schedules: Vec<_> = contenders
        .iter()
        .map(|zk: &CuratorFramework| OncePer::new(zk, &path, Schedule::every(PERIOD)))
        .collect();
    let run = async |operations: usize| {
        let (latencies, slots) = (RefCell::new(Samples::new()), RefCell::new(BTreeSet::new()));
        let stop = Shutdown::new();
        let body = async |slot: Slot| {
            let late = slot.start().elapsed().unwrap_or_default();
            // The slot after the last one stops the schedules.
            if latencies.borrow().len() < operations {
                latencies.borrow_mut().push(late);
                slots.borrow_mut().insert(slot.name().to_owned());
            } else {
                stop.begin();
            }
            Result::Ok(())
        };
        try_join_all(schedules.iter().map(|slots| slots.run(body).until(stop.clone()))).await?;
        let latencies = latencies.into_inner();
        let check = format!("runs={} distinct={}", latencies.len(), slots.borrow().len());
        Ok(Outcome { operations: latencies.len(), latencies, check })
    };
    stage.run_plain(run).await
}
