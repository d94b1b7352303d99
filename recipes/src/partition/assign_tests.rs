use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::size;

fn parts(number: usize) -> Parts {
    (0..number).map(|part| (format!("s{part}"), None)).collect()
}

fn member(weight: u32) -> MemberRecord {
    MemberRecord { weight, ..MemberRecord::default() }
}

fn group(ids: impl IntoIterator<Item = usize>) -> MembersByNode {
    ids.into_iter().map(|id| (format!("w-{id}"), member(1))).collect()
}

fn moved(before: &PartOwners<'_>, after: &PartOwners<'_>) -> usize {
    before.iter().filter(|(part, owner)| after.get(*part) != Some(*owner)).count()
}

fn loads<'a>(owners: &PartOwners<'a>, members: &'a MembersByNode) -> BTreeMap<&'a str, usize> {
    let load = |id: &'a String| (id.as_str(), owners.values().filter(|owner| *owner == id).count());
    members.keys().map(load).collect()
}

/// The number of members that are at their limit.
fn full(owners: &PartOwners<'_>, parts: &Parts, members: &MembersByNode) -> usize {
    let weights: Vec<u32> = members.values().map(|member| member.weight).collect();
    let loads = loads(owners, members);
    loads.values().zip(room(parts.len(), &weights)).filter(|(load, room)| *load == room).count()
}

fn some_parts() -> impl Strategy<Value = Parts> {
    let zone = prop_oneof![3 => Just(None), 1 => "[ab]".prop_map(Some)];
    proptest::collection::btree_map("[a-z]{1,3}[0-9]{0,2}", zone, 0..80)
}

fn some_members() -> impl Strategy<Value = MembersByNode> {
    let zone = prop_oneof![Just(None), "[abc]".prop_map(Some)];
    let member =
        (1..=4_u32, zone).prop_map(|(weight, zone)| MemberRecord { zone, ..member(weight) });
    proptest::collection::btree_map("[a-z0-9-]{1,6}", member, 1..12)
}

proptest! {
    #[test]
    fn every_part_has_an_owner_within_its_bound(parts in some_parts(), members in some_members()) {
        let owners = bounded_rendezvous(&parts, &members);
        prop_assert_eq!(owners.len(), parts.len());
        let total: u32 = members.values().map(|member| member.weight).sum();
        for (id, load) in loads(&owners, &members) {
            let share = parts.len() * members[id].weight as usize;
            // ⌈1.1 × share⌉, of which the specification speaks.
            prop_assert!(load <= (share * 11).div_ceil(10 * total as usize), "{id} has {load}");
        }
    }

    #[test]
    fn the_order_of_arrival_does_not_matter(
        parts in some_parts(),
        members in some_members(),
        seed in any::<u64>(),
    ) {
        // The same sets as another member has seen them, inserted in another order.
        let shuffled = |names: Vec<String>| {
            let mut names = names;
            names.sort_by_key(|name| mix(fnv(name) ^ seed));
            names
        };
        let mut other_parts = Parts::new();
        for name in shuffled(parts.keys().cloned().collect()) {
            other_parts.insert(name.clone(), parts[&name].clone());
        }
        let mut other_members = MembersByNode::new();
        for id in shuffled(members.keys().cloned().collect()) {
            other_members.insert(id.clone(), MemberRecord::parse(members[&id].encode().as_bytes()));
        }
        let ours = bounded_rendezvous(&parts, &members);
        prop_assert_eq!(ours, bounded_rendezvous(&other_parts, &other_members));
    }

    #[test]
    fn without_a_bound_in_the_way_parts_move_only_to_the_new_member(
        number in 0..200_usize,
        ids in proptest::collection::btree_set(0..1000_usize, 2..9),
    ) {
        let (parts, after) = (parts(number), group(ids.iter().copied()));
        let before = group(ids.iter().copied().skip(1));
        let (was, is) = (bounded_rendezvous(&parts, &before), bounded_rendezvous(&parts, &after));
        if full(&was, &parts, &before) == 0 && full(&is, &parts, &after) == 0 {
            let new = after.keys().find(|id| !before.contains_key(*id)).unwrap();
            for (part, owner) in &is {
                prop_assert!(was[part] == *owner || owner == new, "{part} has moved to {owner}");
            }
        }
    }

    #[test]
    fn a_part_that_prefers_a_zone_is_there_while_there_is_room(members in some_members()) {
        // One part always finds room.
        let parts: Parts = [("s0".to_owned(), Some("a".to_owned()))].into();
        let owner = bounded_rendezvous(&parts, &members)["s0"];
        let is_in_zone = |member: &MemberRecord| member.zone.as_deref() == Some("a");
        prop_assert_eq!(is_in_zone(&members[owner]), members.values().any(is_in_zone));
    }
}

