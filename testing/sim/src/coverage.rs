//! A table of the faults that were in force between two events of a client.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::Outcome;
use super::faults::{Fault, FaultAction, FaultKind};
use super::history::{Event, Lifecycle, ProcessId};

/// A table over many runs: which kinds of faults were in force between which two events of a
/// client.
///
/// A row is a pair of events that a client recorded directly after each other in one life. A column
/// is a kind of fault. A cell counts the faults that were in force at some moment between the two
/// events: faults of this client, and faults of the servers and the network as a whole. A fault
/// that happens at one moment counts at its record. A fault in force need not have had an effect: a
/// fault that loses one response in ten may lose none in that interval.
///
/// An empty cell is a combination that no run has tried. It is printed as a dot.
///
/// Notes are not events in this table. Neither are the events that the world records for a client:
/// [`Paused`](Lifecycle::Paused), [`Resumed`](Lifecycle::Resumed) and
/// [`Expired`](Lifecycle::Expired). [`Killed`](Lifecycle::Killed) ends a life.
///
/// ```
/// use zk_curator_sim::{Coverage, FaultKind, Sim, scenarios};
///
/// let mut coverage = Coverage::default();
/// for seed in 0..5 {
///     coverage.add(&Sim::seed(seed).rounds(3).scenario(scenarios::named("mutex").unwrap()).run());
/// }
/// assert!(coverage.count("acquiring", "acquired") > 0);
/// println!("{coverage}");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Coverage {
    runs: u64,
    kinds: BTreeSet<FaultKind>,
    rows: BTreeMap<(&'static str, &'static str), Row>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Row {
    /// The number of times that the second event followed directly after the first.
    count: u64,
    hits: BTreeMap<FaultKind, u64>,
}

/// Two consecutive events of a client, with their places in the history.
struct Gap {
    client: u32,
    names: (&'static str, &'static str),
    places: (usize, usize),
}

impl Coverage {
    /// Adds a run.
    pub fn add(&mut self, outcome: &Outcome) {
        self.runs += 1;
        self.kinds.extend(outcome.faults.iter().map(|(_, fault)| fault.action.kind()));
        let faults: BTreeMap<usize, &Fault> =
            outcome.faults.iter().map(|(number, fault)| (*number, fault)).collect();
        let end = outcome.history.records().len();
        let injected = outcome.injected.iter().filter_map(|injected| {
            let action = &faults.get(&injected.fault)?.action;
            let ends =
                if action.is_at_once() { injected.begins } else { injected.ends.unwrap_or(end) };
            Some((action, injected.begins, ends))
        });
        let injected: Vec<_> = injected.collect();
        for Gap { client, names, places: (after, before) } in gaps(outcome) {
            let row = self.rows.entry(names).or_default();
            row.count += 1;
            let hits = injected.iter().filter(|(action, begins, ends)| {
                *begins < before && after < *ends && client_of(action).is_none_or(|of| of == client)
            });
            for (action, ..) in hits {
                *row.hits.entry(action.kind()).or_default() += 1;
            }
        }
    }

    /// Adds the runs of another table.
    pub fn merge(&mut self, other: &Self) {
        self.runs += other.runs;
        self.kinds.extend(&other.kinds);
        for (names, of_other) in &other.rows {
            let row = self.rows.entry(*names).or_default();
            row.count += of_other.count;
            for (kind, hits) in &of_other.hits {
                *row.hits.entry(*kind).or_default() += hits;
            }
        }
    }

    /// Returns the rows: the [names](Event::name) of two events, in alphabetical order.
    pub fn rows(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        self.rows.keys().copied()
    }

    /// Returns the columns: the kinds of faults that the runs could have.
    pub fn kinds(&self) -> impl Iterator<Item = FaultKind> {
        self.kinds.iter().copied()
    }

    /// Returns the number of times that a client recorded `before` directly after `after`.
    #[must_use]
    pub fn count(&self, after: &str, before: &str) -> u64 {
        self.row(after, before).map_or(0, |row| row.count)
    }

