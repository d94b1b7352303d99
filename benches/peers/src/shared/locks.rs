//! Locks without contention, many locks, and a lock that changes hands.

use std::cell::{Cell, RefCell};
use std::time::Instant;

use futures_util::future::try_join_all;

use super::counts::{Inside, LOCKS, lock_of};
use super::measure::{Outcome, Result, Samples, at_most};
use super::session::{Session, numbered};
use super::stage::Stage;

/// A client's own lock.
pub(crate) trait Mutex {
    type Guard<'a>: Release
    where
        Self: 'a;

    async fn acquire(&self) -> Result<Self::Guard<'_>>;
}

/// A lock that is held.
pub(crate) trait Release: Sized {
    /// Returns when the lock is free. A client that cannot wait for that only drops the guard.
    async fn release(self) -> Result<()> {
        Ok(())
    }
}

/// Acquires and releases a lock without contention. With `leave`, dropping the guard releases it.
pub(crate) async fn alone<S: Session, M: Mutex>(
    stage: &mut Stage<S>,
    lock: impl Fn(&S, &str) -> M,
    leave: bool,
) -> Result<()> {
    let lock = lock(&stage.client().await?, &stage.below("lock"));
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

/// One session, and `size` tasks that each use one of many locks after another.
pub(crate) async fn many<S: Session, M: Mutex>(
    stage: &mut Stage<S>,
    lock: impl Fn(&S, &str) -> M,
) -> Result<()> {
    let (zk, path, size) = (stage.client().await?, stage.below("locks"), stage.size);
    zk.plant_many(&path, LOCKS, b"").await?;
    let locks: Vec<_> = (0..LOCKS).map(|number| lock(&zk, &numbered(&path, number))).collect();
    let run = async |operations| {
        let insides: Vec<Inside> = (0..LOCKS).map(|_| Inside::default()).collect();
        let one = async |number| {
            let lock = lock_of(number);
            let guard = locks[lock].acquire().await?;
            insides[lock].enter();
            insides[lock].leave();
            guard.release().await
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

/// Two sessions, each with `size` tasks that use one lock.
pub(crate) async fn shared<S: Session, M: Mutex>(
    stage: &mut Stage<S>,
    lock: impl Fn(&S, &str) -> M,
) -> Result<()> {
    let (path, size) = (stage.below("lock"), stage.size);
    let mut locks = Vec::new();
    for _ in 0..SESSIONS {
        locks.push(lock(&stage.client().await?, &path));
    }
    let run = async |operations: usize| {
        let (inside, latencies) = (Inside::default(), RefCell::new(Samples::new()));
        let each = operations / (SESSIONS * size);
        let contend = async |lock: &M| {
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
        let tasks = locks.iter().flat_map(|lock| (0..size).map(|_| contend(lock)));
        try_join_all(tasks).await?;
        let operations = inside.acquired.get();
        Ok(Outcome { operations, latencies: latencies.take(), check: inside.check() })
    };
    stage.run_plain(run).await
}

pub(crate) async fn handover<S: Session, M: Mutex>(
    stage: &mut Stage<S>,
    lock: impl Fn(&S, &str) -> M,
) -> Result<()> {
    let path = stage.below("lock");
    let contenders = stage.contenders().await?;
    let locks: Vec<_> = contenders.iter().map(|zk| lock(zk, &path)).collect();
    let run = async |operations: usize| {
        let (inside, latencies) = (Inside::default(), RefCell::new(Samples::new()));
        let released = Cell::new(None::<Instant>);
        let contend = async |lock: &M| {
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
