//! What was played.

use std::ops::Range;

use super::plan::FaultPlan;

/// The number of extensions that a unit plays, about.
const EXTENSIONS: usize = 64;

/// A plan that was played, as far as its extensions need it.
#[derive(Debug, Clone)]
pub(super) struct PlayedPlan {
    pub(super) plan: FaultPlan,
    /// The number of its extensions.
    pub(super) extensions: u64,
}

impl PlayedPlan {
    /// Returns the parts of the work to extend the plan: threads share them. One extension of this
    /// many is played.
    pub(super) fn units(&self, one_of: u64) -> impl Iterator<Item = (&FaultPlan, Range<usize>)> {
        let all = self.extensions as usize;
        let length = EXTENSIONS.saturating_mul(one_of as usize);
        let part = move |from: usize| (&self.plan, from..all.min(from.saturating_add(length)));
        (0..all).step_by(length).map(part)
    }
}

/// Extensions of one plan.
#[derive(Debug, Clone, Default)]
pub(super) struct ExplorationUnit {
    pub(super) runs: u64,
    pub(super) violations: u64,
    pub(super) played: Vec<PlayedPlan>,
    /// The traces of the runs.
    pub(super) traces: Vec<u64>,
}
