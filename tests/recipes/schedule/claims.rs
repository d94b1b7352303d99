//! Claims, policies for missed slots, clocks, and retention.

use std::future::Future;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use futures_util::FutureExt;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use zk_curator::{CuratorFramework, ErrorKind};
use zk_curator_proto::records::MultiOp;
use zk_curator_proto::{ErrorCode, OpCode, Request};
use zk_curator_recipes::Shutdown;
use zk_curator_recipes::schedule::{Error, OnMissed, OncePer, Schedule, Slot, SlotState};
use zk_curator_testing::Verdict;
use zk_curator_testing::wait::{self, idle, reached, spend};
use zk_curator_tests::{
    Server, connected, on_each_server, pairs, rule_if, session_id, simulated, simulated_each_on,
    simulated_on, stopped_by,
};

use super::{AFTER, MINUTE, PATH, RetryForever, Runs, START, Stage, data, requests, slot, slots};

#[test]
fn forty_members_run_each_slot_once() {
    simulated_on(Stage::new, async |stage| {
        let mut members = Vec::new();
        for number in 0..40 {
            let (zk, id) = (connected(&stage.server).await, format!("m-{number}"));
            let once = stage.every_minute(&zk, &id);
            let once = if number % 2 == 0 {
                once.on_missed(OnMissed::All)
            } else {
                once.on_missed(OnMissed::Last)
            };
            members.push(stage.start(once, &id, MINUTE / 10 * (number % 20)));
        }
        stage.until_done(45).await;
        let runs = stage.runs.minutes();
        assert!(runs.len() >= 30, "{runs:?}");
        assert!(runs.iter().all(|(_, count)| *count == 1), "{runs:?}");
        assert_eq!(
            runs.iter().map(|(minute, _)| *minute).collect::<Vec<_>>(),
            (16..16 + runs.len() as u32).collect::<Vec<_>>()
        );
        members.iter().for_each(JoinHandle::abort);
    });
}

#[test]
fn a_claim_is_one_request_for_winner_and_losers() {
    simulated_each_on(
        [
            // The claims; the winner lists the slots and writes the end.
            (None, 10 + 2),
            // The winner watches its runner; the losers wait until it is gone, and read the slot.
            (Some(AFTER), 10 + 3 + 9 * 2),
        ],
        Stage::new,
        async |(again, expected), stage| {
            for number in 0..10 {
                let (zk, id) = (connected(&stage.server).await, format!("m-{number}"));
                let once = stage.every_minute(&zk, &id);
                let once = match again {
                    Some(after) => once.at_least_once(RetryForever::new(after)),
                    None => once,
                };
                stage.start(once, &id, Duration::ZERO);
            }
            // Clocks are compared five to ten seconds ahead. The first slot has created the nodes
            // that are created only once.
            reached(stage.at(16, 58)).await;
            let before = requests(&stage.server);
            reached(stage.at(17, 2)).await;
            assert_eq!(requests(&stage.server) - before, expected, "{again:?}");
            assert_eq!(stage.runs.minutes(), [(16, 1), (17, 1)]);
        },
    );
}

/// No member runs from 13:18 to 13:25:30.
#[test]
fn missed_slots_run_as_the_policy_says() {
    let cases = [
        (OnMissed::Skip, vec![16, 17, 26]),
        (OnMissed::Last, vec![16, 17, 25, 26]),
        (OnMissed::All, vec![16, 17, 22, 23, 24, 25, 26]),
    ];
    simulated_each_on(cases, Stage::with_one, async |(missed, expected), (stage, zk)| {
        let once = stage.every_minute(&zk, "a").on_missed(missed).keep(4);
        let before = stage.start(once.clone(), "a", Duration::ZERO);
        stage.until_done(17).await;
        before.abort();
        drop(before.await);
        reached(stage.at(25, 30)).await;
        stage.start(once, "a", Duration::ZERO);
        stage.until_done(26).await;
        let expected: Vec<(u32, usize)> = expected.into_iter().map(|minute| (minute, 1)).collect();
        assert_eq!(stage.runs.minutes(), expected, "{missed:?}");
    });
}

