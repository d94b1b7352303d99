/// The state of the watch on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum WatchState {
    #[default]
    Unwatched,
    Armed,
    /// The node has changed since it was read.
    Fired,
}

impl WatchState {
    /// Starts afresh: what has changed will be read again.
    pub(super) fn forget_fired(&mut self) {
        if *self == Self::Fired {
            *self = Self::Unwatched;
        }
    }

    /// Takes note of the event, if one is waited for.
    pub(super) fn fire(&mut self) {
        if *self == Self::Armed {
            *self = Self::Fired;
        }
    }
}
