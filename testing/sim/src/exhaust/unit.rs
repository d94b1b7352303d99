//! What was played.

use super::plan::FaultPlan;

/// A plan that was played, as far as its extensions need it.
#[derive(Debug, Clone)]
pub(super) struct PlayedPlan {
    pub(super) plan: FaultPlan,
    /// The number of its extensions.
    pub(super) extensions: u64,
}

/// The extensions of one plan.
#[derive(Debug, Clone, Default)]
pub(super) struct ExplorationUnit {
    pub(super) runs: u64,
    pub(super) violations: u64,
    pub(super) played: Vec<PlayedPlan>,
    /// The traces of the runs.
    pub(super) traces: Vec<u64>,
}
