//! The simulator itself: the effects of faults on processes, the violations that it finds, its
//! determinism, and its shrinking of runs.
use std::collections::BTreeSet;
use std::process::Command;
use std::time::Duration;

use tokio::time::Instant;
use zk_curator::observe::Attempt;
use zk_curator::{CreateMode, FencingToken};
use zk_curator_sim::history::{HoldMode, Lifecycle, ProcessId};
use zk_curator_sim::{
    Client, Event, Failure, Fault, FaultAction, FaultKind, Faults, History, Outcome, Scenario, Sim,
    scenarios,
};
use zk_curator_testing::Direction;
use zk_curator_testing::wait::spend;

use crate::{seeds, some_scenarios};

pub(super) const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(super) fn fault(at: u64, lasts: u64, action: FaultAction) -> Fault {
    Fault { at: Duration::from_millis(at), lasts: Duration::from_millis(lasts), action }
}

pub(super) fn one_client(faults: impl IntoIterator<Item = Fault>) -> Sim {
    Sim::seed(1).clients(1).rounds(1).settings(false).faults(Faults::list(faults))
}

/// Returns the times, in milliseconds, at which this text was recorded.
pub(super) fn times_of(history: &History, text: &str) -> Vec<u128> {
    let is = |event: &Event| matches!(event, Event::Note { text: noted } if noted == text);
    history
        .records()
        .iter()
        .filter(|record| is(&record.event))
        .map(|record| record.at.as_millis())
        .collect()
}

pub(super) fn violation(outcome: &Outcome) -> &str {
    outcome.violation.as_ref().map_or("none", |violation| violation.checker)
}

/// Records a note every 100 ms while it runs.
async fn tick(client: Client) -> Result<(), Failure> {
    for _ in 0..20 {
        client.note("tick");
        spend(Duration::from_millis(100)).await;
    }
    Ok(())
}

/// The values of a killed client are dropped, but its process could not have recorded that.
#[test]
fn killed_client_records_nothing() {
    async fn hold(client: Client) -> Result<(), Failure> {
        let held = Attempt::begin(&client, "a", HoldMode::Exclusive).acquired(FencingToken::new(1));
        let _attempt = Attempt::begin(&client, "b", HoldMode::Exclusive);
        client.faults_are_over().await;
        held.lost();
        Ok(())
    }
    for action in [
        FaultAction::KillClient { client: 0, silently: false },
        FaultAction::Close { client: 0, late: false },
        FaultAction::Close { client: 0, late: true },
    ] {
        let later = fault(1000, 0, FaultAction::Disconnect { client: 0 });
        let history = one_client([fault(500, 10, action), later]).workload(hold).run().history;
        let names = |who| {
            let own = history.records().iter().filter(move |record| record.who == who);
            own.map(|record| record.event.name()).collect::<Vec<_>>()
        };
        let first = ["started", "acquiring", "acquired", "acquiring"];
        assert_eq!(names(ProcessId::client(0)), [&first[..], &["killed"]].concat(), "{history}");
        let second = names(ProcessId::Client { number: 0, incarnation: 1 });
        assert_eq!(second, [&first[..], &["lost", "missed", "finished"]].concat(), "{history}");
    }
}

/// A run leaves nothing in its process that changes the next one.
#[test]
fn the_same_seed_is_the_same_history_and_another_is_another() {
    let seeds = seeds(2, 10);
    for scenario in some_scenarios() {
        let mut all = BTreeSet::new();
        for seed in seeds.clone() {
            let sim = || Sim::seed(seed).rounds(4).scenario(scenario);
            let (one, other) = (sim().run(), sim().run());
            assert_eq!(
                one.history.to_string(),
                other.history.to_string(),
                "{} {seed}",
                scenario.name()
            );
            assert_eq!(one.stats, other.stats, "{} {seed}", scenario.name());
            all.insert(one.history.to_string());
        }
        assert_eq!(all.len() as u64, seeds.end - seeds.start, "{}", scenario.name());
    }
}

