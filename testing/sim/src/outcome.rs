//! What came of a run.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::checkers::Violation;
use super::faults::{Fault, FaultKind};
use super::history::{Answer, Event, History, ResourceUse};
use super::options::Setting;

/// What came of a run.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Outcome {
    /// What its clients did and saw.
    pub history: History,
    /// What is wrong, if anything is.
    pub violation: Option<Violation>,
    /// The faults it was to have, each with its number; of a run that was over before, the last ones have not come.
    pub faults: Vec<(usize, Fault)>,
    /// The faults that were injected, in the order in which they began.
    pub injected: Vec<Injected>,
    /// How its clients and servers were set up where that was not by default, each with its number.
    pub settings: Vec<(usize, Setting)>,
    /// What it took.
    pub stats: RunStats,
}

/// A fault of a run, with its places in the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Injected {
    /// Its number: [`Outcome::faults`].
    pub fault: usize,
    /// The place of the record of its begin.
    pub begins: usize,
    /// The place of the record of its end; `None` for what happens at once, and if the run ended before.
    pub ends: Option<usize>,
}

/// What a run took, or several.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunStats {
    /// How many runs.
    pub runs: u64,
    /// How long they were for their clients.
    pub simulated: Duration,
    /// Requests that have reached a server.
    pub requests: u64,
    /// Sessions that were opened or, at another server, taken up.
    pub sessions: u64,
    /// How often a task was polled.
    pub polls: u64,
    /// Faults that were injected, by their kind.
    pub faults: BTreeMap<FaultKind, u64>,
    /// Futures that were dropped before they were ready.
    pub cancelled: u64,
    /// How often something was acquired.
    pub acquired: u64,
    /// How often a resource was used.
    pub used: u64,
    /// How often it refused that.
    pub refused: u64,
    /// How often a shared object was called.
    pub calls: u64,
    /// The number of answers that are unknown.
    pub unknown: u64,
    /// The longest time from the end of the faults until the last client had finished.
    pub longest_wait: Duration,
}

impl RunStats {
    /// Counts what is in a history.
    pub(super) fn count(&mut self, history: &History) {
        let mut over = None;
        for record in history.records() {
            match &record.event {
                Event::Acquired { .. } => self.acquired += 1,
                Event::Used { outcome: ResourceUse::Refused, .. } => self.refused += 1,
                Event::Used { .. } => self.used += 1,
                Event::Call { .. } => self.calls += 1,
                Event::Return { answer: Answer::Unknown, .. } => self.unknown += 1,
                Event::FaultsOver => over = Some(record.at),
                Event::Finished => {
                    let wait = over.map(|over| record.at.saturating_sub(over));
                    self.longest_wait = self.longest_wait.max(wait.unwrap_or_default());
                }
                _ => {}
            }
        }
    }

    /// Adds those of other runs.
    pub fn add(&mut self, other: &Self) {
        self.runs += other.runs;
        self.simulated += other.simulated;
        self.requests += other.requests;
        self.sessions += other.sessions;
        self.polls += other.polls;
        for (kind, count) in &other.faults {
            *self.faults.entry(*kind).or_default() += count;
        }
        self.cancelled += other.cancelled;
        self.acquired += other.acquired;
        self.used += other.used;
        self.refused += other.refused;
        self.calls += other.calls;
        self.unknown += other.unknown;
        self.longest_wait = self.longest_wait.max(other.longest_wait);
    }
}

impl fmt::Display for RunStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} runs, {:.0} simulated s", self.runs, self.simulated.as_secs_f64())?;
        writeln!(f, "{} requests, {} sessions, {} polls", self.requests, self.sessions, self.polls)?;
        writeln!(
            f,
            "{} acquisitions; {} uses accepted, {} refused; {} futures cancelled",
            self.acquired, self.used, self.refused, self.cancelled
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
