use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::retry::{RetryPolicy, RetryScope};

/// Settings of a handle or a builder that replace those of the framework.
#[derive(Clone, Default)]
pub(crate) struct Call {
    pub(crate) retry: Option<Arc<dyn RetryPolicy>>,
    pub(crate) scope: Option<RetryScope>,
    /// The time that the whole call may take.
    pub(crate) deadline: Option<Duration>,
    /// The only session in which the call may be made.
    pub(crate) session_epoch: Option<u64>,
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").field("deadline", &self.deadline).finish_non_exhaustive()
    }
}
