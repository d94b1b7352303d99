//! Slots that are retried: the times and the number of retries, and slots that fail permanently.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use zk_curator::retry::{RetryNTimes, RetryPolicy, RetryUntilElapsed};
use zk_curator::{CuratorFramework, Error as ZkError, ErrorKind};
use zk_curator_proto::records::MultiOp;
use zk_curator_proto::{OpCode, Request};
use zk_curator_recipes::Shutdown;
use zk_curator_recipes::schedule::{Error, OncePer, Slot, SlotState};
use zk_curator_testing::wait::{reached, spend};
use zk_curator_testing::{Probe, RuleRequest, Verdict};
use zk_curator_tests::{
    connected, is_write_multi, session_id, simulated, simulated_drops, simulated_each_on,
    simulated_on, stopped_by,
};

use super::{AFTER, MINUTE, RetryForever, Stage, data, slot, slots};

/// Starts a member whose bodies fail.
fn fails(stage: &Stage, once: OncePer, id: &str) -> JoinHandle<Result<(), Error>> {
    let (runs, id) = (stage.runs.clone(), id.to_owned());
    let member = tokio::spawn(async move {
        let body = |slot: Slot| {
            runs.note(&id, &slot);
            async { Err::<(), _>("no luck") }
        };
        once.run(body).await
    });
    stage.members.lock().unwrap().push(member.abort_handle());
    member
}

fn has_given_up(probe: &Probe, minute: u32) -> bool {
    data(probe, &slot(minute)).contains("\ngave up\n")
}

fn gave_up(why: &str) -> impl Fn(&SlotState) -> bool {
    let expected = why.to_owned();
    move |state| matches!(state, SlotState::GaveUp { why, .. } if *why == expected)
}

/// The number of runs of the slot at 13:16.
fn first_runs(stage: &Stage) -> usize {
    stage.runs.minutes().into_iter().find(|(minute, _)| *minute == 16).map_or(0, |(_, runs)| runs)
}

#[test]
fn a_slot_fails_permanently_after_its_last_attempt() {
    simulated(async {
        for limited in [false, true] {
            let stage = Stage::new().await;
            let (zk, other) = (connected(&stage.server).await, connected(&stage.server).await);
            let of = |zk, id| match limited {
                false => stage.every_minute(zk, id).at_least_once(RetryNTimes::new(2, AFTER / 10)),
                true => stage
                    .every_minute(zk, id)
                    .at_least_once(RetryForever::new(AFTER / 10))
                    .max_attempts(3),
            };
            let mut errors = zk.background_errors();
            fails(&stage, of(&zk, "a"), "a");
            let told = timeout(MINUTE * 2, errors.next()).await.unwrap().unwrap();
            assert_eq!((told.kind(), told.path()), (ErrorKind::BodyFailed, &*slot(16)));
            assert_eq!(
                told.to_string(),
                format!("run {:?}: the body has failed (no luck)", slot(16))
            );
            let (_, by, attempt, state) = slots(&of(&zk, "")).await.remove(0);
            assert!(by == "a" && attempt == 3 && gave_up("no luck")(&state), "{attempt} {state:?}");
            // New slots continue, and the failed one is unchanged, even for a member that starts.
            fails(&stage, of(&other, "b"), "b");
            stage.until(|probe| has_given_up(probe, 25)).await;
            let runs = stage.runs.minutes();
            assert!(
                runs.iter().filter(|(minute, _)| *minute <= 25).all(|(_, runs)| *runs == 3),
                "{runs:?}"
            );
        }
    });
}

/// A member whose process dies with every run: the count survives them all.
#[test]
fn attempts_of_dead_processes_count() {
    simulated_on(Stage::new, async |stage| {
        let of = |zk: &CuratorFramework, id: &str| {
            stage.every_minute(zk, id).at_least_once(RetryNTimes::new(1, AFTER))
        };
        let witness = connected(&stage.server).await;
        for id in ["first", "second"] {
            let zk = connected(&stage.server).await;
            let doomed = stage.start(of(&zk, id), id, MINUTE * 60);
            stage.until(|probe| data(probe, &slot(16)).contains(id)).await;
            stage.until(|probe| probe.exists(&format!("{}/runner", slot(16)))).await;
            doomed.abort();
            drop(doomed.await);
            zk.close().await.unwrap();
        }
        let mut errors = witness.background_errors();
        stage.start(of(&witness, "witness"), "witness", Duration::ZERO);
        let told = timeout(MINUTE, errors.next()).await.unwrap().unwrap();
        assert_eq!((told.kind(), told.path()), (ErrorKind::BodyFailed, &*slot(16)));
        let first = slots(&of(&witness, "")).await.remove(0);
        assert_eq!((first.1.as_str(), first.2), ("second", 2));
        assert!(gave_up("the member second that ran it is gone")(&first.3), "{first:?}");
        stage.until_done(20).await;
        assert_eq!(first_runs(&stage), 2);
    });
}

