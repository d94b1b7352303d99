//! Once per period: a slot runs once, whoever dies, whatever is lost, and whatever clocks say.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use zk_curator::{CuratorFramework, ErrorKind};
use zk_curator_proto::{ErrorCode, OpCode};
use zk_curator_recipes::schedule::{Error, Missed, OncePer, Schedule, Slot, SlotInfo, SlotState};
use zk_curator_testing::{Probe, TestServer, Verdict};
use zk_curator_tests::{
    Server, assert_clean_after_close, cancel, connected, cut_off, expire, is_write_multi, on_each_server,
    session_id, simulated,
};

const PATH: &str = "/cron/cleanup";
const MINUTE: Duration = Duration::from_secs(60);
/// The pause before a slot is taken over.
const AFTER: Duration = Duration::from_secs(20);
/// 2026-11-22T13:15:00Z, the time at which servers start.
const START: Duration = Duration::from_secs(1_795_353_300);

/// The runs of each slot: the member and the attempt.
#[derive(Debug, Clone, Default)]
struct Runs(Arc<Mutex<BTreeMap<String, Vec<(String, u32)>>>>);

impl Runs {
    fn note(&self, id: &str, slot: &Slot) {
        let run = (id.to_owned(), slot.attempt());
        self.0.lock().unwrap().entry(slot.name().to_owned()).or_default().push(run);
    }

    fn all(&self) -> BTreeMap<String, Vec<(String, u32)>> {
        self.0.lock().unwrap().clone()
    }

    /// The minutes past 13:00 of the slots, with the number of their runs.
    fn minutes(&self) -> Vec<(u32, usize)> {
        self.all().iter().map(|(slot, runs)| (minute(slot), runs.len())).collect()
    }
}

fn minute(slot: &str) -> u32 {
    let part = |at| slot[at..at + 2].parse::<u32>().unwrap();
    (part(11) - 13) * 60 + part(14)
}

fn slot(minute: u32) -> String {
    format!("{PATH}/2026-11-22T{:02}:{:02}:00Z", 13 + minute / 60, minute % 60)
}

/// A server whose clock begins at a quarter past one, and members with the same clock.
struct Stage {
    server: TestServer,
    since: Instant,
    runs: Runs,
}

impl Stage {
    async fn new() -> Self {
        let wall_clock = SystemTime::UNIX_EPOCH + START;
        let server = TestServer::builder().tcp(false).wall_clock(wall_clock).start().await.unwrap();
        Self { server, since: Instant::now(), runs: Runs::default() }
    }

    /// A schedule of one slot a minute.
    fn every_minute(&self, zk: &CuratorFramework, id: &str) -> OncePer {
        self.every(MINUTE, zk, id)
    }

    fn every(&self, period: Duration, zk: &CuratorFramework, id: &str) -> OncePer {
        let since = self.since;
        let clock = move || SystemTime::UNIX_EPOCH + START + since.elapsed();
        OncePer::new(zk, PATH, Schedule::every(period)).id(id).clock(clock)
    }

    /// A clock that is ahead while the switch is on.
    fn switched_clock(&self, ahead: Duration) -> (Arc<AtomicBool>, impl Fn() -> SystemTime + use<>) {
        let (since, is_on) = (self.since, Arc::new(AtomicBool::new(true)));
        let switch = Arc::clone(&is_on);
        let clock = move || {
            let ahead = if is_on.load(Ordering::Relaxed) { ahead } else { Duration::ZERO };
            SystemTime::UNIX_EPOCH + START + since.elapsed() + ahead
        };
        (switch, clock)
    }

    /// Runs a schedule with a body that takes some time.
    fn start(&self, once: OncePer, id: &str, takes: Duration) -> JoinHandle<Result<(), Error>> {
        let (runs, id) = (self.runs.clone(), id.to_owned());
        tokio::spawn(async move {
            let body = |slot: Slot| {
                runs.note(&id, &slot);
                async move {
                    sleep(takes).await;
                    Ok::<(), String>(())
                }
            };
            once.run(body).await
        })
    }

    /// A moment, in minutes and seconds past 13:00.
    fn at(&self, minute: u64, second: u64) -> Instant {
        self.since + Duration::from_secs((minute - 15) * 60 + second)
    }

