//! Futures of all locks, dropped at every point: nothing stays behind, and no client is blocked.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use zk_curator::CuratorFramework;
use zk_curator_recipes::lock::{
    Error, HandoverMutex, InterProcessLock, InterProcessMultiLock, InterProcessMutex,
    InterProcessReadWriteLock, InterProcessSemaphore, InterProcessSemaphoreMutex, ReentrantMutex,
    RevocableReadWriteLock,
};
use zk_curator_testing::wait::settled;
use zk_curator_tests::{all_close_clean, simulated_drops, two_in_memory};

const LOCK: &str = "/locks/orders";
type Make = fn(&CuratorFramework) -> Arc<dyn InterProcessLock>;

/// A lock, and another lock that excludes it.
const LOCKS: [(Make, Make); 6] = [
    (
        |zk| Arc::new(InterProcessMutex::new(zk, LOCK)),
        |zk| Arc::new(InterProcessMutex::new(zk, LOCK)),
    ),
    (read, write),
    (write, read),
    (write, write),
    (
        |zk| Arc::new(RevocableReadWriteLock::new(zk, LOCK).write_lock()),
        |zk| Arc::new(RevocableReadWriteLock::new(zk, LOCK).read_lock()),
    ),
    (
        |zk| Arc::new(InterProcessSemaphoreMutex::new(zk, LOCK)),
        |zk| Arc::new(InterProcessSemaphoreMutex::new(zk, LOCK)),
    ),
];

fn read(zk: &CuratorFramework) -> Arc<dyn InterProcessLock> {
    Arc::new(InterProcessReadWriteLock::new(zk, LOCK).read_lock())
}

fn write(zk: &CuratorFramework) -> Arc<dyn InterProcessLock> {
    Arc::new(InterProcessReadWriteLock::new(zk, LOCK).write_lock())
}

/// Drops the future that `run` makes at every step until it completes. After that other clients can
/// acquire the lock, and nothing stays behind.
fn at_every_step<F, T>(
    more_than: usize,
    make: Make,
    mut run: impl FnMut(CuratorFramework, CuratorFramework) -> F,
) where
    F: Future<Output = T>,
{
    simulated_drops(
        more_than,
        two_in_memory,
        async |(_, zk, other)| run(zk.clone(), other.clone()).await,
        async |(server, zk, other), output| {
            drop(output);
            let next = timeout(Duration::from_secs(3600), make(&other).acquire()).await;
            next.expect("the lock is stuck").unwrap().release().await.unwrap();
            all_close_clean(&server, [zk, other]).await;
        },
    );
}

#[test]
fn acquires_that_wait_leave_nothing() {
    for (make, excluding) in LOCKS {
        at_every_step(8, make, |zk, other| async move {
            let holder = excluding(&other).acquire().await.unwrap();
            let lock = make(&zk);
            let acquire = lock.acquire();
            let release = async {
                settled().await;
                holder.release().await.unwrap();
            };
            tokio::join!(acquire, release).0.unwrap()
        });
    }
}

#[test]
fn several_leases_and_several_locks_leave_nothing() {
    let one: Make = |zk| Arc::new(InterProcessSemaphoreMutex::new(zk, LOCK));
    at_every_step(8, one, |zk, other| async move {
        let semaphore = |zk| InterProcessSemaphore::new(zk, LOCK, 3);
        let held = semaphore(&other).acquire_many(2).await.unwrap();
        let free = async {
            settled().await;
            drop(held);
        };
        let semaphore = semaphore(&zk);
        tokio::join!(semaphore.acquire_many(2), free).0.unwrap()
    });
    let mutex: Make = |zk| Arc::new(InterProcessMutex::new(zk, LOCK));
    at_every_step(0, mutex, |zk, _| async move {
        let all = InterProcessMultiLock::of_mutexes(&zk, [LOCK, "/locks/a", "/locks/z"]);
        all.acquire().await.unwrap().release().await.unwrap();
    });
}

#[test]
fn shared_locks_are_passed_on_or_released_when_dropped() {
    let mutex: Make = |zk| Arc::new(InterProcessMutex::new(zk, LOCK));
    at_every_step(8, mutex, |zk, _| async move {
        let lock = InterProcessMutex::new(&zk, LOCK).local_batch(1, Duration::MAX);
        let hold = |lock: HandoverMutex| async move {
            let guard = lock.acquire().await?;
            tokio::task::yield_now().await;
            guard.release().await
        };
        let all: Result<Vec<()>, Error> =
            futures_util::future::try_join_all((0..5).map(|_| hold(lock.clone()))).await;
        all.unwrap();
    });
    at_every_step(0, mutex, |zk, _| async move {
        let lock = ReentrantMutex::new(&zk, LOCK);
        let (one, two) = tokio::join!(lock.acquire(1), lock.acquire(1));
        one.unwrap().release().await.unwrap();
        two.unwrap().release().await.unwrap();
    });
}
