//! Services that are written without the simulation.

use std::time::Duration;

use zk_curator::observe::{Attempt, HoldMode, Outcome, Recorder, Step, UseOutcome};
use zk_curator::{CuratorFramework, FencingToken};
use zk_curator_recipes::Shutdown;
use zk_curator_sim::checkers::{Delivery, Exclusion, Recovery};
use zk_curator_sim::history::Hold;
use zk_curator_sim::{Client, Event, Failure, Fault, FaultAction, FaultKind, Faults, Sim};
use zk_curator_testing::wait::spend;

use crate::seeds;

#[path = "../../examples/simulate_service/service.rs"]
mod leader;
#[path = "../../examples/simulate_service/mails.rs"]
mod mails;

/// The simulation of the example.
fn leaders(seed: u64) -> Sim {
    Sim::seed(seed)
        .nodes([leader::INVOICES])
        .leaves(["/election"])
        .checker(Exclusion::leader())
        .checker(Recovery::of(leader::INVOICES))
}

fn faults_of_leaders() -> Faults {
    Faults::of([FaultKind::PauseClient, FaultKind::CutClient])
}

#[test]
fn careless_leader_is_found_at_seed_0() {
    let outcome = leaders(0).service(leader::careless).faults(faults_of_leaders()).run();
    let Some(violation) = outcome.violation else { panic!("{}", outcome.history) };
    assert_eq!(violation.checker, "single leader");
    assert!(
        violation.broken.starts_with("/invoices has accepted a use with token "),
        "{violation}"
    );
}

#[test]
fn careful_leader_is_not_found() {
    for seed in seeds(150, 600) {
        for faults in [faults_of_leaders(), Faults::random()] {
            let outcome = leaders(seed).service(leader::careful).faults(faults).run();
            assert_eq!(outcome.violation, None, "seed {seed}:\n{}", outcome.history);
        }
    }
}

/// The simulation of the example.
fn mailers(seed: u64) -> Sim {
    let sim = Sim::seed(seed).leaves(["/mails", "/mails/**"]);
    sim.checker(Delivery::at_least_once()).checker(Recovery::of(mails::MAILS))
}

#[test]
fn queue_service_that_stops_producing_raises_no_alarm() {
    for seed in seeds(30, 300) {
        let outcome = mailers(seed).stoppable_service(mails::careful).run();
        assert_eq!(outcome.violation, None, "seed {seed}:\n{}", outcome.history);
    }
}

/// Without the signal, the queue has items when the service is dropped.
#[test]
fn queue_service_that_never_stops_looks_like_one_that_loses() {
    let serve = |zk, recorder: Client| mails::careful(zk, recorder, Shutdown::new());
    let violation = (0..30).find_map(|seed| mailers(seed).service(serve).run().violation).unwrap();
    assert!(violation.broken.ends_with(" of mails is lost"), "{violation}");
}

#[test]
fn queue_service_that_loses_mails_is_found() {
    let kills = Faults::of([FaultKind::KillClient]);
    let run = |seed| mailers(seed).stoppable_service(mails::careless).faults(kills.clone()).run();
    let violation = (0..30).find_map(|seed| run(seed).violation).unwrap();
    assert!(violation.broken.ends_with(" of mails is lost"), "{violation}");
}

#[test]
fn stopped_service_may_end_in_its_time() {
    async fn tick(
        _: CuratorFramework,
        recorder: impl Recorder,
        stop: Shutdown,
    ) -> Result<(), Failure> {
        stop.begun().await;
        recorder.record(Step::Note { text: "stops" });
        loop {
            spend(Duration::from_secs(4)).await;
            recorder.record(Step::Note { text: "tick" });
        }
    }
    let ticks = |event: &Event| *event == Event::Note { text: "tick".into() };
    // The service is dropped six seconds after the signal.
    assert_eq!(times_of(&one(1).stoppable_service(tick), ticks), 1);
    let at_stop = |event: &Event| *event == Event::Note { text: "stops".into() };
    assert_eq!(times_of(&one(1).stoppable_service(tick), at_stop), 1);
}

fn cut(at: u64, lasts: u64) -> Faults {
    let (at, lasts) = (Duration::from_millis(at), Duration::from_millis(lasts));
    let action =
        FaultAction::CutClient { client: 0, direction: zk_curator_testing::Direction::Both };
    Faults::list([Fault { at, lasts, action }])
}

fn one(seed: u64) -> Sim {
    Sim::seed(seed).clients(1).settings(false).faults(cut(500, 100))
}