/// Two processes differ in their hash functions, addresses and threads.
#[test]
fn two_processes_see_the_same_histories() {
    let seeds = seeds(5, 125);
    let scenarios: Vec<_> = some_scenarios().map(Scenario::name).collect();
    let timeline = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_zk-sim"));
        command.args(["--scenario", &scenarios.join(","), "--rounds", "4", "--timeline"]);
        command.args(["--seeds", &format!("{}..{}", seeds.start, seeds.end)]);
        let output = command.output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{text}");
        // The summary contains the real time of the run.
        text.lines().filter(|line| !line.contains("seeds/s")).collect::<Vec<_>>().join("\n")
    };
    let (one, other) = std::thread::scope(|scope| {
        let other = scope.spawn(timeline);
        (timeline(), other.join().unwrap())
    });
    let runs = usize::try_from(seeds.end).unwrap() * scenarios.len();
    assert_eq!(one.matches("NO MORE FAULTS").count(), runs);
    assert_eq!(one, other);
}

#[test]
fn a_run_within_a_runtime_is_the_same() {
    let run = || Sim::seed(3).rounds(2).scenario(scenarios::named("mutex").unwrap()).run().history;
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    assert_eq!(runtime.block_on(async { run() }), run());
}

#[test]
fn a_stopped_process_does_nothing_and_then_goes_on() {
    let outcome =
        one_client([fault(500, 1000, FaultAction::PauseClient { client: 0 })]).workload(tick).run();
    assert_eq!(violation(&outcome), "none");
    let ticks = times_of(&outcome.history, "tick");
    assert_eq!(ticks.len(), 20);
    assert!(!ticks.iter().any(|at| (501..1500).contains(at)), "{ticks:?}");
    assert!(ticks.contains(&1500), "the overdue timer fires at the resume: {ticks:?}");
}

#[test]
fn a_killed_process_is_cut_short_and_another_one_starts() {
    for silently in [false, true] {
        let fault = fault(500, 3000, FaultAction::KillClient { client: 0, silently });
        let outcome = one_client([fault])
            .workload(|client| async move {
                let zk = client.connect().await?;
                let created =
                    zk.create(format!("/{}", client.who())).mode(CreateMode::Ephemeral).await;
                client.note(format!("created {}", created?.path));
                spend(secs(1)).await;
                client.note(format!("sees the old one: {}", zk.exists("/c0").await?.is_some()));
                Ok(())
            })
            .run();
        let history = outcome.history.to_string();
        assert_eq!(violation(&outcome), "none", "{history}");
        // The old session is over by that time, even if the servers did not learn of the kill.
        assert!(
            history.contains("created /c0\n") && history.contains("created /c0.1\n"),
            "{history}"
        );
        assert!(history.contains("sees the old one: false"), "{history}");
        let killed = outcome
            .history
            .records()
            .iter()
            .find(|record| record.event == Lifecycle::Killed.into())
            .unwrap();
        assert_eq!((killed.at, killed.who), (Duration::from_millis(500), ProcessId::client(0)));
    }
}

/// Reports the session of the client every 50 ms, for four seconds.
async fn follow_session(client: Client) -> Result<(), Failure> {
    let zk = client.connect().await?;
    let began = Instant::now();
    let mut states = zk.states();
    while began.elapsed() < secs(4) {
        tokio::select! {
            biased;
            status = states.next() => {
                if let Some(status) = status {
                    client.note(format!("{:?}", status.state));
                }
            }
            () = spend(Duration::from_millis(50)) => {}
        }
    }
    Ok(())
}

fn states(faults: impl IntoIterator<Item = Fault>) -> Vec<String> {
    let outcome = one_client(faults).workload(follow_session).run();
    assert_eq!(violation(&outcome), "none", "{}", outcome.history);
    let of = |event: &Event| match event {
        Event::Note { text } if !text.starts_with("session") => Some(text.clone()),
        _ => None,
    };
    outcome.history.records().iter().filter_map(|record| of(&record.event)).collect()
}

