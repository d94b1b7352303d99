//! Our queues with buckets, and jobs.

use std::collections::BTreeMap;

use zk_curator::SessionId;
use zk_curator::path::SequenceSuffix;

use super::line::contenders;
use crate::inspect::details::Details;
use crate::inspect::draft::FindingDraft;
use crate::inspect::finding::{Finding, Library, RecipeKind, Role};
use crate::inspect::node::Node;
use crate::order::OrderRule;
use crate::queue::jobs::JobPhase;
use crate::queue::jobs::later;
use crate::queue::jobs::record::Executing;
use crate::queue::wire::name::{Bucket, CLAIM, ItemPlace, LAYOUT, NamingRules, WAITER, is_taker};

/// The directories that these recipes have in common.
const ITEMS: &str = "items";
const LINE: &str = "line";
const IDS: &str = "ids";
/// The producers in two phases, and the part of their names before the number.
const PRODUCERS: &str = "producers";
const PRODUCER: &str = "producer-";
/// The directories of jobs.
const ALL: &str = "all";
const LEASES: &str = "leases";
const CLEANER: &str = "cleaner";

pub(super) fn recognise(node: &Node) -> Option<Finding> {
    jobs(node).or_else(|| queue(node)).or_else(|| items(node))
}

/// A `FifoQueue` or a `LockingQueue`.
fn queue(node: &Node) -> Option<Finding> {
    let items = node.get(ITEMS).filter(|items| is_layout(items))?;
    let kind = kind_of(items).unwrap_or_else(|| {
        // Only a FifoQueue has producers in two phases, and only the other one has dead letters.
        if node.get(PRODUCERS).is_some() { NamingRules::Fifo } else { NamingRules::Locking }
    });
    let mut draft = FindingDraft::new(node, recipe(kind), Library::ZkCurator);
    draft.inside(items);
    let details = add_items(&mut draft, items, kind);
    draft.details(details);
    add_line(&mut draft);
    for part in [IDS, "dead", PRODUCERS].into_iter().filter_map(|name| node.get(name)) {
        draft.part(part);
    }
    let producers = node.get(PRODUCERS).into_iter().flat_map(|part| &part.children);
    let is_ghost = |node: &&Node| {
        node.is_persistent() && SequenceSuffix::after(node.name(), PRODUCER).is_some()
    };
    for producer in producers.filter(is_ghost) {
        draft.holds(draft.contender(producer, Role::Member, None));
    }
    Some(draft.finish())
}

/// The node of the items, without its parent.
fn items(node: &Node) -> Option<Finding> {
    let kind = kind_of(node).filter(|_| is_layout(node))?;
    let mut draft = FindingDraft::new(node, recipe(kind), Library::ZkCurator);
    let details = add_items(&mut draft, node, kind);
    draft.details(details);
    Some(draft.finish())
}

fn is_layout(items: &Node) -> bool {
    items.data == LAYOUT || items.children.iter().any(|node| Bucket::parse(node.name()).is_some())
}

const fn recipe(kind: NamingRules) -> RecipeKind {
    match kind {
        NamingRules::Fifo => RecipeKind::FifoQueue,
        NamingRules::Job => RecipeKind::Jobs,
        _ => RecipeKind::LockingQueue,
    }
}

/// The kind of the first item.
fn kind_of(items: &Node) -> Option<NamingRules> {
    let kinds = [NamingRules::Fifo, NamingRules::Locking, NamingRules::Job];
    buckets(items)
        .flat_map(in_bucket)
        .find_map(|(name, _)| kinds.into_iter().find(|kind| kind.place(&name).is_some()))
}

fn buckets(items: &Node) -> impl Iterator<Item = &Node> {
    items.children.iter().filter(|node| Bucket::parse(node.name()).is_some())
}

/// The children of a bucket, each with its name and that of the bucket.
fn in_bucket(bucket: &Node) -> impl Iterator<Item = (String, &Node)> {
    bucket.children.iter().map(|node| (format!("{}/{}", bucket.name(), node.name()), node))
}

/// The items in their order.
fn sorted(items: &Node, kind: NamingRules) -> Vec<(ItemPlace, String, &Node)> {
    let mut sorted: Vec<_> = buckets(items)
        .flat_map(in_bucket)
        .filter_map(|(name, node)| Some((kind.place(&name)?, name, node)))
        .collect();
    sorted.sort_by(|(place, name, _), (other, name_of_other, _)| {
        (place, name).cmp(&(other, name_of_other))
    });
    sorted
}