fn times_of(sim: &Sim, is: impl Fn(&Event) -> bool) -> usize {
    let outcome = sim.run();
    assert_eq!(outcome.violation, None, "{}", outcome.history);
    outcome.history.records().iter().filter(|record| is(&record.event)).count()
}

#[test]
fn service_that_ends_during_faults_is_restarted() {
    async fn fail_early(_: CuratorFramework, recorder: impl Recorder) -> Result<(), Failure> {
        recorder.record(Step::Note { text: "serves" });
        spend(Duration::from_millis(200)).await;
        Err("out of memory".into())
    }
    // One life begins after the faults, so its error counts.
    let outcome = one(1).service(fail_early).run();
    let violation = outcome.violation.unwrap();
    assert!(violation.to_string().contains("cannot continue: out of memory"), "{violation}");
    let restarts = outcome
        .history
        .to_string()
        .matches("begins again: the service has ended: out of memory")
        .count();
    assert!(restarts > 1, "{}", outcome.history);
}

#[test]
fn service_runs_until_the_faults_are_long_over() {
    async fn tick(zk: CuratorFramework, recorder: impl Recorder) -> Result<(), Failure> {
        // The task ends with the service.
        let _task = zk.spawn_task(std::future::pending::<()>());
        loop {
            recorder.record(Step::Note { text: "tick" });
            spend(Duration::from_secs(1)).await;
        }
    }
    let ticks =
        times_of(&one(1).service(tick), |event| *event == Event::Note { text: "tick".into() });
    // The service ends three session timeouts after the fault.
    assert_eq!(ticks, 7);
}

#[test]
fn random_numbers_of_a_service_follow_the_seed() {
    async fn draw(zk: CuratorFramework, recorder: impl Recorder) -> Result<(), Failure> {
        for _ in 0..5 {
            spend(zk.jitter(Duration::from_millis(10))).await;
            recorder.record(Step::Note { text: &format!("{:x}", zk.random_u64()) });
        }
        Ok(())
    }
    let history = |seed| one(seed).service(draw).run().history.to_string();
    assert_eq!(history(1), history(1));
    assert_ne!(history(1), history(2));
}

#[test]
fn dropped_belief_ends_with_the_service() {
    async fn hold(_: CuratorFramework, recorder: impl Recorder) -> Result<(), Failure> {
        let attempt = Attempt::begin(&recorder, "orders", HoldMode::Exclusive);
        let _held = attempt.acquired(FencingToken::new(1));
        std::future::pending().await
    }
    let ends = |event: &Event| matches!(event, Event::Hold(Hold::Releasing { .. }));
    assert_eq!(times_of(&one(1).service(hold).checker(Exclusion::mutual()), ends), 1);
}

#[test]
fn service_that_waits_for_ever_is_found() {
    async fn give_up(zk: CuratorFramework, recorder: impl Recorder) -> Result<(), Failure> {
        let attempt = Attempt::begin(&recorder, "orders", HoldMode::Exclusive);
        let held = attempt.acquired(FencingToken::new(1));
        held.used(UseOutcome::Accepted(1));
        zk.states().until(|status| !status.state.is_connected()).await;
        std::future::pending().await
    }
    let long = cut(500, 3000);
    let outcome = one(1).faults(long).service(give_up).checker(Recovery::of("orders")).run();
    assert_eq!(outcome.violation.unwrap().broken, "orders is no longer used after the faults");
}

/// Delivers an item through a recorder that is a trait object.
async fn deliver(recorder: &dyn Recorder, works: bool) {
    let (queue, item, outcome) = ("mails", "a", Outcome::Sure);
    recorder.record(Step::Putting { queue, item, rank: 0 });
    recorder.record(Step::Put { queue, item, outcome });
    spend(Duration::from_millis(10)).await;
    recorder.record(Step::Taken { queue, item, attempt: 1 });
    if works {
        recorder.record(Step::Finishing { queue, item });
        recorder.record(Step::Done { queue, item, outcome });
    }
}

#[test]
fn recorded_deliveries_are_judged() {
    let run = |works| {
        let serve = move |_, recorder: Client| async move {
            deliver(&recorder, works).await;
            Ok::<_, Failure>(())
        };
        one(1).service(serve).checker(Delivery::exactly_once()).run().violation
    };
    assert_eq!(run(true), None);
    assert_eq!(run(false).unwrap().broken, "a of mails is lost");
}
