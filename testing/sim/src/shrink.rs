//! Shrinking: finds a small run that still fails.

use super::outcome::Outcome;
use super::sim::Sim;

/// The maximum number of runs of one search.
const MOST_RUNS: usize = 400;

/// A failing run, and the figures of the search for it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Shrunk {
    /// The failing run, with fewer faults, settings, clients and rounds.
    pub sim: Sim,
    /// The outcome of that run: a violation of the same kind as at first.
    pub outcome: Outcome,
    /// The number of runs that the search took.
    pub runs: usize,
}

impl Sim {
    /// Removes from a failing run what does not contribute to the failure: faults, settings,
    /// clients, rounds. The result still fails [in the same way](super::Violation::checker), and
    /// does so each time it is run. Returns `None` if the run does not fail. Takes at most a few
    /// hundred runs.
    #[must_use]
    pub fn shrink(&self) -> Option<Shrunk> {
        let outcome = self.run();
        let checker = outcome.violation.as_ref()?.checker;
        let mut search = Search { checker, best: Shrunk { sim: self.clone(), outcome, runs: 1 } };
        // Each step may allow another one to remove more.
        loop {
            let size = search.size();
            search.faults();
            search.settings();
            search.clients();
            search.rounds();
            if search.size() == size || search.best.runs >= MOST_RUNS {
                return Some(search.best);
            }
        }
    }

    /// Returns the arguments of `zk-sim` that repeat this run, without the scenario and the kinds
    /// of faults.
    #[must_use]
    pub fn arguments(&self) -> String {
        let list = |numbers: Vec<String>| {
            if numbers.is_empty() { "none".to_owned() } else { numbers.join(",") }
        };
        let mut arguments = format!("--seed {}", self.seed);
        if let Some(kept) = &self.kept_faults {
            arguments +=
                &format!(" --keep-faults {}", list(kept.iter().map(ToString::to_string).collect()));
        }
        if !self.has_settings {
            arguments += " --settings none";
        } else if let Some(kept) = &self.kept_settings {
            arguments += &format!(
                " --keep-settings {}",
                list(kept.iter().map(ToString::to_string).collect())
            );
        }
        arguments += &format!(" --clients {}", self.all_clients());
        if let Some(kept) = &self.kept_clients {
            arguments += &format!(
                " --keep-clients {}",
                list(kept.iter().map(ToString::to_string).collect())
            );
        }
        arguments + &format!(" --rounds {}", self.all_rounds())
    }
}

struct Search {
    checker: &'static str,
    best: Shrunk,
}

impl Search {
    /// Keeps a run as the best one if it fails in the same way.
    fn accepts(&mut self, sim: Sim) -> bool {
        if self.best.runs >= MOST_RUNS {
            return false;
        }
        self.best.runs += 1;
        let outcome = sim.run();
        let fails =
            outcome.violation.as_ref().is_some_and(|violation| violation.checker == self.checker);
        if fails {
            self.best = Shrunk { sim, outcome, runs: self.best.runs };
        }
        fails
    }

    fn size(&self) -> (usize, usize, usize, u32) {
        let Shrunk { sim, outcome, .. } = &self.best;
        (outcome.faults.len(), outcome.settings.len(), sim.numbers().count(), sim.all_rounds())
    }

    /// Removes settings one by one, because there are few.
    fn settings(&mut self) {
        for (number, _) in self.best.outcome.settings.clone() {
            let others = self.best.outcome.settings.iter().map(|(other, _)| *other);
            let kept: Vec<_> = others.filter(|other| *other != number).collect();
            let sim = self.best.sim.clone().keep_settings(kept);
            self.accepts(sim);
        }
    }

    /// Removes faults in parts, one part at a time, and then in smaller parts (Zeller's ddmin).
    fn faults(&mut self) {
        let mut parts = 1;
        loop {
            let kept: Vec<usize> =
                self.best.outcome.faults.iter().map(|(number, _)| *number).collect();
            if kept.is_empty() {
                return;
            }
            let parts_now = parts.min(kept.len());
            let length = kept.len().div_ceil(parts_now);
            let without = |part: &[usize]| {
                kept.iter().filter(|number| !part.contains(number)).copied().collect::<Vec<_>>()
            };
            let smaller: Vec<_> = kept.chunks(length).map(without).collect();
            let found = smaller.into_iter().any(|kept| {
                let sim = self.best.sim.clone().keep_faults(kept);
                self.accepts(sim)
            });
            if found {
                parts = parts_now.saturating_sub(1).max(1);
            } else if length == 1 {
                return;
            } else {
                parts = parts_now * 2;
            }
        }
    }

    fn clients(&mut self) {
        for number in self.best.sim.numbers().collect::<Vec<_>>() {
            let others: Vec<_> = self.best.sim.numbers().filter(|other| *other != number).collect();
            if !others.is_empty() {
                let sim = self.best.sim.clone().keep_clients(others);
                self.accepts(sim);
            }
        }
    }

    fn rounds(&mut self) {
        let mut least = 1;
        while least < self.best.sim.all_rounds() {
            let rounds = least + (self.best.sim.all_rounds() - least) / 2;
            let sim = self.best.sim.clone().rounds(rounds);
            if !self.accepts(sim) {
                least = rounds + 1;
            }
        }
    }
}
