//! Recipes whose nodes store something: two-phase commits, configuration stores, schedules,
//! counters and migration sets.

use zk_curator::path::SequenceSuffix;

use crate::config::MAGIC;
use crate::inspect::details::Details;
use crate::inspect::draft::FindingDraft;
use crate::inspect::finding::{Finding, Library, RecipeKind, Role};
use crate::inspect::node::Node;
use crate::migration::META;
use crate::schedule;
use crate::two_phase::record::{TransactionRecord, identity};
use crate::two_phase::{Form, SiteState, state_of};

pub(super) fn recognise(node: &Node) -> Option<Finding> {
    transaction(node)
        .or_else(|| config(node))
        .or_else(|| slots(node))
        .or_else(|| counter(node))
        .or_else(|| migrations(node))
}

fn transaction(node: &Node) -> Option<Finding> {
    let (record, outcome) = TransactionRecord::parse(&node.data)?;
    let mut draft = FindingDraft::new(node, RecipeKind::TwoPhaseCommit, Library::ZkCurator);
    let identity = identity(&record.id);
    if let Some(identity) = node.get(&identity) {
        draft.part(identity);
    }
    let mut sites = Vec::with_capacity(record.sites.len());
    for name in record.sites {
        let site = node.get(&name);
        let state = state_of(site.map(|site| &site.data[..]));
        let is_new = name != identity && sites.iter().all(|(known, _)| *known != name);
        if let Some(site) = site.filter(|_| is_new) {
            let mut contender = draft.contender(site, Role::Site, None);
            // In this form votes belong to the session of their site, and acknowledgements do not.
            let is_vote = matches!(state, SiteState::Voted(_)) && record.form == Form::Ephemeral;
            contender.is_persistent = is_vote && site.is_persistent();
            if state == SiteState::Pending {
                draft.waits(contender);
            } else {
                draft.holds(contender);
            }
        }
        sites.push((name, state));
    }
    let (form, deadline) = (record.form, record.deadline);
    draft.details(Details::TwoPhaseCommit { form, outcome, deadline, sites });
    Some(draft.finish())
}

fn config(node: &Node) -> Option<Finding> {
    if node.data != MAGIC {
        return None;
    }
    let mut draft = FindingDraft::new(node, RecipeKind::ConfigStore, Library::ZkCurator);
    let mut keys = Vec::new();
    for part in ["values", "history"].into_iter().filter_map(|name| node.get(name)) {
        draft.part(part);
        if part.name() == "values" {
            keys = part.children.iter().map(|value| value.name().to_owned()).collect();
            keys.sort_unstable();
        }
    }
    let updates = node.stat.map(|stat| stat.version);
    draft.details(Details::ConfigStore { updates, keys });
    Some(draft.finish())
}

/// The slots of a schedule, and their runners.
fn slots(node: &Node) -> Option<Finding> {
    let is_slot = |node: &&Node| schedule::record::SlotRecord::parse(&node.data).is_some();
    node.children.iter().find(is_slot)?;
    let mut draft = FindingDraft::new(node, RecipeKind::Schedule, Library::ZkCurator);
    let mut slots: Vec<_> = node.children.iter().filter(is_slot).collect();
    slots.sort_by_key(|slot| slot.name().to_owned());
    for slot in slots {
        match slot.get("runner") {
            Some(runner) => draft.holds(draft.contender(runner, Role::Claim, None)),
            None => draft.part(slot),
        }
    }
    let is_clock = |node: &&Node| node.name().ends_with("-clock") && !is_slot(node);
    for clock in node.children.iter().filter(is_clock) {
        draft.part(clock);
    }
    Some(draft.finish())
}

/// A counter has a directory for the ids of operations.
fn counter(node: &Node) -> Option<Finding> {
    let operations = node.get("_o")?;
    let mut draft = FindingDraft::new(node, RecipeKind::Counter, Library::ZkCurator);
    draft.part(operations);
    Some(draft.finish())
}

/// The metadata of a migration set: a node for each applied migration.
fn migrations(node: &Node) -> Option<Finding> {
    let is_applied = |child: &&Node| {
        let name = child.name();
        name.starts_with(META) && SequenceSuffix::after(name, META).is_some()
    };
    let applied = node.children.iter().filter(is_applied).count();
    if applied == 0 {
        return None;
    }
    let mut draft = FindingDraft::new(node, RecipeKind::Migrations, Library::Curator);
    node.children.iter().filter(is_applied).for_each(|child| draft.part(child));
    draft.details(Details::Migrations { applied });
    Some(draft.finish())
}
