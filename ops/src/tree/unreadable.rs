//! Nodes that cannot be read, which make a result incomplete.

use std::collections::BTreeMap;
use std::fmt;

use zk_curator::ErrorKind;

/// The paths of nodes that could not be read, with the reasons.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnreadableNodes(BTreeMap<String, UnreadableReason>);

/// The reason why a node could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum UnreadableReason {
    /// The response of the servers. Without the permission `READ`, neither the data nor the
    /// children are known. Either may also be too large.
    Failed(ErrorKind),
    /// The backup file does not contain it, because the backup could not read it.
    NotInBackup,
    /// The backup was told to leave it out, with everything below it.
    LeftOut,
}

impl fmt::Display for UnreadableReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(ErrorKind::NoAuth) => f.write_str("no permission"),
            Self::Failed(ErrorKind::ResponseTooLarge) => f.write_str("too large to read"),
            Self::Failed(kind) => kind.fmt(f),
            Self::NotInBackup => f.write_str("not in the backup"),
            Self::LeftOut => f.write_str("left out"),
        }
    }
}

impl From<ErrorKind> for UnreadableReason {
    fn from(kind: ErrorKind) -> Self {
        Self::Failed(kind)
    }
}

impl UnreadableNodes {
    /// Adds the nodes of another walk.
    pub fn extend<W: Into<UnreadableReason>>(
        &mut self,
        nodes: impl IntoIterator<Item = (String, W)>,
    ) {
        self.0.extend(nodes.into_iter().map(|(path, why)| (path, why.into())));
    }

    /// Returns `true` if all nodes were read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the number of nodes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Removes a node that no longer makes a result incomplete.
    pub(crate) fn remove(&mut self, path: &str) {
        self.0.remove(path);
    }

    /// Returns the nodes in the order of their paths, with the reasons.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, UnreadableReason)> {
        self.0.iter().map(|(path, why)| (path.as_str(), *why))
    }

    /// Returns the reason why a node could not be read. `None` if it is not one of these nodes.
    #[must_use]
    pub fn why(&self, path: &str) -> Option<UnreadableReason> {
        self.0.get(path).copied()
    }
}

impl IntoIterator for UnreadableNodes {
    type Item = (String, UnreadableReason);
    type IntoIter = std::collections::btree_map::IntoIter<String, UnreadableReason>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<W: Into<UnreadableReason>> FromIterator<(String, W)> for UnreadableNodes {
    fn from_iter<I: IntoIterator<Item = (String, W)>>(nodes: I) -> Self {
        let mut unreadable = Self::default();
        unreadable.extend(nodes);
        unreadable
    }
}
