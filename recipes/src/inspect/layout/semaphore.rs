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
    let permits = permits_of(&draft, leases);
    // A client has one request at a time: its other permits are held. It waits once, for its turn.
    let requested = permits.iter().rposition(|permit| is_requested(permit, acquirers.first()));
    for (place, permit) in permits.into_iter().enumerate() {
        if Some(place) == requested {
            draft.part_of(&permit);
            // Java's Curator has the label of the client only here.
            if let Some(turn) = acquirers.first_mut().filter(|_| !permit.label.is_empty()) {
                turn.is_revoked |= permit.is_revoked;
                turn.label = permit.label;
            }
        } else {
            draft.holds(permit);
        }
    }
    for mut acquirer in acquirers {
        acquirer.role = Role::Acquirer;
        draft.waits(acquirer);
    }
    Some(draft.finish())
}

/// Returns `true` for a permit whose node its client has created, but that it waits for: it still
/// has the turn, since before the node.
fn is_requested(permit: &Contender, turn: Option<&Contender>) -> bool {
    turn.is_some_and(|turn| {
        permit.session.is_some() && permit.session == turn.session && permit.token() > turn.token()
    })
}

/// The node `leases` without its parent.
fn leases_alone(node: &Node) -> Option<Finding> {
    has_leases(node).then(|| {
        let mut draft = FindingDraft::new(node, RecipeKind::Semaphore, Library::Curator);
        permits_of(&draft, node).into_iter().for_each(|permit| draft.holds(permit));
        draft.finish()
    })
}

fn has_leases(node: &Node) -> bool {
    node.children.iter().any(|child| is_tagged(child.name(), tag::LEASE))
}

/// The permits in the order of their creation. None of them waits for another by its name.
fn permits_of(draft: &FindingDraft<'_>, node: &Node) -> Vec<Contender> {
    let rule = OrderRule { waits_for: Vec::new(), ..OrderRule::exclusive(tag::LEASE) };
    contenders(draft, node, &[(rule, Role::Permit)]).0
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
    let mut permits: Vec<_> = node.children.iter().filter(|child| is_hex(child.name())).collect();
    permits.sort_by_key(|permit| (permit.czxid().unwrap_or(i64::MAX), permit.name().to_owned()));
    for permit in permits {
        draft.holds(draft.contender(permit, Role::Permit, None));
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
