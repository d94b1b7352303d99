//! The changes with the values that users may see.

use super::changes::{HistoryRead, WhoRead};
use super::view::{PastChange, PastView, PastWho};

/// The changes that the users of an explorer see.
#[derive(Debug)]
pub(crate) struct ShownHistory {
    /// The newest change first.
    pub(crate) changes: Vec<PastChange>,
    pub(crate) who: Option<PastWho>,
    /// Sentences about what was not read.
    pub(crate) notes: Vec<String>,
    /// `true` if all logs were read for an explanation, and contain no change of the node.
    pub(crate) has_no_change: bool,
}

impl ShownHistory {
    /// Leaves out what is not shown.
    pub(crate) fn of(read: HistoryRead, view: &PastView, with_data: bool) -> Self {
        let notes = read.notes();
        let changes = read.changes.into_iter();
        let changes = changes.filter_map(|change| view.change(change, with_data)).collect();
        let (who, has_no_change) = match read.who {
            WhoRead::Read(explanation) => (view.who(*explanation), false),
            WhoRead::NoChange => (None, true),
            WhoRead::NotRequested | WhoRead::Limited(_) => (None, false),
        };
        Self { changes, who, notes, has_no_change }
    }
}
