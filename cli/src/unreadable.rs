//! Nodes that may not be read, which make the answer of a command incomplete.

use std::collections::BTreeSet;

use crate::exit::Exit;
use crate::output::{Answer, Out, printable};
use crate::walk::Listed;

/// The nodes that are named on the terminal.
const NAMED: usize = 10;

/// The paths of nodes without the permission `READ`: neither their data nor their children are
/// known.
#[derive(Debug, Default)]
pub(crate) struct Unreadable(BTreeSet<String>);

impl Unreadable {
    /// Returns the unreadable nodes of a walk.
    pub(crate) fn of<'a>(nodes: impl IntoIterator<Item = &'a Listed>) -> Self {
        let hidden = nodes.into_iter().filter(|node| !node.is_readable);
        hidden.map(|node| node.path.clone()).collect()
    }

    /// Adds the nodes of another walk.
    pub(crate) fn extend(&mut self, paths: impl IntoIterator<Item = String>) {
        self.0.extend(paths);
    }

    /// Names the nodes on stderr. Returns the answer, which is then partial whatever its exit code
    /// was: what it does not contain may exist.
    pub(crate) fn complete(&self, out: &Out, answer: impl Into<Answer>) -> Answer {
        let answer = answer.into();
        if self.0.is_empty() {
            return answer;
        }
        name(out, "no permission: ", self.0.iter().map(String::as_str));
        answer.with_exit(Exit::PARTLY)
    }
}

impl IntoIterator for Unreadable {
    type Item = String;
    type IntoIter = std::collections::btree_set::IntoIter<String>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl FromIterator<String> for Unreadable {
    fn from_iter<I: IntoIterator<Item = String>>(paths: I) -> Self {
        Self(paths.into_iter().collect())
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
