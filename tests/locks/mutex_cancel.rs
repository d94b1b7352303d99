//! Futures of [`InterProcessMutex`], dropped at every point: nothing stays behind.

use zk_curator::CuratorFramework;
use zk_curator_recipes::lock::InterProcessMutex;
use zk_curator_testing::{TestServer, Verdict};
use zk_curator_tests::{
    all_close_clean, closes_clean, poll_then_drop, rule_if, simulated_steps, simulated_steps_on,
    two_in_memory, until,
};

const LOCK: &str = "/locks/orders";
#[test]
fn an_acquire_of_a_free_lock_leaves_nothing() {
    simulated_steps(4, async |step, server, zk| {
        let lock = InterProcessMutex::new(&zk, LOCK);
        let done = poll_then_drop(lock.acquire(), step).await.is_some();
        cleaned_and_closed(&server, &zk).await;
        done
    });
}

#[test]
fn a_dropped_waiting_acquire_leaves_nothing_and_blocks_nobody() {
    simulated_steps_on(6, two_in_memory, async |step, (server, zk, other)| {
        let holder = InterProcessMutex::new(&zk, LOCK).acquire().await.unwrap();
        let lock = InterProcessMutex::new(&other, LOCK);
        let mut holder = Some(holder);
        let acquire = async {
            let acquired = lock.acquire();
            tokio::pin!(acquired);
            tokio::select! {
                biased;
                guard = &mut acquired => return guard,
                _ = server.until(|probe| probe.watches().len() == 2) => holder = None,
            }
            acquired.await
        };
        let done = poll_then_drop(acquire, step).await.is_some();
        drop(holder);
        cleaned(&server, &other).await;
        InterProcessMutex::new(&zk, LOCK).acquire().await.unwrap().release().await.unwrap();
        all_close_clean(&server, [zk, other]).await;
        done
    });
}

#[test]
fn a_dropped_acquire_of_unknown_outcome_leaves_nothing() {
    simulated_steps(6, async |step, server, zk| {
        let lost = rule_if(&server, |request| request.is_create_under(LOCK), Verdict::LoseReply);
        let lost = lost.times(1);
        let lock = InterProcessMutex::new(&zk, LOCK);
        let done = poll_then_drop(lock.acquire(), step).await.is_some();
        cleaned_and_closed(&server, &zk).await;
        assert!(!done || lost.hits() == 1);
        done
    });
}

#[test]
fn a_release_is_done_all_the_same() {
    simulated_steps(1, async |step, server, zk| {
        let guard = InterProcessMutex::new(&zk, LOCK).acquire().await.unwrap();
        let done = poll_then_drop(guard.release(), step).await.is_some();
        cleaned_and_closed(&server, &zk).await;
        done
    });
}

#[test]
fn a_release_whose_answer_is_lost_is_done_all_the_same() {
    simulated_steps(0, async |step, server, zk| {
        let guard = InterProcessMutex::new(&zk, LOCK).acquire().await.unwrap();
        let lost = rule_if(&server, |request| request.is_delete(), Verdict::LoseRequest);
        let _lost = lost.times(1);
        let done = poll_then_drop(guard.release(), step).await.is_some();
        cleaned_and_closed(&server, &zk).await;
        done
    });
}

#[test]
fn try_acquire_with_and_participants_leave_nothing() {
    simulated_steps(0, async |step, server, zk| {
        let lock = InterProcessMutex::new(&zk, LOCK);
        let mut done = poll_then_drop(lock.try_acquire(), step).await.is_some();
        cleaned(&server, &zk).await;
        done &= poll_then_drop(lock.with(|_| tokio::task::yield_now()), step).await.is_some();
        cleaned(&server, &zk).await;
        done &= poll_then_drop(lock.participants(), step).await.is_some();
        cleaned_and_closed(&server, &zk).await;
        done
    });
}

async fn cleaned_and_closed(server: &TestServer, zk: &CuratorFramework) {
    cleaned(server, zk).await;
    closes_clean(server, zk).await;
}

/// The cleanup after a drop is done while the sessions live, not by their end.
async fn cleaned(server: &TestServer, zk: &CuratorFramework) {
    let sessions = server.probe().sessions().len();
    // Whatever the dropped future had sent has arrived before this is answered.
    zk.sync("/").await.unwrap();
    let probe = until(server, |probe| probe.children(LOCK).is_empty()).await;
    assert_eq!(probe.sessions().len(), sessions);
}