/// Adds the items, and the claims to them.
fn add_items<'n>(draft: &mut FindingDraft<'n>, items: &'n Node, kind: NamingRules) -> Details {
    for bucket in buckets(items) {
        draft.inside(bucket);
        for taker in bucket.children.iter().filter(|node| is_taker(node.name())) {
            draft.part_of_session(taker, Role::Consumer);
        }
    }
    for taker in items.children.iter().filter(|node| is_taker(node.name())) {
        draft.part_of_session(taker, Role::Consumer);
    }
    let sorted = sorted(items, kind);
    let deliveries = |name: &str| kind.meta(name).map(|meta| meta.times);
    let first_deliveries = sorted.first().and_then(|(_, name, _)| deliveries(name));
    let mut claimed = 0;
    for (place, _, node) in &sorted {
        let sequence = Some(place.sequence().cast_signed());
        if let Some(claim) = node.get(CLAIM) {
            claimed += 1;
            draft.holds(draft.contender(claim, Role::Claim, sequence));
        } else {
            let role = if kind == NamingRules::Job { Role::Job } else { Role::Item };
            draft.waits(draft.contender(node, role, sequence));
        }
    }
    Details::Queue { items: sorted.len(), claimed, first_deliveries }
}

/// Adds the consumers that wait for an item, the first of which watches the items.
fn add_line(draft: &mut FindingDraft<'_>) {
    let Some(line) = draft.root().get(LINE) else { return };
    draft.inside(line);
    let (first, rest) = contenders(draft, line, &[(OrderRule::exclusive(WAITER), Role::Consumer)]);
    first.into_iter().chain(rest).for_each(|consumer| draft.waits(consumer));
}

fn jobs(node: &Node) -> Option<Finding> {
    let (all, pending) = (node.get(ALL)?, node.get(JobPhase::Pending.directory())?);
    let executing = node.get(JobPhase::Executing.directory())?;
    let mut draft = FindingDraft::new(node, RecipeKind::Jobs, Library::ZkCurator);
    draft.part(all);
    draft.inside(executing);
    let leases = node.get(LEASES);
    leases.into_iter().for_each(|leases| draft.inside(leases));
    let claims: BTreeMap<&str, &Node> = leases
        .iter()
        .flat_map(|leases| &leases.children)
        .map(|claim| (claim.name(), claim))
        .collect();
    let mut attempts: Vec<_> = executing.children.iter().collect();
    attempts
        .sort_by_key(|attempt| (attempt.czxid().unwrap_or(i64::MAX), attempt.name().to_owned()));
    let mut counts = Vec::new();
    let mut running = 0;
    for attempt in attempts {
        let Some(record) = Executing::parse(&attempt.data) else { continue };
        running += 1;
        let mut contender = draft.contender(attempt, Role::Job, None);
        contender.label = record.worker.into();
        contender.session = Some(SessionId::new(record.session));
        draft.holds(contender);
        if let Some(claim) = claims.get(attempt.name()) {
            draft.part_of_session(claim, Role::Claim);
        }
    }
    draft.inside(pending);
    let Details::Queue { items, .. } = add_items(&mut draft, pending, NamingRules::Job) else {
        return None;
    };
    counts.push((JobPhase::Pending, items));
    counts.push((JobPhase::Executing, running));
    counts.push((JobPhase::Delayed, add_delayed(&mut draft)));
    for phase in [JobPhase::Done, JobPhase::Failed] {
        let Some(ended) = node.get(phase.directory()) else { continue };
        draft.part(ended);
        counts.push((phase, ended.children.iter().map(|bucket| bucket.children.len()).sum()));
    }
    draft.details(Details::Jobs { counts });
    add_line(&mut draft);
    for part in [IDS, CLEANER].into_iter().filter_map(|name| node.get(name)) {
        draft.part(part);
    }
    Some(draft.finish())
}

/// Adds the delayed jobs, and returns their number.
fn add_delayed(draft: &mut FindingDraft<'_>) -> usize {
    let Some(delayed) = draft.root().get(JobPhase::Delayed.directory()) else { return 0 };
    draft.inside(delayed);
    let mut sorted: Vec<_> =
        delayed.children.iter().filter_map(|job| Some((later::due(job.name())?, job))).collect();
    sorted.sort_by_key(|(due, job)| (*due, job.name().to_owned()));
    for (_, job) in &sorted {
        draft.waits(draft.contender(job, Role::Job, None));
    }
    sorted.len()
}
