//! [`DistributedBarrier`]: waiters continue after it was removed and not before, whatever faults
//! occur.

use std::future::IntoFuture;
use std::time::Duration;

use tokio::task::JoinHandle;
use zk_curator::{ConnectionState, CuratorFramework};
use zk_curator_proto::OpCode;
use zk_curator_recipes::barrier::{DistributedBarrier, Error};
use zk_curator_testing::wait::idle;
use zk_curator_testing::{TestServer, Verdict};
use zk_curator_tests::{
    all_close_clean, connected, expire, once, poll_then_drop, rule_if, session_id, simulated_on,
    simulated_steps_on, simulated_with, two_in_memory, until,
};

const BARRIER: &str = "/barriers/release";

fn barrier(zk: &CuratorFramework) -> DistributedBarrier {
    DistributedBarrier::new(zk, BARRIER)
}

/// A waiter that has read the barrier.
async fn waiter(server: &TestServer, zk: &CuratorFramework) -> JoinHandle<Result<(), Error>> {
    let before = server.probe().watches().len();
    let barrier = barrier(zk);
    let waiting = tokio::spawn(async move { barrier.wait().await });
    until(server, |probe| probe.watches().len() == before + 1).await;
    waiting
}

#[test]
fn waiters_pass_when_the_barrier_is_removed_and_not_before() {
    simulated_with(async |server, zk| {
        barrier(&zk).label("deploy 7").set().await.unwrap();
        barrier(&zk).set().await.unwrap();
        assert_eq!(
            server.probe().data(BARRIER).unwrap(),
            "deploy 7",
            "the second one changes nothing"
        );
        assert!(barrier(&zk).is_set().await.unwrap());
        assert_eq!(barrier(&zk).set_by().await.unwrap().unwrap(), "deploy 7");
        let mut waiting = Vec::new();
        for _ in 0..3 {
            waiting.push(waiter(&server, &connected(&server).await).await);
        }
        idle(Duration::from_secs(3600)).await;
        assert!(waiting.iter().all(|task| !task.is_finished()));
        barrier(&zk).remove().await.unwrap();
        barrier(&zk).remove().await.unwrap();
        for task in waiting {
            task.await.unwrap().unwrap();
        }
        assert!(!barrier(&zk).is_set().await.unwrap());
        assert_eq!(barrier(&zk).set_by().await.unwrap(), None);
        barrier(&zk).wait().await.unwrap();
    });
}

/// Curator's waiter reads again and finds a barrier, so it does not notice that there was none.
#[test]
fn a_removed_and_reset_barrier_releases_its_earlier_waiters() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        barrier(&zk).set().await.unwrap();
        let waiting = waiter(&server, &other).await;
        let away = session_id(&other).get();
        // First by a connected waiter; then by a disconnected waiter, which finds another node.
        for is_away in [false, true] {
            let waiting =
                if is_away { waiter(&server, &other).await } else { waiter(&server, &zk).await };
            let cut = rule_if(
                &server,
                move |request| is_away && request.session_id() == away,
                Verdict::Disconnect,
            );
            if is_away {
                server.disconnect(away);
                other
                    .states()
                    .until(|status| status.state == ConnectionState::Suspended)
                    .await
                    .unwrap();
            }
            barrier(&zk).remove().await.unwrap();
            barrier(&zk).set().await.unwrap();
            drop(cut);
            waiting.await.unwrap().unwrap();
        }
        waiting.await.unwrap().unwrap();
    });
}

#[test]
fn a_write_or_a_lost_session_does_not_release_a_waiter() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        barrier(&zk).set().await.unwrap();
        let waiting = waiter(&server, &other).await;
        zk.set_data(BARRIER, "still closed").await.unwrap();
        until(&server, |probe| probe.watches().len() == 1).await;
        expire(&server, &other).await;
        other.states().until(|status| status.state == ConnectionState::Lost).await.unwrap();
        until(&server, |probe| probe.watches().len() == 1).await;
        server.restart().await.unwrap();
        idle(Duration::from_secs(3600)).await;
        assert!(!waiting.is_finished());
        barrier(&zk).remove().await.unwrap();
        waiting.await.unwrap().unwrap();
    });
}

