//! Every fault at every decision point: what is played, what is found, and what is left out.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use zk_curator::CuratorFramework;
use zk_curator_sim::checkers::{Checker, Violation};
use zk_curator_sim::{
    Client, DecisionPoint, Event, Exhaustion, Explored, Failure, FaultPlan, Flaw, History,
    PointFault, PointKind, Sim, scenarios,
};
use zk_curator_testing::wait::spend;

const NODE: &str = "/number";

/// Two clients, one round each, of this work.
fn sim<F, Fut>(work: F) -> Sim
where
    F: Fn(Client) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<(), Failure>> + Send + 'static,
{
    Sim::seed(3).clients(2).rounds(1).settings(false).nodes([NODE]).workload(work)
}

fn mutex(clients: u32) -> Sim {
    let mutex = scenarios::named("mutex").expect("a scenario");
    Sim::seed(3).clients(clients).rounds(1).settings(false).scenario(mutex)
}

/// One client that only comes and goes.
fn visit() -> Sim {
    sim(|client| async move { client.connect().await.map(drop).map_err(Into::into) }).clients(1)
}

/// An exploration with some of the faults.
fn few(sim: Sim) -> Exhaustion {
    Exhaustion::new(sim).kinds(["disconnect", "hesitate", "lose-reply"])
}

fn explore(exhaustion: &Exhaustion) -> Explored {
    exhaustion.explore(|_, _| {}, |_, _| {}).expect("no file")
}

/// Fails if a client has written more often than it knows.
#[derive(Debug)]
struct Once;

impl Checker for Once {
    fn check(&self, history: &History) -> Result<(), Violation> {
        let is = |event: &Event| matches!(event, Event::Note { text } if text == "written twice");
        match history.records().iter().position(|record| is(&record.event)) {
            Some(place) => Err(Violation::new("once", "it was written twice", vec![place])),
            None => Ok(()),
        }
    }
}

/// Writes once, and writes again if an error is passing: wrong after a lost response.
async fn repeats(client: Client) -> Result<(), Failure> {
    let zk = client.connect().await?;
    let path = format!("{NODE}/{}", client.number());
    let create = |zk: &CuratorFramework| zk.create(path.as_str()).idempotent().into_future();
    if create(&zk).await.is_err() {
        return Ok(());
    }
    for _ in 0..2 {
        // Without retries, a lost response is an error.
        let once = zk.with_deadline(Duration::from_millis(100));
        match once.set_data(path.as_str(), "").await {
            Err(error) if error.is_retryable() => {}
            _ => break,
        }
    }
    if let Ok(Some(stat)) = zk.exists(path.as_str()).await
        && stat.version > 1
    {
        client.note("written twice");
    }
    Ok(())
}

#[test]
fn a_plan_happens_at_its_points() {
    let sim = mutex(2);
    let without = sim.clone().plan(FaultPlan::default()).run();
    assert_eq!(without.violation, None, "{}", without.history);
    let is_create = |kind: &PointKind| matches!(kind, PointKind::Request { path: Some(path), .. } if path.starts_with("/locks"));
    let point = without.points.iter().position(|point| is_create(&point.kind)).expect("a create");
    let client = without.points[point].client;
    let plan = FaultPlan::new([(point as u32, PointFault::Expire { client })]);
    let with = sim.clone().plan(plan.clone()).run();
    assert_eq!(without.points[..=point], with.points[..=point]);
    assert_ne!(without.points, with.points);
    let expired = |history: &History| history.to_string().contains("SESSION EXPIRED");
    assert!(!expired(&without.history) && expired(&with.history), "{}", with.history);
    assert_eq!(sim.plan(plan).run().history, with.history, "the same plan is the same run");
}

