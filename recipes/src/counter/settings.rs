use std::time::Duration;

use super::batch::BatchRules;
use super::site::CounterSite;

/// The settings of a counter.
#[derive(Debug)]
pub(super) struct CounterSettings {
    pub(super) site: CounterSite,
    pub(super) rules: BatchRules,
    /// The time for which the records of operations that are done once are kept.
    pub(super) keep: Duration,
}
