//! Futures of all locks, dropped at every point: nothing stays behind, and nobody is blocked.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use zk_curator::CuratorFramework;
use zk_curator_recipes::lock::{
    Any, Error, Guard, HandoverMutex, InterProcessLock, InterProcessMultiLock, InterProcessMutex,
    InterProcessReadWriteLock, InterProcessSemaphore, InterProcessSemaphoreMutex, ReentrantMutex,
    RevocableReadWriteLock,
};
use zk_curator_tests::cancel;
use zk_curator_tests::{assert_clean_after_close, simulated, two_in_memory};

const LOCK: &str = "/locks/orders";
type Make = fn(&CuratorFramework) -> Arc<dyn InterProcessLock>;

/// A lock, and one that excludes it.
const LOCKS: [(Make, Make); 6] = [
    (|zk| Arc::new(InterProcessMutex::new(zk, LOCK)), |zk| Arc::new(InterProcessMutex::new(zk, LOCK))),
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

/// Drops the future that `run` makes at every step until it completes. After that the lock can be had by others, and
/// nothing stays behind.
async fn at_every_step<F, T>(
    make: Make,
    mut run: impl FnMut(CuratorFramework, CuratorFramework) -> F,
) -> usize
where
    F: Future<Output = T>,
{
    cancel::at_every_step(
        two_in_memory,
        async |(_, zk, other)| run(zk.clone(), other.clone()).await,
        async |(server, zk, other), output| {
            drop(output);
            let next = timeout(Duration::from_secs(3600), make(&other).acquire()).await;
            next.expect("the lock is stuck").unwrap().release().await.unwrap();
            for zk in [zk, other] {
                zk.close().await.unwrap();
            }
            assert_clean_after_close(&server);
        },
    )
    .await
}

#[test]
fn acquires_of_free_locks_leave_nothing() {
    simulated(async {
        for (make, _) in LOCKS {
            let steps = at_every_step(make, |zk, _| async move { make(&zk).acquire().await.unwrap() }).await;
            assert!(steps > 4, "only {steps} steps");
            at_every_step(make, |zk, _| async move { make(&zk).try_acquire().await.unwrap() }).await;
        }
    });
}

#[test]
fn acquires_that_wait_leave_nothing() {
    simulated(async {
        for (make, excluding) in LOCKS {
            let steps = at_every_step(make, |zk, other| async move {
                let holder = excluding(&other).acquire().await.unwrap();
                let lock = make(&zk);
                let acquire = lock.acquire();
                let release = async {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    holder.release().await.unwrap();
                };
                tokio::join!(acquire, release).0.unwrap()
            })
            .await;
            assert!(steps > 8, "only {steps} steps");
        }
    });
}

#[test]
fn releases_are_done_all_the_same() {
    simulated(async {
        for (make, _) in LOCKS {
            at_every_step(make, |zk, _| async move {
                let guard: Guard<Any> = make(&zk).acquire().await.unwrap();
                guard.release().await.unwrap();
            })
            .await;
        }
    });
}

#[test]
fn turning_a_writer_into_a_reader_and_back_leaves_nothing() {
    simulated(async {
        let steps = at_every_step(write, |zk, _| async move {
            let lock = InterProcessReadWriteLock::new(&zk, LOCK);
            let reader = lock.write_lock().acquire().await.unwrap().downgrade().await.unwrap();
            let writer = reader.try_upgrade().await.unwrap();
            writer.release().await.unwrap();
        })
        .await;
        assert!(steps > 8, "only {steps} steps");
    });
}

#[test]
fn several_leases_and_several_locks_leave_nothing() {
    simulated(async {
        let one: Make = |zk| Arc::new(InterProcessSemaphoreMutex::new(zk, LOCK));
        let steps = at_every_step(one, |zk, other| async move {
            let semaphore = |zk| InterProcessSemaphore::new(zk, LOCK, 3);
            let held = semaphore(&other).acquire_many(2).await.unwrap();
            let free = async {
                tokio::time::sleep(Duration::from_secs(1)).await;
                drop(held);
            };
            let semaphore = semaphore(&zk);
            tokio::join!(semaphore.acquire_many(2), free).0.unwrap()
        })
        .await;
        assert!(steps > 8, "only {steps} steps");
        let mutex: Make = |zk| Arc::new(InterProcessMutex::new(zk, LOCK));
        at_every_step(mutex, |zk, _| async move {
            let all = InterProcessMultiLock::of_mutexes(&zk, [LOCK, "/locks/a", "/locks/z"]);
            all.acquire().await.unwrap().release().await.unwrap();
        })
        .await;
    });
}

#[test]
fn locks_that_are_shared_within_the_process_are_passed_on_or_released() {
    simulated(async {
        let mutex: Make = |zk| Arc::new(InterProcessMutex::new(zk, LOCK));
        let steps = at_every_step(mutex, |zk, _| async move {
            let lock = HandoverMutex::new(InterProcessMutex::new(&zk, LOCK), 1);
            let hold = |lock: HandoverMutex| async move {
                let guard = lock.acquire().await?;
                tokio::task::yield_now().await;
                guard.release().await
            };
            let all: Result<Vec<()>, Error> =
                futures_util::future::try_join_all((0..5).map(|_| hold(lock.clone()))).await;
            all.unwrap();
        })
        .await;
        assert!(steps > 8, "only {steps} steps");
        at_every_step(mutex, |zk, _| async move {
            let lock = ReentrantMutex::new(&zk, LOCK);
            let (one, two) = tokio::join!(lock.acquire(1), lock.acquire(1));
            one.unwrap().release().await.unwrap();
            two.unwrap().release().await.unwrap();
        })
        .await;
    });
}

#[test]
fn revoking_leaves_nothing() {
    simulated(async {
        let make: Make = |zk| Arc::new(RevocableReadWriteLock::new(zk, LOCK).write_lock());
        at_every_step(make, |zk, other| async move {
            let guard = RevocableReadWriteLock::new(&zk, LOCK).write_lock().acquire().await.unwrap();
            let lock = RevocableReadWriteLock::new(&other, LOCK);
            let revoke = lock.revoke(guard.path(), Duration::from_secs(5));
            let hear = async {
                guard.revoked().await;
                guard.acknowledge().await.unwrap();
            };
            tokio::join!(revoke, hear).0.unwrap();
            guard.lost().await;
        })
        .await;
    });
}
