//! The nodes that could not be read.

use std::collections::BTreeMap;

use zk_curator::ErrorKind;

use super::tree::take_below;

/// The paths that could not be read, with the reasons.
#[derive(Debug, Default)]
pub(crate) struct UnreadablePaths {
    kinds: BTreeMap<Box<str>, ErrorKind>,
    /// The number of paths that are read again.
    passing: usize,
}

/// Returns `true` if another read would fail for the same reason until the node, its ACL or a
/// setting of this client changes.
const fn lasts(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::NoAuth
            | ErrorKind::ResponseTooLarge
            | ErrorKind::TooLarge
            | ErrorKind::Undecodable
            | ErrorKind::SchemaViolation
            | ErrorKind::InvalidPath
            | ErrorKind::InvalidArgument
            | ErrorKind::Unsupported
    )
}

impl UnreadablePaths {
    pub(crate) const fn kinds(&self) -> &BTreeMap<Box<str>, ErrorKind> {
        &self.kinds
    }

    pub(crate) fn contains(&self, path: &str) -> bool {
        self.kinds.contains_key(path)
    }

    pub(crate) fn insert(&mut self, path: &str, kind: ErrorKind) {
        self.passing += usize::from(!lasts(kind));
        let before = self.kinds.insert(path.into(), kind);
        self.passing -= usize::from(before.is_some_and(|kind| !lasts(kind)));
    }

    /// Forgets a path. Returns `true` if it was known.
    pub(crate) fn remove(&mut self, path: &str) -> bool {
        let before = self.kinds.remove(path);
        self.passing -= usize::from(before.is_some_and(|kind| !lasts(kind)));
        before.is_some()
    }

    /// Forgets all paths below a path, and returns them.
    pub(crate) fn take_below(&mut self, path: &str) -> Vec<Box<str>> {
        let taken = take_below(&mut self.kinds, path);
        self.passing -= taken.iter().filter(|(_, kind)| !lasts(*kind)).count();
        taken.into_iter().map(|(path, _)| path).collect()
    }

    /// Returns `true` if some must be read again.
    pub(crate) const fn has_passing(&self) -> bool {
        self.passing > 0
    }

    /// Returns the paths that must be read again.
    pub(crate) fn passing(&self) -> Vec<Box<str>> {
        let passing = self.kinds.iter().filter(|(_, kind)| !lasts(**kind));
        passing.map(|(path, _)| path.clone()).collect()
    }
}
