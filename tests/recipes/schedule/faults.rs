//! Lost replies, sessions that end, refusals, outages, and futures that are dropped.

use std::time::Duration;

use tokio::time::timeout;
use zk_curator::{ConnectionState, CuratorFramework};
use zk_curator_proto::{ErrorCode, OpCode};
use zk_curator_recipes::Shutdown;
use zk_curator_recipes::schedule::{Error, OnMissed, Slot, SlotState};
use zk_curator_testing::wait::{reached, spend};
use zk_curator_testing::{Probe, Verdict};
use zk_curator_tests::{
    assert_clean_after_close, connected, cut_off, expire, pairs, session_id, simulated,
    simulated_drops, simulated_each_on, simulated_on, stopped_by, until_state,
};

use super::{AFTER, MINUTE, PATH, RetryForever, Stage, slot, slots};

/// Every request about the schedule is lost once, on the way there or back.
#[test]
fn a_slot_runs_once_whatever_is_lost() {
    simulated(async {
        for again in [false, true] {
            for verdict in [Verdict::LoseReply, Verdict::LoseRequest, Verdict::Disconnect] {
                for nth in 0.. {
                    let stage = Stage::new().await;
                    for id in ["a", "b"] {
                        let zk = connected(&stage.server).await;
                        let once = stage.every_minute(&zk, id).keep(1);
                        stage.start(
                            if again { once.at_least_once(RetryForever::new(AFTER)) } else { once },
                            id,
                            MINUTE / 60,
                        );
                    }
                    let lost = stage.server.rule(move |request| {
                        let is_ours = request.paths().any(|path| path.starts_with("/cron"));
                        if is_ours { verdict } else { Verdict::Pass }
                    });
                    let lost = lost.after(nth).times(1);
                    for minute in 16..=18 {
                        stage.until_done(minute).await;
                    }
                    let runs = stage.runs.minutes();
                    assert_eq!(runs, [(16, 1), (17, 1), (18, 1)], "{again} {verdict:?} {nth}");
                    if lost.hits() == 0 {
                        assert!(nth > 20, "only {nth} requests");
                        break;
                    }
                }
            }
        }
    });
}

/// An unknown runner would block the slot for all members.
#[test]
fn a_slot_claimed_after_the_claim_deadline_is_run() {
    simulated_on(Stage::new, async |stage| {
        let zk = connected(&stage.server).await.with_deadline(MINUTE / 60);
        let _late = stage
            .server
            .rule(|request| match request.opcode() {
                OpCode::Multi => Verdict::Delay(MINUTE / 20),
                _ => Verdict::Pass,
            })
            .times(1);
        let once = stage.every_minute(&zk, "a").at_least_once(RetryForever::new(AFTER));
        stage.start(once.clone(), "a", MINUTE / 60);
        stage.until_done(16).await;
        assert_eq!(slots(&once).await, [(16, "a".to_owned(), 2, SlotState::Done)]);
    });
}

#[test]
fn sessions_that_end_run_no_slot_twice_at_most_once() {
    // Around the beginning, the body and the end of the slot at 13:16.
    let cases = (49_000..62_000).step_by(500);
    simulated_each_on(cases, Stage::with_two, async |millis, (stage, zk, other)| {
        stage.start(stage.every_minute(&zk, "a"), "a", MINUTE / 60);
        stage.start(stage.every_minute(&other, "b"), "b", MINUTE / 60);
        reached(stage.since + Duration::from_millis(millis)).await;
        for zk in [&zk, &other] {
            expire(&stage.server, zk).await;
        }
        for minute in [16, 17] {
            stage.until_done(minute).await;
        }
        assert_eq!(stage.runs.minutes(), [(16, 1), (17, 1)], "{millis}");
    });
}

#[test]
fn a_body_goes_on_without_its_session_at_most_once() {
    simulated_on(Stage::with_one, async |(stage, zk)| {
        let once = stage.every_minute(&zk, "a");
        stage.start(once.clone(), "a", MINUTE / 2);
        stage.until(|probe| probe.exists(&slot(16))).await;
        expire(&stage.server, &zk).await;
        stage.until_done(16).await;
        assert_eq!(slots(&once).await, [(16, "a".to_owned(), 1, SlotState::Done)]);
    });
}

