//! What came of a run.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::journal::Entries;
use super::{Chaos, judge};
use zk_curator_sim::checkers::Violation;
use zk_curator_sim::history::{ProcessId, ResourceUse};
use zk_curator_sim::{Event, History};

/// What came of a run.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Report {
    /// How long it took.
    pub took: Duration,
    /// How often there were faults, and then none.
    pub rounds: u32,
    /// Faults, by their kind.
    pub faults: BTreeMap<&'static str, u64>,
    /// Of each scenario.
    pub scenarios: BTreeMap<String, RecipeReport>,
    /// What is wrong.
    pub found: Vec<Found>,
}

/// What the clients of a scenario have done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecipeReport {
    /// Records in the histories.
    pub records: u64,
    /// What was achieved: acquisitions, items worked off, barriers passed, decisions heard, calls answered.
    pub achieved: u64,
    /// How often something was acquired.
    pub acquired: u64,
    /// How often it was learnt that what was held is lost.
    pub lost: u64,
    /// How often a resource was used.
    pub used: u64,
    /// How often it refused that.
    pub refused: u64,
    /// The longest time in which no client did anything.
    pub longest_silence: Duration,
    /// The longest time from the end of the faults until all clients had finished.
    pub longest_recovery: Duration,
}

/// Something wrong.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Found {
    /// With which seed.
    pub seed: u64,
    /// With which scenario; none for what is wrong with the servers in the end.
    pub scenario: Option<String>,
    /// What.
    pub violation: Violation,
    /// What the clients of the scenario did and saw.
    pub history: History,
}

/// What came of one round.
#[derive(Debug)]
pub(super) struct Round {
    faults: BTreeMap<&'static str, u64>,
    scenarios: Vec<(String, RecipeReport)>,
    violations: Vec<(Option<String>, Violation, History)>,
}

impl Round {
    pub(super) fn judged(chaos: &Chaos, entries: Entries) -> Self {
        let mut scenarios = Vec::new();
        let mut violations = Vec::new();
        for (number, subject) in chaos.subjects.iter().enumerate() {
            let history = judge::history(&entries, number, chaos.session_timeout);
            let told = entries.violations.iter().filter(|(of, _)| *of == Some(number));
            let told = told.map(|(_, violation)| violation.clone());
            let judged =
                subject.sim.subject().checkers.iter().filter_map(|checker| checker.check(&history).err());
            for violation in told.chain(judged) {
                violations.push((Some(subject.name.clone()), violation, history.clone()));
            }
            scenarios.push((subject.name.clone(), RecipeReport::of(&history)));
        }
        for (_, violation) in entries.violations.iter().filter(|(of, _)| of.is_none()) {
            violations.push((None, violation.clone(), History::new()));
        }
        Self { faults: entries.faults, scenarios, violations }
    }

    /// One line.
    pub(super) fn summary(&self, seed: u64) -> String {
        let mut all = RecipeReport::default();
        for (_, scenario) in &self.scenarios {
            all.add(scenario);
        }
        let faults: u64 = self.faults.values().sum();
        let achieved: Vec<String> =
            self.scenarios.iter().map(|(name, scenario)| format!("{name} {}", scenario.achieved)).collect();
        format!(
            "seed {seed}: {faults} faults; achieved: {}; {} lost, {} uses refused; recovered in {:.1?}; {} violations",
            achieved.join(", "),
            all.lost,
            all.refused,
            all.longest_recovery,
            self.violations.len()
        )
    }
}

impl RecipeReport {
    fn of(history: &History) -> Self {
        let mut report = Self { records: history.records().len() as u64, ..Self::default() };
        let (mut last, mut over) = (Duration::ZERO, None);
        for record in history.records() {
            let achieves = matches!(
                record.event,
                Event::Acquired { .. }
                    | Event::Done { .. }
                    | Event::Entered { .. }
                    | Event::Decided { .. }
                    | Event::Return { .. }
                    | Event::Issued { .. }
                    | Event::Counted { .. }
            );
            report.achieved += u64::from(achieves);
            match &record.event {
                Event::Acquired { .. } => report.acquired += 1,
                Event::Lost { .. } => report.lost += 1,
                Event::Used { outcome: ResourceUse::Refused, .. } => report.refused += 1,
                Event::Used { .. } => report.used += 1,
                Event::FaultsOver => over = Some(record.at),
                Event::Finished => {
                    let recovery = over.map(|over| record.at.saturating_sub(over)).unwrap_or_default();
                    report.longest_recovery = report.longest_recovery.max(recovery);
                }
                _ => {}
            }
            let does = !matches!(
                record.event,
                Event::Paused | Event::Resumed | Event::Killed | Event::Expired | Event::Fault { .. }
            );
            if does && record.who != ProcessId::World {
                report.longest_silence = report.longest_silence.max(record.at.saturating_sub(last));
                last = record.at;
            }
        }
        report
    }

    fn add(&mut self, other: &Self) {
        self.records += other.records;
        self.achieved += other.achieved;
        self.acquired += other.acquired;
        self.lost += other.lost;
        self.used += other.used;
        self.refused += other.refused;
        self.longest_silence = self.longest_silence.max(other.longest_silence);
        self.longest_recovery = self.longest_recovery.max(other.longest_recovery);
    }
}

impl Report {
    pub(super) fn add(&mut self, seed: u64, round: Round) {
        self.rounds += 1;
        for (kind, count) in round.faults {
            *self.faults.entry(kind).or_default() += count;
        }
        for (name, scenario) in round.scenarios {
            self.scenarios.entry(name).or_default().add(&scenario);
        }
        for (scenario, violation, history) in round.violations {
            self.found.push(Found { seed, scenario, violation, history });
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} rounds in {:.0} s", self.rounds, self.took.as_secs_f64())?;
        writeln!(f, "{:>8}  faults", self.faults.values().sum::<u64>())?;
        for (kind, count) in &self.faults {
            writeln!(f, "{count:>8}    {kind}")?;
        }
        for (name, scenario) in &self.scenarios {
            writeln!(
                f,
                "{name}: {} achieved; {} acquisitions, {} lost; {} uses accepted, {} refused; longest silence \
                 {:.1} s, longest recovery {:.1} s",
                scenario.achieved,
                scenario.acquired,
                scenario.lost,
                scenario.used,
                scenario.refused,
                scenario.longest_silence.as_secs_f64(),
                scenario.longest_recovery.as_secs_f64()
            )?;
        }
        write!(f, "{} violations", self.found.len())
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scenario = self.scenario.as_deref().unwrap_or("the servers");
        writeln!(f, "seed {}, {scenario}: {}", self.seed, self.violation)?;
        write!(f, "{}", self.history.excerpt(&self.violation.records))
    }
}
