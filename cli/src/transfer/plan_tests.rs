use proptest::prelude::*;
use zk_curator::Permissions;

use super::*;

fn record(kind: Kind, data: &'static str) -> Record {
    let stat = Stat { mtime: 100, ..Stat::default() };
    let (path, data) = ("/a".to_owned(), Some(Bytes::from_static(data.as_bytes())));
    Record { kind, ..Record::new(path, data, Acl::open_unsafe(), &stat) }
}

fn existing(data: &'static str, mtime: i64) -> Existing {
    let stat = Stat { version: 3, aversion: 2, mtime, ..Stat::default() };
    Existing { data: Some(data.into()), stat, acl: Some(Acl::open_unsafe()) }
}

const fn rules(on_conflict: OnConflict) -> Rules {
    Rules { on_conflict, ephemerals: Ephemerals::Skip, acls: Acls::Keep }
}

#[test]
fn a_node_that_differs_is_treated_by_the_rules() {
    let node = record(Kind::Persistent, "new");
    let replace = Step::Replace { version: Some(3), acl: None };
    let cases = [
        (OnConflict::Fail, 100, Step::Conflict),
        (OnConflict::Keep, 100, Step::Keep),
        (OnConflict::Replace, 100, replace.clone()),
        (OnConflict::IfOlder, 100, Step::Keep),
        (OnConflict::IfOlder, 99, replace),
    ];
    for (on_conflict, mtime, step) in cases {
        let rules = rules(on_conflict);
        assert_eq!(rules.decide(&node, Some(&existing("old", mtime))), step, "{on_conflict:?}");
        assert_eq!(rules.decide(&node, Some(&existing("new", mtime))), Step::Same);
        assert!(matches!(rules.decide(&node, None), Step::Create { .. }));
    }
}

#[test]
fn an_ephemeral_node_of_the_target_is_never_replaced() {
    let mut present = existing("old", 0);
    present.stat.ephemeral_owner = 5;
    let node = record(Kind::Persistent, "new");
    for (on_conflict, step) in [
        (OnConflict::Fail, Step::Conflict),
        (OnConflict::Keep, Step::Keep),
        (OnConflict::Replace, Step::Keep),
        (OnConflict::IfOlder, Step::Keep),
    ] {
        assert_eq!(rules(on_conflict).decide(&node, Some(&present)), step);
    }
}

#[test]
fn every_kind_is_created_as_it_was() {
    let created = |kind, ephemerals| {
        let rules = Rules { ephemerals, ..rules(OnConflict::Fail) };
        match rules.decide(&record(kind, ""), None) {
            Step::Create { mode, ttl, .. } => Some((mode, ttl)),
            _ => None,
        }
    };
    let skip = Ephemerals::Skip;
    let second = Some(Duration::from_secs(1));
    assert_eq!(created(Kind::Persistent, skip), Some((CreateMode::Persistent, None)));
    assert_eq!(created(Kind::Container, skip), Some((CreateMode::Container, None)));
    assert_eq!(created(Kind::Ttl(1_000), skip), Some((CreateMode::PersistentWithTtl, second)));
    let ephemeral = Kind::Ephemeral(1);
    assert_eq!(created(ephemeral, skip), None);
    let persistent = Some((CreateMode::Persistent, None));
    assert_eq!(created(ephemeral, Ephemerals::Persistent), persistent);
    assert_eq!(created(ephemeral, Ephemerals::Own), Some((CreateMode::Ephemeral, None)));
}

#[test]
fn acls_are_those_of_the_policy() {
    let closed = vec![Acl::new(Permissions::READ, "digest", "ann:hash")];
    let node = Record { acl: closed.clone(), ..record(Kind::Persistent, "") };
    let present = Existing { acl: Some(closed.clone()), ..existing("", 0) };
    let open = Existing { acl: Some(Acl::open_unsafe()), ..existing("", 0) };
    let unread = Existing { acl: None, ..existing("", 0) };
    let replace = |acl| Step::Replace { version: None, acl: Some((acl, 2)) };
    let of = |acls| Rules { acls, ..rules(OnConflict::Replace) };
    assert_eq!(of(Acls::Keep).decide(&node, Some(&present)), Step::Same);
    assert_eq!(of(Acls::Keep).decide(&node, Some(&open)), replace(closed));
    assert_eq!(of(Acls::Default).decide(&node, Some(&unread)), Step::Same);
    assert_eq!(of(Acls::Drop).decide(&node, Some(&present)), replace(Acl::open_unsafe()));
}

#[test]
fn low_counters_are_found() {
    let create = || Step::Create { mode: CreateMode::Persistent, ttl: None, acl: Vec::new() };
    let mut sequences = Sequences::default();
    for path in ["/fresh/n-0000000000", "/fresh/n-0000000001", "/fresh/name"] {
        sequences.add(path, &create());
    }
    sequences.add("/low/n-0000000007", &create());
    sequences.add("/low/n-0000000009", &Step::Skip);
    sequences.add("/there/n-0000000007", &Step::Same);
    sequences.add("/high/n-0000000007", &create());
    sequences.exists("/high", &Stat { cversion: 14, num_children: 0, ..Stat::default() });
    let low =
        |parent: &str, next, is_new| Hazard { parent: parent.to_owned(), next, highest: 7, is_new };
    let hazards = sequences.hazards();
    assert_eq!(hazards, [low("/low", 1, true), low("/there", 0, false)]);
    assert_eq!(hazards[0].burn(), 7);
}

proptest! {
    /// A restore with `replace` that is repeated changes nothing.
    #[test]
    fn replacing_is_idempotent(
        record in crate::transfer::record::tests::records(),
        data: Vec<u8>,
        version: i32,
        keep: bool,
    ) {
        let acls = if keep { Acls::Keep } else { Acls::Drop };
        let rules = Rules { acls, ephemerals: Ephemerals::Persistent, on_conflict: OnConflict::Replace };
        let stat = Stat { version, ..Stat::default() };
        let mut node = Existing { data: Some(data.into()), stat, acl: Some(Vec::new()) };
        let step = rules.decide(&record, Some(&node));
        let Step::Replace { version: replaces, acl } = step else {
            prop_assert_eq!(step, Step::Same);
            return Ok(());
        };
        if replaces.is_some() {
            prop_assert_eq!(replaces, Some(version));
            node.data = record.data.clone();
        }
        if let Some((acl, _)) = acl {
            node.acl = Some(acl);
        }
        prop_assert_eq!(rules.decide(&record, Some(&node)), Step::Same);
    }
}
