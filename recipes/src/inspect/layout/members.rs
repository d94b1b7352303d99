//! Groups, services, and other nodes whose children are independent.

use super::names::is_hex;
use crate::inspect::draft::FindingDraft;
use crate::inspect::finding::{Finding, Library, RecipeKind, Role};
use crate::inspect::node::Node;
use crate::partition::record::{is_member, parse_parts};
use crate::partition::site::{LIST, MEMBERS, PARTS};

/// `Party._NODE_NAME` of kazoo.
const PARTY: &str = "__party__";

pub(super) fn recognise(node: &Node) -> Option<Finding> {
    partitioner(node).or_else(|| services(node)).or_else(|| parties(node))
}

/// A `SetPartitioner`: members, and a lock for each part.
fn partitioner(node: &Node) -> Option<Finding> {
    kazoos_partitioner(node).or_else(|| {
        let (members, parts) = (node.get(MEMBERS)?, node.get(PARTS));
        let is_member = |member: &Node| is_member(&member.data);
        let list = node.get(LIST).filter(|list| parse_parts(&list.data).is_some());
        if list.is_none() && !members.children.iter().any(is_member) {
            return None;
        }
        let mut draft = FindingDraft::new(node, RecipeKind::Partitioner, Library::ZkCurator);
        parts.into_iter().chain(list).for_each(|part| draft.part(part));
        draft.inside(members);
        add(&mut draft, members, is_member);
        Some(draft.finish())
    })
}

fn kazoos_partitioner(node: &Node) -> Option<Finding> {
    let (party, locks) = (node.get("party")?, node.get("locks")?);
    if node.children.len() != 2 {
        return None;
    }
    let mut draft = FindingDraft::new(node, RecipeKind::Partitioner, Library::Kazoo);
    draft.part(locks);
    draft.inside(party);
    add(&mut draft, party, is_shallow);
    Some(draft.finish())
}

fn services(node: &Node) -> Option<Finding> {
    node.children.iter().any(is_instance).then(|| {
        let mut draft = FindingDraft::new(node, RecipeKind::Service, Library::Curator);
        add(&mut draft, node, is_instance);
        let is_static =
            |path: &str| node.children.iter().any(|child| child.path == path && !is_dynamic(child));
        draft.allow_persistent(is_static);
        draft.finish()
    })
}

/// Returns `true` for the JSON of an instance, by its shape: this crate has no parser for it.
fn is_instance(node: &Node) -> bool {
    let has = |part: &str| node.data.windows(part.len()).any(|window| window == part.as_bytes());
    let text = node.data.trim_ascii();
    text.first() == Some(&b'{')
        && text.last() == Some(&b'}')
        && ["\"name\"", "\"id\"", "\"serviceType\"", "\"registrationTimeUTC\""]
            .iter()
            .all(|key| has(key))
}

/// Returns `true` for an instance that its client registers for its session.
fn is_dynamic(node: &Node) -> bool {
    let text = String::from_utf8_lossy(&node.data);
    let kind = text.split_once("\"serviceType\"").map(|(_, rest)| rest.trim_start());
    let kind = kind.and_then(|rest| rest.strip_prefix(':'));
    kind.is_some_and(|rest| rest.trim_start().starts_with("\"DYNAMIC"))
}

fn parties(node: &Node) -> Option<Finding> {
    let rule: fn(&Node) -> bool = if node.children.iter().any(is_party) {
        is_party
    } else if node.children.iter().any(|child| child.is_ephemeral() && is_shallow(child)) {
        is_shallow
    } else {
        return None;
    };
    let mut draft = FindingDraft::new(node, RecipeKind::Group, Library::Kazoo);
    add(&mut draft, node, rule);
    Some(draft.finish())
}

/// A member of kazoo's `Party`.
fn is_party(node: &Node) -> bool {
    node.name().strip_suffix(PARTY).is_some_and(is_hex)
}

/// A member of kazoo's `ShallowParty`, by its name, which ends with its identifier.
fn is_shallow(node: &Node) -> bool {
    node.name().split_at_checked(32).is_some_and(|(id, rest)| is_hex(id) && rest.starts_with('-'))
}

/// Curator's `GroupMember` has no names of its own: any ephemeral nodes look like a group.
pub(super) fn group(node: &Node) -> Option<Finding> {
    let is_member = |node: &Node| node.is_ephemeral();
    if node.children.is_empty() || !node.children.iter().all(is_member) {
        return None;
    }
    let mut draft = FindingDraft::new(node, RecipeKind::Group, Library::Curator);
    draft.guess();
    add(&mut draft, node, is_member);
    Some(draft.finish())
}

/// Adds the children that are members, sorted by name.
fn add(draft: &mut FindingDraft<'_>, directory: &Node, is_member: impl Fn(&Node) -> bool) {
    let mut members: Vec<_> = directory.children.iter().filter(|node| is_member(node)).collect();
    members.sort_by_key(|node| node.name().to_owned());
    for node in members {
        if !zk_curator::certain::is_receipt(node.name()) {
            draft.holds(draft.contender(node, Role::Member, None));
        }
    }
}
