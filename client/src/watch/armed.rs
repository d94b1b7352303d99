//! The watches that a server has armed for one path, as servers before 3.9 store them: one mode in
//! each of two tables, which the last added watch replaces (ZOOKEEPER-4466). Later servers may have
//! more, never less.

use super::kinds::{Kinds, WatchKind};

/// The mode of a watch on the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) enum Mode {
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
    pub(super) data: Mode,
    /// Children. A recursive watch does not report these.
    pub(super) child: Mode,
}

/// The form in which a request for a watch is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Asked {
    #[default]
    AsIs,
    /// Without the watch flag, because a persistent watch on the same path reports the changes.
    WithoutWatch,
    /// As a recursive watch, because a persistent one would replace the existing recursive one.
    Recursive,
}

impl Tables {
    pub(super) const fn persistent(mode: Mode) -> Self {
        Self { data: mode, child: mode }
    }

    pub(super) const fn has_persistent(self) -> bool {
        matches!(self.data, Mode::Persistent | Mode::Recursive)
            || matches!(self.child, Mode::Persistent | Mode::Recursive)
    }

    pub(super) fn is_empty(self) -> bool {
        self == Self::default()
    }

    /// Returns the tables that these watches need.
    pub(super) const fn needed_by(wanted: Kinds) -> Self {
        let (persistent, recursive) =
            (wanted.contains(WatchKind::Persistent), wanted.contains(WatchKind::Recursive));
        let data = if recursive {
            Mode::Recursive
        } else if persistent {
            Mode::Persistent
        } else if wanted.contains(WatchKind::Data) || wanted.contains(WatchKind::Exist) {
            Mode::OneShot
        } else {
            Mode::None
        };
        // Next to a recursive watch a path cannot have a persistent watch for its children: a
        // one-shot watch is re-armed again and again.
        let child = if persistent && !recursive {
            Mode::Persistent
        } else if persistent || wanted.contains(WatchKind::Child) {
            Mode::OneShot
        } else {
            Mode::None
        };
        Self { data, child }
    }

    pub(super) fn data_is_enough_for(self, needed: Self) -> bool {
        self.data >= needed.data
    }

    pub(super) const fn child_is_enough_for(self, needed: Self) -> bool {
        match needed.child {
            Mode::None => true,
            Mode::OneShot => matches!(self.child, Mode::OneShot | Mode::Persistent),
            Mode::Persistent | Mode::Recursive => matches!(self.child, Mode::Persistent),
        }
    }

    /// Returns `true` if there is a persistent watch that no handle needs.
    pub(super) fn has_surplus(self, needed: Self) -> bool {
        let is_recursive = needed.data == Mode::Recursive;
        let has_recursive = self.data == Mode::Recursive || self.child == Mode::Recursive;
        (has_recursive && !is_recursive)
            || (self.data == Mode::Persistent && needed.data != Mode::Persistent)
            || (self.child == Mode::Persistent && needed.child != Mode::Persistent)
    }

    /// Returns the tables after one-shot watches of these kinds have fired, or persistent ones were
    /// removed.
    pub(super) fn after(mut self, gone: Kinds) -> Self {
        let has = |kind| gone.contains(kind);
        let of = |mode: Mode| match mode {
            Mode::None => false,
            Mode::OneShot => has(WatchKind::Data) || has(WatchKind::Exist),
            Mode::Persistent => has(WatchKind::Persistent),
            Mode::Recursive => has(WatchKind::Recursive),
        };
        if of(self.data) {
            self.data = Mode::None;
        }
        if (self.child == Mode::OneShot && has(WatchKind::Child))
            || (self.child != Mode::OneShot && of(self.child))
        {
            self.child = Mode::None;
        }
        self
    }

    /// Returns the form in which to request a watch of this kind while these are armed.
    pub(super) const fn ask(self, kind: WatchKind) -> Asked {
        match kind {
            WatchKind::Data | WatchKind::Exist
                if matches!(self.data, Mode::Persistent | Mode::Recursive) =>
            {
                Asked::WithoutWatch
            }
            WatchKind::Child if matches!(self.child, Mode::Persistent) => Asked::WithoutWatch,
            WatchKind::Persistent if matches!(self.data, Mode::Recursive) => Asked::Recursive,
            _ => Asked::AsIs,
        }
    }

    /// Returns the tables after that request.
    pub(super) const fn with(self, kind: WatchKind, asked: Asked) -> Self {
        match (asked, kind) {
            (Asked::WithoutWatch, _) => self,
            (Asked::Recursive, _) | (_, WatchKind::Recursive) => Self::persistent(Mode::Recursive),
            (_, WatchKind::Persistent) => Self::persistent(Mode::Persistent),
            (_, WatchKind::Data | WatchKind::Exist) => Self { data: Mode::OneShot, ..self },
            (_, WatchKind::Child) => Self { child: Mode::OneShot, ..self },
        }
    }
}
