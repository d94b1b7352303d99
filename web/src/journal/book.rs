//! The newest changes of a path.

use std::collections::VecDeque;
use std::sync::Arc;

use super::value::JournalValue;

/// The maximum number of changes that are kept.
pub(crate) const MOST_CHANGES: usize = 500;
/// The maximum number of bytes of their values and paths.
const MOST_BYTES: usize = 2 << 20;

/// The kind of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChangeKind {
    Created,
    Changed,
    /// Deleted and created again.
    Replaced,
    Deleted,
    /// Created and deleted, before it could be read.
    Passed,
}

impl ChangeKind {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Changed => "changed",
            Self::Replaced => "replaced",
            Self::Deleted => "deleted",
            Self::Passed => "created and deleted",
        }
    }
}

/// A change that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FoundChange {
    pub(super) kind: ChangeKind,
    pub(super) path: String,
    pub(super) old: JournalValue,
    pub(super) new: JournalValue,
    /// The version of the new data.
    pub(super) version: Option<i32>,
}

/// A change with its number and its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RecordedChange {
    /// The number in this journal, from 1.
    pub(crate) number: u64,
    pub(crate) kind: ChangeKind,
    pub(crate) path: String,
    pub(crate) old: JournalValue,
    pub(crate) new: JournalValue,
    pub(crate) version: Option<i32>,
    /// The time of arrival by the clock of this host, in milliseconds since 1970.
    pub(crate) at: i64,
}

/// The numbers of changes since the journal began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ChangeCounts {
    pub(crate) created: u64,
    pub(crate) changed: u64,
    pub(crate) deleted: u64,
}

/// The newest changes. Older ones are dropped, and counted.
#[derive(Debug, Default)]
pub(super) struct Book {
    changes: VecDeque<Arc<RecordedChange>>,
    bytes: usize,
    last: u64,
    counts: ChangeCounts,
    is_partial: bool,
}

impl Book {
    /// Returns `true` if some nodes were not read, because of the limits or of missing rights.
    pub(super) const fn is_partial(&self) -> bool {
        self.is_partial
    }

    pub(super) const fn set_partial(&mut self, is_partial: bool) {
        self.is_partial = is_partial;
    }

    /// Returns the number of the last change; 0 without one.
    pub(super) const fn last(&self) -> u64 {
        self.last
    }

    pub(super) const fn counts(&self) -> ChangeCounts {
        self.counts
    }

    pub(super) fn add(&mut self, found: FoundChange, at: i64) {
        self.last += 1;
        match found.kind {
            ChangeKind::Created => self.counts.created += 1,
            ChangeKind::Changed => self.counts.changed += 1,
            ChangeKind::Deleted => self.counts.deleted += 1,
            ChangeKind::Replaced | ChangeKind::Passed => {
                self.counts.created += 1;
                self.counts.deleted += 1;
            }
        }
        let FoundChange { kind, path, old, new, version } = found;
        let change = RecordedChange { number: self.last, kind, path, old, new, version, at };
        self.bytes += size_of(&change);
        self.changes.push_back(Arc::new(change));
        while self.changes.len() > MOST_CHANGES || self.bytes > MOST_BYTES {
            let Some(oldest) = self.changes.pop_front() else { break };
            self.bytes -= size_of(&oldest);
        }
    }

    /// Returns the kept changes after a number, the oldest first, and the number of those between
    /// them that were dropped. A number above the last one is of an earlier record of this path, and
    /// counts as 0.
    pub(super) fn after(&self, number: u64) -> (Vec<Arc<RecordedChange>>, u64) {
        let number = if number > self.last { 0 } else { number };
        let kept = self.changes.iter().filter(|change| change.number > number);
        let kept: Vec<_> = kept.cloned().collect();
        let first = kept.first().map_or(self.last + 1, |change| change.number);
        (kept, (first - 1).saturating_sub(number))
    }
}

fn size_of(change: &RecordedChange) -> usize {
    change.path.len() + change.old.bytes() + change.new.bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(length: usize) -> FoundChange {
        FoundChange {
            kind: ChangeKind::Changed,
            path: "/a".to_owned(),
            old: JournalValue::Unknown,
            new: JournalValue::of(&vec![b'x'; length], false),
            version: Some(1),
        }
    }

    #[test]
    fn the_newest_changes_are_kept() {
        let mut book = Book::default();
        for _ in 0..MOST_CHANGES + 7 {
            book.add(found(1), 0);
        }
        let (kept, dropped) = book.after(0);
        assert_eq!((kept.len(), dropped), (MOST_CHANGES, 7));
        assert_eq!(kept[0].number, 8);
        let last = book.last();
        assert_eq!(book.after(last), (Vec::new(), 0));
        assert_eq!(book.after(last - 2).0.len(), 2);
        assert_eq!(book.after(last + 5), book.after(0), "a number of an earlier record");
        assert_eq!(book.counts().changed, last);
    }

    #[test]
    fn values_are_bounded() {
        let mut book = Book::default();
        for _ in 0..400 {
            book.add(found(1 << 20), 0);
        }
        assert!(book.bytes <= MOST_BYTES);
        let (kept, dropped) = book.after(0);
        assert_eq!(u64::try_from(kept.len()).unwrap() + dropped, 400);
        assert!(kept.len() > 100, "{}", kept.len());
    }
}
