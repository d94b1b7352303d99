//! The outcome of a run.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::checkers::Violation;
use super::exhaust::{DecisionPoint, PointFault};
use super::faults::{Fault, FaultKind};
use super::history::{Answer, Event, History, Hold, Lifecycle, Shared, UseOutcome};
use super::options::Setting;

/// The outcome of a run.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Outcome {
    /// The events of the clients and of the world.
    pub history: History,
    /// The violation, if there is one.
    pub violation: Option<Violation>,
    /// The scheduled faults, each with its number. If the run ended early, the last ones were not
    /// injected.
    pub faults: Vec<(usize, Fault)>,
    /// The faults that were injected, in the order in which they began.
    pub injected: Vec<Injected>,
    /// The decision points, if the run had a [plan](crate::Sim::plan).
    pub points: Vec<DecisionPoint>,
    /// The first fault of the plan that could not happen: its point was not reached, or is of
    /// another kind.
    pub unplayed: Option<(u32, PointFault)>,
    /// A hash of what the servers wrote, if the run had a plan.
    pub(crate) writes: u64,
    /// The end of the last fault of a plan, or of the time for faults if clients waited for that.
    pub(crate) undisturbed_since: Duration,
    /// The settings of clients and servers that differ from the defaults, each with its number.
    pub settings: Vec<(usize, Setting)>,
    /// The figures of the run.
    pub stats: RunStats,
}

/// A fault of a run, with its places in the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Injected {
    /// The number of the fault: [`Outcome::faults`].
    pub fault: usize,
    /// The place of the record that the fault begins.
    pub begins: usize,
    /// The place of the record that the fault ends. `None` for faults that happen at one moment,
    /// and if the run ended first.
    pub ends: Option<usize>,
}

/// The figures of a run, or the sums of several.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunStats {
    /// The number of runs.
    pub runs: u64,
    /// The simulated time that passed for the clients.
    pub simulated: Duration,
    /// The number of requests that reached a server.
    pub requests: u64,
    /// The number of sessions that were opened, or moved to another server.
    pub sessions: u64,
    /// The number of times that a task was polled.
    pub polls: u64,
    /// The number of injected faults, by their kind.
    pub faults: BTreeMap<FaultKind, u64>,
    /// The number of these faults that have hit a client, by their kind: a request was lost, a
    /// session was ended, a process that had not finished was stopped.
    pub hits: BTreeMap<FaultKind, u64>,
    /// The number of futures that were dropped before they were ready.
    pub cancelled: u64,
    /// The number of times that clients achieved something, by its [name](Event::achievement).
    pub achieved: BTreeMap<&'static str, u64>,
    /// The number of uses that a resource refused.
    pub refused: u64,
    /// The number of calls of shared objects.
    pub calls: u64,
    /// The number of unknown responses.
    pub unknown: u64,
    /// The longest time between the end of the faults and the end of the last client.
    pub longest_wait: Duration,
}

impl RunStats {
    /// Counts the events of a history.
    pub(super) fn count(&mut self, history: &History) {
        let mut over = None;
        for record in history.records() {
            if let Some(what) = record.event.achievement() {
                *self.achieved.entry(what).or_default() += 1;
            }
            match &record.event {
                Event::Hold(Hold::Used { outcome: UseOutcome::Refused, .. }) => self.refused += 1,
                Event::Shared(Shared::Call { .. }) => self.calls += 1,
                Event::Shared(Shared::Return { answer: Answer::Unknown, .. }) => self.unknown += 1,
                Event::FaultsOver => over = Some(record.at),
                Event::Lifecycle(Lifecycle::Finished) => {
                    let wait = over.map(|over| record.at.saturating_sub(over));
                    self.longest_wait = self.longest_wait.max(wait.unwrap_or_default());
                }
                _ => {}
            }
        }
    }

    /// Adds the figures of other runs.
    pub fn add(&mut self, other: &Self) {
        self.runs += other.runs;
        self.simulated += other.simulated;
        self.requests += other.requests;
        self.sessions += other.sessions;
        self.polls += other.polls;
        for (kind, count) in &other.faults {
            *self.faults.entry(*kind).or_default() += count;
        }
        for (kind, count) in &other.hits {
            *self.hits.entry(*kind).or_default() += count;
        }
        self.cancelled += other.cancelled;
        for (what, count) in &other.achieved {
            *self.achieved.entry(what).or_default() += count;
        }
        self.refused += other.refused;
        self.calls += other.calls;
        self.unknown += other.unknown;
        self.longest_wait = self.longest_wait.max(other.longest_wait);
    }
}

/// The numbers of achievements, in one line.
#[derive(Debug)]
#[expect(clippy::exhaustive_structs, reason = "a way to print")]
pub struct Achieved<'a>(pub &'a BTreeMap<&'static str, u64>);

impl fmt::Display for Achieved<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("nothing");
        }
        for (number, (what, count)) in self.0.iter().enumerate() {
            let comma = if number > 0 { ", " } else { "" };
            write!(f, "{comma}{count} {what}")?;
        }
        Ok(())
    }
}

impl fmt::Display for RunStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} runs, {:.0} simulated s", self.runs, self.simulated.as_secs_f64())?;
        writeln!(
            f,
            "{} requests, {} sessions, {} polls",
            self.requests, self.sessions, self.polls
        )?;
        writeln!(
            f,
            "achieved: {}; {} uses refused; {} futures cancelled",
            Achieved(&self.achieved),
            self.refused,
            self.cancelled
        )?;
        if self.calls > 0 {
            writeln!(f, "{} calls, {} with an unknown answer", self.calls, self.unknown)?;
        }
        writeln!(f, "longest wait after the last fault: {:.3} s", self.longest_wait.as_secs_f64())?;
        write!(f, "faults:")?;
        for (kind, count) in &self.faults {
            write!(f, " {kind} {count}")?;
        }
        Ok(())
    }
}
