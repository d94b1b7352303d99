//! Nodes that cannot be read, which make the answer of a command incomplete.

use std::collections::BTreeMap;

pub(crate) use zk_curator_ops::tree::unreadable::{UnreadableNodes, UnreadableReason};

use crate::exit::Exit;
use crate::output::{CommandOutput, Out, printable};

/// The nodes that are named on the terminal.
const NAMED: usize = 10;

/// Names unreadable nodes on stderr.
pub(crate) trait NameUnreadable {
    /// Names the nodes on stderr. Returns the answer, which is then partial whatever its exit code
    /// was: what it does not contain may exist.
    fn complete(&self, out: &Out, answer: impl Into<CommandOutput>) -> CommandOutput;

    /// Names the nodes on stderr, reason by reason.
    fn name(&self, out: &Out, indent: &str);
}

impl NameUnreadable for UnreadableNodes {
    fn complete(&self, out: &Out, answer: impl Into<CommandOutput>) -> CommandOutput {
        let answer = answer.into();
        if self.is_empty() {
            return answer;
        }
        self.name(out, "");
        answer.with_exit(Exit::PARTLY)
    }

    fn name(&self, out: &Out, indent: &str) {
        let mut reasons = BTreeMap::<_, Vec<_>>::new();
        for (path, why) in self.iter() {
            reasons.entry(why.to_string()).or_default().push(path);
        }
        for (why, paths) in reasons {
            name(out, &format!("{indent}{why}: "), paths.into_iter());
        }
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
