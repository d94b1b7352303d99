//! [`ReentrantMutex`]: tasks of one owner that meet.

use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::timeout;
use zk_curator::CuratorFramework;
use zk_curator_proto::OpCode;
use zk_curator_recipes::lock::{InterProcessMutex, ReentrantMutex};
use zk_curator_testing::wait::settled;
use zk_curator_testing::{TestServer, Verdict};
use zk_curator_tests::{
    always, builder, connected, in_memory, poll_then_drop, real_time, simulated_steps_on,
    simulated_with, until,
};

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

/// An operator deletes the node of the owner, and another process acquires the lock.
#[test]
fn an_owner_whose_node_was_deleted_acquires_again() {
    simulated_with(async |server, zk| {
        let other = connected(&server).await;
        let lock = ReentrantMutex::new(&zk, LOCK);
        let outer = lock.acquire(1).await.unwrap();
        let inner = lock.acquire(1).await.unwrap();
        assert_eq!(inner.path(), outer.path());
        server.remove(outer.path()).unwrap();
        let foreign = InterProcessMutex::new(&other, LOCK).acquire().await.unwrap();
        assert!(lock.try_acquire(1).await.unwrap().is_none());
        assert!(outer.is_over() && inner.is_over());
        let again = lock.acquire(1);
        let (again, released) = tokio::join!(again, foreign.release());
        released.unwrap();
        let again = again.unwrap();
        assert_ne!(again.path(), outer.path());
        // The former guards are not of this lock.
        drop((outer, inner));
        settled().await;
        assert!(server.probe().exists(again.path()));
    });
}

/// Two tasks of an owner ask for the node at the same time, and one of them gives up.
#[test]
fn a_dropped_acquire_of_an_owner_leaves_the_lock_held() {
    simulated_steps_on(
        1,
        async || {
            let (server, zk) = in_memory().await;
            let lock = ReentrantMutex::new(&zk, LOCK);
            let held = lock.acquire(1).await.unwrap();
            (server, zk, lock, held)
        },
        async |step, (server, _zk, lock, held)| {
            let dropped = poll_then_drop(lock.acquire(1), step).await;
            let is_done = dropped.is_some();
            drop(dropped);
            let again = lock.acquire(1).await.unwrap();
            assert_eq!(again.path(), held.path());
            held.release().await.unwrap();
            assert!(server.probe().exists(again.path()));
            is_done
        },
    );
}