#[test]
fn every_kind_of_fault_is_played() {
    let runs = AtomicU64::new(0);
    let levels = AtomicU64::new(0);
    let explored = Exhaustion::new(mutex(2))
        .explore(
            |faults, runs| {
                assert_eq!(faults, 1);
                levels.store(runs, Ordering::Relaxed);
            },
            |_, _| {
                runs.fetch_add(1, Ordering::Relaxed);
            },
        )
        .expect("no file");
    assert_eq!(explored.flaws.len(), 0, "{:?}", explored.flaws.first());
    let runs = runs.into_inner();
    assert_eq!((explored.runs, levels.into_inner()), (vec![1, runs], runs));
    assert!(explored.bound < Duration::from_secs(12), "{:?}", explored.bound);
    let kinds: BTreeSet<_> = explored.kinds.keys().copied().collect();
    let all = [
        "change-leader",
        "close",
        "close-first",
        "cut",
        "cut-to-end",
        "delay",
        "disconnect",
        "drop",
        "expire",
        "hesitate",
        "jump",
        "kill",
        "lag",
        "lose-reply",
        "lose-reply-and-cut",
        "lose-request",
        "lose-request-and-cut",
        "operate",
        "pause",
        "pause-to-end",
        "throttle",
        "vanish",
    ];
    assert_eq!(kinds, all.into());
    assert_eq!(PointFault::kinds().collect::<BTreeSet<_>>(), kinds);
    assert_eq!(explored.kinds.values().sum::<u64>(), runs);
    assert!(explored.states > runs as usize / 4 && explored.states <= runs as usize + 1);
    assert!(explored.stats.achieved["acquisitions"] > runs, "{:?}", explored.stats);
}

/// Returns an exploration of clients that write twice, and its violation by a lost response.
fn writes_twice() -> (Exhaustion, Flaw) {
    let sim = sim(repeats).checker(Once).leaves(["/number/*"]);
    let exhaustion = Exhaustion::new(sim).keep_going(true);
    let is_lost = |flaw: &Flaw| {
        let faults = flaw.plan.faults();
        matches!(faults, [(_, PointFault::LoseReply | PointFault::LoseReplyAndCut)])
    };
    let flaw = explore(&exhaustion).flaws.into_iter().find(is_lost).expect("a lost response");
    (exhaustion, flaw)
}

#[test]
fn a_lost_response_finds_what_writes_twice() {
    let (_, Flaw { plan, outcome, .. }) = writes_twice();
    let (point, _) = plan.faults()[0];
    let kind = &outcome.points[point as usize].kind;
    assert!(matches!(kind, PointKind::Request { path: Some(path), .. } if path.starts_with(NODE)));
    assert_eq!(outcome.violation.map(|violation| violation.checker), Some("once"));
}

#[test]
fn faults_that_the_violation_does_not_need_are_left_out() {
    let (exhaustion, Flaw { plan: found, .. }) = writes_twice();
    let more = found.faults().iter().copied().chain([(0, PointFault::Hesitate)]);
    let flaw = exhaustion.replay(&FaultPlan::new(more)).expect("all happen").expect("a violation");
    assert_eq!((flaw.plan.faults().len(), exhaustion.shrink(flaw).plan), (2, found));
}

/// A client that waits for much longer than any timeout after it was cut off.
#[test]
fn a_client_that_finishes_too_late_is_found() {
    async fn sulks(client: Client) -> Result<(), Failure> {
        let zk = client.connect().await?;
        let mut states = zk.states();
        let cut_off = async {
            while states.next().await.is_some_and(|status| status.state.is_connected()) {}
        };
        tokio::select! {
            () = cut_off => spend(Duration::from_secs(100)).await,
            () = spend(Duration::from_secs(1)) => {}
        }
        Ok(())
    }
    let explored = explore(&Exhaustion::new(sim(sulks)));
    let flaw = explored.flaws.first().expect("a flaw");
    assert_eq!(flaw.outcome.violation.as_ref().map(|found| found.checker), Some("liveness"));
}

