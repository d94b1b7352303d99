//! Reads, their causes, and the time since which they are needed.

use std::collections::BTreeMap;

use zk_curator::ErrorKind;

use super::node::CachedNode;

/// The kinds of reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ReadKind {
    Data,
    Names,
}

/// A read to perform.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CacheRead {
    pub(crate) id: u64,
    pub(crate) path: Box<str>,
    pub(crate) what: ReadKind,
}

/// The response to a [`CacheRead`].
#[derive(Debug)]
pub(crate) enum CacheReadAnswer {
    Data(CachedNode),
    Names(Vec<String>),
    Missing,
    /// A permanent error of this node.
    Failed(ErrorKind),
}

/// An audit: no checkpoint needs it.
pub(super) const AUDIT: u64 = u64::MAX;

/// The cause of a read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cause {
    /// The number of checkpoints before it, or [`AUDIT`].
    pub(super) since: u64,
    /// `true` if the children may have changed without an event.
    pub(crate) sweeps: bool,
}

impl Cause {
    /// Returns the same cause, but the children may have changed without an event.
    pub(crate) const fn sweeping(self) -> Self {
        Self { sweeps: true, ..self }
    }

    /// Returns the same cause for every checkpoint that was not reached yet.
    pub(crate) const fn overdue(self) -> Self {
        Self { since: 0, ..self }
    }

    /// Returns the same cause; an audit has found a difference.
    pub(crate) const fn in_doubt(self) -> Self {
        if self.since == AUDIT { self.overdue() } else { self }
    }
}

/// The part of a response that the state of the cache needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AnsweredRead {
    /// The cause of the read, which reads that the response requires inherit.
    pub(crate) cause: Cause,
    /// The transaction of the last deletion reported during the read.
    pub(crate) deleted: Option<i64>,
    /// `true` if it is read again.
    pub(crate) again: bool,
}

/// The need for a read. Each number counts the checkpoints before the read was needed, or is
/// [`AUDIT`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Need {
    #[default]
    Idle,
    Wanted(u64),
    Reading {
        id: u64,
        since: u64,
        /// The start of the need for another read, if the node has changed during this one.
        again: Option<u64>,
    },
}

impl Need {
    pub(super) fn since(self) -> Option<u64> {
        match self {
            Self::Idle => None,
            Self::Wanted(since) => Some(since),
            Self::Reading { since, again, .. } => {
                Some(again.map_or(since, |again| again.min(since)))
            }
        }
    }

    /// Returns `true` if more than an audit needs it.
    pub(super) fn is_open(self) -> bool {
        self.since().is_some_and(|since| since < AUDIT)
    }

    /// Notes that the read is needed for this cause, too; a read in flight does not count.
    pub(super) fn and(self, since: u64) -> Self {
        match self {
            Self::Idle => Self::Wanted(since),
            Self::Wanted(earlier) => Self::Wanted(earlier.min(since)),
            Self::Reading { id, since: earlier, again } => {
                let again = again.map_or(since, |again| again.min(since));
                Self::Reading { id, since: earlier, again: Some(again) }
            }
        }
    }

    /// Notes that a read that is already wanted was needed earlier.
    pub(super) fn already(self, earlier: u64) -> Self {
        match self {
            Self::Idle => Self::Idle,
            Self::Wanted(since) => Self::Wanted(since.min(earlier)),
            Self::Reading { id, since, again } => {
                Self::Reading { id, since: since.min(earlier), again }
            }
        }
    }

    /// Notes that the read is no longer in flight.
    pub(super) fn unsent(self) -> Self {
        self.since().map_or(Self::Idle, Self::Wanted)
    }
}

/// The number of needed reads, by the time since which they are needed.
#[derive(Debug, Default)]
pub(super) struct OpenReads(BTreeMap<u64, usize>);

impl OpenReads {
    pub(super) fn first(&self) -> Option<u64> {
        self.0.keys().next().copied()
    }

    pub(super) fn change(&mut self, need: &mut Need, change: impl FnOnce(Need) -> Need) {
        let new = change(*need);
        if let Some(since) = new.since() {
            *self.0.entry(since).or_default() += 1;
        }
        if let Some(since) = std::mem::replace(need, new).since()
            && let Some(count) = self.0.get_mut(&since)
        {
            *count -= 1;
            if *count == 0 {
                self.0.remove(&since);
            }
        }
    }
}
