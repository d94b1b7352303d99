use std::time::Duration;

use super::batch::Rules;
use super::site::Site;

/// The meaning of a counter without a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Missing {
    /// It has its initial value, and the first write creates the node.
    #[default]
    Initial,
    /// Operations fail with [`Error::Missing`](super::Error::Missing), but for
    /// [`initialize`](super::Counter::initialize): for counters that must not begin again when somebody deletes the node.
    Fail,
}

/// The settings of a counter.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) site: Site,
    pub(super) rules: Rules,
    pub(super) missing: Missing,
    /// How long the records of operations are kept that are done once.
    pub(super) keep: Duration,
}