#[test]
fn dropped_anywhere_a_slot_is_run_by_others_or_recorded() {
    for again in [false, true] {
        let of = |stage: &Stage, zk: &CuratorFramework, id: &str| {
            let once = stage.every_minute(zk, id).on_missed(OnMissed::Last);
            if again { once.at_least_once(RetryForever::new(AFTER)) } else { once }
        };
        simulated_drops(
            12,
            Stage::with_two,
            async |(stage, zk, _)| {
                let body = |slot: Slot| {
                    stage.runs.note("a", &slot);
                    async {
                        spend(Duration::from_secs(1)).await;
                        Ok::<(), String>(())
                    }
                };
                let once = of(stage, zk, "a");
                let run = async |stop: Shutdown| {
                    once.run(body).until(stop.drain(MINUTE)).await.unwrap();
                };
                stopped_by(stage.until_done(16), run).await;
            },
            async |(stage, zk, other), _| {
                // Nothing blocks the slot as long as the session.
                let session = session_id(&zk).get();
                let has_runner = |probe: &Probe| {
                    probe.ephemerals(session).iter().any(|path| path.ends_with("/runner"))
                };
                stage.until(|probe| !has_runner(probe)).await;
                zk.close().await.unwrap();
                let once = of(&stage, &other, "b");
                let heir = stage.start(once.clone(), "b", Duration::ZERO);
                let next = 16 + u32::try_from(stage.since.elapsed().as_secs() / 60).unwrap();
                stage.until_done(next).await;
                if again && stage.server.probe().exists(&slot(16)) {
                    stage.until_done(16).await;
                }
                heir.abort();
                drop(heir.await);
                let most = if again { 2 } else { 1 };
                let runs = stage.runs.all();
                assert!(runs.values().all(|runs| runs.len() <= most), "{runs:?}");
                let first = slots(&once).await.into_iter().find(|slot| slot.0 == 16);
                let was_run = runs.contains_key("2026-11-22T13:16:00Z");
                let is_recorded = first.is_some();
                // Claimed and not run, as if its member had died.
                let is_lost = !again && is_recorded && !was_run;
                assert!(
                    is_lost || is_recorded == was_run,
                    "{first:?} {runs:?}\n{}",
                    stage.server.probe()
                );
                other.delete("/cron").deleting_children().await.unwrap();
                other.close().await.unwrap();
                assert_clean_after_close(&stage.server);
            },
        );
    }
}

#[test]
fn refusals_end_the_run_with_their_error() {
    let cases = (0..5).flat_map(|nth| [(false, nth), (true, nth)]);
    simulated_each_on(cases, Stage::with_one, async |(again, nth), (stage, zk)| {
        let refused = stage.server.rule(|request| {
            let is_ours = request.paths().any(|path| path.starts_with(PATH));
            if is_ours { Verdict::Refuse(ErrorCode::NoAuth) } else { Verdict::Pass }
        });
        let refused = refused.after(nth);
        let once = stage.every_minute(&zk, "a");
        let once = if again { once.at_least_once(RetryForever::new(AFTER)) } else { once };
        let ran = timeout(MINUTE * 10, stage.start(once, "a", Duration::ZERO)).await;
        let error = ran.unwrap_or_else(|_| panic!("{again} {nth}")).unwrap().unwrap_err();
        let Error::Framework(error) = error else { panic!("{error}") };
        assert_eq!(error.code(), Some(ErrorCode::NoAuth), "{again} {nth} {error}");
        assert!(refused.hits() > 0);
    });
}

#[test]
fn a_deleted_schedule_begins_again() {
    let cases = pairs([false, true], [5, 30, 55]);
    simulated_each_on(cases, Stage::with_one, async |(again, second), (stage, zk)| {
        let once = stage.every_minute(&zk, "a");
        let once = if again { once.at_least_once(RetryForever::new(AFTER)) } else { once };
        let member = stage.start(once, "a", MINUTE / 6);
        reached(stage.at(16, second)).await;
        zk.delete("/cron").deleting_children().await.unwrap();
        stage.until_done(18).await;
        assert!(!member.is_finished());
        let runs = stage.runs.minutes();
        assert!(runs.iter().all(|(_, count)| *count == 1), "{runs:?}");
    });
}

#[test]
fn an_outage_delays_slots_and_ends_nothing() {
    simulated_each_on([false, true], Stage::with_two, async |again, (stage, zk, other)| {
        for (zk, id) in [(&zk, "a"), (&other, "b")] {
            let once = stage.every_minute(zk, id);
            stage.start(
                if again { once.at_least_once(RetryForever::new(AFTER)) } else { once },
                id,
                MINUTE / 60,
            );
        }
        stage.until_done(16).await;
        let cut = cut_off(&stage.server, &zk);
        reached(stage.at(16, 50)).await;
        stage.server.stop().await;
        reached(stage.at(20, 30)).await;
        stage.server.restart().await.unwrap();
        drop(cut);
        // The slot is not over yet.
        stage.until_done(20).await;
        assert!(stage.since.elapsed() < MINUTE * 6);
        stage.until_done(21).await;
        assert_eq!(stage.runs.minutes(), [(16, 1), (20, 1), (21, 1)]);
    });
}

/// No claim can succeed any more.
#[test]
fn a_run_that_is_stopped_without_servers_ends_with_its_session() {
    simulated_on(Stage::with_one, async |(stage, zk)| {
        let once = stage.every_minute(&zk, "a");
        let stop = Shutdown::new();
        let shutdown = stop.clone().drain(60 * MINUTE);
        let run = tokio::spawn(async move {
            once.run(async |_: Slot| Ok::<_, String>(())).until(shutdown).await
        });
        reached(stage.since + MINUTE - MINUTE / 60).await;
        stage.server.partition();
        // The claim of the slot at 13:16 is under way.
        reached(stage.since + MINUTE + MINUTE / 60).await;
        stop.begin();
        until_state(&zk, ConnectionState::Lost).await;
        timeout(MINUTE / 60, run).await.unwrap().unwrap().unwrap();
        assert!(stage.runs.all().is_empty());
    });
}
