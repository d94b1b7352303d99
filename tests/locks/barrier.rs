//! [`DistributedBarrier`]: whoever waits goes on when it was removed, and not before, whatever happens meanwhile.

use std::future::IntoFuture;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::sleep;
use zk_curator::{ConnectionState, CuratorFramework};
use zk_curator_proto::OpCode;
use zk_curator_recipes::barrier::{DistributedBarrier, Error};
use zk_curator_testing::{TestServer, Verdict};
use zk_curator_tests::cancel::each_step;
use zk_curator_tests::{connected, expire, in_memory, once, poll_then_drop, session_id, simulated, until};

const BARRIER: &str = "/barriers/release";

fn barrier(zk: &CuratorFramework) -> DistributedBarrier {
    DistributedBarrier::new(zk, BARRIER)
}

/// Somebody who waits, and has looked.
async fn waiter(server: &TestServer, zk: &CuratorFramework) -> JoinHandle<Result<(), Error>> {
    let before = server.probe().watches().len();
    let barrier = barrier(zk);
    let waiting = tokio::spawn(async move { barrier.wait().await });
    until(server, |probe| probe.watches().len() == before + 1).await;
    waiting
}

#[test]
fn all_who_wait_go_on_when_it_is_removed_and_not_before() {
    simulated(async {
        let (server, zk) = in_memory().await;
        barrier(&zk).label("deploy 7").set().await.unwrap();
        barrier(&zk).set().await.unwrap();
        assert_eq!(server.probe().data(BARRIER).unwrap(), "deploy 7", "the second one changes nothing");
        assert!(barrier(&zk).is_set().await.unwrap());
        let mut waiting = Vec::new();
        for _ in 0..3 {
            waiting.push(waiter(&server, &connected(&server).await).await);
        }
        sleep(Duration::from_secs(3600)).await;
        assert!(waiting.iter().all(|task| !task.is_finished()));
        barrier(&zk).remove().await.unwrap();
        barrier(&zk).remove().await.unwrap();
        for task in waiting {
            task.await.unwrap().unwrap();
        }
        assert!(!barrier(&zk).is_set().await.unwrap());
        barrier(&zk).wait().await.unwrap();
    });
}

/// Curator's waiter looks again and finds a barrier: it misses that there was none.
#[test]
fn one_that_is_removed_and_set_again_lets_those_go_who_waited_before() {
    simulated(async {
        let (server, zk) = in_memory().await;
        let other = connected(&server).await;
        barrier(&zk).set().await.unwrap();
        let waiting = waiter(&server, &other).await;
        let away = session_id(&other).get();
        // Seen as it happens; then by one that was away meanwhile, who finds another node there.
        for is_away in [false, true] {
            let waiting = if is_away { waiter(&server, &other).await } else { waiter(&server, &zk).await };
            let cut = server.rule(move |request| match is_away && request.session_id() == away {
                true => Verdict::Disconnect,
                false => Verdict::Pass,
            });
            if is_away {
                server.disconnect(away);
                other.states().until(|status| status.state == ConnectionState::Suspended).await.unwrap();
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
fn a_waiter_goes_on_waiting_when_its_barrier_is_written_and_when_its_session_ends() {
    simulated(async {
        let (server, zk) = in_memory().await;
        let other = connected(&server).await;
        barrier(&zk).set().await.unwrap();
        let waiting = waiter(&server, &other).await;
        zk.set_data(BARRIER, "still closed").await.unwrap();
        until(&server, |probe| probe.watches().len() == 1).await;
        expire(&server, &other).await;
        other.states().until(|status| status.state == ConnectionState::Lost).await.unwrap();
        until(&server, |probe| probe.watches().len() == 1).await;
        server.restart().await.unwrap();
        sleep(Duration::from_secs(3600)).await;
        assert!(!waiting.is_finished());
        barrier(&zk).remove().await.unwrap();
        waiting.await.unwrap().unwrap();
    });
}

#[test]
fn lost_answers_are_made_good() {
    simulated(async {
        let (server, zk) = in_memory().await;
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

/// The answer is lost, and meanwhile somebody else sets the barrier again.
#[test]
fn a_barrier_that_is_set_after_it_was_removed_stays() {
    simulated(async {
        let (server, zk) = in_memory().await;
        let other = connected(&server).await;
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

/// The same when the answers to all that was sent with it are lost, too.
#[test]
fn a_barrier_that_is_set_after_everything_about_its_removal_was_lost_stays() {
    simulated(async {
        let (server, zk) = in_memory().await;
        let other = connected(&server).await;
        barrier(&zk).set().await.unwrap();
        let lost = server.rule(|request| match request.is_about("/last") {
            true => Verdict::Disconnect,
            false => Verdict::Pass,
        });
        let lost = lost.times(1);
        let removing = barrier(&zk);
        let removing = tokio::spawn(async move {
            // In one flight.
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
fn a_path_that_is_none_is_refused() {
    simulated(async {
        let (_server, zk) = in_memory().await;
        let barrier = DistributedBarrier::new(&zk, "release");
        let all = [barrier.set().await, barrier.remove().await, barrier.wait().await];
        let errors: Vec<_> = all.into_iter().map(|result| result.unwrap_err().to_string()).collect();
        let why = "invalid path (path does not start with a slash)";
        let wanted = ["create", "remove", "wait"].map(|operation| format!("{operation} \"release\": {why}"));
        assert_eq!(errors, wanted);
    });
}

/// A waiter that is dropped leaves nothing, and a barrier that is half set or half removed can be used.
#[test]
fn futures_that_are_dropped_leave_a_barrier_that_works() {
    simulated(async {
        let steps = each_step(async |step| {
            let (server, zk) = in_memory().await;
            let other = connected(&server).await;
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
            for zk in [zk, other] {
                zk.close().await.unwrap();
            }
            zk_curator_tests::assert_clean_after_close(&server);
            done.is_some()
        })
        .await;
        assert!(steps > 8, "only {steps} steps");
    });
}