    /// Returns the number of faults of a kind that were in force between the two events.
    #[must_use]
    pub fn hits(&self, after: &str, before: &str, kind: FaultKind) -> u64 {
        self.row(after, before).and_then(|row| row.hits.get(&kind)).copied().unwrap_or_default()
    }

    /// Returns the number of empty cells: combinations that no run has tried.
    #[must_use]
    pub fn empty_cells(&self) -> usize {
        let filled: usize = self.rows.values().map(|row| row.hits.len()).sum();
        self.cells().saturating_sub(filled)
    }

    fn cells(&self) -> usize {
        self.rows.len() * self.kinds.len()
    }

    fn row(&self, after: &str, before: &str) -> Option<&Row> {
        self.rows.iter().find(|(names, _)| **names == (after, before)).map(|(_, row)| row)
    }
}

/// Returns the pairs of consecutive events, in the order of the second events.
fn gaps(outcome: &Outcome) -> Vec<Gap> {
    let mut last: BTreeMap<ProcessId, (usize, &'static str)> = BTreeMap::new();
    let mut gaps = Vec::new();
    for (place, record) in outcome.history.records().iter().enumerate() {
        let ProcessId::Client { number: client, .. } = record.who else { continue };
        let is_own = !matches!(
            record.event,
            Event::Lifecycle(Lifecycle::Paused | Lifecycle::Resumed | Lifecycle::Expired)
                | Event::Note { .. }
        );
        if is_own {
            let name = record.event.name();
            if let Some((before, of)) = last.insert(record.who, (place, name)) {
                gaps.push(Gap { client, names: (of, name), places: (before, place) });
            }
            if record.event == Event::Lifecycle(Lifecycle::Killed) {
                last.remove(&record.who);
            }
        }
    }
    gaps
}

/// Returns the client that a fault affects; `None` for faults of servers and of the network.
const fn client_of(action: &FaultAction) -> Option<u32> {
    match action {
        FaultAction::LoseRequests { client, .. }
        | FaultAction::LoseReplies { client, .. }
        | FaultAction::DelayRequests { client, .. }
        | FaultAction::Disconnect { client }
        | FaultAction::CutLink { client, .. }
        | FaultAction::CutClient { client, .. }
        | FaultAction::SlowNetwork { client, .. }
        | FaultAction::Expire { client }
        | FaultAction::PauseClient { client }
        | FaultAction::KillClient { client, .. }
        | FaultAction::Busy { client, .. }
        | FaultAction::Close { client, .. } => Some(*client),
        FaultAction::IsolateServer { .. }
        | FaultAction::KillServer { .. }
        | FaultAction::StopServer { .. }
        | FaultAction::Outage
        | FaultAction::ChangeLeader
        | FaultAction::Lag { .. }
        | FaultAction::Throttle { .. }
        | FaultAction::ReapContainers
        | FaultAction::Jump { .. }
        | FaultAction::Operate { .. }
        | FaultAction::Cancel { .. } => None,
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let label = |(after, before): &(&str, &str)| format!("{after} → {before}");
        let widest =
            self.rows.keys().map(|names| label(names).chars().count()).max().unwrap_or_default();
        let largest =
            self.rows.values().flat_map(|row| row.hits.values()).max().copied().unwrap_or_default();
        let width = largest.to_string().len().max(2) + 1;
        write!(f, "{:widest$} {:>9}", "between", "times")?;
        for letter in self.kinds().zip('a'..).map(|(_, letter)| letter) {
            write!(f, "{letter:>width$}")?;
        }
        writeln!(f)?;
        for (names, row) in &self.rows {
            write!(f, "{:widest$} {:>9}", label(names), row.count)?;
            for kind in &self.kinds {
                match row.hits.get(kind) {
                    Some(hits) => write!(f, "{hits:>width$}")?,
                    None => write!(f, "{:>width$}", ".")?,
                }
            }
            writeln!(f)?;
        }
        let legend: Vec<_> =
            self.kinds().zip('a'..).map(|(kind, letter)| format!("{letter} {kind}")).collect();
        writeln!(f, "{}", legend.join(", "))?;
        write!(f, "{} runs; {} of {} cells are empty", self.runs, self.empty_cells(), self.cells())
    }
}