/// A policy that notes its arguments.
#[derive(Debug, Clone, Default)]
struct Asked(Arc<Mutex<Vec<(u32, u64, String)>>>);

impl RetryPolicy for Asked {
    fn next_delay(&self, retries: u32, elapsed: Duration, error: &ZkError) -> Option<Duration> {
        let asked = (retries, elapsed.as_secs(), error.to_string());
        let mut all = self.0.lock().unwrap();
        if all.last().is_none_or(|last| last.0 != retries) {
            all.push(asked);
        }
        [40, 80].get(retries as usize).copied().map(Duration::from_secs)
    }
}

#[test]
fn the_policy_decides_about_pause_and_end() {
    simulated_on(Stage::with_one, async |(stage, zk)| {
        let asked = Asked::default();
        let once = stage.every(MINUTE * 60, &zk, "a").at_least_once(asked.clone());
        let times = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&times);
        let running = once.clone();
        let member = tokio::spawn(async move {
            let body = |_: Slot| {
                noted.lock().unwrap().push(Instant::now());
                async { Err::<(), _>("no luck") }
            };
            running.run(body).await
        });
        let hour = "/cron/cleanup/2026-11-22T14:00:00Z";
        stage.until(|probe| data(probe, hour).contains("\ngave up\n")).await;
        member.abort();
        let times = times.lock().unwrap().clone();
        let pauses: Vec<Duration> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let second = Duration::from_secs(1);
        assert!((40 * second..=51 * second).contains(&pauses[0]), "{pauses:?}");
        assert!((80 * second..=101 * second).contains(&pauses[1]), "{pauses:?}");
        assert_eq!(pauses.len(), 2);
        let asked = asked.0.lock().unwrap().clone();
        let why = format!("run {hour:?}: the body has failed (no luck)");
        let expected = [(0, 0), (1, pauses[0].as_secs()), (2, (pauses[0] + pauses[1]).as_secs())];
        assert_eq!(asked.len(), 3, "{asked:?}");
        for ((retries, elapsed, error), (nth, seconds)) in asked.iter().zip(expected) {
            assert_eq!((*retries, error), (nth, &why));
            assert!(elapsed.abs_diff(seconds) <= 1, "{asked:?} {expected:?}");
        }
    });
}

#[test]
fn a_policy_of_elapsed_time_counts_from_the_first_claim() {
    simulated_on(Stage::with_one, async |(stage, zk)| {
        let policy = RetryUntilElapsed::new(MINUTE * 5, MINUTE);
        let once = stage.every(MINUTE * 60, &zk, "a").at_least_once(policy);
        let running = fails(&stage, once.clone(), "a");
        let hour = "/cron/cleanup/2026-11-22T14:00:00Z";
        stage.until(|probe| probe.exists(hour)).await;
        let began = Instant::now();
        // Another process continues with it.
        spend(MINUTE * 5 / 2).await;
        running.abort();
        drop(running.await);
        let heir = connected(&stage.server).await;
        fails(&stage, stage.every(MINUTE * 60, &heir, "b").at_least_once(policy), "b");
        stage.until(|probe| data(probe, hour).contains("\ngave up\n")).await;
        let took = began.elapsed();
        assert!((MINUTE * 5..MINUTE * 7).contains(&took), "{took:?}");
    });
}

#[test]
fn the_pause_after_a_failure_survives_its_process() {
    simulated_on(Stage::with_one, async |(stage, zk)| {
        let of = |zk: &CuratorFramework, id: &str| {
            stage.every(MINUTE * 600, zk, id).at_least_once(RetryForever::new(MINUTE * 60))
        };
        let first = fails(&stage, of(&zk, "first"), "first");
        let evening = "/cron/cleanup/2026-11-22T14:00:00Z";
        stage.until(|probe| data(probe, evening).contains("\nfailed\n")).await;
        let failed = Instant::now();
        first.abort();
        drop(first.await);
        zk.close().await.unwrap();
        // Every process lives for half an hour.
        for id in ["second", "third", "fourth"] {
            let zk = connected(&stage.server).await;
            let member = stage.start(of(&zk, id), id, Duration::ZERO);
            let done = stage.until(|probe| data(probe, evening).contains("\ndone\n"));
            let is_done = timeout(MINUTE * 30, done).await.is_ok();
            member.abort();
            drop(member.await);
            zk.close().await.unwrap();
            if is_done {
                break;
            }
        }
        let took = failed.elapsed();
        assert!((MINUTE * 60..MINUTE * 76).contains(&took), "{took:?}");
        assert!(data(&stage.server.probe(), evening).contains("\ndone\n"));
    });
}

