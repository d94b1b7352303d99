//! Nodes that cannot be read, which make the answer of a command incomplete.

use std::collections::BTreeMap;
use std::fmt;

use zk_curator::ErrorKind;

use crate::exit::{CommandFailure, Exit};
use crate::output::{CommandOutput, Out, printable};

/// The nodes that are named on the terminal.
const NAMED: usize = 10;

/// The paths of nodes that could not be read, with the reasons.
#[derive(Debug, Default)]
pub(crate) struct UnreadableNodes(BTreeMap<String, UnreadableReason>);

/// The reason why a node could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnreadableReason {
    /// The answer of the servers. Without the permission `READ`, neither the data nor the children
    /// are known. Either may also be too large.
    Failed(ErrorKind),
    /// The backup file does not contain it, because the backup could not read it.
    NotInBackup,
}

impl fmt::Display for UnreadableReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(ErrorKind::NoAuth) => f.write_str("no permission"),
            Self::Failed(ErrorKind::ResponseTooLarge) => f.write_str("too large to read"),
            Self::Failed(kind) => kind.fmt(f),
            Self::NotInBackup => f.write_str("not in the backup"),
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
    pub(crate) fn extend<W: Into<UnreadableReason>>(
        &mut self,
        nodes: impl IntoIterator<Item = (String, W)>,
    ) {
        self.0.extend(nodes.into_iter().map(|(path, why)| (path, why.into())));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Removes a node that was read after all.
    pub(crate) fn remove(&mut self, path: &str) {
        self.0.remove(path);
    }

    /// Returns the nodes in the order of their paths, with the reasons.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = (&str, UnreadableReason)> {
        self.0.iter().map(|(path, why)| (path.as_str(), *why))
    }

    /// Returns the reason why a node could not be read.
    pub(crate) fn why(&self, path: &str) -> Option<UnreadableReason> {
        self.0.get(path).copied()
    }

    /// Names the nodes on stderr. Returns the answer, which is then partial whatever its exit code
    /// was: what it does not contain may exist.
    pub(crate) fn complete(&self, out: &Out, answer: impl Into<CommandOutput>) -> CommandOutput {
        let answer = answer.into();
        if self.0.is_empty() {
            return answer;
        }
        self.name(out, "");
        answer.with_exit(Exit::PARTLY)
    }

    /// Returns the failure of a command that needs all nodes, if there are unreadable ones.
    pub(crate) fn failure(&self) -> Option<CommandFailure> {
        let (path, why) = self.iter().next()?;
        let is_forbidden = why == UnreadableReason::Failed(ErrorKind::NoAuth);
        let exit = if is_forbidden { Exit::NO_PERMISSION } else { Exit::USAGE };
        Some(CommandFailure::new(exit, format!("{why}: {path}")))
    }

    /// Names the nodes on stderr, reason by reason.
    pub(crate) fn name(&self, out: &Out, indent: &str) {
        let mut reasons = BTreeMap::<_, Vec<_>>::new();
        for (path, why) in self.iter() {
            reasons.entry(why.to_string()).or_default().push(path);
        }
        for (why, paths) in reasons {
            name(out, &format!("{indent}{why}: "), paths.into_iter());
        }
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

/// Prints a line on stderr for each of the first paths, and then the number of the others.
pub(crate) fn name<'a>(out: &Out, title: &str, paths: impl ExactSizeIterator<Item = &'a str>) {
    let more = paths.len().saturating_sub(NAMED);
    for path in paths.take(NAMED) {
        out.warn(format!("{title}{}", printable(path)));
    }
    if more > 0 {
        out.warn(format!("{title}{more} more"));
    }
}
