//! Members that die or fail, and the ones that take their slots over.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::{Instant, timeout};
use zk_curator::{CuratorFramework, ErrorKind};
use zk_curator_recipes::Shutdown;
use zk_curator_recipes::schedule::{OncePer, Slot, SlotState};
use zk_curator_testing::wait::{reached, spend};
use zk_curator_testing::{Probe, Verdict};
use zk_curator_tests::{
    connected, expire, is_write_multi, session_id, simulated_each_on, simulated_on, stopped_by,
};

use super::{AFTER, MINUTE, RetryForever, Stage, data, minute, slot, slots};

/// A member that dies in the middle of its body.
async fn dies(stage: &Stage, again: Option<Duration>) -> OncePer {
    let (zk, other) = (connected(&stage.server).await, connected(&stage.server).await);
    let [doomed, heir] = [(&zk, "doomed"), (&other, "heir")].map(|(zk, id)| {
        let once = stage.every_minute(zk, id);
        if let Some(after) = again { once.at_least_once(RetryForever::new(after)) } else { once }
    });
    let victim = stage.start(doomed, "doomed", MINUTE * 60);
    stage.until(|probe| probe.exists(&slot(16))).await;
    stage.start(heir.clone(), "heir", Duration::ZERO);
    // It hears of the slot before that.
    reached(stage.at(17, 30)).await;
    zk.close().await.unwrap();
    victim.abort();
    drop(victim.await);
    heir
}

#[test]
fn a_slot_of_a_dead_member_is_not_run_again_at_most_once() {
    simulated_on(Stage::new, async |stage| {
        let heir = dies(&stage, None).await;
        stage.until_done(30).await;
        assert_eq!(stage.runs.all()["2026-11-22T13:16:00Z"], [("doomed".to_owned(), 1)]);
        let first = slots(&heir).await.remove(0);
        assert_eq!(first, (16, "doomed".to_owned(), 1, SlotState::Running));
    });
}

#[test]
fn a_slot_of_a_dead_member_is_taken_over_at_least_once() {
    simulated_on(Stage::new, async |stage| {
        let heir = dies(&stage, Some(AFTER)).await;
        let closed = Instant::now();
        stage.until_done(16).await;
        let took = closed.elapsed();
        assert!((AFTER..AFTER + AFTER / 2).contains(&took), "{took:?}");
        let runs = &stage.runs.all()["2026-11-22T13:16:00Z"];
        assert_eq!(*runs, [("doomed".to_owned(), 1), ("heir".to_owned(), 2)]);
        let first = slots(&heir).await.remove(0);
        assert_eq!(first, (16, "heir".to_owned(), 2, SlotState::Done));
    });
}

/// The runner of a restored tree, for example: the slot would be run for ever.
#[test]
fn a_runner_that_no_session_will_remove_is_reported() {
    simulated_on(Stage::with_two, async |(stage, doomed, zk)| {
        let of = |zk: &CuratorFramework, id: &str| {
            stage.every_minute(zk, id).at_least_once(RetryForever::new(AFTER))
        };
        let victim = stage.start(of(&doomed, "doomed"), "doomed", MINUTE * 60);
        let runner = format!("{}/runner", slot(16));
        stage.until(|probe| probe.exists(&runner)).await;
        victim.abort();
        drop(victim.await);
        doomed.close().await.unwrap();
        zk.create(runner.as_str()).await.unwrap();
        let mut errors = zk.background_errors();
        stage.start(of(&zk, "heir"), "heir", Duration::ZERO);
        let told = timeout(MINUTE * 5, errors.next()).await.unwrap().unwrap();
        assert_eq!((told.kind(), told.path()), (ErrorKind::NodeExists, runner.as_str()));
        zk.delete(runner.as_str()).await.unwrap();
        stage.until_done(16).await;
        assert!(errors.next().now_or_never().is_none(), "it is reported once");
    });
}

