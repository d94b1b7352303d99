//! The paths that a cache covers.

use std::fmt;
use std::sync::Arc;

/// The coverage of a path.
type CoverageFilter = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// The paths that a cache covers.
#[derive(Clone, Default)]
pub(crate) struct CacheScope {
    /// The number of levels below the root; `None` for all.
    pub(crate) max_depth: Option<usize>,
    pub(crate) filter: Option<CoverageFilter>,
    /// Which of these are kept; `None` for all.
    pub(crate) kept: Option<CoverageFilter>,
}

impl fmt::Debug for CacheScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CacheScope").field("max_depth", &self.max_depth).finish_non_exhaustive()
    }
}
