//! Futures of [`InterProcessMutex`], dropped at every point: nothing stays behind.

use zk_curator::CuratorFramework;
use zk_curator_recipes::lock::InterProcessMutex;
use zk_curator_testing::{TestServer, Verdict};
use zk_curator_tests::cancel::each_step;
use zk_curator_tests::{assert_clean_after_close, connected, in_memory, poll_then_drop, simulated, until};

const LOCK: &str = "/locks/orders";
#[test]
fn an_acquire_of_a_free_lock_leaves_nothing() {
    simulated(async {
        let steps = each_step(async |step| {
            let (server, zk) = in_memory().await;
            let lock = InterProcessMutex::new(&zk, LOCK);
            let done = poll_then_drop(lock.acquire(), step).await.is_some();
            cleaned(&server, &zk).await;
            zk.close().await.unwrap();
            assert_clean_after_close(&server);
            done
        })
        .await;
        assert!(steps > 4, "only {steps} steps: is this still cancelled everywhere?");
    });
}

#[test]
fn an_acquire_that_waits_leaves_nothing_and_lets_the_next_one_through() {
    simulated(async {
        let steps = each_step(async |step| {
            let (server, zk) = in_memory().await;
            let other = connected(&server).await;
            let holder = InterProcessMutex::new(&zk, LOCK).acquire().await.unwrap();
            let lock = InterProcessMutex::new(&other, LOCK);
            let mut holder = Some(holder);
            let acquire = async {
                let acquired = lock.acquire();
                tokio::pin!(acquired);
                tokio::select! {
                    biased;
                    guard = &mut acquired => return guard,
                    _ = server.until(|probe| probe.watches().len() == 1) => holder = None,
                }
                acquired.await
            };
            let done = poll_then_drop(acquire, step).await.is_some();
            drop(holder);
            cleaned(&server, &other).await;
            InterProcessMutex::new(&zk, LOCK).acquire().await.unwrap().release().await.unwrap();
            for zk in [zk, other] {
                zk.close().await.unwrap();
            }
            assert_clean_after_close(&server);
            done
        })
        .await;
        assert!(steps > 6, "only {steps} steps: is this still cancelled everywhere?");
    });
}

#[test]
fn an_acquire_whose_create_has_an_unknown_outcome_leaves_nothing() {
    simulated(async {
        let steps = each_step(async |step| {
            let (server, zk) = in_memory().await;
            let lost = server.rule(|request| match request.is_create_under(LOCK) {
                true => Verdict::LoseReply,
                false => Verdict::Pass,
            });
            let lost = lost.times(1);
            let lock = InterProcessMutex::new(&zk, LOCK);
            let done = poll_then_drop(lock.acquire(), step).await.is_some();
            cleaned(&server, &zk).await;
            zk.close().await.unwrap();
            assert_clean_after_close(&server);
            assert!(!done || lost.hits() == 1);
            done
        })
        .await;
        assert!(steps > 6, "only {steps} steps: is this still cancelled everywhere?");
    });
}

#[test]
fn a_release_is_done_all_the_same() {
    simulated(async {
        let steps = each_step(async |step| {
            let (server, zk) = in_memory().await;
            let guard = InterProcessMutex::new(&zk, LOCK).acquire().await.unwrap();
            let done = poll_then_drop(guard.release(), step).await.is_some();
            cleaned(&server, &zk).await;
            zk.close().await.unwrap();
            assert_clean_after_close(&server);
            done
        })
        .await;
        assert!(steps > 1, "only {steps} steps: is this still cancelled everywhere?");
    });
}

#[test]
fn a_release_whose_answer_is_lost_is_done_all_the_same() {
    simulated(async {
        each_step(async |step| {
            let (server, zk) = in_memory().await;
            let guard = InterProcessMutex::new(&zk, LOCK).acquire().await.unwrap();
            let lost =
                server.rule(|request| if request.is_delete() { Verdict::LoseRequest } else { Verdict::Pass });
            let _lost = lost.times(1);
            let done = poll_then_drop(guard.release(), step).await.is_some();
            cleaned(&server, &zk).await;
            zk.close().await.unwrap();
            assert_clean_after_close(&server);
            done
        })
        .await;
    });
}

#[test]
fn try_acquire_with_and_participants_leave_nothing() {
    simulated(async {
        each_step(async |step| {
            let (server, zk) = in_memory().await;
            let lock = InterProcessMutex::new(&zk, LOCK);
            let mut done = poll_then_drop(lock.try_acquire(), step).await.is_some();
            cleaned(&server, &zk).await;
            done &= poll_then_drop(lock.with(|_| tokio::task::yield_now()), step).await.is_some();
            cleaned(&server, &zk).await;
            done &= poll_then_drop(lock.participants(), step).await.is_some();
            cleaned(&server, &zk).await;
            zk.close().await.unwrap();
            assert_clean_after_close(&server);
            done
        })
        .await;
    });
}

/// What a drop owes is done while the sessions live, not by their end.
async fn cleaned(server: &TestServer, zk: &CuratorFramework) {
    let sessions = server.probe().sessions().len();
    // Whatever the dropped future had sent has arrived before this is answered.
    zk.sync("/").await.unwrap();
    let probe = until(server, |probe| probe.children(LOCK).is_empty()).await;
    assert_eq!(probe.sessions().len(), sessions);
}
