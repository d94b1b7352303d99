//! Chaos finds exactly the planted bugs: faulty workloads run next to sound ones on an ensemble of
//! Apache ZooKeeper.
//!
//! The clients are processes of this program, so it has a `main` of its own.

use std::process::ExitCode;
use std::time::Duration;

use zk_curator::observe::{Attempt, HoldMode};
use zk_curator::{CreateMode, ErrorKind, FencingToken};
use zk_curator_real::chaos::{Chaos, Found, Report};
use zk_curator_real::{self as real, RealEnsemble};
use zk_curator_recipes::lock::InterProcessMutex;
use zk_curator_sim::checkers::Exclusion;
use zk_curator_sim::{Client, Failure, Sim, scenarios};
use zk_curator_testing::wait::spend;

/// The faulty workloads, each with the violation that must be found.
const PLANTED: [(&str, &str); 5] = [
    ("lock-that-only-looks", "mutual exclusion"),
    ("holder-without-a-session", "mutual exclusion"),
    ("litter", "nothing is left"),
    ("sleeper", "processes"),
    ("quitter", "processes"),
];

/// The sound workloads.
const SOUND: [&str; 2] = ["mutex", "slow"];

/// The number of attempts to find the bugs that depend on the timing.
const ATTEMPTS: u64 = 6;

/// The time that the other clients have to finish.
const PATIENCE: Duration = Duration::from_secs(25);

fn subjects() -> Vec<(&'static str, Sim)> {
    let mutex = scenarios::named("mutex").expect("a scenario");
    vec![
        ("mutex", Sim::seed(0).scenario(mutex)),
        ("lock-that-only-looks", Sim::seed(0).workload(only_looks).checker(Exclusion::mutual())),
        (
            "holder-without-a-session",
            Sim::seed(0).workload(without_a_session).checker(Exclusion::mutual()),
        ),
        ("litter", Sim::seed(0).workload(litters)),
        ("sleeper", Sim::seed(0).workload(sleeps)),
        ("quitter", Sim::seed(0).workload(quits)),
        ("slow", Sim::seed(0).workload(takes_its_time).patience_after_faults(PATIENCE * 2)),
    ]
}

fn main() -> ExitCode {
    if let Some(code) = Chaos::of(subjects()).work_if_client() {
        return code;
    }
    // Skips a slow test as libtest does.
    if !std::env::args().any(|argument| argument == "--include-ignored" || argument == "--ignored")
    {
        return ExitCode::SUCCESS;
    }
    if real::runs("chaos_finds_what_is_wrong_and_only_that", RealEnsemble::builder(3).available()) {
        chaos_finds_what_is_wrong_and_only_that();
    }
    ExitCode::SUCCESS
}

#[tokio::main]
async fn chaos_finds_what_is_wrong_and_only_that() {
    let mut missing: Vec<(&str, &str)> = PLANTED.to_vec();
    let mut reports = String::new();
    for seed in 0..ATTEMPTS {
        let is_left = |name: &str| {
            SOUND.contains(&name) || missing.iter().any(|(missing, _)| *missing == name)
        };
        let chaos = Chaos::of(subjects().into_iter().filter(|(name, _)| is_left(name)));
        let chaos = chaos.seed(seed).duration(Duration::from_secs(10)).clients(2);
        let report = chaos.patience(PATIENCE).run(|_| {}).await.expect("a run");
        assert!(report.faults.values().sum::<u64>() > 0, "{report}");
        assert!(report.scenarios["mutex"].achieved.contains_key("acquisitions"), "{report}");
        reports += &told(&report);
        let found = |scenario: &str, checker: &str| {
            let is_it = |found: &Found| {
                found.scenario.as_deref() == Some(scenario)
                    && (checker.is_empty() || found.violation.checker == checker)
            };
            report.found.iter().any(is_it)
        };
        assert!(!SOUND.iter().any(|sound| found(sound, "")), "{reports}");
        missing.retain(|(scenario, checker)| !found(scenario, checker));
        if missing.is_empty() {
            return;
        }
    }
    panic!("{missing:?} were not found\n{reports}");
}

fn told(report: &Report) -> String {
    let mut text = report.to_string();
    for found in &report.found {
        text += &format!("\n{found}{}", found.history);
    }
    text
}

/// Takes a lock when it seems to be free.
async fn only_looks(client: Client) -> Result<(), Failure> {
    let zk = client.connect().await?;
    while client.next_round().is_some() {
        spend(client.moment(Duration::from_millis(5))).await;
        let attempt = Attempt::begin(&client, "lock", HoldMode::Exclusive);
        let Ok(None) = zk.exists("/lock").await else { continue };
        let token = match zk.create("/lock").mode(CreateMode::Ephemeral).await {
            Ok(created) => created.stat.czxid,
            // Another client was as quick. The bug is to ignore that.
            Err(error) if error.kind() == ErrorKind::NodeExists => i64::try_from(client.unique())?,
            Err(_) => continue,
        };
        let held = attempt.acquired(FencingToken::new(token));
        spend(client.moment(Duration::from_millis(50))).await;
        held.releasing();
        // The delete may be lost, or the node may belong to another client.
        drop(zk.delete("/lock").await);
    }
    drop(zk.delete("/lock").await);
    Ok(())
}

/// Believes to hold a lock after its session has ended.
async fn without_a_session(client: Client) -> Result<(), Failure> {
    while client.next_round().is_some() {
        let zk = client.connect().await?;
        let attempt = Attempt::begin(&client, "lock", HoldMode::Exclusive);
        let lock = InterProcessMutex::new(&zk, "/lock");
        let Ok(guard) = lock.acquire().await else { continue };
        let _held = attempt.acquired(guard.fencing_token());
        drop(zk.close().await);
        spend(client.session_timeout() * 2).await;
    }
    Ok(())
}

/// Leaves a node behind.
async fn litters(client: Client) -> Result<(), Failure> {
    let zk = client.connect().await?;
    client.faults_are_over().await;
    zk.create(format!("/left-{}", client.number())).await?;
    Ok(())
}

/// Never finishes.
async fn sleeps(client: Client) -> Result<(), Failure> {
    client.connect().await?;
    std::future::pending().await
}

/// Finishes later than other clients may.
async fn takes_its_time(client: Client) -> Result<(), Failure> {
    client.connect().await?;
    client.faults_are_over().await;
    spend(PATIENCE + Duration::from_secs(2)).await;
    Ok(())
}

/// Ends without finishing.
async fn quits(client: Client) -> Result<(), Failure> {
    client.faults_are_over().await;
    std::process::exit(7)
}
