//! The table of the faults that were in force between two events.

use std::process::Command;
use std::time::Duration;

use zk_curator::observe::{Attempt, HoldMode};
use zk_curator_sim::{
    Client, Coverage, Failure, Fault, FaultAction, FaultKind, Faults, Outcome, Sim,
};
use zk_curator_testing::wait::spend;

fn fault(at: u64, lasts: u64, action: FaultAction) -> Fault {
    Fault { at: Duration::from_millis(at), lasts: Duration::from_millis(lasts), action }
}

/// Acquires after one second, and loses after two.
async fn hold(client: Client) -> Result<(), Failure> {
    let attempt = Attempt::begin(&client, "orders", HoldMode::Exclusive);
    spend(Duration::from_secs(1)).await;
    drop(attempt);
    client.note("no event");
    spend(Duration::from_secs(1)).await;
    Ok(())
}

fn run(faults: impl IntoIterator<Item = Fault>) -> Outcome {
    let sim = Sim::seed(1).clients(2).settings(false).faults(Faults::list(faults)).workload(hold);
    let outcome = sim.run();
    assert_eq!(outcome.violation, None, "{}", outcome.history);
    outcome
}

fn of(outcomes: &[&Outcome]) -> Coverage {
    let mut coverage = Coverage::default();
    outcomes.iter().for_each(|outcome| coverage.add(outcome));
    coverage
}

#[test]
fn faults_count_where_they_are_in_force() {
    let outcome = run([
        // A fault of one client within the first second.
        fault(500, 100, FaultAction::SlowNetwork { client: 0, most: Duration::from_millis(1) }),
        // A fault of all clients in both seconds.
        fault(600, 1000, FaultAction::StopServer { server: 0 }),
        // A fault at one moment of the second second.
        fault(1500, 0, FaultAction::Disconnect { client: 1 }),
        // A fault after the end of the run.
        fault(5000, 10, FaultAction::Outage),
    ]);
    let coverage = of(&[&outcome]);
    let [first, second] = [("acquiring", "missed"), ("missed", "finished")];
    let hits = |(after, before), kind| coverage.hits(after, before, kind);
    assert_eq!((coverage.count(first.0, first.1), coverage.count(second.0, second.1)), (2, 2));
    assert_eq!((hits(first, FaultKind::SlowNetwork), hits(second, FaultKind::SlowNetwork)), (1, 0));
    assert_eq!((hits(first, FaultKind::StopServer), hits(second, FaultKind::StopServer)), (2, 2));
    assert_eq!((hits(first, FaultKind::Disconnect), hits(second, FaultKind::Disconnect)), (0, 1));
    assert_eq!((hits(first, FaultKind::Outage), hits(second, FaultKind::Outage)), (0, 0));
    assert_eq!(coverage.rows().collect::<Vec<_>>(), [first, second, ("started", "acquiring")]);
    assert_eq!(coverage.kinds().count(), 4, "a fault that came too late has a column");
    assert_eq!(coverage.empty_cells(), 3 * 4 - 4);
}

#[test]
fn killed_client_has_a_row() {
    let outcome = run([fault(500, 10, FaultAction::KillClient { client: 0, silently: false })]);
    let coverage = of(&[&outcome]);
    assert_eq!(coverage.hits("acquiring", "killed", FaultKind::KillClient), 1);
    // The next life is not hit: it begins when the fault is over.
    assert_eq!(coverage.hits("acquiring", "missed", FaultKind::KillClient), 0);
}

#[test]
fn tables_are_merged() {
    let one = run([fault(500, 0, FaultAction::Disconnect { client: 1 })]);
    let other = run([fault(500, 10, FaultAction::StopServer { server: 1 })]);
    let mut merged = of(&[&one]);
    merged.merge(&of(&[&other]));
    assert_eq!(merged, of(&[&one, &other]));
}

#[test]
fn table_shows_empty_cells() {
    let stop = fault(500, 100, FaultAction::StopServer { server: 0 });
    let disconnect = fault(1500, 0, FaultAction::Disconnect { client: 1 });
    let table = [
        "between                 times  a  b",
        "acquiring → missed          2  .  2",
        "missed → finished           2  1  .",
        "started → acquiring         2  .  .",
        "a disconnect, b stop-server",
        "1 runs; 4 of 6 cells are empty",
    ];
    let coverage = of(&[&run([stop, disconnect])]).to_string();
    assert!(coverage.lines().eq(table), "{coverage}");
}

#[test]
fn program_prints_the_table() {
    let args = ["--scenario", "mutex", "--seeds", "0..20", "--rounds", "4", "--coverage"];
    let output = Command::new(env!("CARGO_BIN_EXE_zk-sim")).args(args).output().unwrap();
    let output = String::from_utf8(output.stdout).unwrap();
    assert!(
        output.contains("acquiring → acquired") && output.contains("cells are empty"),
        "{output}"
    );
}
