//! The progress of long operations.

use std::fmt;

/// Receives the numbers of nodes that an operation has done since the last call.
///
/// ```
/// use std::sync::atomic::{AtomicUsize, Ordering};
///
/// use zk_curator_ops::Progress;
///
/// let done = AtomicUsize::new(0);
/// let count = |nodes: usize| {
///     done.fetch_add(nodes, Ordering::Relaxed);
/// };
/// let progress = Progress::new(&count);
/// # let _ = progress;
/// ```
#[derive(Clone, Copy, Default)]
pub struct Progress<'a>(Option<&'a (dyn Fn(usize) + Sync)>);

impl<'a> Progress<'a> {
    /// Passes the numbers to a function, which should return soon: the operation waits for it.
    #[must_use]
    pub const fn new(with: &'a (dyn Fn(usize) + Sync)) -> Self {
        Self(Some(with))
    }

    /// Ignores the numbers.
    #[must_use]
    pub const fn none() -> Self {
        Self(None)
    }

    /// Notes that this many more nodes are done.
    pub(crate) fn add(self, nodes: usize) {
        if let Some(with) = self.0 {
            with(nodes);
        }
    }
}

impl fmt::Debug for Progress<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Progress").finish_non_exhaustive()
    }
}
