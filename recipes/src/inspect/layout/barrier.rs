//! Barriers.

use zk_curator::certain::is_receipt;
use zk_curator::path::SequenceSuffix;

use super::names::{is_hex, is_tagged};
use crate::barrier::rules::{Began, MEMBER, READY, ReadyMeaning, decode};
use crate::inspect::details::Details;
use crate::inspect::draft::FindingDraft;
use crate::inspect::finding::{Finding, Library, RecipeKind, Role};
use crate::inspect::node::Node;
use crate::path::is_uuid;

pub(super) fn recognise(node: &Node) -> Option<Finding> {
    let ready = node.get(READY);
    let members = || node.children.iter().map(Node::name).filter(|name| *name != READY);
    let library = if members().any(|name| is_tagged(name, MEMBER)) {
        Library::ZkCurator
    } else if members().next().is_some() && members().all(is_uuid) {
        Library::Curator
    } else if members().next().is_some() && members().all(is_hex) {
        Library::Kazoo
    } else if ready.is_some_and(|ready| decode(&ready.data).is_some()) {
        Library::ZkCurator
    } else {
        return None;
    };
    let are_members = || node.children.iter().all(Node::is_ephemeral);
    let is_certain = ready.is_some() || library == Library::ZkCurator;
    if !is_certain && !are_members() {
        return None;
    }
    let mut draft = FindingDraft::new(node, RecipeKind::DoubleBarrier, library);
    if !is_certain {
        // A group may have UUIDs as its ids.
        draft.guess();
    }
    double(&mut draft, ready);
    Some(draft.finish())
}

/// Every child but `ready` is a member. Those of the round hold, all others wait for the next one.
fn double(draft: &mut FindingDraft<'_>, ready: Option<&Node>) {
    let children = &draft.root().children;
    let names: Vec<String> = children.iter().map(|node| node.name().to_owned()).collect();
    let began = ready.map(|ready| {
        draft.part(ready);
        Began { czxid: ready.czxid().unwrap_or(i64::MAX), members: decode(&ready.data) }
    });
    let number = |name: &str| SequenceSuffix::after(name, MEMBER).map(SequenceSuffix::get);
    let is_member = |node: &&Node| node.name() != READY && !is_receipt(node.name());
    let mut members: Vec<_> = children.iter().filter(is_member).collect();
    members.sort_by_key(|node| (number(node.name()), node.name().to_owned()));
    for node in members {
        let standing = began
            .as_ref()
            .map(|began| began.standing(node.name(), node.czxid().unwrap_or(i64::MIN), &names));
        let contender = draft.contender(node, Role::Member, number(node.name()));
        match standing {
            Some(ReadyMeaning::Member) => draft.holds(contender),
            _ => draft.waits(contender),
        }
    }
    let mut gone = began.as_ref().and_then(|began| began.members.clone()).unwrap_or_default();
    gone.retain(|name| !names.contains(name));
    draft.details(Details::DoubleBarrier { has_begun: began.is_some(), gone });
}

/// A barrier is a persistent node without children. So may be anything else.
pub(super) fn single(node: &Node) -> Option<Finding> {
    let stat = node.stat?;
    // Java's Curator writes the address of the client.
    let is_usual = node.data.is_empty()
        || std::str::from_utf8(&node.data)
            .is_ok_and(|text| text.parse::<std::net::IpAddr>().is_ok());
    // Parents of other recipes have had children.
    let is_leaf = node.children.is_empty() && stat.num_children == 0 && stat.cversion == 0;
    (is_leaf && is_usual && !stat.is_ephemeral()).then(|| {
        let mut draft = FindingDraft::new(node, RecipeKind::Barrier, Library::Curator);
        draft.guess();
        draft.finish()
    })
}