#[test]
fn a_new_schedule_has_missed_nothing() {
    let cases = [OnMissed::Skip, OnMissed::Last, OnMissed::All];
    simulated_each_on(cases, Stage::with_one, async |missed, (stage, zk)| {
        stage.start(stage.every_minute(&zk, "a").on_missed(missed), "a", Duration::ZERO);
        stage.until_done(17).await;
        assert_eq!(stage.runs.minutes(), [(16, 1), (17, 1)], "{missed:?}");
    });
}

/// The body takes two and a half minutes, and the member is alone.
#[test]
fn a_late_member_runs_a_slot_whose_period_is_not_over() {
    let cases = [
        (OnMissed::Skip, [16, 18, 21]),
        (OnMissed::Last, [16, 18, 21]),
        (OnMissed::All, [16, 17, 18]),
    ];
    simulated_each_on(cases, Stage::with_one, async |(missed, expected), (stage, zk)| {
        stage.start(stage.every_minute(&zk, "a").on_missed(missed), "a", MINUTE * 5 / 2);
        stage.until_done(expected[2]).await;
        let ran: Vec<u32> = stage.runs.minutes().iter().map(|(minute, _)| *minute).collect();
        assert_eq!(ran[..3], expected, "{missed:?}");
    });
}

#[test]
fn a_member_whose_clock_is_ahead_stays_out_until_it_is_right() {
    simulated_on(Stage::with_two, async |(stage, zk, other)| {
        let (switch, clock) = stage.switched_clock(MINUTE * 60);
        let mut errors = zk.background_errors();
        stage.start(stage.every_minute(&zk, "ahead").clock(clock), "ahead", Duration::ZERO);
        let right = stage.start(stage.every_minute(&other, "right"), "right", Duration::ZERO);
        let error = errors.next().await.unwrap();
        assert_eq!((error.kind(), error.path()), (ErrorKind::InvalidArgument, PATH));
        stage.until_done(20).await;
        right.abort();
        drop(right.await);
        // Reported once.
        assert!(timeout(MINUTE * 5, errors.next()).await.is_err());
        assert!(stage.runs.all().values().all(|runs| runs[0].0 == "right"));
        switch.store(false, Ordering::Relaxed);
        let set = stage.since.elapsed();
        stage
            .until(|probe| {
                probe
                    .children(PATH)
                    .iter()
                    .any(|name| data(probe, &format!("{PATH}/{name}")).contains("\nahead\n"))
            })
            .await;
        assert!(stage.since.elapsed() - set <= MINUTE * 2, "{:?}", stage.since.elapsed() - set);
        // Set again, it is out again before the next slot.
        let ran = stage.runs.all().len();
        switch.store(true, Ordering::Relaxed);
        assert_eq!(errors.next().await.unwrap().kind(), ErrorKind::InvalidArgument);
        idle(MINUTE * 5).await;
        assert_eq!(stage.runs.all().len(), ran);
    });
}

/// Its clock is within the tolerance, but slots of a second that it comes to are deleted already.
/// A slot of the next day is recorded first.
#[test]
fn a_clock_that_is_set_back_stops_nothing() {
    simulated(async {
        let day = MINUTE * 60 * 24;
        let stage = Stage::new().await;
        let (is_ahead, clock) = stage.switched_clock(day);
        let zk = connected(&stage.server).await;
        let once = stage.every_minute(&zk, "a").clock(clock).tolerance(day * 2);
        stage.start(once, "a", Duration::ZERO);
        reached(stage.at(16, 30)).await;
        assert_eq!(stage.runs.all().keys().collect::<Vec<_>>(), ["2026-11-23T13:16:00Z"]);
        is_ahead.store(false, Ordering::Relaxed);
        stage.until_done(17).await;
        stage.until_done(18).await;
    });
}

