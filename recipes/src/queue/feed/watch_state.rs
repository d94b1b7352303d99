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
    /// Resets the state: changes will be read again.
    pub(in crate::queue) fn forget_fired(&mut self) {
        if *self == Self::Fired {
            *self = Self::Unwatched;
        }
    }

    /// Notes the event, if one is expected.
    pub(in crate::queue) fn fire(&mut self) {
        if *self == Self::Armed {
            *self = Self::Fired;
        }
    }
}
