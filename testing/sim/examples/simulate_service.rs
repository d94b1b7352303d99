//! The same service in production and in a simulation, with a careless and a careful leader.
//!
//! * `cargo run --release -p zk-curator-sim --example simulate_service` simulates both: the careless one is found at seed 0.
//! * `… --example simulate_service -- localhost:2181` runs the careful one as a process of production, until it is killed. The node
//!   `/invoices` has to be there.
//!
//! The page `docs/guide/simulating-services.md` explains it.
#![expect(clippy::print_stdout, reason = "an example talks to its terminal")]

#[path = "simulate_service/service.rs"]
mod service;

use service::{Failure, INVOICES, careful, careless};
use zk_curator::CuratorFramework;
use zk_curator::observe::TracingRecorder;
use zk_curator_sim::checkers::{Exclusion, Recovery};
use zk_curator_sim::{Coverage, FaultKind, Faults, Record, Shrunk, Sim};

fn main() -> Result<(), Failure> {
    match std::env::args().nth(1) {
        Some(servers) => produce(&servers),
        None => {
            simulate();
            Ok(())
        }
    }
}

/// A process of production.
fn produce(servers: &str) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let zk = CuratorFramework::builder().connect_string(servers).build()?;
        zk.start().await?;
        careful(zk, TracingRecorder::new()).await
    })
}

/// A run without a service: what belongs to it on the servers, and what it is judged by.
fn sim(seed: u64) -> Sim {
    Sim::seed(seed)
        .nodes([INVOICES])
        .leaves(["/election"])
        .checker(Exclusion::leader())
        .checker(Recovery::of(INVOICES))
}

fn simulate() {
    // A process that stands still, and a network that is cut, make leaders wrong about themselves.
    let faults = Faults::of([FaultKind::PauseClient, FaultKind::CutClient]);
    if let Some(Shrunk { outcome, .. }) = sim(0).service(careless).faults(faults.clone()).shrink() {
        println!("the careless leader, with the faults that it takes:");
        for (_, fault) in &outcome.faults {
            println!("  {fault}");
        }
        let proof = outcome.violation.as_ref().map_or(&[][..], |violation| &violation.records);
        // Most uses are like all the others.
        let is_told =
            |(place, record): &(usize, &Record)| record.event.name() != "used" || proof.contains(place);
        let places = outcome.history.records().iter().enumerate().filter(is_told).map(|(place, _)| place);
        print!("{}", outcome.history.excerpt(&places.collect::<Vec<_>>()));
        if let Some(violation) = &outcome.violation {
            println!("{violation}\n");
        }
    }

    let mut coverage = Coverage::default();
    for seed in 0..200 {
        let outcome = sim(seed).service(careful).faults(faults.clone()).run();
        assert_eq!(outcome.violation, None, "seed {seed}:\n{}", outcome.history);
        coverage.add(&outcome);
    }
    println!("the careful leader, and the faults that hit it:\n{coverage}");
}
