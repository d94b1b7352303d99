//! Apache ZooKeeper with more to do than it wants.

use std::time::Duration;

use futures_util::future::join_all;
use zk_curator::retry::{RetryForever, RetryNTimes, RetryPolicy};
use zk_curator::{CuratorFramework, Error, ErrorKind};
use zk_curator_real::{self as real, RealZooKeeper};
use zk_curator_recipes::lock::InterProcessMutex;
use zk_curator_tests::{builder_for, real_time, start};

const WRITES: usize = 300;

/// One request at a time, and whatever has waited for longer than this is refused.
async fn throttling(case: &str) -> Option<RealZooKeeper> {
    let server = RealZooKeeper::builder()
        .jvm_property("zookeeper.request_throttle_max_requests", 1)
        .jvm_property("zookeeper.request_throttle_stall_time", 1)
        .jvm_property("zookeeper.throttled_op_wait_time", 1);
    real::or_skip_with(case, server).await
}

async fn connected(server: &RealZooKeeper, policy: impl RetryPolicy) -> CuratorFramework {
    start(builder_for(&server.connect_string()).retry(policy)).await
}

async fn write(zk: &CuratorFramework) -> Vec<Result<(), Error>> {
    let write = |n: usize| async move { zk.set_data("/node", format!("{n}")).await.map(drop) };
    join_all((0..WRITES).map(write)).await
}

#[test]
#[ignore = "slow: scripts/test-all"]
fn a_throttling_server_ends_nothing_real() {
    real_time(async {
        let Some(server) = throttling("a_throttling_server_ends_nothing_real").await else {
            return;
        };
        let zk = connected(&server, RetryForever::new(Duration::from_millis(20))).await;
        zk.create("/node").await.unwrap();
        let guard = InterProcessMutex::new(&zk, "/lock").acquire().await.unwrap();
        let path = guard.path().to_owned();
        let lost = tokio::spawn(async move { guard.lost().await });

        // Without a policy it refuses most of them, and has not applied those.
        let impatient = connected(&server, RetryNTimes::new(0, Duration::ZERO)).await;
        let before = zk.exists("/node").await.unwrap().unwrap().version;
        let (mut refused, mut written) = (0, 0);
        // The number depends on the speed of the server.
        while refused <= 10 {
            for result in write(&impatient).await {
                match result {
                    Ok(()) => written += 1,
                    Err(error) => {
                        let outcome = (error.kind(), error.may_have_applied());
                        assert_eq!(outcome, (ErrorKind::Throttled, false), "{error}");
                        refused += 1;
                    }
                }
            }
        }
        let after = zk.exists("/node").await.unwrap().unwrap().version;
        assert_eq!(after - before, written);

        // With one, none of them.
        assert!(write(&zk).await.iter().all(Result::is_ok));
        let version = zk.exists("/node").await.unwrap().unwrap().version;
        assert_eq!((version - after) as usize, WRITES);

        zk.delete(path).await.unwrap();
        lost.await.unwrap();
        impatient.close().await.unwrap();
        zk.close().await.unwrap();
    });
}
