//! Nodes that contend in a line, ordered and judged by the rules of the recipes.

use std::collections::BTreeMap;

use crate::inspect::draft::FindingDraft;
use crate::inspect::finding::{Contender, Role};
use crate::inspect::node::Node;
use crate::order::{self, OrderRule, TurnStep};

/// The contenders among the children of a node: the holders and the waiters.
pub(super) fn contenders(
    draft: &FindingDraft<'_>,
    directory: &Node,
    rules: &[(OrderRule, Role)],
) -> (Vec<Contender>, Vec<Contender>) {
    let nodes: BTreeMap<&str, &Node> =
        directory.children.iter().map(|node| (node.name(), node)).collect();
    let only_rules: Vec<_> = rules.iter().map(|(rule, _)| rule.clone()).collect();
    let line = order::line(nodes.iter().map(|(name, node)| (*name, node.czxid())), &only_rules);
    let (mut holders, mut waiting) = (Vec::new(), Vec::<Contender>::new());
    for standing in line {
        let (Some(node), Some((_, role))) = (nodes.get(standing.name), rules.get(standing.rule))
        else {
            continue;
        };
        let mut contender = draft.contender(node, *role, Some(standing.sequence));
        match standing.verdict {
            TurnStep::Wait { on, .. } => match nodes.get(on) {
                Some(on) if !is_downgrade(&contender, on, &holders) => {
                    contender.waits_on = Some(on.path.clone());
                    waiting.push(contender);
                }
                _ => holders.push(contender),
            },
            TurnStep::Granted | TurnStep::Vanished => holders.push(contender),
        }
    }
    (holders, waiting)
}

/// Returns `true` for a reader that is about to delete its writer's node, which has the same number
/// (CURATOR-621).
fn is_downgrade(reader: &Contender, on: &Node, holders: &[Contender]) -> bool {
    reader.role == Role::Reader
        && reader.session.is_some()
        && holders.iter().any(|writer| {
            (writer.path == on.path)
                && (writer.sequence, writer.session) == (reader.sequence, reader.session)
        })
}
