//! Locks and semaphores.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use zk_curator::CuratorFramework;
use zk_curator_recipes::lock::{
    HandoverGuard, HandoverMutex, InterProcessMutex, InterProcessReadWriteLock,
    InterProcessSemaphore, MutexGuard,
};

use super::stage::{Outcome, Result, Samples, Stage};
use crate::shared::counts::Inside;
use crate::shared::locks::{Mutex, Release};

/// The handovers of a batch.
const BATCH: u32 = 64;

pub(crate) fn mutex(zk: &CuratorFramework, path: &str) -> InterProcessMutex {
    InterProcessMutex::new(zk, path)
}

/// A lock that the tasks of a session pass on among themselves.
pub(crate) fn batches(zk: &CuratorFramework, path: &str) -> HandoverMutex {
    InterProcessMutex::new(zk, path).local_batch(BATCH, Duration::from_secs(1))
}

impl Mutex for InterProcessMutex {
    type Guard<'a> = MutexGuard;

    async fn acquire(&self) -> Result<MutexGuard> {
        Ok(Self::acquire(self).await?)
    }
}

impl Release for MutexGuard {
    async fn release(self) -> Result<()> {
        Ok(Self::release(self).await?)
    }
}

impl Mutex for HandoverMutex {
    type Guard<'a> = HandoverGuard;

    async fn acquire(&self) -> Result<HandoverGuard> {
        Ok(Self::acquire(self).await?)
    }
}

impl Release for HandoverGuard {
    async fn release(self) -> Result<()> {
        Ok(Self::release(self).await?)
    }
}

/// Every tenth acquisition is a write.
pub(crate) async fn read_write(stage: &mut Stage) -> Result<()> {
    let path = stage.below("lock");
    let contenders = stage.contenders().await?;
    let locks: Vec<_> =
        contenders.iter().map(|zk| InterProcessReadWriteLock::new(zk, &path)).collect();
    let run = async |operations: usize| {
        let (readers, writers, mixed) = (Inside::default(), Inside::default(), Cell::new(0));
        let latencies = RefCell::new(Samples::new());
        let contend = async |contender: usize, lock: &InterProcessReadWriteLock| {
            let (read, write) = (lock.read_lock(), lock.write_lock());
            let entered = |inside: &Inside, began: Instant| {
                latencies.borrow_mut().push(began.elapsed());
                inside.enter();
                mixed.set(mixed.get() + usize::from(readers.any() && writers.any()));
                inside.leave();
            };
            for turn in 0..operations / locks.len() {
                let began = Instant::now();
                if (turn * locks.len() + contender) % 10 == 9 {
                    let guard = write.acquire().await?;
                    entered(&writers, began);
                    guard.release().await?;
                } else {
                    let guard = read.acquire().await?;
                    entered(&readers, began);
                    guard.release().await?;
                }
            }
            Result::Ok(())
        };
        try_join_all(locks.iter().enumerate().map(|(number, lock)| contend(number, lock))).await?;
        let operations = readers.acquired.get() + writers.acquired.get();
        let check = format!(
            "max_writers={} mixed={} acquired={operations}",
            writers.most.get(),
            mixed.get()
        );
        Ok(Outcome { operations, latencies: latencies.take(), check })
    };
    stage.run_plain(run).await
}

/// Half as many leases as contenders.
pub(crate) async fn semaphore(stage: &mut Stage) -> Result<()> {
    let path = stage.below("semaphore");
    let contenders = stage.contenders().await?;
    let leases = u32::try_from(stage.size / 2)?.max(1);
    let semaphore = |zk: &CuratorFramework| InterProcessSemaphore::new(zk, &path, leases);
    let semaphores: Vec<_> = contenders.iter().map(semaphore).collect();
    let run = async |operations: usize| {
        let (inside, latencies) = (Inside::default(), RefCell::new(Samples::new()));
        let contend = async |semaphore: &InterProcessSemaphore| {
            for _ in 0..operations / semaphores.len() {
                let began = Instant::now();
                let lease = semaphore.acquire().await?;
                latencies.borrow_mut().push(began.elapsed());
                inside.enter();
                // Lets the other holders in.
                tokio::task::yield_now().await;
                inside.leave();
                lease.release().await?;
            }
            Result::Ok(())
        };
        try_join_all(semaphores.iter().map(contend)).await?;
        let operations = inside.acquired.get();
        Ok(Outcome { operations, latencies: latencies.take(), check: inside.check() })
    };
    stage.run_plain(run).await
}
