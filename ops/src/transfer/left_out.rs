//! Nodes that a backup leaves out on purpose.

use std::fmt;

/// A rule for the nodes that are left out, each with everything below it.
#[derive(Clone, Copy, Default)]
pub(crate) struct LeftOut<'a>(Option<&'a (dyn Fn(&str) -> bool + Sync)>);

impl<'a> LeftOut<'a> {
    pub(crate) const fn by(rule: &'a (dyn Fn(&str) -> bool + Sync)) -> Self {
        Self(Some(rule))
    }

    /// Returns `true` if the node at a path is left out.
    pub(crate) fn has(self, path: &str) -> bool {
        self.0.is_some_and(|rule| rule(path))
    }
}

impl fmt::Debug for LeftOut<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeftOut").finish_non_exhaustive()
    }
}