#[test]
fn faults_of_network_and_servers_are_what_they_say() {
    let whole = ["Suspended", "Reconnected { same_session: true }"].map(String::from);
    let lost = ["Suspended", "Lost", "Reconnected { same_session: false }"].map(String::from);
    let ends = |states: &[String], with: &[String]| states.ends_with(with);
    for direction in [Direction::Both, Direction::ToServer, Direction::ToClient] {
        let cut =
            |lasts| states([fault(500, lasts, FaultAction::CutClient { client: 0, direction })]);
        assert!(ends(&cut(1000), &whole), "{direction:?}: {:?}", cut(1000));
        assert!(ends(&cut(3000), &lost), "{direction:?}: {:?}", cut(3000));
    }
    let all = |action: fn(usize) -> FaultAction| {
        (0..3).map(move |server| fault(500, 3000, action(server)))
    };
    assert!(ends(&states(all(|server| FaultAction::StopServer { server })), &lost));
    assert!(ends(&states(all(|server| FaultAction::KillServer { server })), &lost));
    assert!(ends(&states(all(|server| FaultAction::IsolateServer { server })), &lost));
    assert!(ends(&states([fault(500, 0, FaultAction::Disconnect { client: 0 })]), &whole));
    assert!(ends(&states([fault(500, 0, FaultAction::ChangeLeader)]), &whole));
    let expired = states([fault(500, 0, FaultAction::Expire { client: 0 })]);
    assert!(ends(&expired, &lost[1..]), "{expired:?}");
    let jumped = states([fault(500, 0, FaultAction::Jump { by: secs(3) })]);
    assert!(ends(&jumped, &lost[1..]), "{jumped:?}");
}

#[test]
fn lost_requests_and_replies_differ_in_what_is_done() {
    let run = |action: FaultAction| {
        let create = |client: Client| async move {
            let zk = client.connect().await?;
            spend(Duration::from_millis(500)).await;
            let created = zk.create("/a").await;
            client.note(if created.is_err_and(|error| error.may_have_applied()) {
                "unknown"
            } else {
                "known"
            });
            client.faults_are_over().await;
            client.note(if zk.exists("/a").await?.is_some() { "there" } else { "not there" });
            Ok(())
        };
        one_client([fault(200, 2000, action)]).workload(create).leaves(["/a"]).run()
    };
    for (action, is_there) in [
        (FaultAction::LoseRequests { client: 0, one_in: 1 }, "not there"),
        (FaultAction::LoseReplies { client: 0, one_in: 1 }, "there"),
    ] {
        let outcome = run(action);
        let noted = |text| times_of(&outcome.history, text).len();
        assert_eq!((noted("unknown"), noted(is_there)), (1, 1), "{}", outcome.history);
    }
}

#[test]
fn what_must_never_be_is_a_violation_without_any_checker() {
    let run = |workload: fn(Client) -> zk_curator_sim::Running| {
        let outcome = one_client([]).workload(workload).run();
        (
            violation(&outcome).to_owned(),
            outcome.violation.map(|violation| violation.broken).unwrap_or_default(),
        )
    };
    assert_eq!(run(|_| Box::pin(async { Ok(()) })).0, "none");
    let (kind, broken) = run(|_| Box::pin(async { panic!("no plan") }));
    assert_eq!((kind.as_str(), broken.as_str()), ("panic", "no plan"));
    let (kind, broken) = run(|client| {
        Box::pin(async move {
            client.spawn(async { panic!("in a task") }).await;
            Ok(())
        })
    });
    assert_eq!((kind.as_str(), broken.as_str()), ("panic", "in a task"));
    let (kind, broken) = run(|_| Box::pin(async { Err("no more".into()) }));
    assert_eq!((kind.as_str(), broken.as_str()), ("workload", "c0 cannot continue: no more"));
    let (kind, broken) = run(|_| Box::pin(std::future::pending()));
    assert_eq!(kind, "liveness");
    assert!(broken.starts_with("c0 not finished"), "{broken}");
    let (kind, _) = run(|_| {
        Box::pin(async {
            loop {
                tokio::task::yield_now().await;
            }
        })
    });
    assert_eq!(kind, "liveness", "time does not pass either");
    let (kind, broken) = run(|client| {
        Box::pin(async move {
            drop(client.spawn(std::future::pending::<()>()));
            Ok(())
        })
    });
    assert_eq!((kind.as_str(), broken.contains("1 of c0")), ("tasks", true), "{broken}");
    let (kind, broken) = run(|client| {
        Box::pin(async move {
            client.connect().await?.create("/forgotten").await?;
            Ok(())
        })
    });
    assert_eq!((kind.as_str(), broken.contains("/forgotten")), ("leftovers", true), "{broken}");
}

#[test]
fn a_future_is_cancelled_where_the_seed_wants() {
    let workload = |client: Client| async move {
        for _ in 0..100 {
            let slept = client.maybe_cancel(spend(Duration::from_millis(10))).await;
            client.note(if slept.is_some() { "slept" } else { "cancelled" });
        }
        Ok(())
    };
    let none = one_client([]).workload(workload).run();
    assert_eq!((none.stats.cancelled, times_of(&none.history, "slept").len()), (0, 100));
    let some =
        one_client([fault(0, 5000, FaultAction::Cancel { one_in: 2 })]).workload(workload).run();
    assert_eq!(some.stats.cancelled, times_of(&some.history, "cancelled").len() as u64);
    assert!((10..60).contains(&some.stats.cancelled), "{}", some.stats.cancelled);
}

