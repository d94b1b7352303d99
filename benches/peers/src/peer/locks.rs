//! Locks and semaphores.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use zk_curator::CuratorFramework;
use zk_curator_recipes::lock::{
    InterProcessLock, InterProcessMutex, InterProcessReadWriteLock, InterProcessSemaphore,
};

use super::caches::{flat, plant};
use super::stage::{Outcome, Result, Samples, Stage, at_most};

/// Counts the holders within the process.
#[derive(Default)]
pub(crate) struct Inside {
    now: Cell<usize>,
    pub(crate) most: Cell<usize>,
    pub(crate) acquired: Cell<usize>,
}

impl Inside {
    pub(crate) fn enter(&self) {
        self.now.set(self.now.get() + 1);
        self.most.set(self.most.get().max(self.now.get()));
        self.acquired.set(self.acquired.get() + 1);
    }

    pub(crate) fn leave(&self) {
        self.now.set(self.now.get() - 1);
    }

    fn any(&self) -> bool {
        self.now.get() > 0
    }

    pub(crate) fn check(&self) -> String {
        format!("max_holders={} acquired={}", self.most.get(), self.acquired.get())
    }
}

/// Acquires and releases a lock without contention. With `leave`, dropping the guard releases it.
pub(crate) async fn mutex(stage: &mut Stage, leave: bool) -> Result<()> {
    let lock = InterProcessMutex::new(&stage.client().await?, stage.below("lock"));
    let run = async |operations| {
        let (inside, mut latencies) = (Inside::default(), Samples::new());
        for _ in 0..operations {
            let began = Instant::now();
            let guard = lock.acquire().await?;
            inside.enter();
            inside.leave();
            if leave {
                drop(guard);
            } else {
                guard.release().await?;
            }
            latencies.push(began.elapsed());
        }
        Ok(Outcome { operations, latencies, check: inside.check() })
    };
    stage.run_plain(run).await
}

/// The locks that the tasks of a process share.
const LOCKS: usize = 1000;

/// The lock of an operation: splitmix64, the same numbers in every client.
fn lock_of(operation: usize) -> usize {
    let mixed = (operation as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    usize::try_from((mixed ^ (mixed >> 31)) % LOCKS as u64).unwrap_or(0)
}

/// One session, and `size` tasks that each use one of many locks after another.
pub(crate) async fn many(stage: &mut Stage) -> Result<()> {
    let (zk, path, size) = (stage.client().await?, stage.below("locks"), stage.size);
    plant(&zk, &path, LOCKS, flat, &[]).await?;
    let lock = |number| InterProcessMutex::new(&zk, format!("{path}/{}", flat(number)));
    let locks: Vec<_> = (0..LOCKS).map(lock).collect();
    let run = async |operations| {
        let insides: Vec<Inside> = (0..LOCKS).map(|_| Inside::default()).collect();
        let one = async |number| {
            let lock = lock_of(number);
            let guard = locks[lock].acquire().await?;
            insides[lock].enter();
            insides[lock].leave();
            Ok(guard.release().await?)
        };
        let latencies = at_most(size, operations, one).await?;
        let most = insides.iter().map(|inside| inside.most.get()).max().unwrap_or(0);
        let acquired = insides.iter().map(|inside| inside.acquired.get()).sum();
        let used = insides.iter().filter(|inside| inside.acquired.get() > 0).count();
        let check = format!("max_holders={most} acquired={acquired} locks={used}");
        Ok(Outcome { operations: acquired, latencies, check })
    };
    stage.run_plain(run).await
}

/// The sessions that stand for processes.
const SESSIONS: usize = 2;
/// The handovers of a batch.
const BATCH: u32 = 64;

/// Two sessions, each with `size` tasks that use one lock; with `batches`, those of one session
/// pass it on among themselves.
pub(crate) async fn shared(stage: &mut Stage, batches: bool) -> Result<()> {
    let (path, size) = (stage.below("lock"), stage.size);
    let mut locks: Vec<Box<dyn InterProcessLock>> = Vec::new();
    for _ in 0..SESSIONS {
        let lock = InterProcessMutex::new(&stage.client().await?, &path);
        locks.push(match batches {
            true => Box::new(lock.local_batch(BATCH, Duration::from_secs(1))),
            false => Box::new(lock),
        });
    }
    let run = async |operations: usize| {
        let (inside, latencies) = (Inside::default(), RefCell::new(Samples::new()));
        let each = operations / (SESSIONS * size);
        let contend = async |lock: &dyn InterProcessLock| {
            for _ in 0..each {
                let began = Instant::now();
                let guard = lock.acquire().await?;
                latencies.borrow_mut().push(began.elapsed());
                inside.enter();
                // Lets others in, who must not come.
                tokio::task::yield_now().await;
                inside.leave();
                guard.release().await?;
            }
            Result::Ok(())
        };
        let tasks = locks.iter().flat_map(|lock| (0..size).map(|_| contend(&**lock)));
        try_join_all(tasks).await?;
        let operations = inside.acquired.get();
        Ok(Outcome { operations, latencies: latencies.take(), check: inside.check() })
    };
    stage.run_plain(run).await
}

pub(crate) async fn handover(stage: &mut Stage) -> Result<()> {
    let path = stage.below("lock");
    let contenders = stage.contenders().await?;
    let locks: Vec<_> = contenders.iter().map(|zk| InterProcessMutex::new(zk, &path)).collect();
    let run = async |operations: usize| {
        let (inside, latencies) = (Inside::default(), RefCell::new(Samples::new()));
        let released = Cell::new(None::<Instant>);
        let contend = async |lock: &InterProcessMutex| {
            for _ in 0..operations / locks.len() {
                let guard = lock.acquire().await?;
                let acquired = Instant::now();
                inside.enter();
                if let Some(released) = released.take() {
                    latencies.borrow_mut().push(acquired - released);
                }
                inside.leave();
                released.set(Some(Instant::now()));
                guard.release().await?;
            }
            Result::Ok(())
        };
        try_join_all(locks.iter().map(contend)).await?;
        let operations = inside.acquired.get();
        Ok(Outcome { operations, latencies: latencies.take(), check: inside.check() })
    };
    stage.run_plain(run).await
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
