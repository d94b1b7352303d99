//! [`Log`]: committed transactions, in order. A single server applies entries immediately and keeps
//! none.

use std::collections::VecDeque;

use super::entry::Entry;

/// The entries that some member has not applied yet.
#[derive(Debug, Default)]
pub(super) struct Log {
    entries: VecDeque<Kept>,
    /// The number of entries dropped before those.
    forgotten: u64,
}

/// An entry, and the time of its commit on the clock of sessions.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) entry: Entry,
    pub(super) at: u64,
}

impl Log {
    pub(super) fn push(&mut self, entry: Entry, at: u64) {
        self.entries.push_back(Kept { entry, at });
    }

    /// Returns the number of entries, including dropped ones.
    pub(super) fn len(&self) -> u64 {
        self.forgotten + self.entries.len() as u64
    }

    /// Returns the entry after the first `applied` ones.
    pub(super) fn get(&self, applied: u64) -> Option<&Kept> {
        self.entries.get(usize::try_from(applied.checked_sub(self.forgotten)?).ok()?)
    }

    /// Drops the first `applied` entries.
    pub(super) fn forget(&mut self, applied: u64) {
        while self.forgotten < applied && self.entries.pop_front().is_some() {
            self.forgotten += 1;
        }
    }
}