#[test]
fn a_slot_that_was_deleted_is_not_run_again() {
    // This slot is deleted again, although its runner goes first.
    let cases = [(None, false), (Some(AFTER), false), (Some(AFTER), true)];
    simulated_each_on(cases, Stage::with_two, async |(again, expires), (stage, zk, other)| {
        let start = |zk, id| {
            let once = stage.every(Duration::from_secs(1), zk, id).keep(3).on_missed(OnMissed::All);
            if let Some(after) = again {
                once.at_least_once(RetryForever::new(after))
            } else {
                once
            }
        };
        stage.start(start(&zk, "right"), "right", Duration::ZERO);
        let since = stage.since;
        let behind =
            move || SystemTime::UNIX_EPOCH + START + since.elapsed() - Duration::from_secs(20);
        let cut = stage.server.rule(|request| {
            let is_slot =
                |path: &str| path.rsplit_once('/').is_some_and(|(parent, _)| parent == PATH);
            let deletes =
                |op: &MultiOp| matches!(op, MultiOp::Delete(delete) if is_slot(&delete.path));
            let is_withdrawal =
                matches!(request.request(), Request::Multi(ops) if ops.iter().any(deletes));
            if is_withdrawal { Verdict::LoseRequest } else { Verdict::Pass }
        });
        let cut = cut.times(u64::from(expires));
        stage.start(start(&other, "behind").clock(behind), "behind", Duration::ZERO);
        if expires {
            cut.fired().await;
            stage.server.expire(session_id(&other)).await;
        }
        reached(stage.at(17, 0)).await;
        // A member that starts now would run the rest of them.
        assert!(stage.server.probe().paths().iter().all(|path| !path.contains("T13:14:")));
        let runs = stage.runs.all();
        assert!(runs.len() >= 118, "{}", runs.len());
        assert!(runs.values().all(|runs| runs.len() == 1), "{runs:?}");
    });
}

/// A member that is behind claims a slot that was done and deleted, and is dropped before it looks
/// back. Others find the slot open and without a runner, now or after many other slots.
#[test]
fn a_deleted_slot_of_a_dropped_member_is_not_run_again() {
    simulated_on(Stage::with_two, async |(stage, zk, other)| {
        let start = |zk, id| {
            let once = stage.every(Duration::from_secs(1), zk, id).keep(3).on_missed(OnMissed::All);
            once.at_least_once(RetryForever::new(AFTER))
        };
        let right = stage.start(start(&zk, "right"), "right", Duration::ZERO);
        let since = stage.since;
        let behind =
            move || SystemTime::UNIX_EPOCH + START + since.elapsed() - Duration::from_secs(20);
        let late = stage.start(start(&other, "behind").clock(behind), "behind", Duration::ZERO);
        reached(stage.at(15, 23)).await;
        let slot = format!("{PATH}/2026-11-22T13:15:05Z");
        assert!(!stage.server.probe().exists(&slot));
        let withdrawal = stage.server.rule(move |request| {
            let is_it = |op: &MultiOp| matches!(op, MultiOp::Delete(delete) if delete.path == slot);
            if matches!(request.request(), Request::Multi(ops) if ops.iter().any(is_it)) {
                Verdict::LoseRequest
            } else {
                Verdict::Pass
            }
        });
        let withdrawal = withdrawal.times(1);
        withdrawal.fired().await;
        late.abort();
        drop(late.await);
        // Many newer slots, by members that do not know of it.
        reached(stage.at(15, 45)).await;
        right.abort();
        drop(right.await);
        stage.start(start(&zk, "heir"), "heir", Duration::ZERO);
        reached(stage.at(17, 0)).await;
        let mut runs = stage.runs.all();
        assert!(runs.len() >= 105, "{}", runs.len());
        assert!(runs.values().all(|runs| runs.len() == 1), "{runs:?}");
        runs.retain(|slot, _| slot.contains("T13:14:"));
        assert!(runs.len() <= 3, "no member was ahead of these: {runs:?}");
        let left = stage.server.probe();
        assert!(left.paths().iter().all(|path| !path.contains("T13:15:")), "{left}");
    });
}

#[test]
fn old_slots_are_deleted_and_nothing_else() {
    simulated_on(Stage::with_one, async |(stage, zk)| {
        // Nodes that are no slots of this schedule, although one is named like a slot.
        for name in ["notes", "2026-11-22T12:00:00Z"] {
            zk.create(format!("{PATH}/{name}")).creating_parents().data("foreign").await.unwrap();
        }
        // A long run of a slot that runs at most once: no member will take it over.
        let other = connected(&stage.server).await;
        let slow = stage.start(stage.every_minute(&other, "slow").keep(3), "slow", MINUTE * 30);
        stage.until(|probe| probe.exists(&slot(16))).await;
        let once = stage.every_minute(&zk, "a").keep(3);
        stage.start(once.clone(), "a", Duration::ZERO);
        stage.until_done(25).await;
        assert_eq!(slots(&once).await.iter().map(|slot| slot.0).collect::<Vec<_>>(), [23, 24, 25]);
        for name in ["notes", "2026-11-22T12:00:00Z"] {
            assert!(stage.server.probe().exists(&format!("{PATH}/{name}")), "{name}");
        }
        // Its run ends after its slot was deleted, and the member continues.
        stage.until_done(47).await;
        assert!(!slow.is_finished() && !stage.server.probe().exists(&slot(16)));
    });
}