#[test]
fn every_kind_of_fault_happens_and_can_be_chosen() {
    let all: BTreeSet<_> = FaultKind::ALL.iter().copied().collect();
    let mut seen = BTreeSet::new();
    for seed in 0..60 {
        if seen == all {
            break;
        }
        let outcome = Sim::seed(seed)
            .clients(2)
            .rounds(10)
            .scenario(scenarios::named("mutex").unwrap())
            .run();
        seen.extend(outcome.stats.faults.into_keys());
    }
    assert_eq!(seen, all);
    let mut seen = BTreeSet::new();
    for seed in 0..5 {
        let only = Faults::of([FaultKind::Lag, FaultKind::Jump]);
        let sim = Sim::seed(seed)
            .clients(2)
            .rounds(10)
            .scenario(scenarios::named("mutex").unwrap())
            .faults(only);
        seen.extend(sim.run().stats.faults.into_keys());
    }
    assert_eq!(seen, BTreeSet::from([FaultKind::Lag, FaultKind::Jump]));
    for kind in FaultKind::ALL {
        assert_eq!(FaultKind::named(kind.name()), Some(*kind));
    }
}

#[test]
fn a_client_closes_in_the_middle_and_begins_again() {
    let workload = |client: Client| async move {
        let zk = client.connect().await?;
        let path = format!("/{}", client.who());
        let node = zk.create(path).mode(CreateMode::Ephemeral).owned().await?;
        let ticking = client.spawn(tick(client.clone()));
        spend(secs(1)).await;
        client.note(format!("closed before: {}", client.has_closed(0)));
        client.note(format!("sees the old one: {}", zk.exists("/c0").await?.is_some()));
        drop(ticking.await);
        Ok(node.delete().await?)
    };
    for late in [false, true] {
        let close = fault(500, 0, FaultAction::Close { client: 0, late });
        let outcome = one_client([close]).workload(workload).run();
        let history = outcome.history.to_string();
        assert_eq!(violation(&outcome), "none", "{history}");
        assert!(history.contains("c0.1   sees the old one: false"), "{history}");
        assert!(history.contains("c0.1   closed before: true"), "{history}");
        // The tasks of the first life end with it.
        let ticks =
            outcome.history.records().iter().filter(|record| record.who == ProcessId::client(0));
        assert!(ticks.clone().all(|record| record.at <= Duration::from_millis(600)), "{history}");
        assert_eq!(times_of(&outcome.history, "tick").len(), 20 + 5, "{history}");
    }
}

#[test]
fn some_seeds_have_a_crowd_by_default() {
    async fn arrive(client: Client) -> Result<(), Failure> {
        while client.next_round().is_some() {
            client.note("a round");
        }
        Ok(())
    }
    let of = |seed| Sim::seed(seed).rounds(3).faults(Faults::none()).workload(arrive).crowd();
    let rounds = |sim: Sim| times_of(&sim.run().history, "a round").len();
    let crowd = (0..1000).find(|seed| rounds(of(*seed)) == 100).unwrap();
    assert_eq!(rounds(of(crowd).clients(5)), 15);
    assert_eq!(of(crowd).arguments(), format!("--seed {crowd} --clients 50 --rounds 2"));
    assert_eq!((0..crowd).find(|seed| rounds(of(*seed)) != 15), None);
}

#[test]
fn clients_of_different_settings_share_their_nodes() {
    let workload = |client: Client| async move {
        let zk = client.connect().await?;
        let path = format!("/shared/{}", client.number());
        zk.create(path).data("data").creating_parents_as_containers().idempotent().await?;
        while zk.children("/shared").await?.len() < 5 {
            spend(Duration::from_millis(50)).await;
        }
        for name in zk.children("/shared").await? {
            assert_eq!(zk.get_data(format!("/shared/{name}")).await?, "data");
        }
        Ok(())
    };
    let mut all = BTreeSet::new();
    for seed in 0..60 {
        let sim = Sim::seed(seed)
            .faults(Faults::none())
            .workload(workload)
            .leaves(["/shared", "/shared/*"]);
        let outcome = sim.run();
        assert_eq!(
            violation(&outcome),
            "none",
            "{seed}: {:?}\n{}",
            outcome.settings,
            outcome.history
        );
        all.extend(outcome.settings.iter().map(|(_, setting)| {
            let text = format!("{setting:?}");
            text.split([' ', '(']).next().map(str::to_owned)
        }));
    }
    assert_eq!(all.len(), 11, "{all:?}");
}

