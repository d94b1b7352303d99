//! The paths that a cache covers.

use std::fmt;
use std::sync::Arc;

/// The coverage of a path.
type Filter = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// The paths that a cache covers.
#[derive(Clone, Default)]
pub(crate) struct Scope {
    /// The number of levels below the root; `None` for all.
    pub(crate) max_depth: Option<usize>,
    pub(crate) filter: Option<Filter>,
    /// Which of these are kept; `None` for all.
    pub(crate) kept: Option<Filter>,
}

impl fmt::Debug for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope").field("max_depth", &self.max_depth).finish_non_exhaustive()
    }
}
