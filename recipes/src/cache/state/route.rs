//! Ways through the tree.

use super::need::Cause;

/// The reason why everything is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RouteReason {
    /// Changes may have been missed. No checkpoint is reached before its end.
    Missed,
    /// An audit: the current state is not in doubt.
    Audit,
    /// A caller has requested it.
    Refresh,
}

/// The way through the tree.
#[derive(Debug)]
pub(crate) struct Tour {
    pub(crate) why: RouteReason,
    pub(crate) cause: Cause,
    pub(crate) top: String,
    /// The last place that was visited. It may no longer exist.
    pub(crate) last: Option<String>,
}
