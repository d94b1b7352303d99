use std::time::Duration;

/// The longest default of
/// [`CacheBuilder::resync_spread`](crate::cache::CacheBuilder::resync_spread).
const LONGEST_SPREAD: Duration = Duration::from_secs(2);
/// The default of [`CacheBuilder::resync_spread`](crate::cache::CacheBuilder::resync_spread) for
/// each node.
const SPREAD: Duration = Duration::from_micros(20);

/// The default of [`CacheBuilder::most_bytes`](crate::cache::CacheBuilder::most_bytes).
pub(crate) const MOST_BYTES: usize = 8 * 1024 * 1024;

/// The settings of a cache.
#[derive(Debug, Clone)]
pub(crate) struct CacheOptions {
    pub(crate) keeps_data: bool,
    pub(crate) decompressed: Option<bool>,
    pub(crate) spread: Option<Duration>,
    pub(crate) server_diff: ServerDiffMode,
    pub(crate) audit_every: Option<Duration>,
    pub(crate) parallel: usize,
    pub(crate) most_bytes: usize,
}

impl CacheOptions {
    /// Returns the longest pause before a resync, by the number of nodes.
    pub(crate) fn spread(&self, nodes: usize) -> Duration {
        let nodes = u32::try_from(nodes).unwrap_or(u32::MAX);
        self.spread.unwrap_or_else(|| SPREAD.saturating_mul(nodes).min(LONGEST_SPREAD))
    }
}

/// Decides if a cache lets the server compute the difference after an outage: see
/// [`CacheBuilder::server_diff`](crate::cache::CacheBuilder::server_diff).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum ServerDiffMode {
    /// The cache reads everything again.
    Never,
    /// For more than 64 MiB of data, and for more than 5,000 nodes of more than 1 KiB on average.
    #[default]
    Auto,
    /// Always, if the server and the raw client can do it.
    Always,
}
