use std::time::Duration;

use super::batch::Rules;
use super::site::Site;

/// The settings of a counter.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) site: Site,
    pub(super) rules: Rules,
    /// The time for which the records of operations that are done once are kept.
    pub(super) keep: Duration,
}