#[test]
fn a_member_that_starts_takes_unfinished_slots_over() {
    simulated_on(Stage::with_one, async |(stage, zk)| {
        let doomed = stage.start(
            stage.every_minute(&zk, "doomed").at_least_once(RetryForever::new(AFTER)),
            "doomed",
            MINUTE,
        );
        stage.until(|probe| probe.exists(&slot(16))).await;
        doomed.abort();
        drop(doomed.await);
        zk.wait_until_released().await;
        let once = stage.every_minute(&zk, "heir").at_least_once(RetryForever::new(AFTER));
        assert_eq!(slots(&once).await, [(16, "doomed".to_owned(), 1, SlotState::Abandoned)]);
        stage.start(once, "heir", Duration::ZERO);
        stage.until_done(16).await;
        assert_eq!(stage.runs.minutes(), [(16, 2)]);
    });
}

#[test]
fn a_body_that_fails_is_recorded_and_runs_again_at_least_once() {
    simulated_on(Stage::with_one, async |(stage, zk)| {
        for again in [None, Some(AFTER)] {
            let once = stage.every_minute(&zk, "a");
            let once = if let Some(after) = again {
                once.at_least_once(RetryForever::new(after))
            } else {
                once
            };
            let runs = stage.runs.clone();
            let running = once.clone();
            let member = tokio::spawn(async move {
                let body = |slot: Slot| {
                    runs.note("a", &slot);
                    async move { if slot.attempt() < 3 { Err("no luck") } else { Ok(()) } }
                };
                running.run(body).await
            });
            let failed = |probe: &Probe, minute| data(probe, &slot(minute)).contains("\nfailed\n");
            let minute = if again.is_some() { 18 } else { 16 };
            stage.until(|probe| failed(probe, minute)).await;
            let SlotState::Failed { why, .. } = slots(&once).await.pop().unwrap().3 else {
                panic!("not failed")
            };
            assert_eq!(why, "no luck");
            if again.is_some() {
                stage.until_done(18).await;
                assert_eq!(stage.runs.all()["2026-11-22T13:18:00Z"].len(), 3);
            } else {
                stage.until(|probe| failed(probe, 17)).await;
                assert_eq!(stage.runs.minutes(), [(16, 1), (17, 1)]);
            }
            member.abort();
            drop(member.await);
        }
    });
}

/// The first member has done its work, but could not say so before another one took the slot over.
#[test]
fn a_runner_that_was_replaced_records_nothing() {
    let cases = [Verdict::LoseRequest, Verdict::Disconnect];
    simulated_each_on(cases, Stage::with_two, async |verdict, (stage, zk, other)| {
        let heir = stage.every_minute(&other, "heir").at_least_once(RetryForever::new(AFTER));
        let stale = stage.start(
            stage.every_minute(&zk, "stale").at_least_once(RetryForever::new(AFTER)),
            "stale",
            MINUTE / 2,
        );
        stage.until(|probe| probe.exists(&format!("{}/runner", slot(16)))).await;
        stage.start(heir.clone(), "heir", MINUTE * 10);
        reached(stage.at(16, 20)).await;
        // Whatever it sends is lost, in its next sessions too, until another member has the
        // slot.
        let others = session_id(&other).get();
        let cut = stage.server.rule(move |request| match request.session_id() {
            session if session == others => Verdict::Pass,
            _ if is_write_multi(request) => verdict,
            _ => Verdict::Disconnect,
        });
        cut.fired().await;
        expire(&stage.server, &zk).await;
        stage.until(|probe| data(probe, &slot(16)).contains("\nattempt 2\n")).await;
        drop(cut);
        // It is a member again, and claims slots: the other one is busy.
        stage.until_done(20).await;
        let first = slots(&heir).await.remove(0);
        assert_eq!(first, (16, "heir".to_owned(), 2, SlotState::Running), "{verdict:?}");
        assert!(!stale.is_finished());
    });
}

