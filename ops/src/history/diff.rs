//! The differences of two trees.

use std::cmp::Ordering;

use super::tree::Tree;
use super::view::{NodeRef, Walk};

/// A difference between two trees.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Difference<'t> {
    /// The node exists in the second tree only.
    Added(NodeRef<'t>),
    /// The node exists in the first tree only.
    Removed(NodeRef<'t>),
    /// The node differs.
    Changed {
        /// The node in the first tree.
        before: NodeRef<'t>,
        /// The node in the second tree.
        after: NodeRef<'t>,
        /// True if the data differs.
        data: bool,
        /// True if the ACL differs. `None` if it may differ: the node has another version of its
        /// ACL, or was created again, and the snapshot of one tree does not contain the ACL.
        acl: Option<bool>,
        /// True if the node was deleted and created again.
        recreated: bool,
    },
}

impl Tree {
    /// Compares a node and the nodes below it with those of another tree, parents before their
    /// children, children by name. Differences of counters and times are left out. A node whose ACL
    /// may differ is [changed](Difference::Changed).
    #[must_use]
    pub fn diff<'t>(&'t self, other: &'t Self, path: &str) -> Diff<'t> {
        let (mut before, mut after) = (self.walk(path), other.walk(path));
        let next = (next_of(&mut before), next_of(&mut after));
        Diff { before, after, next }
    }
}

/// A node and its path.
type NextNode<'t> = Option<(String, NodeRef<'t>)>;

/// An iterator over the differences of two trees: see [`Tree::diff`].
#[derive(Debug)]
pub struct Diff<'t> {
    before: Walk<'t>,
    after: Walk<'t>,
    /// The next node of each tree.
    next: (NextNode<'t>, NextNode<'t>),
}

impl<'t> Diff<'t> {
    fn next_before(&mut self) -> NextNode<'t> {
        let next = next_of(&mut self.before);
        std::mem::replace(&mut self.next.0, next)
    }

    fn next_after(&mut self) -> NextNode<'t> {
        let next = next_of(&mut self.after);
        std::mem::replace(&mut self.next.1, next)
    }
}

impl<'t> Iterator for Diff<'t> {
    type Item = Difference<'t>;

    fn next(&mut self) -> Option<Difference<'t>> {
        loop {
            let order = match &self.next {
                (None, None) => return None,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                // Both walks are in the order of the names.
                (Some((one, _)), Some((other, _))) => one.split('/').cmp(other.split('/')),
            };
            match order {
                Ordering::Less => {
                    return self.next_before().map(|found| Difference::Removed(found.1));
                }
                Ordering::Greater => {
                    return self.next_after().map(|found| Difference::Added(found.1));
                }
                Ordering::Equal => {
                    let (_, before) = self.next_before()?;
                    let (_, after) = self.next_after()?;
                    if let Some(difference) = changed(before, after) {
                        return Some(difference);
                    }
                }
            }
        }
    }
}

fn next_of<'t>(walk: &mut Walk<'t>) -> NextNode<'t> {
    walk.next().map(|node| (node.path(), node))
}

fn changed<'t>(before: NodeRef<'t>, after: NodeRef<'t>) -> Option<Difference<'t>> {
    let data = before.data() != after.data();
    let acl = acl_differs(before, after);
    let recreated = before.stored_stat().czxid != after.stored_stat().czxid;
    (data || acl != Some(false) || recreated).then_some(Difference::Changed {
        before,
        after,
        data,
        acl,
        recreated,
    })
}

/// Returns `true` if the ACL differs; `None` if that is unknown.
fn acl_differs(before: NodeRef<'_>, after: NodeRef<'_>) -> Option<bool> {
    if let (Some(one), Some(other)) = (before.stored_acl(), after.stored_acl()) {
        return Some(one != other);
    }
    // Every change of the ACL of a node raises its version.
    let (one, other) = (before.stored_stat(), after.stored_stat());
    ((one.czxid, one.aversion) == (other.czxid, other.aversion)).then_some(false)
}
