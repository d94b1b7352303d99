use proptest::prelude::*;
use zk_curator::Permissions;

use super::*;

fn record(kind: RecordKind, data: &'static str) -> TransferRecord {
    let stat = Stat { mtime: 100, ..Stat::default() };
    let (path, data) = ("/a".to_owned(), Some(Bytes::from_static(data.as_bytes())));
    TransferRecord { kind, ..TransferRecord::new(path, data, Acl::open_unsafe(), &stat) }
}

fn existing(data: &'static str, mtime: i64) -> ExistingNode {
    let stat = Stat { version: 3, aversion: 2, mtime, ..Stat::default() };
    ExistingNode { data: Some(data.into()), stat, acl: Some(Acl::open_unsafe()) }
}

const fn rules(on_conflict: OnExisting) -> TransferRules {
    TransferRules { on_conflict, ephemerals: EphemeralsMode::Skip, acls: AclPolicy::Keep }
}

#[test]
fn a_node_that_differs_is_treated_by_the_rules() {
    let node = record(RecordKind::Persistent, "new");
    let replace = TransferStep::Replace { version: Some(3), acl: None };
    let cases = [
        (OnExisting::Fail, 100, TransferStep::Conflict),
        (OnExisting::Keep, 100, TransferStep::Keep),
        (OnExisting::Replace, 100, replace.clone()),
        (OnExisting::IfOlder, 100, TransferStep::Keep),
        (OnExisting::IfOlder, 99, replace),
    ];
    for (on_conflict, mtime, step) in cases {
        let rules = rules(on_conflict);
        assert_eq!(rules.decide(&node, Some(&existing("old", mtime))), step, "{on_conflict:?}");
        assert_eq!(rules.decide(&node, Some(&existing("new", mtime))), TransferStep::Same);
        assert!(matches!(rules.decide(&node, None), TransferStep::Create { .. }));
    }
}

#[test]
fn an_ephemeral_node_of_the_target_is_never_replaced() {
    let mut present = existing("old", 0);
    present.stat.ephemeral_owner = 5;
    let node = record(RecordKind::Persistent, "new");
    for (on_conflict, step) in [
        (OnExisting::Fail, TransferStep::Conflict),
        (OnExisting::Keep, TransferStep::Keep),
        (OnExisting::Replace, TransferStep::Keep),
        (OnExisting::IfOlder, TransferStep::Keep),
    ] {
        assert_eq!(rules(on_conflict).decide(&node, Some(&present)), step);
    }
}

#[test]
fn every_kind_is_created_as_it_was() {
    let created = |kind, ephemerals| {
        let rules = TransferRules { ephemerals, ..rules(OnExisting::Fail) };
        match rules.decide(&record(kind, ""), None) {
            TransferStep::Create { mode, ttl, .. } => Some((mode, ttl)),
            _ => None,
        }
    };
    let skip = EphemeralsMode::Skip;
    let second = Some(Duration::from_secs(1));
    assert_eq!(created(RecordKind::Persistent, skip), Some((CreateMode::Persistent, None)));
    assert_eq!(created(RecordKind::Container, skip), Some((CreateMode::Container, None)));
    assert_eq!(
        created(RecordKind::Ttl(1_000), skip),
        Some((CreateMode::PersistentWithTtl, second))
    );
    let ephemeral = RecordKind::Ephemeral(1);
    assert_eq!(created(ephemeral, skip), None);
    let persistent = Some((CreateMode::Persistent, None));
    assert_eq!(created(ephemeral, EphemeralsMode::Persistent), persistent);
    assert_eq!(created(ephemeral, EphemeralsMode::Own), Some((CreateMode::Ephemeral, None)));
}

#[test]
fn acls_are_those_of_the_policy() {
    let closed = vec![Acl::new(Permissions::READ, "digest", "ann:hash")];
    let node = TransferRecord { acl: closed.clone(), ..record(RecordKind::Persistent, "") };
    let present = ExistingNode { acl: Some(closed.clone()), ..existing("", 0) };
    let open = ExistingNode { acl: Some(Acl::open_unsafe()), ..existing("", 0) };
    let unread = ExistingNode { acl: None, ..existing("", 0) };
    let replace = |acl| TransferStep::Replace { version: None, acl: Some((acl, 2)) };
    let of = |acls| TransferRules { acls, ..rules(OnExisting::Replace) };
    assert_eq!(of(AclPolicy::Keep).decide(&node, Some(&present)), TransferStep::Same);
    assert_eq!(of(AclPolicy::Keep).decide(&node, Some(&open)), replace(closed));
    assert_eq!(of(AclPolicy::Default).decide(&node, Some(&unread)), TransferStep::Same);
    assert_eq!(of(AclPolicy::Drop).decide(&node, Some(&present)), replace(Acl::open_unsafe()));
}

#[test]
fn low_counters_are_found() {
    let create =
        || TransferStep::Create { mode: CreateMode::Persistent, ttl: None, acl: Vec::new() };
    let mut sequences = Sequences::default();
    for path in ["/fresh/n-0000000000", "/fresh/n-0000000001", "/fresh/name"] {
        sequences.add(path, &create());
    }
    sequences.add("/low/n-0000000007", &create());
    sequences.add("/low/n-0000000009", &TransferStep::Skip);
    sequences.add("/there/n-0000000007", &TransferStep::Same);
    sequences.add("/high/n-0000000007", &create());
    sequences.exists("/high", &Stat { cversion: 14, num_children: 0, ..Stat::default() });
    let low = |parent: &str, next, is_new| SequenceHazard {
        parent: parent.to_owned(),
        next,
        highest: 7,
        is_new,
    };
    let hazards = sequences.hazards();
    assert_eq!(hazards, [low("/low", 1, true), low("/there", 0, false)]);
    assert_eq!(hazards[0].burn(), 7);
}

#[test]
fn counters_are_known_beyond_half_of_their_range() {
    let create =
        || TransferStep::Create { mode: CreateMode::Persistent, ttl: None, acl: Vec::new() };
    let mut sequences = Sequences::default();
    sequences.add("/worn/n-1073741900", &create());
    // After 2^30 + 100 creates, all of them deleted.
    let cversion = i32::MIN + 200;
    sequences.exists("/worn", &Stat { cversion, num_children: 0, ..Stat::default() });
    // No server gives this number.
    sequences.add("/named/report-2147483648", &create());
    assert_eq!(sequences.hazards(), []);
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
        let acls = if keep { AclPolicy::Keep } else { AclPolicy::Drop };
        let ephemerals = EphemeralsMode::Persistent;
        let rules = TransferRules { acls, ephemerals, on_conflict: OnExisting::Replace };
        let stat = Stat { version, ..Stat::default() };
        let mut node = ExistingNode { data: Some(data.into()), stat, acl: Some(Vec::new()) };
        let step = rules.decide(&record, Some(&node));
        let TransferStep::Replace { version: replaces, acl } = step else {
            prop_assert_eq!(step, TransferStep::Same);
            return Ok(());
        };
        if replaces.is_some() {
            prop_assert_eq!(replaces, Some(version));
            node.data = record.data.clone();
        }
        if let Some((acl, _)) = acl {
            node.acl = Some(acl);
        }
        prop_assert_eq!(rules.decide(&record, Some(&node)), TransferStep::Same);
    }
}