/// What an earlier exploration has played is not played again, wherever it was stopped.
#[test]
fn an_exploration_continues_where_it_stopped() {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("exhaustion.txt");
    drop(fs::remove_file(&file));
    let whole = |jobs| {
        let played = AtomicU64::new(0);
        let explored = few(visit())
            .faults(2)
            .jobs(jobs)
            .progress(&file)
            .explore(
                |_, _| {},
                |_, _| {
                    played.fetch_add(1, Ordering::Relaxed);
                },
            )
            .expect("the file");
        (explored.runs, explored.states, played.into_inner())
    };
    let (runs, states, played) = whole(2);
    assert_eq!(runs[1..].iter().sum::<u64>(), played);
    assert_eq!(whole(1), (runs.clone(), states, 0), "everything is in the file");
    let text = fs::read_to_string(&file).expect("text");
    // The last line is cut off in the middle.
    fs::write(&file, &text[..text.len() / 2]).expect("written");
    let (again, states_again, rest) = whole(1);
    assert_eq!((again, states_again), (runs, states));
    assert!(rest > 0 && rest < played, "{rest} of {played}");
    let other = few(visit().clients(2)).faults(2).progress(&file);
    let error = other.explore(|_, _| {}, |_, _| {}).expect_err("a file of other runs");
    assert!(error.to_string().contains("is of other runs"), "{error}");
    fs::remove_file(&file).expect("removed");
}

/// The parts together are the whole.
#[test]
fn parts_are_disjoint_and_complete() {
    let runs = |exhaustion: Exhaustion| explore(&exhaustion.faults(2)).runs[2];
    let whole = runs(few(visit()));
    let parts: u64 = (0..3).map(|part| runs(few(visit()).part(part, 3))).sum();
    assert_eq!(parts, whole);
}

/// With a limit, as many explorations as there are parts extend every plan, each in its turn.
#[test]
fn a_limit_divides_every_number_of_faults() {
    let whole = explore(&few(visit()).faults(2));
    let limited = |part| {
        let exhaustion = few(visit()).faults(2).part(part, 1);
        explore(&exhaustion.at_most(whole.runs[1].div_ceil(2)))
    };
    let (first, second) = (limited(0), limited(1));
    assert!(first.runs[1] < whole.runs[1] && first.runs[2] < whole.runs[2]);
    // The halves have extensions of their own, in parts of their own.
    let parts = first.part.1.max(second.part.1);
    assert!(parts > 2 && parts % 2 == 0);
    assert_eq!(second.part, (1, second.part.1));
    let turns: Vec<_> = (0..parts).map(limited).collect();
    // A plan with the run of another is extended unless that is in the same part.
    assert!(turns.iter().map(|turn| turn.runs[2]).sum::<u64>() >= whole.runs[2]);
}

/// A plan of other code may name points that are not there, or are of another kind.
#[test]
fn a_plan_that_cannot_be_played_is_no_proof() {
    let exhaustion = Exhaustion::new(mutex(1));
    let points = mutex(1).plan(FaultPlan::default()).run().points;
    let is_wake = |point: &DecisionPoint| point.kind == PointKind::Wake;
    let wake = points.iter().position(is_wake).expect("a wake-up") as u32;
    for misfit in [(wake, PointFault::LoseReply), (999_999, PointFault::Pause)] {
        let replayed = exhaustion.replay(&FaultPlan::new([misfit]));
        assert_eq!(replayed.map(|flaw| flaw.is_some()), Err(misfit));
    }
}

/// A continued exploration finds the same violations again.
#[test]
fn a_violation_is_not_lost_when_an_exploration_continues() {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("violations.txt");
    drop(fs::remove_file(&file));
    let flaws = || {
        let sim = sim(repeats).checker(Once).leaves(["/number/*"]);
        explore(&Exhaustion::new(sim).keep_going(true).progress(&file)).flaws.len()
    };
    let found = flaws();
    assert!(found > 0);
    assert_eq!(flaws(), found);
    fs::remove_file(&file).expect("removed");
}