/// Each slot that this member wins tries again.
#[test]
fn a_refused_deletion_of_old_slots_is_reported_once() {
    simulated_on(Stage::with_one, async |(stage, zk)| {
        let mut errors = zk.background_errors();
        let verdict = Verdict::Refuse(ErrorCode::NoAuth);
        let refused = rule_if(
            &stage.server,
            |request| {
                request.is(OpCode::Delete) && request.paths().any(|path| path.contains("/2026-"))
            },
            verdict,
        );
        stage.start(stage.every_minute(&zk, "a").keep(2), "a", Duration::ZERO);
        stage.until_done(30).await;
        assert!(refused.hits() > 5, "{} hits", refused.hits());
        assert_eq!(errors.next().await.map(|error| error.kind()), Some(ErrorKind::NoAuth));
        assert!(errors.next().now_or_never().is_none(), "it is reported once");
    });
}

#[test]
fn a_stop_drains_and_then_drops_the_body() {
    let cases = pairs([None, Some(AFTER)], [(30, "done"), (10, "failed")]);
    simulated_each_on(cases, Stage::with_one, async |(again, (drain, state)), (stage, zk)| {
        let once = stage.every_minute(&zk, "a");
        let once = if let Some(after) = again {
            once.at_least_once(RetryForever::new(after))
        } else {
            once
        };
        let (stop, body) = (reached(stage.at(16, 20)), |slot: Slot| {
            stage.runs.note("a", &slot);
            async {
                spend(Duration::from_secs(40)).await;
                Ok::<(), String>(())
            }
        });
        let drain = Duration::from_secs(drain);
        let run = async |stop: Shutdown| {
            once.run(body).until(stop.drain(drain)).await.unwrap();
        };
        stopped_by(stop, run).await;
        let took = stage.since.elapsed().as_secs();
        assert!((if state == "done" { 100..102 } else { 90..92 }).contains(&took), "{took}");
        let probe = stage.server.probe();
        assert!(data(&probe, &slot(16)).contains(&format!("\n{state}\n")), "{probe}");
        let left: Vec<_> = probe.ephemerals(session_id(&zk).get()).to_vec();
        assert!(left.iter().all(|path| path.contains("_r_")), "{left:?}");
        assert_eq!(stage.runs.minutes(), [(16, 1)]);
    });
}

#[test]
fn no_slot_is_claimed_after_the_stop() {
    simulated_on(Stage::with_one, async |(stage, zk)| {
        let once = stage.every_minute(&zk, "a");
        let body = async |_: Slot| Err::<(), _>("never");
        let body = |slot| Box::pin(body(slot));
        let run = async |stop: Shutdown| once.run(body).until(stop.drain(MINUTE)).await.unwrap();
        stopped_by(std::future::ready(()), run).await;
        stopped_by(reached(stage.at(15, 59)), run).await;
        assert_eq!(stage.since.elapsed(), Duration::from_secs(59));
        assert!(once.slots().await.unwrap().is_empty());
        // The claim is under way when it stops: the slot is not run, and stays.
        let delayed = stage.server.rule(|request| {
            let is_claim = request.paths().any(|path| path == slot(16));
            if is_claim { Verdict::Delay(Duration::from_secs(1)) } else { Verdict::Pass }
        });
        let stop = reached(stage.at(16, 0) + Duration::from_millis(500));
        let run = async |stop: Shutdown| {
            once.run(body).until(stop.drain(Duration::ZERO)).await.unwrap();
        };
        stopped_by(stop, run).await;
        assert!(delayed.hits() > 0);
        stage.until(|probe| probe.exists(&slot(16))).await;
        assert_eq!(slots(&once).await, [(16, "a".to_owned(), 1, SlotState::Running)]);
    });
}