#[test]
fn a_member_that_joins_ten_moves_at_most_110_of_1000_parts() {
    let parts = parts(1000);
    let (mut sum, rounds) = (0, size(40, 200));
    for first in 0..rounds {
        let ids = first * 100..first * 100 + 11;
        let (before, after) = (group(ids.clone().skip(1)), group(ids));
        let moves =
            moved(&bounded_rendezvous(&parts, &before), &bounded_rendezvous(&parts, &after));
        assert!(moves <= 110, "{moves} parts move to member {first}");
        sum += moves;
    }
    // At least a share moves, in the mean: 91.
    let mean = sum / rounds;
    assert!((88..=98).contains(&mean), "{mean} parts move in the mean");
}

#[test]
fn the_parts_of_a_member_that_leaves_are_spread() {
    let parts = parts(1000);
    let (before, after) = (group(0..11), group(1..11));
    let (was, is) = (bounded_rendezvous(&parts, &before), bounded_rendezvous(&parts, &after));
    let left: BTreeSet<&str> =
        was.iter().filter(|(_, owner)| **owner == "w-0").map(|(part, _)| *part).collect();
    let heirs: BTreeSet<&str> = left.iter().map(|part| is[part]).collect();
    assert_eq!(heirs.len(), 10, "{heirs:?}");
    assert!(moved(&was, &is) <= left.len() + 20, "{} of {}", moved(&was, &is), left.len());
}

#[test]
fn parts_are_divided_in_proportion_to_the_weights() {
    let (parts, mut members) = (parts(2000), group(0..8));
    members.insert("heavy".to_owned(), member(2));
    let owners = bounded_rendezvous(&parts, &members);
    for (id, load) in loads(&owners, &members) {
        let share = if id == "heavy" { 400 } else { 200 };
        assert!(load * 10 >= share * 8 && load * 10 <= share * 11, "{id} has {load}");
    }
}

#[test]
fn few_parts_are_divided_evenly() {
    for (number, members) in [(10, 10), (12, 4), (3, 3)] {
        let (parts, members) = (parts(number), group(0..members));
        let owners = bounded_rendezvous(&parts, &members);
        let loads = loads(&owners, &members);
        assert!(loads.values().all(|load| *load == number / members.len()), "{loads:?}");
    }
    assert!(bounded_rendezvous(&parts(3), &MembersByNode::new()).is_empty());
}

#[test]
fn a_group_uses_the_lowest_version_that_a_member_knows() {
    let of = |versions: &[u32]| {
        let versions = versions.iter().enumerate();
        let members: MembersByNode = versions
            .map(|(id, version)| (id.to_string(), MemberRecord { version: *version, ..member(1) }))
            .collect();
        common_version(&members)
    };
    assert_eq!([of(&[]), of(&[1, 7]), of(&[7, 8]), of(&[0, 1])], [NEWEST, 1, NEWEST, 1]);
    // Versions differ in what they assign.
    let (parts, members) = (parts(100), group(0..5));
    assert_ne!(by_version(1, &parts, &members), by_version(2, &parts, &members));
}

#[test]
fn the_assignment_never_changes_between_releases() {
    // Members of different releases share a group.
    let (parts, mut members) = (parts(12), group(0..3));
    let owners = |members: &MembersByNode| -> String {
        let owners = bounded_rendezvous(&parts, members);
        owners.values().map(|owner| owner.trim_start_matches("w-").to_owned()).collect()
    };
    let plain = owners(&members);
    members.insert("w-2".to_owned(), member(3));
    assert_eq!((plain.as_str(), owners(&members).as_str()), ("210110212002", "212220212002"));
}

#[test]
fn the_logarithm_is_that_of_the_fraction() {
    for shift in [0, 1, 7, 40] {
        let value = u64::MAX >> shift;
        let expected = f64::from(shift) * f64::from(1 << 24) * 65536.0;
        #[expect(clippy::cast_precision_loss, reason = "compared with a tolerance")]
        let found = distance(!value, 1) as f64;
        assert!((found - expected).abs() <= 2.0 * 65536.0, "{shift}: {found} and {expected}");
    }
    assert_eq!(distance(0, 2), distance(0, 1) / 2);
}