#[test]
fn a_body_is_dropped_when_its_runner_is_lost() {
    simulated_on(Stage::with_two, async |(stage, zk, other)| {
        let ended = Arc::new(AtomicUsize::new(0));
        let (counted, runs) = (Arc::clone(&ended), stage.runs.clone());
        let once = stage.every_minute(&zk, "a").at_least_once(RetryForever::new(AFTER));
        tokio::spawn(async move {
            let body = |slot: Slot| {
                let (ended, is_first) = (Arc::clone(&counted), slot.attempt() == 1);
                assert!(slot.fencing_token().is_some() && slot.runner().is_some());
                runs.note("a", &slot);
                async move {
                    if is_first {
                        let _drop = OnDrop(ended);
                        std::future::pending::<()>().await;
                    }
                    // It is still ours.
                    slot.fenced().unwrap().create("/proof", "").commit().await.map(drop)
                }
            };
            once.run(body).await
        });
        stage.until(|probe| probe.exists(&format!("{}/runner", slot(16)))).await;
        // An operator.
        other.delete(format!("{}/runner", slot(16))).await.unwrap();
        stage.until_done(16).await;
        assert_eq!((ended.load(Ordering::Relaxed), stage.runs.minutes()), (1, vec![(16, 2)]));
        assert!(stage.server.probe().exists("/proof"));
    });
}

