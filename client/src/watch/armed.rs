//! The watches that a server has armed for one path, as servers before 3.9 store them: one mode in
//! each of two tables, which the last added watch replaces (ZOOKEEPER-4466). Later servers may have
//! more, never less.

use super::kinds::{Kinds, WatchKind};

/// The mode of a watch on the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) enum ArmedMode {
    #[default]
    None,
    OneShot,
    Persistent,
    Recursive,
}

/// The watches of one path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Tables {
    /// Creation, deletion and data. Each mode reports everything that the lower modes report.
    pub(super) data: ArmedMode,
    /// Children. A recursive watch does not report these.
    pub(super) child: ArmedMode,
}

/// The form in which a request for a watch is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum AskedWatch {
    #[default]
    AsIs,
    /// Without the watch flag, because a persistent watch on the same path reports the changes.
    WithoutWatch,
    /// As a recursive watch, because a persistent one would replace the existing recursive one.
    Recursive,
}

impl Tables {
    pub(super) const fn persistent(mode: ArmedMode) -> Self {
        Self { data: mode, child: mode }
    }

    pub(super) const fn has_persistent(self) -> bool {
        matches!(self.data, ArmedMode::Persistent | ArmedMode::Recursive)
            || matches!(self.child, ArmedMode::Persistent | ArmedMode::Recursive)
    }

    pub(super) fn is_empty(self) -> bool {
        self == Self::default()
    }

    /// Returns the tables that these watches need.
    pub(super) const fn needed_by(wanted: Kinds) -> Self {
        let (persistent, recursive) =
            (wanted.contains(WatchKind::Persistent), wanted.contains(WatchKind::Recursive));
        let data = if recursive {
            ArmedMode::Recursive
        } else if persistent {
            ArmedMode::Persistent
        } else if wanted.contains(WatchKind::Data) || wanted.contains(WatchKind::Exist) {
            ArmedMode::OneShot
        } else {
            ArmedMode::None
        };
        // Next to a recursive watch a path cannot have a persistent watch for its children: a
        // one-shot watch is re-armed again and again.
        let child = if persistent && !recursive {
            ArmedMode::Persistent
        } else if persistent || wanted.contains(WatchKind::Child) {
            ArmedMode::OneShot
        } else {
            ArmedMode::None
        };
        Self { data, child }
    }

    pub(super) fn data_is_enough_for(self, needed: Self) -> bool {
        self.data >= needed.data
    }

    pub(super) const fn child_is_enough_for(self, needed: Self) -> bool {
        match needed.child {
            ArmedMode::None => true,
            ArmedMode::OneShot => matches!(self.child, ArmedMode::OneShot | ArmedMode::Persistent),
            ArmedMode::Persistent | ArmedMode::Recursive => {
                matches!(self.child, ArmedMode::Persistent)
            }
        }
    }

    /// Returns `true` if there is a persistent watch that no handle needs.
    pub(super) fn has_surplus(self, needed: Self) -> bool {
        let is_recursive = needed.data == ArmedMode::Recursive;
        let has_recursive = self.data == ArmedMode::Recursive || self.child == ArmedMode::Recursive;
        (has_recursive && !is_recursive)
            || (self.data == ArmedMode::Persistent && needed.data != ArmedMode::Persistent)
            || (self.child == ArmedMode::Persistent && needed.child != ArmedMode::Persistent)
    }

    /// Returns the tables after one-shot watches of these kinds have fired, or persistent ones were
    /// removed.
    pub(super) fn after(mut self, gone: Kinds) -> Self {
        let has = |kind| gone.contains(kind);
        let of = |mode: ArmedMode| match mode {
            ArmedMode::None => false,
            ArmedMode::OneShot => has(WatchKind::Data) || has(WatchKind::Exist),
            ArmedMode::Persistent => has(WatchKind::Persistent),
            ArmedMode::Recursive => has(WatchKind::Recursive),
        };
        if of(self.data) {
            self.data = ArmedMode::None;
        }
        if (self.child == ArmedMode::OneShot && has(WatchKind::Child))
            || (self.child != ArmedMode::OneShot && of(self.child))
        {
            self.child = ArmedMode::None;
        }
        self
    }

    /// Returns the form in which to request a watch of this kind while these are armed.
    pub(super) const fn ask(self, kind: WatchKind) -> AskedWatch {
        match kind {
            WatchKind::Data | WatchKind::Exist
                if matches!(self.data, ArmedMode::Persistent | ArmedMode::Recursive) =>
            {
                AskedWatch::WithoutWatch
            }
            WatchKind::Child if matches!(self.child, ArmedMode::Persistent) => {
                AskedWatch::WithoutWatch
            }
            WatchKind::Persistent if matches!(self.data, ArmedMode::Recursive) => {
                AskedWatch::Recursive
            }
            _ => AskedWatch::AsIs,
        }
    }

    /// Returns the tables after that request.
    pub(super) const fn with(self, kind: WatchKind, asked: AskedWatch) -> Self {
        match (asked, kind) {
            (AskedWatch::WithoutWatch, _) => self,
            (AskedWatch::Recursive, _) | (_, WatchKind::Recursive) => {
                Self::persistent(ArmedMode::Recursive)
            }
            (_, WatchKind::Persistent) => Self::persistent(ArmedMode::Persistent),
            (_, WatchKind::Data | WatchKind::Exist) => Self { data: ArmedMode::OneShot, ..self },
            (_, WatchKind::Child) => Self { child: ArmedMode::OneShot, ..self },
        }
    }
}
