//! Runs the clients of the scenarios while faults happen. `--help` lists the options.
#![expect(clippy::print_stderr, clippy::print_stdout, reason = "a program talks to its terminal")]

mod exhaust;
mod options;

use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use options::{Options, Task};
use zk_curator_client::internal::Locked;
use zk_curator_sim::{Coverage, Outcome, RunStats, Scenario, Sim};

/// The number of runs that show everything that a scenario achieves.
const SOME: u64 = 20;
/// The number of runs that show every kind of fault as well.
const MANY: u64 = 200;

const VIOLATION: u8 = 1;
const WRONG_OPTIONS: u8 = 2;

fn main() -> ExitCode {
    let done = options::parse(lexopt::Parser::from_env()).and_then(|task| match task {
        Task::Print(text) => {
            println!("{text}");
            Ok(true)
        }
        Task::Run(options) => run(&options),
    });
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(VIOLATION),
        Err(error) => {
            eprintln!("zk-sim: {error}; see --help");
            ExitCode::from(WRONG_OPTIONS)
        }
    }
}

/// Runs all scenarios with all seeds. Returns `true` if there was no violation.
fn run(options: &Options) -> Result<bool, lexopt::Error> {
    let mut sound = true;
    for scenario in &options.scenarios {
        // Options that are wrong with the first seed are wrong with every seed.
        drop(options.sim(scenario, options.seeds.start)?);
        if let Some(size) = &options.exhaust {
            sound &= exhaust::explore_all(options, size, scenario)?;
            if !sound && !options.keep_going {
                break;
            }
            continue;
        }
        if let Some(plan) = &options.plan {
            sound &= exhaust::replay(options, scenario, plan)?;
            continue;
        }
        let hunt = Hunt::new(options, scenario);
        hunt.go();
        sound &= hunt.report();
        if !sound && !options.keep_going {
            break;
        }
    }
    Ok(sound)
}

/// One scenario with all seeds.
struct Hunt<'a> {
    options: &'a Options,
    scenario: &'static Scenario,
    next: AtomicU64,
    stop: AtomicBool,
    began: Instant,
    found: Locked<Found>,
}

#[derive(Default)]
struct Found {
    stats: RunStats,
    coverage: Coverage,
    violations: Vec<(u64, String)>,
    told: Option<Instant>,
}

impl<'a> Hunt<'a> {
    fn new(options: &'a Options, scenario: &'static Scenario) -> Self {
        Self {
            options,
            scenario,
            next: AtomicU64::new(options.seeds.start),
            stop: AtomicBool::new(false),
            began: Instant::now(),
            found: Locked::default(),
        }
    }

    fn go(&self) {
        std::thread::scope(|scope| {
            for _ in 1..self.options.jobs {
                scope.spawn(|| self.work());
            }
            self.work();
        });
        if std::io::stderr().is_terminal() {
            eprint!("\r\x1b[K");
        }
    }

    fn work(&self) {
        while !self.stop.load(Ordering::Relaxed) {
            let seed = self.next.fetch_add(1, Ordering::Relaxed);
            if seed >= self.options.seeds.end {
                return;
            }
            // The options were valid with the first seed, so they are with this one.
            let Ok(sim) = self.options.sim(self.scenario, seed) else { return };
            let outcome = sim.run();
            if self.options.timeline {
                println!("seed {seed}\n{}", outcome.history);
            }
            self.count(seed, &sim, outcome);
        }
    }

    fn count(&self, seed: u64, sim: &Sim, outcome: Outcome) {
        let mut found = self.found.lock();
        found.stats.add(&outcome.stats);
        if self.options.coverage {
            found.coverage.add(&outcome);
        }
        if let Some(violation) = &outcome.violation {
            if !self.options.keep_going && self.stop.swap(true, Ordering::Relaxed) {
                return;
            }
            found.violations.push((seed, violation.checker.to_owned()));
            drop(found);
            self.explain(seed, sim, outcome);
            return;
        }
        let due = found.told.is_none_or(|told| told.elapsed() > Duration::from_secs(1));
        if due && std::io::stderr().is_terminal() {
            found.told = Some(Instant::now());
            let runs = found.stats.runs;
            let rate = runs as f64 / self.began.elapsed().as_secs_f64();
            let of = self.options.seeds.end - self.options.seeds.start;
            eprint!("\r{}: {runs} of {of} seeds, {rate:.0}/s", self.scenario.name());
        }
    }

    /// Prints a run with a violation, after shrinking it.
    fn explain(&self, seed: u64, sim: &Sim, outcome: Outcome) {
        let shrunk = if self.options.shrink { sim.shrink() } else { None };
        let runs = shrunk.as_ref().map_or(0, |shrunk| shrunk.runs);
        let (sim, outcome) = match shrunk {
            Some(shrunk) => (shrunk.sim, shrunk.outcome),
            None => (sim.clone(), outcome),
        };
        let Some(violation) = &outcome.violation else { return };
        println!("VIOLATION of {} with seed {seed}: {violation}", self.scenario.name());
        println!(
            "\nfaults{}:",
            if runs > 0 {
                format!(" (after {runs} runs to leave out others)")
            } else {
                String::new()
            }
        );
        for (number, fault) in &outcome.faults {
            println!("  [{number}] {fault}");
        }
        if !outcome.settings.is_empty() {
            println!("\nsettings:");
        }
        for (number, setting) in &outcome.settings {
            println!("  [{number}] {setting}");
        }
        println!("\nhistory:\n{}", outcome.history);
        println!("what proves it:\n{}", outcome.history.excerpt(&violation.records));
        println!("violation: {violation}");
        println!("again: {}", self.options.command(self.scenario, &sim));
    }

    /// Prints the summary. Returns `true` if there was no violation.
    fn report(&self) -> bool {
        let found = self.found.lock();
        let seconds = self.began.elapsed().as_secs_f64();
        let Found { stats, coverage, violations, .. } = &*found;
        println!(
            "{}: seeds {}..{}, {}: {} violations; {seconds:.1} s, {:.0} seeds/s, {:.0} simulated s per second",
            self.scenario.name(),
            self.options.seeds.start,
            self.options.seeds.end,
            self.options.size(),
            violations.len(),
            stats.runs as f64 / seconds,
            stats.simulated.as_secs_f64() / seconds,
        );
        for line in stats.to_string().lines() {
            println!("  {line}");
        }
        if self.options.coverage {
            println!("\n{coverage}\n");
        }
        let missing = self.missing(stats);
        if !missing.is_empty() {
            println!("  VACUOUS: {} runs lack {}", stats.runs, missing.join(", "));
        }
        if violations.len() > 1 {
            let seeds: Vec<_> =
                violations.iter().map(|(seed, kind)| format!("{seed} ({kind})")).collect();
            println!("  violations: {}", seeds.join(", "));
        }
        violations.is_empty() && missing.is_empty()
    }

    /// Returns what the runs lack, if they are enough to have it.
    fn missing(&self, stats: &RunStats) -> Vec<String> {
        match self.options.sim(self.scenario, self.options.seeds.start) {
            Ok(sim) if stats.runs >= MANY && !self.options.is_part() => sim.missing(stats),
            Ok(sim) if stats.runs >= SOME && !self.options.is_part() => {
                sim.unachieved(stats).map(str::to_owned).collect()
            }
            _ => Vec::new(),
        }
    }
}
