//! `--exhaust`: plays every set of faults of a scenario.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use zk_curator_sim::checkers::Violation;
use zk_curator_sim::{Exhaustion, Explored, FaultPlan, Flaw, Scenario, Sim};

use crate::options::{Exhaust, Options};

/// Plays all runs of a scenario, and prints what it found. Returns `true` if there was no
/// violation.
pub(crate) fn explore_all(
    options: &Options,
    size: &Exhaust,
    scenario: &Scenario,
) -> Result<bool, lexopt::Error> {
    let mut seeds = options.seeds.clone();
    if let Some(choose) = size.choose {
        // The options were valid with the first seed, so they are with the others.
        let sim = |seed| options.sim(scenario, seed).unwrap_or_else(|_| Sim::seed(seed));
        let seed = match size.faults {
            0 | 1 => Exhaustion::busiest(sim, 0..choose),
            _ => Exhaustion::smallest(sim, 0..choose),
        };
        let seed = seed.unwrap_or_default();
        seeds = seed..seed + 1;
    }
    let mut sound = true;
    for seed in seeds {
        sound &= explore(options, size, scenario, options.sim(scenario, seed)?)?;
        if !sound && !options.keep_going {
            break;
        }
    }
    Ok(sound)
}

/// Plays all runs of a seed.
fn explore(
    options: &Options,
    size: &Exhaust,
    scenario: &Scenario,
    sim: Sim,
) -> Result<bool, lexopt::Error> {
    let mut name = format!("{} {} --faults {}", scenario.name(), sim.arguments(), size.faults);
    let (part, of) = size.part;
    let mut exhaustion = Exhaustion::new(sim.clone())
        .faults(size.faults)
        .jobs(options.jobs)
        .part(part, of)
        .at_most(size.most.get())
        .keep_going(options.keep_going);
    if let Some(kinds) = &size.kinds {
        exhaustion = exhaustion.kinds(kinds.iter().cloned());
        name += &format!(" --kinds {}", kinds.join(","));
    }
    if let Some(file) = &size.progress {
        exhaustion = exhaustion.progress(file);
    }
    let began = Instant::now();
    let played = AtomicU64::new(0);
    let level = |faults: usize, runs: u64| {
        let seconds = began.elapsed().as_secs_f64();
        let rate = played.load(Ordering::Relaxed) as f64 / seconds;
        println!(
            "{name}: about {runs} runs with {faults} faults; {seconds:.0} s, {rate:.0} runs/s so far"
        );
    };
    let is_terminal = std::io::stderr().is_terminal();
    let run = |plan: &FaultPlan, violation: Option<&Violation>| {
        if let Some(violation) = violation {
            // At once: the exploration may be stopped before its end.
            println!("{}, faults {plan}: {violation}", scenario.name());
        }
        let runs = played.fetch_add(1, Ordering::Relaxed) + 1;
        if is_terminal && runs.is_multiple_of(64) {
            eprint!("\r{}: {runs} runs", scenario.name());
        }
    };
    let mut explored = exhaustion.explore(level, run).map_err(|error| error.to_string())?;
    if is_terminal {
        eprint!("\r\x1b[K");
    }
    let missing = exhaustion.missing(&explored);
    let flaws = std::mem::take(&mut explored.flaws);
    let violations = flaws.len();
    for flaw in flaws {
        let flaw = if options.shrink { exhaustion.shrink(flaw) } else { flaw };
        explain(options, scenario, &sim, &flaw);
    }
    let seconds = began.elapsed().as_secs_f64();
    if explored.part.1 > 1 {
        name += &format!(" --part {}/{}", explored.part.0, explored.part.1);
    }
    report(&name, &explored, violations, seconds);
    if let Some(missing) = &missing {
        println!("  VACUOUS: no run with a fault achieves: {missing}");
    }
    Ok(violations == 0 && missing.is_none())
}

/// Plays one set of faults with each seed. Returns `true` if there was no violation.
pub(crate) fn replay(
    options: &Options,
    scenario: &Scenario,
    plan: &FaultPlan,
) -> Result<bool, lexopt::Error> {
    let mut sound = true;
    for seed in options.seeds.clone() {
        let sim = options.sim(scenario, seed)?;
        if options.timeline {
            println!("seed {seed}\n{}", sim.clone().plan(plan.clone()).run().history);
        }
        let unplayed =
            |(point, fault)| format!("--plan {plan}: {fault} cannot happen at point {point}");
        if let Some(flaw) = Exhaustion::new(sim.clone()).replay(plan).map_err(unplayed)? {
            explain(options, scenario, &sim, &flaw);
            sound = false;
        }
    }
    Ok(sound)
}

fn explain(options: &Options, scenario: &Scenario, sim: &Sim, flaw: &Flaw) {
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
    println!("again: {} --plan {plan}\n", options.command(scenario, sim));
}

fn report(name: &str, explored: &Explored, violations: usize, seconds: f64) {
    let runs: u64 = explored.runs.iter().sum();
    let levels: Vec<_> = explored.runs.iter().map(ToString::to_string).collect();
    println!(
        "{name}: {violations} violations; {} points, {runs} runs ({}), {} states; {seconds:.1} s, {:.0} runs/s",
        explored.points,
        levels.join(" + "),
        explored.states,
        runs as f64 / seconds,
    );
    let kinds: Vec<_> =
        explored.kinds.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
    println!("  last faults: {}", kinds.join(" "));
    println!("  bound on the end after the last fault: {:.3} s", explored.bound.as_secs_f64());
    for line in explored.stats.to_string().lines() {
        println!("  {line}");
    }
}
