//! The names and the assignment of kazoo's `SetPartitioner`: pure functions.

use super::assign::{MembersByNode, PartOwners};
use super::record::Parts;

/// Assigns every n-th of the sorted parts to the n-th of the sorted identifiers: kazoo's
/// `_partitioner`.
///
/// Two nodes with one identifier count twice, as in kazoo: the older is of a session that has not
/// expired yet.
pub(super) fn every_nth<'a>(parts: &'a Parts, members: &'a MembersByNode) -> PartOwners<'a> {
    let mut workers: Vec<(&str, &str)> =
        members.keys().map(|node| (identifier(node), node.as_str())).collect();
    workers.sort_unstable();
    let owners = workers.iter().map(|(_, node)| *node).cycle();
    parts.keys().map(String::as_str).zip(owners).collect()
}

/// The text after the first `-` of the name of a node.
pub(super) fn identifier(node: &str) -> &str {
    node.split_once('-').map_or(node, |(_, identifier)| identifier)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(names: &[&str]) -> Parts {
        names.iter().map(|name| ((*name).to_owned(), None)).collect()
    }

    fn members(nodes: &[&str]) -> MembersByNode {
        nodes
            .iter()
            .map(|node| ((*node).to_owned(), crate::partition::record::MemberRecord::default()))
            .collect()
    }

    #[test]
    fn parts_are_assigned_in_turn_by_identifier() {
        let (parts, members) = (parts(&["a", "b", "c", "d", "e"]), members(&["1f-y", "9e-x"]));
        let owners: Vec<_> = every_nth(&parts, &members).into_values().map(identifier).collect();
        assert_eq!(owners, ["x", "y", "x", "y", "x"]);
        assert!(every_nth(&parts, &MembersByNode::new()).is_empty());
    }

    #[test]
    fn an_identifier_may_contain_dashes() {
        assert_eq!(identifier("0a1b-web-7.example.org-4711"), "web-7.example.org-4711");
    }
}
