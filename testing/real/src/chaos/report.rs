//! The result of a run.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::journal::Entries;
use super::judge;
use super::schedule::Fault;
use super::settings::Chaos;
use zk_curator_sim::checkers::Violation;
use zk_curator_sim::history::{Hold, Lifecycle, ProcessId, UseOutcome};
use zk_curator_sim::{Achieved, Event, History};

const MINUTE: Duration = Duration::from_secs(60);

/// The result of a run.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Report {
    /// The duration of the run.
    pub took: Duration,
    /// The number of rounds, each with a time with faults and a time without.
    pub rounds: u32,
    /// The number of faults, by their kind.
    pub faults: BTreeMap<&'static str, u64>,
    /// The figures of each scenario.
    pub scenarios: BTreeMap<String, RecipeReport>,
    /// The violations.
    pub found: Vec<Found>,
    /// The seeds of the rounds that were not judged, because the servers lost transactions that
    /// they had acknowledged, each with the evidence. ZooKeeper before 3.9.4 can do that
    /// (ZOOKEEPER-4643, 4646, 4785).
    pub void: Vec<(u64, String)>,
    /// What the run lacks although it was long enough: achievements of a scenario, kinds of faults.
    /// Such a run proves little.
    pub missing: Vec<String>,
}

/// The figures of the clients of a scenario.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecipeReport {
    /// The number of records in the histories.
    pub records: u64,
    /// The number of times that clients [achieved](Event::achievement) something, by its name.
    pub achieved: BTreeMap<&'static str, u64>,
    /// The number of times that a client learnt of the loss of a hold.
    pub lost: u64,
    /// The number of refused uses of resources.
    pub refused: u64,
    /// The longest time without an event of any client.
    pub longest_silence: Duration,
    /// The longest time between the end of the faults and the end of the last client.
    pub longest_recovery: Duration,
}

/// A violation.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Found {
    /// The seed of its round.
    pub seed: u64,
    /// The scenario; `None` for a failure of the servers at the end.
    pub scenario: Option<String>,
    /// The violation.
    pub violation: Violation,
    /// The events of the clients of the scenario.
    pub history: History,
}

/// The result of one round.
#[derive(Debug)]
pub(super) struct Round {
    faults: BTreeMap<&'static str, u64>,
    scenarios: Vec<(String, RecipeReport)>,
    violations: Vec<(Option<String>, Violation, History)>,
    lost: Option<String>,
}

impl Round {
    /// Judges a round. `lost` describes how the servers have lost transactions, if they have.
    pub(super) fn judged(chaos: &Chaos, entries: Entries, lost: Option<String>) -> Self {
        let mut scenarios = Vec::new();
        let mut violations = Vec::new();
        for (number, subject) in chaos.subjects.iter().enumerate() {
            let history = judge::history(&entries, number, chaos.session_timeout);
            let told = entries.violations.iter().filter(|(of, _)| *of == Some(number));
            let told = told.map(|(_, violation)| violation.clone());
            let judged = subject
                .sim
                .subject()
                .checkers
                .iter()
                .filter_map(|checker| checker.check(&history).err());
            for violation in told.chain(judged) {
                violations.push((Some(subject.name.clone()), violation, history.clone()));
            }
            scenarios.push((subject.name.clone(), RecipeReport::of(&history)));
        }
        for (_, violation) in entries.violations.iter().filter(|(of, _)| of.is_none()) {
            violations.push((None, violation.clone(), History::new()));
        }
        if lost.is_some() {
            violations.clear();
        }
        Self { faults: entries.faults, scenarios, violations, lost }
    }

    /// Formats the result in one line.
    pub(super) fn summary(&self, seed: u64) -> String {
        let mut all = RecipeReport::default();
        for (_, scenario) in &self.scenarios {
            all.add(scenario);
        }
        let faults: u64 = self.faults.values().sum();
        let achieved: Vec<String> = self
            .scenarios
            .iter()
            .map(|(name, scenario)| format!("{name} {}", scenario.achieved.values().sum::<u64>()))
            .collect();
        let judged = match &self.lost {
            Some(lost) => format!("not judged: {lost}"),
            None => format!("{} violations", self.violations.len()),
        };
        format!(
            "seed {seed}: {faults} faults; achieved: {}; {} lost, {} uses refused; recovered in {:.1?}; {judged}",
            achieved.join(", "),
            all.lost,
            all.refused,
            all.longest_recovery,
        )
    }
}

impl RecipeReport {
    fn of(history: &History) -> Self {
        let mut report = Self { records: history.records().len() as u64, ..Self::default() };
        let (mut last, mut over) = (Duration::ZERO, None);
        for record in history.records() {
            if let Some(what) = record.event.achievement() {
                *report.achieved.entry(what).or_default() += 1;
            }
            match &record.event {
                Event::Hold(Hold::Lost { .. }) => report.lost += 1,
                Event::Hold(Hold::Used { outcome: UseOutcome::Refused, .. }) => {
                    report.refused += 1;
                }
                Event::FaultsOver => over = Some(record.at),
                Event::Lifecycle(Lifecycle::Finished) => {
                    let recovery =
                        over.map(|over| record.at.saturating_sub(over)).unwrap_or_default();
                    report.longest_recovery = report.longest_recovery.max(recovery);
                }
                _ => {}
            }
            let does = !matches!(
                record.event,
                Event::Lifecycle(
                    Lifecycle::Paused | Lifecycle::Resumed | Lifecycle::Killed | Lifecycle::Expired
                ) | Event::Fault { .. }
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
        for (what, count) in &other.achieved {
            *self.achieved.entry(what).or_default() += count;
        }
        self.lost += other.lost;
        self.refused += other.refused;
        self.longest_silence = self.longest_silence.max(other.longest_silence);
        self.longest_recovery = self.longest_recovery.max(other.longest_recovery);
    }
}

impl Report {
    /// Looks for what the run lacks: with every minute of faults, each scenario achieves something,
    /// and in five minutes all kinds of faults occur.
    pub(super) fn judge(&mut self, chaos: &Chaos) {
        if chaos.duration < MINUTE {
            return;
        }
        for subject in &chaos.subjects {
            let achieves = subject.sim.subject().achieves;
            let achieved = self.scenarios.get(&subject.name).map(|report| &report.achieved);
            let has = |what: &&str| achieved.is_some_and(|achieved| achieved.contains_key(*what));
            if !achieves.is_empty() && !achieves.iter().any(has) {
                self.missing.push(format!("{}: {}", subject.name, achieves.join(", ")));
            }
        }
        if chaos.duration >= MINUTE * 5 {
            let kinds = Fault::KINDS.iter().filter(|kind| !self.faults.contains_key(**kind));
            self.missing.extend(kinds.map(|kind| format!("a fault: {kind}")));
        }
    }

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
        self.void.extend(round.lost.map(|lost| (seed, lost)));
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
                "{name}: {}; {} holds lost, {} uses refused; longest silence {:.1} s, longest recovery {:.1} s",
                Achieved(&scenario.achieved),
                scenario.lost,
                scenario.refused,
                scenario.longest_silence.as_secs_f64(),
                scenario.longest_recovery.as_secs_f64()
            )?;
        }
        for (seed, lost) in &self.void {
            writeln!(
                f,
                "seed {seed} is not judged, because the servers have lost transactions: {lost}"
            )?;
        }
        for missing in &self.missing {
            writeln!(f, "VACUOUS: the run lacks {missing}")?;
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
