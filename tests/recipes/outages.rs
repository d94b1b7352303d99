//! Operations that are repeated until an outage is over.

use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::time::timeout;
use zk_curator::retry::RetryNTimes;
use zk_curator::{ConnectionState, CuratorFramework, ErrorKind};
use zk_curator_recipes::barrier::DistributedBarrier;
use zk_curator_recipes::counter::DistributedAtomicLong;
use zk_curator_recipes::lock::{self, InterProcessMutex};
use zk_curator_recipes::queue::SimpleDistributedQueue;
use zk_curator_testing::TestServer;
use zk_curator_tests::{builder, server, simulated_on, start, until_state};

const HOUR: Duration = Duration::from_secs(3600);

/// A framework that gives up soon.
async fn impatient() -> (TestServer, CuratorFramework) {
    let server = server().await;
    let zk = start(builder(&server).retry(RetryNTimes::new(1, Duration::from_secs(1)))).await;
    (server, zk)
}

#[test]
fn operations_of_recipes_last_through_an_outage() {
    simulated_on(impatient, async |(server, zk)| {
        let lock = InterProcessMutex::new(&zk, "/lock");
        let counter = DistributedAtomicLong::new(&zk, "/counter");
        let queue = SimpleDistributedQueue::new(&zk, "/queue");
        let barrier = DistributedBarrier::new(&zk, "/barrier");
        server.partition();
        until_state(&zk, ConnectionState::Lost).await;
        let error = lock.acquire().await.unwrap_err();
        assert!(error.is_retryable(), "{error:?}");
        let all = async {
            tokio::join!(
                zk.through_outages(|| lock.acquire()).map(|held| held.map(drop).unwrap()),
                zk.through_outages(|| counter.increment())
                    .map(|count| assert_eq!(count.unwrap(), 1)),
                zk.through_outages(|| queue.offer("x")).map(|offered| offered.unwrap()),
                zk.through_outages(|| barrier.wait()).map(|waited| waited.unwrap()),
                zk.through_outages(|| zk.exists("/").into_future())
                    .map(|stat| assert!(stat.unwrap().is_some())),
            )
        };
        let mut all = Box::pin(all);
        assert!(timeout(HOUR, &mut all).await.is_err());
        server.heal();
        timeout(HOUR, all).await.unwrap();
    });
}

#[test]
fn only_outages_are_waited_for() {
    simulated_on(impatient, async |(_, zk)| {
        let mut calls = 0;
        let denied = zk.through_outages(|| {
            calls += 1;
            zk.delete("/none").into_future()
        });
        assert_eq!(denied.await.unwrap_err().kind(), ErrorKind::NoNode);
        assert_eq!(calls, 1);
        let lost = lock::Error::Lost { path: "/locks/a/lock-0".to_owned() };
        let error = zk.wait_for_recovery(lost).await.unwrap_err();
        assert!(matches!(error, lock::Error::Lost { .. }));
    });
}

#[test]
fn an_outage_ends_with_the_framework() {
    simulated_on(impatient, async |(server, zk)| {
        server.partition();
        until_state(&zk, ConnectionState::Lost).await;
        let lock = InterProcessMutex::new(&zk, "/lock");
        let mut acquired = Box::pin(zk.through_outages(|| lock.acquire()));
        assert!(timeout(HOUR, &mut acquired).await.is_err());
        drop(zk.close().await);
        let error = timeout(HOUR, acquired).await.unwrap().unwrap_err();
        assert!(
            matches!(error, lock::Error::Framework(error) if error.kind() == ErrorKind::Closed)
        );
    });
}
