use std::collections::BTreeSet;

use zk_curator_client::internal::Locked;

/// The one-time warnings of a framework.
#[derive(Debug, Default)]
pub(crate) struct Advice(Locked<BTreeSet<&'static str>>);

impl Advice {
    /// Returns `true` if `is_due` does, but only the first time for this advice. Later calls do not
    /// call it.
    pub(crate) fn is_first(&self, advice: &'static str, is_due: impl FnOnce() -> bool) -> bool {
        let given = || self.0.lock();
        let is_new = !given().contains(advice);
        is_new && is_due() && given().insert(advice)
    }
}