/// The fourth client fails in its third round, in all circumstances.
async fn fail_at_last(client: Client) -> Result<(), Failure> {
    let mut rounds = 0;
    while client.next_round().is_some() {
        rounds += 1;
        spend(Duration::from_millis(10)).await;
        if client.number() == 3 && rounds == 3 {
            return Err("the third round".into());
        }
    }
    Ok(())
}

#[test]
fn what_has_nothing_to_do_with_a_violation_is_left_out() {
    let kinds = [FaultKind::Disconnect, FaultKind::ChangeLeader, FaultKind::Lag];
    let of = |seed| {
        Sim::seed(seed).clients(5).rounds(20).faults(Faults::of(kinds)).workload(fail_at_last)
    };
    let seed = (0..20).find(|seed| of(*seed).run().settings.len() > 1).unwrap();
    let sim = of(seed);
    let shrunk = sim.shrink().unwrap();
    assert_eq!(shrunk.outcome.faults.len(), 0);
    let arguments =
        "--keep-faults none --keep-settings none --clients 5 --keep-clients 3 --rounds 3";
    assert_eq!(shrunk.sim.arguments(), format!("--seed {seed} {arguments}"));
}

#[test]
fn failing_run_shrinks_and_its_printed_command_repeats_it() {
    let sim = |args: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_zk-sim")).args(args).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let (code, found) =
        sim(&["--scenario", "mutex_unfenced", "--rounds", "8", "--seeds", "0..500"]);
    assert_eq!(code, Some(1), "{found}");
    let of = |text: &str, what: &str| {
        text.lines().find_map(|line| line.strip_prefix(what).map(str::to_owned)).unwrap_or_default()
    };
    let again = of(&found, "again: cargo run --release -p zk-curator-sim --bin zk-sim -- ");
    let mut args: Vec<_> = again.split_whitespace().collect();
    assert!(args.contains(&"--keep-faults"), "{again}");
    args.push("--no-shrink");
    let (code, repeated) = sim(&args);
    let part = |text: &str| {
        let from = text.find("history:").unwrap();
        text[from..text.find("again:").unwrap()].to_owned()
    };
    assert_eq!((code, part(&repeated)), (Some(1), part(&found)));
    // Two clients are enough: a holder that is stopped for longer than its session, and the next
    // holder.
    let faults = found.lines().filter(|line| line.starts_with("  [")).count();
    assert!(faults <= 2, "{found}");
    assert!(of(&found, "violation: ").contains("accepted a use with token"), "{found}");
}

#[test]
fn scenarios_can_be_left_out() {
    let args =
        ["--without", "mutex", "--scenario", "mutex,handover", "--seeds", "0..1", "--rounds", "1"];
    let output = Command::new(env!("CARGO_BIN_EXE_zk-sim")).args(args).output().unwrap();
    let output = String::from_utf8(output.stdout).unwrap();
    assert!(
        output.contains("handover: seeds 0..1") && !output.contains("mutex: seeds"),
        "{output}"
    );
}

#[test]
fn wrong_options_are_reported() {
    let sim = |args: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_zk-sim")).args(args).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    for (args, what) in [
        (&["--scenario", "no-such"][..], "there is no scenario \"no-such\""),
        (&["--without", "no-such"], "there is no scenario \"no-such\""),
        (&["--settings", "some"], "\"some\" is neither"),
        (&["--faults", "lag,rain"], "there is no fault \"rain\""),
        (&["--seeds", "5"], "\"5\" is no range"),
        (&["--clients", "0"], "0 is not between 1 and 1000"),
        (&["--jobs", "0"], "\"0\""),
        (&["--rounds"], "--rounds"),
        (&["--what"], "--what"),
    ] {
        let (code, error) = sim(args);
        assert_eq!(code, Some(2), "{args:?}");
        assert!(error.contains(what), "{args:?}: {error}");
    }
}