#[test]
fn settings_and_paths_are_refused_when_it_runs() {
    simulated_on(Stage::with_one, async |(stage, zk)| {
        let body = |_: Slot| async { Ok::<(), String>(()) };
        let setting = |error| match error {
            Error::InvalidSetting { path, setting, .. } if path == PATH => setting,
            error => panic!("{error}"),
        };
        let of = |schedule| OncePer::new(&zk, PATH, schedule);
        let minute = Schedule::every(MINUTE);
        for (once, expected) in [
            (of(Schedule::every(Duration::ZERO)), "period"),
            (of(Schedule::every(Duration::from_millis(1500))), "period"),
            (of(minute.offset(MINUTE)), "offset"),
            (of(minute).keep(0), "number of kept slots"),
            (of(minute).max_attempts(0), "most attempts"),
        ] {
            assert_eq!(setting(once.run(body).await.unwrap_err()), expected);
        }
        for path in ["", "cron", "/cron//x"] {
            let once = OncePer::new(&zk, path, minute);
            for error in [once.run(body).await.unwrap_err(), once.slots().await.unwrap_err()] {
                let Error::Framework(error) = error else { panic!("{error}") };
                assert_eq!(error.kind(), ErrorKind::InvalidPath);
            }
        }
        assert_eq!(requests(&stage.server), 0);
        assert!(of(minute).slots().await.unwrap().is_empty());
    });
}

#[test]
fn slots_name_their_member_and_times() {
    simulated_on(Stage::with_one, async |(stage, zk)| {
        let once = OncePer::new(&zk, PATH, Schedule::every(MINUTE * 60).offset(MINUTE * 16))
            .id("worker\n\n1");
        let since = stage.since;
        let once = once.clock(move || SystemTime::UNIX_EPOCH + START + since.elapsed());
        stage.start(once.clone(), "a", Duration::from_secs(5));
        stage.until_done(16).await;
        let slot = once.slots().await.unwrap().remove(0);
        let at = |seconds| SystemTime::UNIX_EPOCH + START + Duration::from_secs(seconds);
        assert_eq!((slot.name.as_str(), slot.start), ("2026-11-22T13:16:00Z", at(60)));
        assert_eq!(
            (slot.claimed_by.as_str(), slot.attempt, slot.state),
            ("worker\n\n1", 1, SlotState::Done)
        );
        assert!(slot.claimed_at >= at(60) && slot.claimed_at < at(61), "{:?}", slot.claimed_at);
        assert!(slot.changed_at >= at(65) && slot.changed_at < at(66), "{:?}", slot.changed_at);
    });
}

on_each_server! { members_share_slots }

async fn members_share_slots(server: Server) {
    let (wall, since) = (SystemTime::now(), Instant::now());
    let (one, two) = (server.connected().await, server.connected().await);
    for again in [false, true] {
        let path = format!("/cron/{again}");
        let runs = Runs::default();
        let once = |zk: &CuratorFramework, id: &str| {
            let once =
                OncePer::new(zk, path.as_str(), Schedule::every(Duration::from_secs(1))).id(id);
            let once = once.keep(2).clock(move || wall + since.elapsed());
            if again { once.at_least_once(RetryForever::new(AFTER)) } else { once }
        };
        let members = [("one", &one), ("two", &two)].map(|(id, zk)| {
            let (runs, running) = (runs.clone(), once(zk, id));
            async move {
                let stop = wait::until(async || runs.all().len() >= 2);
                let body = |slot: Slot| {
                    runs.note(id, &slot);
                    std::future::ready(Ok::<(), String>(()))
                };
                let run = async |stop: Shutdown| {
                    running.run(body).until(stop.drain(MINUTE)).await.unwrap();
                };
                stopped_by(stop, run).await;
            }
        });
        let [first, second] = members;
        tokio::join!(first, second);
        assert!(runs.all().values().all(|runs| runs.len() == 1), "{runs:?}");
        let slots = once(&one, "").slots().await.unwrap();
        assert!((1..=4).contains(&slots.len()), "{slots:?}");
        assert!(slots.iter().all(|slot| slot.state == SlotState::Done), "{slots:?}");
    }
}

/// So that it can be spawned.
fn _is_send(once: &OncePer) -> impl Future<Output = Result<(), Error>> + Send + '_ {
    once.run(|_| async { Ok::<(), String>(()) })
}