/// Every request about the schedule is lost once, on the way there or back.
#[test]
fn a_slot_is_given_up_once_whatever_is_lost() {
    simulated(async {
        for verdict in [Verdict::LoseReply, Verdict::LoseRequest, Verdict::Disconnect] {
            for nth in 0.. {
                let stage = Stage::new().await;
                for id in ["a", "b"] {
                    let zk = connected(&stage.server).await;
                    let once =
                        stage.every_minute(&zk, id).at_least_once(RetryNTimes::new(1, AFTER / 20));
                    fails(&stage, once, id);
                }
                let lost = stage.server.rule(move |request| {
                    let is_ours = request.paths().any(|path| path.starts_with("/cron"));
                    if is_ours { verdict } else { Verdict::Pass }
                });
                let lost = lost.after(nth).times(1);
                stage.until(|probe| has_given_up(probe, 16)).await;
                stage.until(|probe| has_given_up(probe, 17)).await;
                let runs = stage.runs.minutes();
                assert_eq!(runs[..2], [(16, 2), (17, 2)], "{verdict:?} {nth}");
                if lost.hits() == 0 {
                    assert!(nth > 20, "only {nth} requests");
                    break;
                }
            }
        }
    });
}

#[test]
fn dropped_anywhere_a_failing_slot_keeps_its_count() {
    let of = |stage: &Stage, zk: &CuratorFramework, id: &str| {
        stage.every_minute(zk, id).at_least_once(RetryNTimes::new(1, AFTER / 20))
    };
    simulated_drops(
        12,
        Stage::with_two,
        async |(stage, zk, _)| {
            let body = |slot: Slot| {
                stage.runs.note("a", &slot);
                async { Err::<(), _>("no luck") }
            };
            let end = async { drop(stage.until(|probe| has_given_up(probe, 16)).await) };
            let once = of(stage, zk, "a");
            let run = async |stop: Shutdown| {
                once.run(body).until(stop.drain(MINUTE)).await.unwrap();
            };
            stopped_by(end, run).await;
        },
        async |(stage, zk, other), _| {
            zk.close().await.unwrap();
            let heir = fails(&stage, of(&stage, &other, "b"), "b");
            let next = 16 + u32::try_from(stage.since.elapsed().as_secs() / 60).unwrap();
            stage.until(|probe| has_given_up(probe, next)).await;
            if stage.server.probe().exists(&slot(16)) {
                stage.until(|probe| has_given_up(probe, 16)).await;
                let first =
                    slots(&of(&stage, &other, "")).await.into_iter().find(|slot| slot.0 == 16);
                assert_eq!(first.unwrap().2, 2);
            }
            heir.abort();
            drop(heir.await);
            let runs = stage.runs.all();
            assert!(runs.values().all(|runs| runs.len() <= 2), "{runs:?}");
            other.close().await.unwrap();
        },
    );
}

/// One member is set to give up, and another one takes the slot over while that is on the way.
#[test]
fn a_give_up_that_arrives_late_is_refused() {
    simulated_on(Stage::with_two, async |(stage, zk, other)| {
        let doomed = connected(&stage.server).await;
        let patient = |zk: &CuratorFramework, id: &str| {
            stage.every_minute(zk, id).at_least_once(RetryForever::new(AFTER / 10))
        };
        let dies = stage.start(patient(&doomed, "doomed"), "doomed", MINUTE * 10);
        stage.until(|probe| probe.exists(&format!("{}/runner", slot(16)))).await;
        let strict = patient(&zk, "strict").max_attempts(1);
        stage.start(strict, "strict", Duration::ZERO);
        stage.start(patient(&other, "patient"), "patient", MINUTE / 2);
        reached(stage.at(16, 20)).await;
        let us = session_id(&zk).get();
        let late = stage.server.rule(move |request| {
            let is_it = is_write_multi(request) && request.paths().any(|path| path == slot(16));
            if is_it && request.session_id() == us {
                Verdict::Delay(AFTER / 4)
            } else {
                Verdict::Pass
            }
        });
        let late = late.times(1);
        let mut errors = zk.background_errors();
        dies.abort();
        drop(dies.await);
        doomed.close().await.unwrap();
        stage.until_done(16).await;
        assert_eq!((late.hits(), first_runs(&stage)), (1, 2));
        assert!(timeout(MINUTE, errors.next()).await.is_err());
    });
}

