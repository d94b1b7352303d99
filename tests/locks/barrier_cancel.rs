//! Futures of the double barrier, dropped at every point: nothing stays behind, and no member is
//! blocked.

use std::time::Duration;

use futures_util::future::join;
use tokio::time::timeout;
use zk_curator::CuratorFramework;
use zk_curator_recipes::barrier::{DistributedDoubleBarrier, Error};
use zk_curator_testing::TestServer;
use zk_curator_testing::wait::settled;
use zk_curator_tests::{all_close_clean, connected, poll_then_drop, simulated_steps_on};

const BARRIER: &str = "/barriers/sort";
fn barrier(zk: &CuratorFramework) -> DistributedDoubleBarrier {
    DistributedDoubleBarrier::new(zk, BARRIER, 2)
}

async fn round(zk: &CuratorFramework) -> Result<(), Error> {
    barrier(zk).enter().await?.leave().await
}

/// Two members, one of which runs `mortal` until it is dropped, at every step until it completes.
/// Then another one comes in its place, unless the round has begun with it; after that nothing is
/// left.
fn at_every_step<F: Future>(late: bool, mut mortal: impl FnMut(CuratorFramework) -> F) {
    simulated_steps_on(8, TestServer::in_memory, async |step, server| {
        let [first, second, third] =
            [connected(&server).await, connected(&server).await, connected(&server).await];
        let other = async {
            if late {
                settled().await;
            }
            round(&first).await.unwrap();
        };
        let dies = async {
            let done = poll_then_drop(mortal(second.clone()), step).await.is_some();
            second.close().await.unwrap();
            done
        };
        let (done, replaced) = timeout(Duration::from_secs(3600), async {
            let other = std::pin::pin!(other);
            let mut both = Box::pin(join(other, dies));
            // A member that is alone before the round has begun waits for another member.
            match timeout(Duration::from_secs(60), &mut both).await {
                Ok(((), done)) => (done, false),
                Err(_) => {
                    let (((), done), ended) = join(&mut both, round(&third)).await;
                    ended.unwrap();
                    (done, true)
                }
            }
        })
        .await
        .unwrap_or_else(|_| panic!("step {step}: a member waits forever\n{}", server.probe()));
        all_close_clean(&server, [first, third]).await;
        done && !replaced
    });
}

#[test]
fn a_dropped_enter_leaves_nothing_and_blocks_no_member() {
    for late in [false, true] {
        at_every_step(late, |zk| async move { round(&zk).await.unwrap() });
    }
}

#[test]
fn a_dropped_leave_leaves_nothing_and_blocks_no_member() {
    for late in [false, true] {
        at_every_step(late, |zk| async move {
            let round = barrier(&zk).enter().await.unwrap();
            // The other member leaves immediately.
            settled().await;
            round.leave().await.unwrap();
        });
    }
}
