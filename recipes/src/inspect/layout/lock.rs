//! Mutexes, read/write locks and elections: flat lines of sequential nodes.

use super::line::contenders;
use super::names::is_tagged;
use crate::inspect::details::Details;
use crate::inspect::draft::FindingDraft;
use crate::inspect::finding::{Finding, Library, RecipeKind, Role};
use crate::inspect::node::Node;
use crate::leader;
use crate::lock::{Tags, tag};
use crate::order::{Blocker, OrderRule};

/// The node of kazoo's `NonBlockingLease`.
const LEASE_HOLDER: &str = "lease_holder";

pub(super) fn recognise(node: &Node) -> Option<Finding> {
    let has = |tag: &str| node.children.iter().any(|child| is_tagged(child.name(), tag));
    let read_write =
        |tags: Tags| vec![(tags.reader(), Role::Reader), (tags.writer(), Role::Writer)];
    let election = |tag| vec![(OrderRule::exclusive(tag), Role::Candidate)];
    let (kind, library, rules) = if node.get(LEASE_HOLDER).is_some() {
        return Some(timed_lease(node));
    } else if has(tag::READ) || has(tag::WRITE) {
        (RecipeKind::ReadWriteLock, Library::Curator, read_write(Tags::CURATOR))
    } else if has(tag::KAZOO_READ) {
        (RecipeKind::ReadWriteLock, Library::Kazoo, read_write(Tags::KAZOO))
    } else if has(tag::REVOCABLE_READ) || has(tag::REVOCABLE_WRITE) {
        (RecipeKind::ReadWriteLock, Library::ZooKeeper, read_write(Tags::of_revocable()))
    } else if has(leader::tag::LATCH) {
        (RecipeKind::LeaderLatch, Library::Curator, election(leader::tag::LATCH))
    } else if has(leader::tag::ELECTION) {
        (RecipeKind::LeaderLatch, Library::ZkCurator, election(leader::tag::ELECTION))
    } else {
        match (has(tag::LOCK), has(tag::KAZOO)) {
            (true, true) => return Some(mixed(node)),
            (true, false) => (RecipeKind::Mutex, Library::Curator, mutex(tag::LOCK)),
            (false, true) => (RecipeKind::Mutex, Library::Kazoo, mutex(tag::KAZOO)),
            (false, false) => return None,
        }
    };
    Some(flat(node, kind, library, &rules).finish())
}

/// The rules of a mutex with this tag.
pub(super) fn mutex(tag: &'static str) -> Vec<(OrderRule, Role)> {
    vec![(OrderRule::exclusive(tag), Role::Exclusive)]
}

fn flat<'n>(
    node: &'n Node,
    kind: RecipeKind,
    library: Library,
    rules: &[(OrderRule, Role)],
) -> FindingDraft<'n> {
    let mut draft = FindingDraft::new(node, kind, library);
    let (holders, waiting) = contenders(&draft, node, rules);
    holders.into_iter().for_each(|contender| draft.holds(contender));
    waiting.into_iter().for_each(|contender| draft.waits(contender));
    draft
}

/// A mutex with nodes of Curator and of kazoo, in one line.
fn mixed(node: &Node) -> Finding {
    let blocker = |tag: &'static str| Blocker { tag: tag.into(), can_be_replaced: false };
    let waits_for = vec![blocker(tag::LOCK), blocker(tag::KAZOO)];
    let rule =
        |tag: &'static str| OrderRule { waits_for: waits_for.clone(), ..OrderRule::exclusive(tag) };
    let rules = [tag::LOCK, tag::KAZOO].map(|tag| (rule(tag), Role::Exclusive));
    let mut draft = flat(node, RecipeKind::Mutex, Library::Mixed, &rules);
    draft.details(Details::MixedLock);
    draft.finish()
}

/// kazoo's `NonBlockingLease`: its lock is held only while a client reads or writes the lease.
fn timed_lease(node: &Node) -> Finding {
    let mut draft = FindingDraft::new(node, RecipeKind::TimedLease, Library::Kazoo);
    if let Some(lease) = node.get(LEASE_HOLDER) {
        draft.holds(draft.contender(lease, Role::Lease, None));
        let lease = std::str::from_utf8(&lease.data).ok().map(str::to_owned);
        draft.details(Details::TimedLease { lease });
    }
    let (first, rest) = contenders(&draft, node, &mutex(tag::KAZOO));
    for mut contender in first.into_iter().chain(rest) {
        contender.role = Role::Acquirer;
        draft.waits(contender);
    }
    draft.finish()
}
