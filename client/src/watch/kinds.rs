//! The kinds of watches.

/// The changes that a watch waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum WatchKind {
    /// Set by `getData`, and by `exists` on a node that exists: change and deletion.
    Data = 1,
    /// Set by `exists` on a node that does not exist: creation. The server stores it as a data
    /// watch.
    Exist = 2,
    /// Set by `getChildren`: children and deletion.
    Child = 4,
    /// Set by `addWatch`: all events of the node, repeatedly.
    Persistent = 8,
    /// Set by `addWatch`: all events of the node and below it except `NodeChildrenChanged`.
    Recursive = 16,
}

pub(super) const ALL_KINDS: [WatchKind; 5] = [
    WatchKind::Data,
    WatchKind::Exist,
    WatchKind::Child,
    WatchKind::Persistent,
    WatchKind::Recursive,
];

/// A set of [`WatchKind`]s.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Kinds(u8);

impl Kinds {
    pub(super) const ONE_SHOT_DATA: Self = Self(WatchKind::Data as u8 | WatchKind::Exist as u8);
    pub(super) const CHILD: Self = Self(WatchKind::Child as u8);
    pub(super) const LASTING: Self = Self(WatchKind::Persistent as u8 | WatchKind::Recursive as u8);
    pub(super) const ALL: Self = Self(u8::MAX);
    pub(super) const ONE_SHOT: Self = Self(!Self::LASTING.0);

    pub(super) const fn of(kind: WatchKind) -> Self {
        Self(kind as u8)
    }

    pub(super) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(super) const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    pub(super) const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) const fn contains(self, kind: WatchKind) -> bool {
        self.0 & kind as u8 != 0
    }
}
