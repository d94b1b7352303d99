//! The same services in production and in a simulation: a careless and a careful leader, and a
//! queue of mails.
//!
//! * `cargo run --release -p zk-curator-sim --example simulate_service` simulates them. It finds
//!   the careless leader at seed 0.
//! * `… --example simulate_service -- localhost:2181` runs the careful leader as a process of
//!   production, until it is killed. The node `/invoices` has to exist.
//!
//! The page `docs/book/src/testing/simulating-services.md` explains it.
#![expect(clippy::print_stdout, reason = "an example talks to its terminal")]

#[path = "simulate_service/mails.rs"]
mod mails;
#[path = "simulate_service/service.rs"]
mod service;

use mails::MAILS;
use service::{Failure, INVOICES, careful, careless};
use zk_curator::CuratorFramework;
use zk_curator::observe::TracingRecorder;
use zk_curator_sim::checkers::{Delivery, Exclusion, Recovery};
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

/// A run without a service: the nodes of the service, and its checkers.
// ANCHOR: sim
fn sim(seed: u64) -> Sim {
    Sim::seed(seed)
        .nodes([INVOICES])
        .leaves(["/election"])
        .checker(Exclusion::leader())
        .checker(Recovery::of(INVOICES))
}
// ANCHOR_END: sim

fn simulate() {
    // While its process is stopped, or its network is cut, a leader may not notice its loss.
    let faults = Faults::of([FaultKind::PauseClient, FaultKind::CutClient]);
    if let Some(Shrunk { outcome, .. }) = sim(0).service(careless).faults(faults.clone()).shrink() {
        println!("the careless leader, with the faults that lead to the violation:");
        for (_, fault) in &outcome.faults {
            println!("  {fault}");
        }
        let proof = outcome.violation.as_ref().map_or(&[][..], |violation| &violation.records);
        // Leaves out most uses, which are all alike.
        let is_told = |(place, record): &(usize, &Record)| {
            record.event.name() != "used" || proof.contains(place)
        };
        let places =
            outcome.history.records().iter().enumerate().filter(is_told).map(|(place, _)| place);
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

    let mails = |seed| {
        let sim = Sim::seed(seed).leaves(["/mails", "/mails/**"]);
        sim.checker(Delivery::at_least_once()).checker(Recovery::of(MAILS))
    };
    let found = (0..200).find_map(|seed| {
        let violation = mails(seed).stoppable_service(mails::careless).run().violation?;
        Some(format!("the careless queue, seed {seed}: {violation}"))
    });
    println!("{}", found.unwrap_or_default());
    // A run sends hundreds of mails: without optimisation it takes half a second.
    for seed in 0..10 {
        let outcome = mails(seed).stoppable_service(mails::careful).run();
        assert_eq!(outcome.violation, None, "seed {seed}:\n{}", outcome.history);
    }
    println!("the careful queue: nothing found");
}
