//! `--exhaust`: plays every set of faults of a scenario.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use zk_curator_sim::{Exhaustion, Explored, Flaw, Scenario, Sim};

use crate::options::{Exhaust, Options};

/// Plays all runs of a scenario, and prints what it found. Returns `true` if there was no
/// violation.
pub(crate) fn explore(
    options: &Options,
    size: &Exhaust,
    scenario: &Scenario,
    sim: Sim,
) -> Result<bool, lexopt::Error> {
    let (part, of) = size.part;
    let mut exhaustion = Exhaustion::new(sim)
        .faults(size.faults)
        .jobs(options.jobs)
        .part(part, of)
        .keep_going(options.keep_going);
    if let Some(file) = &size.progress {
        exhaustion = exhaustion.progress(file);
    }
    let began = Instant::now();
    let played = AtomicU64::new(0);
    let level = |faults: usize, runs: u64| {
        let seconds = began.elapsed().as_secs_f64();
        let rate = played.load(Ordering::Relaxed) as f64 / seconds;
        println!(
            "{}: about {runs} runs with {faults} faults; {seconds:.0} s, {rate:.0} runs/s so far",
            scenario.name()
        );
    };
    let is_terminal = std::io::stderr().is_terminal();
    let run = || {
        let runs = played.fetch_add(1, Ordering::Relaxed) + 1;
        if is_terminal && runs.is_multiple_of(64) {
            eprint!("\r{}: {runs} runs", scenario.name());
        }
    };
    let mut explored = exhaustion.explore(level, run).map_err(|error| error.to_string())?;
    if is_terminal {
        eprint!("\r\x1b[K");
    }
    let flaws = std::mem::take(&mut explored.flaws);
    let violations = flaws.len();
    for flaw in flaws {
        let flaw = if options.shrink { exhaustion.shrink(flaw) } else { flaw };
        explain(options, scenario, &flaw);
    }
    let seconds = began.elapsed().as_secs_f64();
    report(options, scenario, &explored, violations, seconds);
    Ok(violations == 0)
}

fn explain(options: &Options, scenario: &Scenario, flaw: &Flaw) {
    let Flaw { plan, outcome, .. } = flaw;
    let Some(violation) = &outcome.violation else { return };
    println!("VIOLATION of {} with the faults {plan}: {violation}\n", scenario.name());
    for (point, fault) in plan.faults() {
        if let Some(at) = outcome.points.get(*point as usize) {
            println!("  at point {point}, {fault}: {at}");
        }
    }
    println!("\nhistory:\n{}", outcome.history);
    println!("what proves it:\n{}", outcome.history.excerpt(&violation.records));
    println!("violation: {violation}");
    println!("again: {} --plan {plan}\n", options.command_of_seed(scenario));
}

fn report(
    options: &Options,
    scenario: &Scenario,
    explored: &Explored,
    violations: usize,
    seconds: f64,
) {
    let runs: u64 = explored.runs.iter().sum();
    let levels: Vec<_> = explored.runs.iter().map(ToString::to_string).collect();
    println!(
        "{}: seed {}, {}: {violations} violations; {} points, {runs} runs ({}), {} states; {seconds:.1} s, {:.0} runs/s",
        scenario.name(),
        options.seeds.start,
        options.size(),
        explored.points,
        levels.join(" + "),
        explored.states,
        runs as f64 / seconds,
    );
    for line in explored.stats.to_string().lines() {
        println!("  {line}");
    }
}
