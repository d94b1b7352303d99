use std::time::Duration;

#[cfg(doc)]
use super::builder::CacheBuilder;

/// The longest default of [`CacheBuilder::resync_spread`].
const LONGEST_SPREAD: Duration = Duration::from_secs(2);
/// The default of [`CacheBuilder::resync_spread`] for each node.
const SPREAD: Duration = Duration::from_micros(20);

/// The settings of a cache.
#[derive(Debug, Clone)]
pub(super) struct Options {
    pub(super) keeps_data: bool,
    pub(super) decompressed: Option<bool>,
    pub(super) spread: Option<Duration>,
    pub(super) server_diff: ServerDiff,
    pub(super) audit_every: Option<Duration>,
    pub(super) parallel: usize,
}

impl Options {
    /// Returns the longest pause before a resync, by the number of nodes.
    pub(super) fn spread(&self, nodes: usize) -> Duration {
        let nodes = u32::try_from(nodes).unwrap_or(u32::MAX);
        self.spread.unwrap_or_else(|| SPREAD.saturating_mul(nodes).min(LONGEST_SPREAD))
    }
}

/// Whether a cache has the server compute the difference after an outage: see [`CacheBuilder::server_diff`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum ServerDiff {
    /// The cache reads everything again.
    Never,
    /// For more than 64 MiB of data, and for more than 5,000 nodes of more than 1 KiB on average.
    #[default]
    Auto,
    /// Always, where the server and the raw client can.
    Always,
}