    async fn until(&self, condition: impl FnMut(&Probe) -> bool) -> Probe {
        timeout(MINUTE * 600, self.server.until(condition)).await.unwrap_or_else(|_| {
            panic!("never true\n{}\n{:?}", self.server.probe(), self.runs.all());
        })
    }

    async fn until_done(&self, minute: u32) {
        self.until(|probe| is_done(probe, &slot(minute))).await;
    }
}

fn is_done(probe: &Probe, path: &str) -> bool {
    data(probe, path).contains("\ndone\n")
}

fn data(probe: &Probe, path: &str) -> String {
    probe.data(path).map(|data| String::from_utf8(data.to_vec()).unwrap()).unwrap_or_default()
}

async fn slots(once: &OncePer) -> Vec<(u32, String, u32, SlotState)> {
    let slots = once.slots().await.unwrap().into_iter();
    slots
        .map(|SlotInfo { name, claimed_by, attempt, state, .. }| (minute(&name), claimed_by, attempt, state))
        .collect()
}

fn requests(server: &TestServer) -> u64 {
    let probe = server.probe();
    probe.total_requests() - probe.requests(OpCode::Ping)
}

#[test]
fn forty_members_run_each_slot_once() {
    simulated(async {
        let stage = Stage::new().await;
        let mut members = Vec::new();
        for number in 0..40 {
            let (zk, id) = (connected(&stage.server).await, format!("m-{number}"));
            let once = stage.every_minute(&zk, &id);
            let once = if number % 2 == 0 { once.missed(Missed::All) } else { once.missed(Missed::Last) };
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
    simulated(async {
        for (again, expected) in [
            // The claims; the winner lists the slots and writes the end.
            (None, 10 + 2),
            // The winner watches its runner; the losers wait until it is gone, and read the slot.
            (Some(AFTER), 10 + 3 + 9 * 2),
        ] {
            let stage = Stage::new().await;
            for number in 0..10 {
                let (zk, id) = (connected(&stage.server).await, format!("m-{number}"));
                let once = stage.every_minute(&zk, &id);
                let once = match again {
                    Some(after) => once.at_least_once(after),
                    None => once,
                };
                stage.start(once, &id, Duration::ZERO);
            }
            // Clocks are compared five to ten seconds ahead. The first slot has created what is created once.
            sleep_until(stage.at(16, 58)).await;
            let before = requests(&stage.server);
            sleep_until(stage.at(17, 2)).await;
            assert_eq!(requests(&stage.server) - before, expected, "{again:?}");
            assert_eq!(stage.runs.minutes(), [(16, 1), (17, 1)]);
        }
    });
}

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
                        stage.start(if again { once.at_least_once(AFTER) } else { once }, id, MINUTE / 60);
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

#[test]
fn sessions_that_end_run_no_slot_twice_at_most_once() {
    simulated(async {
        // Around the beginning, the body and the end of the slot at 13:16.
        for millis in (49_000..62_000).step_by(500) {
            let stage = Stage::new().await;
            let (zk, other) = (connected(&stage.server).await, connected(&stage.server).await);
            stage.start(stage.every_minute(&zk, "a"), "a", MINUTE / 60);
            stage.start(stage.every_minute(&other, "b"), "b", MINUTE / 60);
            sleep_until(stage.since + Duration::from_millis(millis)).await;
            for zk in [&zk, &other] {
                expire(&stage.server, zk).await;
            }
            for minute in [16, 17] {
                stage.until_done(minute).await;
            }
            assert_eq!(stage.runs.minutes(), [(16, 1), (17, 1)], "{millis}");
        }
    });
}

#[test]
fn a_body_goes_on_without_its_session_at_most_once() {
    simulated(async {
        let stage = Stage::new().await;
        let zk = connected(&stage.server).await;
        let once = stage.every_minute(&zk, "a");
        stage.start(once.clone(), "a", MINUTE / 2);
        stage.until(|probe| probe.exists(&slot(16))).await;
        expire(&stage.server, &zk).await;
        stage.until_done(16).await;
        assert_eq!(slots(&once).await, [(16, "a".to_owned(), 1, SlotState::Done)]);
    });
}

/// A member that dies in the middle of its body.
async fn dies(stage: &Stage, again: Option<Duration>) -> OncePer {
    let (zk, other) = (connected(&stage.server).await, connected(&stage.server).await);
    let [doomed, heir] = [(&zk, "doomed"), (&other, "heir")].map(|(zk, id)| {
        let once = stage.every_minute(zk, id);
        if let Some(after) = again { once.at_least_once(after) } else { once }
    });
    let victim = stage.start(doomed, "doomed", MINUTE * 60);
    stage.until(|probe| probe.exists(&slot(16))).await;
    stage.start(heir.clone(), "heir", Duration::ZERO);
    // It hears of the slot before that.
    sleep_until(stage.at(17, 30)).await;
    zk.close().await.unwrap();
    victim.abort();
    drop(victim.await);
    heir
}

#[test]
fn a_slot_of_a_dead_member_is_not_run_again_at_most_once() {
    simulated(async {
        let stage = Stage::new().await;
        let heir = dies(&stage, None).await;
        stage.until_done(30).await;
        assert_eq!(stage.runs.all()["2026-11-22T13:16:00Z"], [("doomed".to_owned(), 1)]);
        let first = slots(&heir).await.remove(0);
        assert_eq!(first, (16, "doomed".to_owned(), 1, SlotState::Running));
    });
}

#[test]
fn a_slot_of_a_dead_member_is_taken_over_at_least_once() {
    simulated(async {
        let stage = Stage::new().await;
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

#[test]
fn a_member_that_starts_takes_unfinished_slots_over() {
    simulated(async {
        let stage = Stage::new().await;
        let zk = connected(&stage.server).await;
        let doomed = stage.start(stage.every_minute(&zk, "doomed").at_least_once(AFTER), "doomed", MINUTE);
        stage.until(|probe| probe.exists(&slot(16))).await;
        doomed.abort();
        drop(doomed.await);
        zk.wait_released().await;
        let once = stage.every_minute(&zk, "heir").at_least_once(AFTER);
        assert_eq!(slots(&once).await, [(16, "doomed".to_owned(), 1, SlotState::Abandoned)]);
        stage.start(once, "heir", Duration::ZERO);
        stage.until_done(16).await;
        assert_eq!(stage.runs.minutes(), [(16, 2)]);
    });
}

#[test]
fn a_body_that_fails_is_recorded_and_runs_again_at_least_once() {
    simulated(async {
        let stage = Stage::new().await;
        let zk = connected(&stage.server).await;
        for again in [None, Some(AFTER)] {
            let once = stage.every_minute(&zk, "a");
            let once = if let Some(after) = again { once.at_least_once(after) } else { once };
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
    simulated(async {
        for verdict in [Verdict::LoseRequest, Verdict::Disconnect] {
            let stage = Stage::new().await;
            let (zk, other) = (connected(&stage.server).await, connected(&stage.server).await);
            let heir = stage.every_minute(&other, "heir").at_least_once(AFTER);
            let stale =
                stage.start(stage.every_minute(&zk, "stale").at_least_once(AFTER), "stale", MINUTE / 2);
            stage.until(|probe| probe.exists(&format!("{}/runner", slot(16)))).await;
            stage.start(heir.clone(), "heir", MINUTE * 10);
            sleep_until(stage.at(16, 20)).await;
            // Whatever it sends is lost, in its next sessions too, until another member has the slot.
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
        }
    });
}

#[test]
fn a_body_is_dropped_when_its_runner_is_lost() {
    simulated(async {
        let stage = Stage::new().await;
        let (zk, other) = (connected(&stage.server).await, connected(&stage.server).await);
        let ended = Arc::new(AtomicUsize::new(0));
        let (counted, runs) = (Arc::clone(&ended), stage.runs.clone());
        let once = stage.every_minute(&zk, "a").at_least_once(AFTER);
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

/// Nobody runs from 13:18 to 13:25:30.
#[test]
fn missed_slots_run_as_the_policy_says() {
    simulated(async {
        for (missed, expected) in [
            (Missed::Skip, vec![16, 17, 26]),
            (Missed::Last, vec![16, 17, 25, 26]),
            (Missed::All, vec![16, 17, 22, 23, 24, 25, 26]),
        ] {
            let stage = Stage::new().await;
            let zk = connected(&stage.server).await;
            let once = stage.every_minute(&zk, "a").missed(missed).keep(4);
            let before = stage.start(once.clone(), "a", Duration::ZERO);
            stage.until_done(17).await;
            before.abort();
            drop(before.await);
            sleep_until(stage.at(25, 30)).await;
            stage.start(once, "a", Duration::ZERO);
            stage.until_done(26).await;
            let expected: Vec<(u32, usize)> = expected.into_iter().map(|minute| (minute, 1)).collect();
            assert_eq!(stage.runs.minutes(), expected, "{missed:?}");
        }
    });
}

#[test]
fn a_new_schedule_has_missed_nothing() {
    simulated(async {
        for missed in [Missed::Skip, Missed::Last, Missed::All] {
            let stage = Stage::new().await;
            let zk = connected(&stage.server).await;
            stage.start(stage.every_minute(&zk, "a").missed(missed), "a", Duration::ZERO);
            stage.until_done(17).await;
            assert_eq!(stage.runs.minutes(), [(16, 1), (17, 1)], "{missed:?}");
        }
    });
}

/// The body takes two and a half minutes, and the member is alone.
#[test]
fn a_late_member_runs_a_slot_whose_period_is_not_over() {
    simulated(async {
        for (missed, expected) in
            [(Missed::Skip, [16, 18, 21]), (Missed::Last, [16, 18, 21]), (Missed::All, [16, 17, 18])]
        {
            let stage = Stage::new().await;
            let zk = connected(&stage.server).await;
            stage.start(stage.every_minute(&zk, "a").missed(missed), "a", MINUTE * 5 / 2);
            stage.until_done(expected[2]).await;
            let ran: Vec<u32> = stage.runs.minutes().iter().map(|(minute, _)| *minute).collect();
            assert_eq!(ran[..3], expected, "{missed:?}");
        }
    });
}

#[test]
fn a_member_whose_clock_is_ahead_stays_out_until_it_is_right() {
    simulated(async {
        let stage = Stage::new().await;
        let (zk, other) = (connected(&stage.server).await, connected(&stage.server).await);
        let (switch, clock) = stage.switched_clock(MINUTE * 60);
        let mut errors = zk.background_errors();
        stage.start(stage.every_minute(&zk, "ahead").clock(clock), "ahead", Duration::ZERO);
        let right = stage.start(stage.every_minute(&other, "right"), "right", Duration::ZERO);
        let error = errors.next().await.unwrap();
        assert_eq!((error.kind(), error.path()), (ErrorKind::InvalidArgument, PATH));
        stage.until_done(20).await;
        right.abort();
        drop(right.await);
        // Told once.
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
        sleep(MINUTE * 5).await;
        assert_eq!(stage.runs.all().len(), ran);
    });
}

/// Its clock is within the tolerance, but slots of a second that it comes to are deleted already.
#[test]
fn a_slot_that_was_deleted_is_not_run_again() {
    simulated(async {
        for again in [None, Some(AFTER)] {
            let stage = Stage::new().await;
            let (zk, other) = (connected(&stage.server).await, connected(&stage.server).await);
            let start = |zk, id| {
                let once = stage.every(Duration::from_secs(1), zk, id).keep(3).missed(Missed::All);
                if let Some(after) = again { once.at_least_once(after) } else { once }
            };
            stage.start(start(&zk, "right"), "right", Duration::ZERO);
            let since = stage.since;
            let behind = move || SystemTime::UNIX_EPOCH + START + since.elapsed() - Duration::from_secs(20);
            stage.start(start(&other, "behind").clock(behind), "behind", Duration::ZERO);
            sleep_until(stage.at(17, 0)).await;
            let runs = stage.runs.all();
            assert!(runs.len() >= 118, "{}", runs.len());
            assert!(runs.values().all(|runs| runs.len() == 1), "{runs:?}");
        }
    });
}

#[test]
fn old_slots_are_deleted_and_nothing_else() {
    simulated(async {
        let stage = Stage::new().await;
        let zk = connected(&stage.server).await;
        // Not of this schedule, though one of them has such a name.
        for name in ["notes", "2026-11-22T12:00:00Z"] {
            zk.create(format!("{PATH}/{name}")).creating_parents().data("foreign").await.unwrap();
        }
        // Running for long, at most once: nobody will take it over.
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
        // It ends after its slot is gone, and goes on.
        stage.until_done(47).await;
        assert!(!slow.is_finished() && !stage.server.probe().exists(&slot(16)));
    });
}

#[test]
fn unfinished_slots_are_not_deleted_before_they_are_done() {
    simulated(async {
        let stage = Stage::new().await;
        let zk = connected(&stage.server).await;
        let once = stage.every_minute(&zk, "a").keep(2).at_least_once(MINUTE * 10);
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

#[test]
fn run_until_drains_and_then_drops_the_body() {
    simulated(async {
        for again in [None, Some(AFTER)] {
            for (drain, state) in [(30, "done"), (10, "failed")] {
                let stage = Stage::new().await;
                let zk = connected(&stage.server).await;
                let once = stage.every_minute(&zk, "a");
                let once = if let Some(after) = again { once.at_least_once(after) } else { once };
                let (stop, body) = (sleep_until(stage.at(16, 20)), |slot: Slot| {
                    stage.runs.note("a", &slot);
                    async {
                        sleep(Duration::from_secs(40)).await;
                        Ok::<(), String>(())
                    }
                });
                once.run_until(stop, Duration::from_secs(drain), body).await.unwrap();
                let took = stage.since.elapsed().as_secs();
                assert!((if state == "done" { 100..102 } else { 90..92 }).contains(&took), "{took}");
                let probe = stage.server.probe();
                assert!(data(&probe, &slot(16)).contains(&format!("\n{state}\n")), "{probe}");
                let left: Vec<_> = probe.ephemerals(session_id(&zk).get()).to_vec();
                assert!(left.iter().all(|path| path.contains("_r_")), "{left:?}");
                assert_eq!(stage.runs.minutes(), [(16, 1)]);
            }
        }
    });
}

#[test]
fn no_slot_is_claimed_after_the_stop() {
    simulated(async {
        let stage = Stage::new().await;
        let zk = connected(&stage.server).await;
        let once = stage.every_minute(&zk, "a");
        let body = async |_: Slot| Err::<(), _>("never");
        let body = |slot| Box::pin(body(slot));
        once.run_until(std::future::ready(()), MINUTE, body).await.unwrap();
        once.run_until(sleep_until(stage.at(15, 59)), MINUTE, body).await.unwrap();
        assert_eq!(stage.since.elapsed(), Duration::from_secs(59));
        assert!(once.slots().await.unwrap().is_empty());
        // The claim is under way when it stops: it is given back, or runs.
        let delayed = stage.server.rule(|request| {
            let is_claim = request.paths().any(|path| path == slot(16));
            if is_claim { Verdict::Delay(Duration::from_secs(1)) } else { Verdict::Pass }
        });
        let stop = async { sleep_until(stage.at(16, 0) + Duration::from_millis(500)).await };
        once.run_until(stop, Duration::ZERO, body).await.unwrap();
        assert!(delayed.hits() > 0 && !stage.server.probe().exists(&slot(16)));
        stage.until(|probe| probe.exists(&slot(16))).await;
        stage.until(|probe| !probe.exists(&slot(16))).await;
    });
}

#[test]
fn dropped_anywhere_a_slot_is_run_by_others_or_recorded() {
    simulated(async {
        for again in [false, true] {
            let of = |stage: &Stage, zk: &CuratorFramework, id: &str| {
                let once = stage.every_minute(zk, id).missed(Missed::Last);
                if again { once.at_least_once(AFTER) } else { once }
            };
            let steps = cancel::at_every_step(
                async || {
                    let stage = Stage::new().await;
                    let (zk, other) = (connected(&stage.server).await, connected(&stage.server).await);
                    (stage, zk, other)
                },
                async |(stage, zk, _)| {
                    let body = |slot: Slot| {
                        stage.runs.note("a", &slot);
                        async {
                            sleep(Duration::from_secs(1)).await;
                            Ok::<(), String>(())
                        }
                    };
                    let once = of(stage, zk, "a");
                    once.run_until(stage.until_done(16), MINUTE, body).await.unwrap();
                },
                async |(stage, zk, other), _| {
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
                    assert_eq!(first.is_some(), was_run, "{first:?} {runs:?}\n{}", stage.server.probe());
                    other.delete("/cron").deleting_children().await.unwrap();
                    other.close().await.unwrap();
                    assert_clean_after_close(&stage.server);
                },
            )
            .await;
            assert!(steps > 12, "only {steps} steps");
        }
    });
}

#[test]
fn settings_and_paths_are_refused_when_it_runs() {
    simulated(async {
        let stage = Stage::new().await;
        let zk = connected(&stage.server).await;
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
fn refusals_end_the_run_with_their_error() {
    simulated(async {
        for (again, nth) in (0..5).flat_map(|nth| [(false, nth), (true, nth)]) {
            let stage = Stage::new().await;
            let zk = connected(&stage.server).await;
            let refused = stage.server.rule(|request| {
                let is_ours = request.paths().any(|path| path.starts_with(PATH));
                if is_ours { Verdict::Refuse(ErrorCode::NoAuth) } else { Verdict::Pass }
            });
            let refused = refused.after(nth);
            let once = stage.every_minute(&zk, "a");
            let once = if again { once.at_least_once(AFTER) } else { once };
            let ran = timeout(MINUTE * 10, stage.start(once, "a", Duration::ZERO)).await;
            let error = ran.unwrap_or_else(|_| panic!("{again} {nth}")).unwrap().unwrap_err();
            let Error::Framework(error) = error else { panic!("{error}") };
            assert_eq!(error.code(), Some(ErrorCode::NoAuth), "{again} {nth} {error}");
            assert!(refused.hits() > 0);
        }
    });
}

#[test]
fn a_deleted_schedule_begins_again() {
    simulated(async {
        for again in [false, true] {
            for second in [5, 30, 55] {
                let stage = Stage::new().await;
                let zk = connected(&stage.server).await;
                let once = stage.every_minute(&zk, "a");
                let once = if again { once.at_least_once(AFTER) } else { once };
                let member = stage.start(once, "a", MINUTE / 6);
                sleep_until(stage.at(16, second)).await;
                zk.delete("/cron").deleting_children().await.unwrap();
                stage.until_done(18).await;
                assert!(!member.is_finished());
                let runs = stage.runs.minutes();
                assert!(runs.iter().all(|(_, count)| *count == 1), "{runs:?}");
            }
        }
    });
}

#[test]
fn an_outage_delays_slots_and_ends_nothing() {
    simulated(async {
        for again in [false, true] {
            let stage = Stage::new().await;
            let (zk, other) = (connected(&stage.server).await, connected(&stage.server).await);
            for (zk, id) in [(&zk, "a"), (&other, "b")] {
                let once = stage.every_minute(zk, id);
                stage.start(if again { once.at_least_once(AFTER) } else { once }, id, MINUTE / 60);
            }
            stage.until_done(16).await;
            let cut = cut_off(&stage.server, &zk);
            sleep_until(stage.at(16, 50)).await;
            stage.server.stop().await;
            sleep_until(stage.at(20, 30)).await;
            stage.server.restart().await.unwrap();
            drop(cut);
            // Not over yet.
            stage.until_done(20).await;
            assert!(stage.since.elapsed() < MINUTE * 6);
            stage.until_done(21).await;
            assert_eq!(stage.runs.minutes(), [(16, 1), (20, 1), (21, 1)]);
        }
    });
}

#[test]
fn slots_tell_who_and_when() {
    simulated(async {
        let stage = Stage::new().await;
        let zk = connected(&stage.server).await;
        let once =
            OncePer::new(&zk, PATH, Schedule::every(MINUTE * 60).offset(MINUTE * 16)).id("worker\n\n1");
        let since = stage.since;
        let once = once.clock(move || SystemTime::UNIX_EPOCH + START + since.elapsed());
        stage.start(once.clone(), "a", Duration::from_secs(5));
        stage.until_done(16).await;
        let slot = once.slots().await.unwrap().remove(0);
        let at = |seconds| SystemTime::UNIX_EPOCH + START + Duration::from_secs(seconds);
        assert_eq!((slot.name.as_str(), slot.start), ("2026-11-22T13:16:00Z", at(60)));
        assert_eq!((slot.claimed_by.as_str(), slot.attempt, slot.state), ("worker\n\n1", 1, SlotState::Done));
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
            let once = OncePer::new(zk, path.as_str(), Schedule::every(Duration::from_secs(1))).id(id);
            let once = once.keep(2).clock(move || wall + since.elapsed());
            if again { once.at_least_once(AFTER) } else { once }
        };
        let members = [("one", &one), ("two", &two)].map(|(id, zk)| {
            let (runs, running) = (runs.clone(), once(zk, id));
            async move {
                let stop = async {
                    while runs.all().len() < 4 {
                        sleep(Duration::from_millis(50)).await
                    }
                };
                let body = |slot: Slot| {
                    runs.note(id, &slot);
                    std::future::ready(Ok::<(), String>(()))
                };
                running.run_until(stop, MINUTE, body).await.unwrap();
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