/// A member of a slot that may run once is gone. Another one gives the slot up, and the next slot
/// is due before the response to that.
#[test]
fn a_slot_that_is_being_given_up_stops_no_other() {
    simulated_on(Stage::with_two, async |(stage, doomed, zk)| {
        let of = |zk: &CuratorFramework, id: &str| {
            stage.every_minute(zk, id).at_least_once(RetryForever::new(AFTER / 10)).max_attempts(1)
        };
        let dies = stage.start(of(&doomed, "doomed"), "doomed", MINUTE * 10);
        stage.until(|probe| probe.exists(&format!("{}/runner", slot(16)))).await;
        stage.start(of(&zk, "heir"), "heir", Duration::ZERO);
        let us = session_id(&zk).get();
        let late = stage.server.rule(move |request| {
            let is_it = is_write_multi(request) && request.paths().any(|path| path == slot(16));
            if is_it && request.session_id() == us {
                Verdict::Delay(Duration::from_secs(4))
            } else {
                Verdict::Pass
            }
        });
        let late = late.times(1);
        reached(stage.at(16, 58)).await;
        dies.abort();
        drop(dies.await);
        doomed.close().await.unwrap();
        stage.until(|probe| has_given_up(probe, 16)).await;
        assert!(stage.since.elapsed() > MINUTE * 2);
        assert_eq!(late.hits(), 1);
        stage.until_done(22).await;
    });
}

/// The end of the session comes before the response to what records it: by the member that ran the
/// slot, or by one that found it.
#[test]
fn a_permanently_failed_slot_is_reported_whatever_is_lost() {
    simulated_each_on([false, true], Stage::with_two, async |is_found, (stage, doomed, zk)| {
        let of = |zk: &CuratorFramework, id: &str| {
            stage.every_minute(zk, id).at_least_once(RetryForever::new(AFTER / 10)).max_attempts(1)
        };
        let mut errors = zk.background_errors();
        let us = session_id(&zk).get();
        let is_recorded = AtomicBool::new(false);
        let cut = stage.server.rule(move |request| {
            if request.session_id() != us {
                Verdict::Pass
            } else if is_recorded.load(Ordering::Relaxed) {
                Verdict::LoseRequest
            } else if is_record_of_failure(request) {
                is_recorded.store(true, Ordering::Relaxed);
                Verdict::LoseReply
            } else {
                Verdict::Pass
            }
        });
        if is_found {
            let dies = stage.start(of(&doomed, "doomed"), "doomed", MINUTE * 10);
            stage.until(|probe| probe.exists(&format!("{}/runner", slot(16)))).await;
            dies.abort();
            drop(dies.await);
            doomed.close().await.unwrap();
        }
        fails(&stage, of(&zk, "a"), "a");
        cut.fired().await;
        stage.server.expire(session_id(&zk)).await;
        drop(cut);
        loop {
            let told = timeout(MINUTE * 2, errors.next()).await.unwrap().unwrap();
            if (told.kind(), told.path()) == (ErrorKind::BodyFailed, &*slot(16)) {
                break;
            }
        }
        assert!(has_given_up(&stage.server.probe(), 16));
    });
}

fn is_record_of_failure(request: &RuleRequest<'_>) -> bool {
    let writes = |op: &MultiOp| match op {
        MultiOp::SetData(set) => {
            let data = set.data.as_deref().unwrap_or_default();
            String::from_utf8_lossy(data).contains("\ngave up\n")
        }
        _ => false,
    };
    matches!(request.request(), Request::Multi(ops) if ops.iter().any(writes))
}

/// Neither done nor given up: there are too many of its kind.
#[test]
fn an_unfinished_slot_that_is_deleted_is_reported() {
    simulated_on(Stage::with_one, async |(stage, zk)| {
        let once =
            stage.every_minute(&zk, "a").keep(2).at_least_once(RetryForever::new(MINUTE * 60));
        let mut errors = zk.background_errors();
        fails(&stage, once, "a");
        let told = timeout(MINUTE * 10, errors.next()).await.unwrap().unwrap();
        assert_eq!((told.kind(), told.path()), (ErrorKind::BodyFailed, &*slot(16)));
        assert!(
            !stage.server.probe().exists(&slot(16)) && told.to_string().contains("no luck"),
            "{told}"
        );
        assert!(stage.server.probe().requests(OpCode::Delete) > 0);
    });
}
