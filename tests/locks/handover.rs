//! [`HandoverMutex`]: handovers and their order.

use std::time::Duration;

use zk_curator::ConnectionState;
use zk_curator_recipes::lock::{HandoverMutex, InterProcessMutex};
use zk_curator_tests::{expire, simulated_with, until_state};

const LOCK: &str = "/locks/orders";

/// The lock is passed on while its session is alive, and the next task is polled after the session
/// has ended.
#[test]
fn pass_of_a_session_that_has_ended_is_not_granted() {
    simulated_with(async |server, zk| {
        let lock = HandoverMutex::new(InterProcessMutex::new(&zk, LOCK), 5);
        let first = lock.acquire().await.unwrap();
        let node = first.path().to_owned();
        let mut next = Box::pin(lock.acquire());
        assert!(futures_util::poll!(&mut next).is_pending());
        drop(first);
        expire(&server, &zk).await;
        until_state(&zk, ConnectionState::Lost).await;
        let next = next.await.unwrap();
        assert!(!next.ownership().is_over());
        assert_ne!(next.path(), node);
        assert!(server.probe().exists(next.path()));
        next.fenced().create("/mine", "").commit().await.unwrap();
    });
}

/// The turns are counted from zero for the node that replaces the lost one.
#[test]
fn turns_begin_again_with_the_next_node() {
    simulated_with(async |server, zk| {
        let lock = HandoverMutex::new(InterProcessMutex::new(&zk, LOCK), 1);
        let first = lock.acquire().await.unwrap();
        let mut second = Box::pin(lock.acquire());
        assert!(futures_util::poll!(&mut second).is_pending());
        drop(first);
        expire(&server, &zk).await;
        until_state(&zk, ConnectionState::Lost).await;
        let second = second.await.unwrap();
        let mut third = Box::pin(lock.acquire());
        assert!(futures_util::poll!(&mut third).is_pending());
        let node = second.path().to_owned();
        drop(second);
        let third = tokio::time::timeout(Duration::from_secs(1), third).await.unwrap().unwrap();
        assert_eq!(third.path(), node, "one turn may be passed on");
    });
}
