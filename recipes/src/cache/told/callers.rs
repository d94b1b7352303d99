//! The callers that wait for the task of a cache.

/// Waits for a transaction that the contents are not older than.
pub(crate) trait Caller {
    /// Returns `true` if the caller no longer waits.
    fn has_given_up(&self) -> bool;
}

/// A caller that waits until a node and everything below it was read again.
#[derive(Debug)]
pub(crate) struct WaitingRefresh<C> {
    pub(crate) path: String,
    pub(crate) caller: C,
}

impl<C: Caller> Caller for WaitingRefresh<C> {
    fn has_given_up(&self) -> bool {
        self.caller.has_given_up()
    }
}

/// The requests that the task has not taken yet.
#[derive(Debug)]
pub(crate) struct Questions<C> {
    /// `true` if the contents may be newer than the published transaction.
    pub(crate) check: bool,
    pub(crate) syncs: Vec<C>,
    pub(crate) refreshes: Vec<WaitingRefresh<C>>,
}

impl<C> Default for Questions<C> {
    fn default() -> Self {
        Self { check: false, syncs: Vec::new(), refreshes: Vec::new() }
    }
}

/// Adds a caller. Callers that have given up are dropped before their number doubles.
pub(crate) fn push<C: Caller>(callers: &mut Vec<C>, caller: C) {
    if callers.len() == callers.capacity() {
        callers.retain(|caller| !caller.has_given_up());
    }
    callers.push(caller);
}
