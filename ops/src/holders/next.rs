//! The commands that may help a recipe that does not move.

use std::fmt;

use zk_curator_recipes::inspect::{Contender, Finding, RecipeKind};

use super::contenders::{LOCKS, LOCKS_AND_ELECTIONS, deaf, persistent};
use super::facts::SessionFacts;
use crate::node;
use crate::text::shell_word;

/// The most persistent contenders, and the most readers, for which commands are returned.
const NAMED: usize = 3;

/// A command of `zkc` that may help.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NextStep {
    /// The command, for a shell: names with other characters than letters, digits and a few signs
    /// are quoted.
    pub command: String,
    /// The effect, such as `deletes it`.
    pub effect: &'static str,
}

impl fmt::Display for NextStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}  ({})", self.command, self.effect)
    }
}

/// Returns the commands that may help, and the number of readers that these do not cover. There are
/// commands for at most three persistent contenders, and at most three readers unless `all` is
/// `true`.
#[must_use]
pub fn next_steps(finding: &Finding, facts: &SessionFacts, all: bool) -> (Vec<NextStep>, usize) {
    let mut next: Vec<_> =
        persistent(finding).take(NAMED).flat_map(|one| remove(finding, one)).collect();
    let is_lock = LOCKS.contains(&finding.kind);
    // The next client has to wait for all readers, but only for one permit of a semaphore.
    let most = match finding.kind {
        RecipeKind::ReadWriteLock if all => usize::MAX,
        RecipeKind::ReadWriteLock => NAMED,
        _ => 1,
    };
    let holders = finding.holders.iter().filter(|holder| is_lock && !holder.is_persistent);
    let holders: Vec<_> = holders.collect();
    for holder in holders.iter().take(most) {
        let listens = deaf(finding.library, holder).is_none() && facts.may_listen(holder);
        if listens && !holder.is_revoked {
            let command = format!("zkc revoke {}", shell_word(&holder.path));
            next.push(NextStep { command, effect: "asks the holder to release it" });
        }
        next.extend(break_it(holder));
    }
    let more = if most > 1 { holders.len().saturating_sub(most) } else { 0 };
    (next, more)
}

/// Returns the commands that look who made a persistent node, and delete it.
fn remove(finding: &Finding, contender: &Contender) -> Vec<NextStep> {
    let path = shell_word(&contender.path);
    let is_broken = LOCKS_AND_ELECTIONS.contains(&finding.kind);
    let delete = break_it(contender).filter(|_| is_broken);
    let delete = delete
        .unwrap_or_else(|| NextStep { command: format!("zkc rm {path}"), effect: "deletes it" });
    let effect = "when it was made, and by which transaction";
    vec![NextStep { command: format!("zkc stat {path}"), effect }, delete]
}

fn break_it(contender: &Contender) -> Option<NextStep> {
    let token = node::hex(contender.token()?.get());
    let command = format!("zkc break {} --token {token}", shell_word(&contender.path));
    Some(NextStep { command, effect: "deletes this node only" })
}

#[cfg(test)]
mod tests {
    use zk_curator::Stat;
    use zk_curator_recipes::inspect::{Node, recognise};

    use super::*;
    use crate::ensemble::sessions::EnsembleSessions;

    fn next(lock: &Node) -> Vec<String> {
        let facts = SessionFacts::of(EnsembleSessions::default(), None);
        let (steps, _) = next_steps(&recognise(lock), &facts, false);
        steps.iter().map(ToString::to_string).collect()
    }

    fn contender(path: &str, session: i64) -> Node {
        let stat = Stat { czxid: 0x2f, ephemeral_owner: session, ..Stat::default() };
        Node::new(path).stat(stat)
    }

    #[test]
    fn a_holder_is_asked_or_broken() {
        let lock = Node::new("/a").with(contender("/a/lock-0000000001", 7));
        let expected = [
            "zkc revoke /a/lock-0000000001  (asks the holder to release it)",
            "zkc break /a/lock-0000000001 --token 0x2f  (deletes this node only)",
        ];
        assert_eq!(next(&lock), expected);
        let ghost = Node::new("/a").with(contender("/a/lock-0000000001", 0));
        assert!(next(&ghost)[0].starts_with("zkc stat /a/lock-0000000001  (when it was made"));
    }
}
