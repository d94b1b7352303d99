use super::finding::{Finding, RecipeKind};
use super::layout;
use super::layout::semaphore::{KAZOO_LOCK, add_lock};
use super::node::Node;
use crate::lock::tag;
use crate::partition::site::{LOCKS, PARTS};
use crate::path::child;

/// Recognises the recipe at a node, from the node and the nodes below it. Sends nothing.
///
/// The order of the contenders, and the decision which of them hold, are computed by the functions
/// that the recipes themselves use. Children that do not belong to the recipe are
/// [ignored](Finding::ignored), and never cause a failure. If no layout fits, the
/// [kind](Finding::kind) is [`RecipeKind::Unknown`], and all children are ignored.
#[must_use]
pub fn recognise(node: &Node) -> Finding {
    layout::recognise(node)
}

/// Recognises all recipes at a node and below it, sorted by path. Sends nothing.
///
/// [Guesses](Finding::is_guess) are left out, except groups. Nodes inside a recipe, such as the
/// directory `leases` of a semaphore, are not reported again. The waiters of kazoo's semaphores,
/// whose nodes are not below the semaphore, are added to it.
#[must_use]
pub fn recognise_all(root: &Node) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut nodes = vec![root];
    while let Some(node) = nodes.pop() {
        let finding = recognise(node);
        nodes.extend(node.children.iter().filter(|child| may_contain_recipes(&finding, child)));
        let is_guess = finding.is_guess && finding.kind != RecipeKind::Group;
        if finding.kind != RecipeKind::Unknown && !is_guess {
            findings.push(finding);
        }
    }
    findings.sort_by(|one, other| one.path.cmp(&other.path));
    join_semaphores(&mut findings);
    findings
}

/// Returns `true` if a child of a recipe is not one of its nodes, or has recipes of its own.
pub(super) fn may_contain_recipes(finding: &Finding, child: &Node) -> bool {
    let name = child.name();
    match finding.kind {
        RecipeKind::Unknown | RecipeKind::ShardedQueue => true,
        RecipeKind::Partitioner => matches!(name, LOCKS | PARTS),
        RecipeKind::LockingQueue => name == "dead",
        _ => finding.ignored.iter().any(|ignored| ignored == name),
    }
}

/// Adds the locks of kazoo's semaphores to them.
fn join_semaphores(findings: &mut Vec<Finding>) {
    let semaphores: Vec<_> = findings
        .iter()
        .filter(|finding| finding.kind == RecipeKind::Semaphore && finding.has_own_lock())
        .map(|finding| finding.path.clone())
        .collect();
    for path in semaphores {
        let lock = findings.iter().position(|lock| lock.path == format!("{path}{KAZOO_LOCK}"));
        let Some(lock) = lock.map(|lock| findings.remove(lock)) else { continue };
        if let Some(semaphore) = findings.iter_mut().find(|finding| finding.path == path) {
            add_lock(semaphore, lock);
        }
    }
}

impl Finding {
    /// Returns `true` if its waiters are below [another node](KAZOO_LOCK).
    pub(super) fn has_own_lock(&self) -> bool {
        self.kind == RecipeKind::Semaphore
            && !self.parts.iter().any(|part| part == tag::LEASE_PARENT)
    }

    /// Returns `true` if the node at a path is this recipe, or belongs to it.
    pub(super) fn covers(&self, path: &str) -> bool {
        self.path == path
            || self.holders.iter().chain(&self.waiting).any(|contender| contender.path == path)
            || self.parts.iter().any(|part| {
                let part = child(&self.path, part);
                path.strip_prefix(&part)
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            })
    }
}
