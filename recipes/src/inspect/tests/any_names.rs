//! Any names and data: no panic, and no child is forgotten or counted twice.

use std::collections::BTreeMap;

use proptest::prelude::*;
use zk_curator::Stat;

use super::text;
use crate::inspect::{Finding, Node, Sessions, deadlocks, recognise, verdicts};

/// Names that occur in the layouts, whole and cut.
const NAMES: &[&str] = &[
    "_c_{a}-lock-0000000001",
    "_c_{b}-lock-2147483647",
    "lock-",
    "lock--2147483648",
    "{A}__lock__0000000003",
    "{B}__rlock__0000000002",
    "_c_{a}-__READ__0000000004",
    "_c_{b}-__WRIT__0000000004",
    "latch-0000000001",
    "_c_{c}-lease-0000000005",
    "leases",
    "locks",
    "lease_holder",
    "ready",
    "{c}",
    "{C}",
    "_c_{d}-member-0000000001",
    "queue-0000000001",
    "queue-|x|0000000001",
    "queue-1000000050000000000",
    "queue-{a}",
    "qn-0000000001",
    "entry-100-0000000001",
    "entries",
    "taken",
    "items",
    "line",
    "ids",
    "dead",
    "all",
    "pending",
    "executing",
    "later",
    "done",
    "b-100000000|0000000003",
    "item-100000000|x|2|0000000007",
    "item-0000000001",
    "claim",
    "_c_{a}-taker-0000000001",
    "_c_{a}-wait-0000000001",
    "values",
    "history",
    "party",
    "{D}__party__",
    "{D}-one",
    "_r_{e}",
    "_o",
    "meta-0000000001",
    "_t_x",
    "a-clock",
    "runner",
    "1764150000000|{c}",
    "a",
    "ä-0000000001",
    "",
];
const DATA: &[&str] = &[
    "",
    "2",
    "config 1",
    "buckets 1",
    "10.0.0.7",
    "__REVOKE__",
    "done",
    "commit",
    "two-phase commit 2\nstate preparing\nform symmetric\ndeadline_ms 1\nid x\nsite a\nsite a\nsite _t_x\n\n",
    "members of the round:\n{c}",
    "executing 1\njob x\nsession -1\n\nw",
    "later 1\njob x\n\n",
    "slot 1\nclaim x\nat most once\nattempt 1\ndone\nby 1\n\na\n",
    "{\"name\":1,\"id\":1,\"serviceType\":1,\"registrationTimeUTC\":1}",
];

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => prop::sample::select(NAMES).prop_map(text),
        1 => (prop::sample::select(NAMES), any::<prop::sample::Index>()).prop_map(|(name, cut)| {
            let name = text(name);
            let cut = cut.index(name.len() + 1);
            name.chars().take(cut).collect()
        }),
        1 => "[^/]{0,12}",
        1 => "[a-z]{0,3}-?-?[0-9]{9,11}",
    ]
}

fn node() -> impl Strategy<Value = Node> {
    let stat = prop::option::of((-2..4_i64, 0..50_i64, 0..3_i32)).prop_map(|stat| {
        stat.map(|(ephemeral_owner, czxid, num_children)| Stat {
            ephemeral_owner,
            czxid,
            num_children,
            ..Stat::default()
        })
    });
    let data = prop_oneof![
        3 => prop::sample::select(DATA).prop_map(|data| text(data).into_bytes()),
        1 => prop::collection::vec(any::<u8>(), 0..20),
    ];
    let leaf = (stat, data).prop_map(|(stat, data)| Node { stat, ..Node::new("").data(data) });
    leaf.prop_recursive(4, 60, 10, |inner| {
        (inner.clone(), prop::collection::btree_map(name(), inner, 0..10)).prop_map(
            |(mut node, children)| {
                node.children =
                    children.into_iter().map(|(name, child)| named(child, &name)).collect();
                node
            },
        )
    })
}

fn named(node: Node, name: &str) -> Node {
    Node { path: name.to_owned(), ..node }
}

/// Makes the names paths.
fn placed(mut node: Node, path: String) -> Node {
    let above = path.trim_end_matches('/').to_owned();
    node.children = node
        .children
        .into_iter()
        .map(|child| {
            let path = format!("{above}/{}", child.path);
            placed(child, path)
        })
        .collect();
    node.path = path;
    node
}

/// The number of places in which each name occurs. The node of a contender stands for those above
/// it.
fn places(finding: &Finding) -> BTreeMap<String, usize> {
    let mut places = BTreeMap::new();
    let contenders = finding.holders.iter().chain(&finding.waiting).map(|one| &one.name);
    for name in contenders.chain(&finding.parts).chain(&finding.ignored) {
        *places.entry(name.clone()).or_default() += 1;
    }
    places
}

proptest! {
    #[test]
    fn every_child_is_in_one_place(root in node(), path in prop::sample::select(&["/", "/r", "/a/b"][..])) {
        let root = placed(root, path.to_owned());
        let finding = recognise(&root);
        let places = places(&finding);
        prop_assert!(places.values().all(|count| *count == 1), "{finding:#?}");
        for child in &root.children {
            let name = child.name();
            let stands_for = |known: &String| {
                known == name || known.strip_prefix(name).is_some_and(|rest| rest.starts_with('/'))
            };
            prop_assert!(places.keys().any(stands_for), "{name:?} in {finding:#?}");
        }
        let verdicts = verdicts(&finding, &Sessions::new());
        prop_assert!(verdicts.iter().all(|verdict| !verdict.to_string().is_empty()));
        prop_assert!(deadlocks(&[finding]).cycles.is_empty());
    }
}
