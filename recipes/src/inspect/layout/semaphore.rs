//! Semaphores: Curator's, and kazoo's.

use super::line::contenders;
use super::lock::mutex;
use super::names::{is_hex, is_tagged};
use crate::inspect::details::Details;
use crate::inspect::draft::FindingDraft;
use crate::inspect::finding::{Contender, Finding, Library, RecipeKind, Role};
use crate::inspect::node::Node;
use crate::lock::tag;
use crate::order::OrderRule;

/// The end of the path of the lock of kazoo's semaphore, which is next to it.
pub(in crate::inspect) const KAZOO_LOCK: &str = "-__lock__";

pub(super) fn recognise(node: &Node) -> Option<Finding> {
    curators(node).or_else(|| leases_alone(node)).or_else(|| kazoos(node))
}

fn curators(node: &Node) -> Option<Finding> {
    let leases = node.get(tag::LEASE_PARENT)?;
    let is_empty = leases.children.is_empty() && node.get(tag::LOCK_PARENT).is_some();
    if !is_empty && !has_leases(leases) {
        return None;
    }
    let mut draft = FindingDraft::new(node, RecipeKind::Semaphore, Library::Curator);
    draft.details(Details::Semaphore { limit: None });
    draft.inside(leases);
    let mut acquirers = node.get(tag::LOCK_PARENT).map_or_else(Vec::new, |locks| {
        draft.inside(locks);
        let (first, rest) = contenders(&draft, locks, &mutex(tag::LOCK));
        first.into_iter().chain(rest).collect()
    });
    let leases = leases_of(&draft, leases);
    // A client has one request at a time: its other leases are held. It waits once, for its turn.
    let requested = leases.iter().rposition(|lease| is_requested(lease, acquirers.first()));
    for (place, lease) in leases.into_iter().enumerate() {
        if Some(place) == requested {
            draft.part_of(&lease);
            // Java's Curator has the label of the client only here.
            if let Some(turn) = acquirers.first_mut().filter(|_| !lease.label.is_empty()) {
                turn.is_revoked |= lease.is_revoked;
                turn.label = lease.label;
            }
        } else {
            draft.holds(lease);
        }
    }
    for mut acquirer in acquirers {
        acquirer.role = Role::Acquirer;
        draft.waits(acquirer);
    }
    Some(draft.finish())
}

/// Returns `true` for a lease that its client has created, but waits for: it still has the turn,
/// since before the lease.
fn is_requested(lease: &Contender, turn: Option<&Contender>) -> bool {
    turn.is_some_and(|turn| {
        lease.session.is_some() && lease.session == turn.session && lease.token() > turn.token()
    })
}

/// The node `leases` without its parent.
fn leases_alone(node: &Node) -> Option<Finding> {
    has_leases(node).then(|| {
        let mut draft = FindingDraft::new(node, RecipeKind::Semaphore, Library::Curator);
        leases_of(&draft, node).into_iter().for_each(|lease| draft.holds(lease));
        draft.finish()
    })
}

fn has_leases(node: &Node) -> bool {
    node.children.iter().any(|child| is_tagged(child.name(), tag::LEASE))
}

/// The leases in the order of their creation. None of them waits for another by its name.
fn leases_of(draft: &FindingDraft<'_>, node: &Node) -> Vec<Contender> {
    let rule = OrderRule { waits_for: Vec::new(), ..OrderRule::exclusive(tag::LEASE) };
    contenders(draft, node, &[(rule, Role::Lease)]).0
}

/// The limit of kazoo's semaphore is the data of its node. Clients that wait are in a lock next to
/// it.
fn kazoos(node: &Node) -> Option<Finding> {
    let limit = std::str::from_utf8(&node.data).ok()?.parse().ok()?;
    if !node.children.iter().any(|child| is_hex(child.name())) {
        return None;
    }
    let mut draft = FindingDraft::new(node, RecipeKind::Semaphore, Library::Kazoo);
    draft.details(Details::Semaphore { limit: Some(limit) });
    let mut leases: Vec<_> = node.children.iter().filter(|child| is_hex(child.name())).collect();
    leases.sort_by_key(|lease| (lease.czxid().unwrap_or(i64::MAX), lease.name().to_owned()));
    for lease in leases {
        draft.holds(draft.contender(lease, Role::Lease, None));
    }
    Some(draft.finish())
}

/// Adds the contenders of the lock of kazoo's semaphore, which is not below it.
pub(in crate::inspect) fn add_lock(finding: &mut Finding, lock: Finding) {
    for mut contender in lock.holders.into_iter().chain(lock.waiting) {
        contender.role = Role::Acquirer;
        finding.waiting.push(contender);
    }
}