#[test]
fn lost_requests_and_responses_are_retried() {
    simulated_with(async |server, zk| {
        for verdict in [Verdict::LoseReply, Verdict::LoseRequest, Verdict::Disconnect] {
            for opcode in [OpCode::Create, OpCode::Create2, OpCode::CreateContainer] {
                let _fault = once(&server, opcode, verdict);
                barrier(&zk).set().await.unwrap();
            }
            let fault = once(&server, OpCode::GetData, verdict);
            let waiting = waiter(&server, &zk).await;
            assert_eq!(fault.hits(), 1);
            let fault = once(&server, OpCode::Delete, verdict);
            barrier(&zk).remove().await.unwrap();
            assert_eq!(fault.hits(), 1);
            waiting.await.unwrap().unwrap();
        }
    });
}

/// The response is lost, and another client sets the barrier again.
#[test]
fn a_barrier_that_is_set_after_it_was_removed_stays() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        barrier(&zk).set().await.unwrap();
        let deleted = once(&server, OpCode::Delete, Verdict::LoseReply);
        let removes = session_id(&zk).get();
        let removing = barrier(&zk);
        let removing = tokio::spawn(async move { removing.remove().await });
        deleted.fired().await;
        let _away = server.rule(move |request| {
            let its = request.session_id() == removes && request.is(OpCode::Multi);
            if its { Verdict::Delay(Duration::from_secs(1)) } else { Verdict::Pass }
        });
        barrier(&other).set().await.unwrap();
        removing.await.unwrap().unwrap();
        assert!(barrier(&other).is_set().await.unwrap());
    });
}

/// As above, but the responses to the other requests of that round trip are lost, too.
#[test]
fn a_barrier_set_after_its_removal_was_lost_stays() {
    simulated_on(two_in_memory, async |(server, zk, other)| {
        barrier(&zk).set().await.unwrap();
        let lost = rule_if(&server, |request| request.is_about("/last"), Verdict::Disconnect);
        let lost = lost.times(1);
        let removing = barrier(&zk);
        let removing = tokio::spawn(async move {
            // In one round trip.
            tokio::join!(removing.remove(), zk.exists("/last").into_future()).0
        });
        lost.fired().await;
        let deleted = once(&server, OpCode::Delete, Verdict::LoseReply);
        barrier(&other).set().await.unwrap();
        deleted.fired().await;
        barrier(&other).set().await.unwrap();
        removing.await.unwrap().unwrap();
        assert!(barrier(&other).is_set().await.unwrap());
        assert_eq!(server.probe().requests(OpCode::Delete), 1, "it has removed two");
    });
}

#[test]
fn an_invalid_path_is_refused() {
    simulated_with(async |_server, zk| {
        let barrier = DistributedBarrier::new(&zk, "release");
        let all = [barrier.set().await, barrier.remove().await, barrier.wait().await];
        let errors: Vec<_> =
            all.into_iter().map(|result| result.unwrap_err().to_string()).collect();
        let why = "invalid path (path does not start with a slash)";
        let wanted =
            ["create", "remove", "wait"].map(|operation| format!("{operation} \"release\": {why}"));
        assert_eq!(errors, wanted);
    });
}

/// A dropped waiter leaves nothing, and a barrier that is half set or half removed still works.
#[test]
fn a_barrier_works_after_futures_are_dropped() {
    simulated_steps_on(8, two_in_memory, async |step, (server, zk, other)| {
        let all = async {
            let barrier = barrier(&zk);
            barrier.set().await.unwrap();
            let (waited, removed) = tokio::join!(barrier.wait(), barrier.remove());
            waited.unwrap();
            removed.unwrap();
        };
        let done = poll_then_drop(all, step).await;
        barrier(&other).set().await.unwrap();
        barrier(&other).remove().await.unwrap();
        all_close_clean(&server, [zk, other]).await;
        done.is_some()
    });
}
