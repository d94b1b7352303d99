//! [`ReentrantMutex`]: tasks of one owner that meet.

use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::timeout;
use zk_curator::CuratorFramework;
use zk_curator_proto::OpCode;
use zk_curator_recipes::lock::{InterProcessMutex, ReentrantMutex};
use zk_curator_testing::{TestServer, Verdict};
use zk_curator_tests::{always, builder, real_time, simulated_with, until};

const LOCK: &str = "/locks/orders";

/// Tasks of one owner, on several threads, try the lock that their owner holds.
#[test]
fn holder_is_never_refused_when_its_tasks_meet() {
    real_time(async {
        const TRIES: usize = 20_000;
        let server = TestServer::start().await;
        let zk: CuratorFramework = builder(&server).build().unwrap();
        zk.start().await.unwrap();
        let lock = ReentrantMutex::new(&zk, LOCK);
        let held = lock.acquire("me").await.unwrap();
        let mut tasks = JoinSet::new();
        for _ in 0..4 {
            let lock = lock.clone();
            tasks.spawn(async move {
                let mut refused = 0;
                for _ in 0..TRIES {
                    refused += usize::from(lock.try_acquire("me").await.unwrap().is_none());
                }
                refused
            });
        }
        let refused: usize = tasks.join_all().await.into_iter().sum();
        assert_eq!(refused, 0, "of {}", 4 * TRIES);
        held.release().await.unwrap();
        zk.close().await.unwrap();
    });
}

#[test]
fn tasks_of_one_owner_that_try_a_free_lock_share_it() {
    simulated_with(async |server, zk| {
        let lock = ReentrantMutex::new(&zk, LOCK);
        let (one, other, third) =
            tokio::join!(lock.try_acquire(1), lock.acquire(1), lock.try_acquire(1));
        let (one, other, third) = (one.unwrap().unwrap(), other.unwrap(), third.unwrap().unwrap());
        assert_eq!((one.path(), third.path()), (other.path(), other.path()));
        drop((one, other, third));
        // Even next to a task that does not know yet that it need not wait.
        let (first, tried) = tokio::join!(lock.acquire(1), lock.try_acquire(1));
        assert_eq!(first.unwrap().path(), tried.unwrap().unwrap().path());
        until(&server, |probe| probe.children(LOCK).is_empty()).await;
    });
}

#[test]
fn a_try_does_not_wait_for_a_task_that_waits_for_others() {
    simulated_with(async |server, zk| {
        let holder = InterProcessMutex::new(&zk, LOCK).acquire().await.unwrap();
        let lock = ReentrantMutex::new(&zk, LOCK);
        let mut waiting = Box::pin(lock.acquire(1));
        // Neither while the other one finds out that it has to wait, nor afterwards.
        let slow = always(&server, OpCode::GetChildren2, Verdict::Delay(Duration::from_secs(1)));
        let tried =
            async { timeout(Duration::from_secs(3), lock.try_acquire(1)).await.unwrap().unwrap() };
        tokio::select! {
            biased;
            _ = &mut waiting => panic!("two hold the lock"),
            tried = tried => assert!(tried.is_none()),
        }
        drop(slow);
        let began = tokio::time::Instant::now();
        assert!(lock.try_acquire(1).await.unwrap().is_none());
        assert!(began.elapsed().is_zero());
        // An abandoned wait does not block the next attempt.
        drop(waiting);
        assert!(lock.try_acquire(1).await.unwrap().is_none());
        holder.release().await.unwrap();
        assert!(lock.try_acquire(1).await.unwrap().is_some());
    });
}
