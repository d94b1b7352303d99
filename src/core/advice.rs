use std::collections::BTreeSet;

use zk_curator_client::internal::Locked;

/// The most nodes that are remembered.
const MOST_NODES: usize = 1_000;

/// The one-time warnings of a framework.
#[derive(Debug, Default)]
pub(crate) struct Advice {
    given: Locked<BTreeSet<&'static str>>,
    /// Nodes that were reported.
    nodes: Locked<BTreeSet<String>>,
}

impl Advice {
    /// Returns `true` if `is_due` does, but only the first time for this advice. Later calls do not
    /// call it.
    pub(crate) fn is_first(&self, advice: &'static str, is_due: impl FnOnce() -> bool) -> bool {
        let given = || self.given.lock();
        let is_new = !given().contains(advice);
        is_new && is_due() && given().insert(advice)
    }

    /// Returns `true` the first time for this node, up to a number of nodes.
    pub(crate) fn is_first_of(&self, path: String) -> bool {
        let mut nodes = self.nodes.lock();
        nodes.len() < MOST_NODES && nodes.insert(path)
    }
}