struct OnDrop(Arc<AtomicUsize>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn unfinished_slots_are_not_deleted_before_they_are_done() {
    simulated_on(Stage::with_one, async |(stage, zk)| {
        let once =
            stage.every_minute(&zk, "a").keep(2).at_least_once(RetryForever::new(MINUTE * 10));
        let (running, runs) = (once.clone(), stage.runs.clone());
        tokio::spawn(async move {
            let body = |slot: Slot| {
                runs.note("a", &slot);
                let is_done = minute(slot.name()) > 16 || slot.attempt() > 1;
                async move { is_done.then_some(()).ok_or("not yet") }
            };
            running.run(body).await
        });
        stage.until_done(22).await;
        let listed = slots(&once).await;
        assert_eq!(listed.iter().map(|slot| slot.0).collect::<Vec<_>>(), [16, 21, 22]);
        stage.until(|probe| !probe.exists(&slot(16))).await;
        assert_eq!(stage.runs.all()["2026-11-22T13:16:00Z"].len(), 2);
    });
}

/// Longer than the pause before a slot is taken over, and shorter than a session.
const LATE: Duration = Duration::from_secs(5);
const SHORT: Duration = Duration::from_secs(2);

/// An operator deletes the runner of a member that lives, while the end of its run is on the way.
#[test]
fn an_end_that_arrives_late_does_not_hit_the_next_runner() {
    simulated_on(Stage::with_two, async |(stage, zk, other)| {
        let heir = stage.every_minute(&other, "heir").at_least_once(RetryForever::new(SHORT));
        stage.start(
            stage.every_minute(&zk, "late").at_least_once(RetryForever::new(SHORT)),
            "late",
            MINUTE / 6,
        );
        let runner = format!("{}/runner", slot(16));
        stage.until(|probe| probe.exists(&runner)).await;
        stage.start(heir.clone(), "heir", MINUTE * 10);
        let victim = session_id(&zk).get();
        let delayed = stage.server.rule(move |request| {
            let is_end = request.session_id() == victim && is_write_multi(request);
            if is_end { Verdict::Delay(LATE) } else { Verdict::Pass }
        });
        delayed.fired().await;
        other.delete(&runner).await.unwrap();
        stage.until(|probe| data(probe, &slot(16)).contains("\nattempt 2\n")).await;
        reached(stage.at(16, 40)).await;
        let first = slots(&heir).await.remove(0);
        assert_eq!(first, (16, "heir".to_owned(), 2, SlotState::Running));
    });
}

/// Of two members that take a slot over, one is slow, and the other one finishes first.
#[test]
fn a_take_over_that_arrives_late_is_refused() {
    simulated_on(Stage::new, async |stage| {
        let zks = [connected(&stage.server).await, connected(&stage.server).await];
        let doomed = connected(&stage.server).await;
        stage.start(
            stage.every_minute(&doomed, "doomed").at_least_once(RetryForever::new(SHORT)),
            "doomed",
            MINUTE * 10,
        );
        stage.until(|probe| probe.exists(&format!("{}/runner", slot(16)))).await;
        for (zk, id) in zks.iter().zip(["b", "c"]) {
            stage.start(
                stage.every_minute(zk, id).at_least_once(RetryForever::new(SHORT)),
                id,
                Duration::ZERO,
            );
        }
        reached(stage.at(16, 20)).await;
        let slow = AtomicI64::new(0);
        let delayed = stage.server.rule(move |request| {
            let is_it = is_write_multi(request) && request.paths().any(|path| path == slot(16));
            let id = request.session_id();
            let is_first =
                is_it && slow.compare_exchange(0, id, Ordering::Relaxed, Ordering::Relaxed).is_ok();
            if is_first { Verdict::Delay(LATE) } else { Verdict::Pass }
        });
        doomed.close().await.unwrap();
        stage.until_done(16).await;
        reached(stage.at(16, 50)).await;
        assert_eq!((delayed.hits(), &stage.runs.minutes()[..]), (1, &[(16, 2)][..]));
    });
}

/// The member was busy when the slot was claimed, and knows nothing of it.
#[test]
fn a_busy_member_takes_over_what_it_has_left_out() {
    simulated_on(Stage::new, async |stage| {
        let (zk, doomed) = (connected(&stage.server).await, connected(&stage.server).await);
        stage.start(
            stage.every_minute(&zk, "busy").at_least_once(RetryForever::new(SHORT)),
            "busy",
            MINUTE * 7 / 2,
        );
        stage.until(|probe| probe.exists(&slot(16))).await;
        stage.start(
            stage.every_minute(&doomed, "doomed").at_least_once(RetryForever::new(SHORT)),
            "doomed",
            MINUTE * 10,
        );
        stage.until(|probe| probe.exists(&slot(17))).await;
        doomed.close().await.unwrap();
        stage.until_done(17).await;
        let runs = stage.runs.all();
        assert_eq!(
            runs["2026-11-22T13:17:00Z"],
            [("doomed".to_owned(), 1), ("busy".to_owned(), 2)]
        );
    });
}

/// The new process starts before the old one is stopped, which is busy until then.
#[test]
fn a_member_that_starts_within_a_period_knows_of_its_slot() {
    simulated_on(Stage::with_two, async |(stage, zk, other)| {
        let of = |zk, id| stage.every_minute(zk, id).at_least_once(RetryForever::new(AFTER));
        let old = stage.start(of(&zk, "old"), "old", MINUTE * 3 / 2);
        reached(stage.at(17, 10)).await;
        stage.start(of(&other, "new"), "new", Duration::ZERO);
        stage.until(|probe| probe.exists(&slot(17))).await;
        reached(stage.at(17, 40)).await;
        old.abort();
        drop(old.await);
        stage.until_done(17).await;
        assert_eq!(
            stage.runs.all()["2026-11-22T13:17:00Z"],
            [("old".to_owned(), 1), ("new".to_owned(), 2)]
        );
    });
}

#[test]
fn slots_that_fail_again_and_again_do_not_stop_new_ones() {
    simulated_on(Stage::with_one, async |(stage, zk)| {
        let second = MINUTE / 60;
        let once = stage.every(second * 5, &zk, "a").at_least_once(RetryForever::new(second));
        let ran = AtomicUsize::new(0);
        let body = |_: Slot| async {
            spend(second * 2).await;
            if ran.fetch_add(1, Ordering::Relaxed) < 200 { Err("always") } else { Ok(()) }
        };
        let run = async |stop: Shutdown| once.run(body).until(stop.drain(second)).await.unwrap();
        stopped_by(reached(stage.at(18, 0)), run).await;
        // Half of the runs are of new slots, and one slot begins every five seconds.
        let new = once.slots().await.unwrap().len();
        assert!(new >= 20, "{new} slots in two minutes");
    });
}
