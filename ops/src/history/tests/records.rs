//! Records, most of them byte by byte.

use zk_curator::{Acl, Permissions, SessionId};
use zk_curator_proto::OpCode;

use super::super::{CreateKind, Damage, Owner, Record, TreeDigest, Txn};
use super::writer::{Op, TestTxn};

/// Returns a header: session 0x0102, request 3, zxid 0x1_0000_0004, time 5.
fn header(kind: i32) -> Vec<u8> {
    let mut bytes = vec![0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 3];
    bytes.extend([0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 5]);
    bytes.extend(kind.to_be_bytes());
    bytes
}

/// The list with `world:anyone` and the permission to read.
const ACL: [u8; 27] = *b"\0\0\0\x01\0\0\0\x01\0\0\0\x05world\0\0\0\x06anyone";
const DIGEST: [u8; 12] = [0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 9];

fn create(kind: i32, rest: &[u8]) -> Vec<u8> {
    let mut bytes = header(kind);
    bytes.extend(b"\0\0\0\x02/a\0\0\0\x01x");
    bytes.extend(ACL);
    bytes.extend(rest);
    bytes
}

#[test]
fn create_of_each_version_is_recognised_by_its_length() {
    let v0 = create(1, &[1]);
    let v1 = create(1, &[1, 0, 0, 0, 6]);
    let with_digest = [v1.clone(), DIGEST.to_vec()].concat();
    for (bytes, cversion, digest) in [(v0, -1, None), (v1, 6, None), (with_digest, 6, Some(9))] {
        let record = Record::decode(&bytes).unwrap();
        assert_eq!(record.header.session, SessionId::new(0x0102));
        assert_eq!((record.header.cxid, record.header.zxid), (3, 0x1_0000_0004));
        assert_eq!((record.header.time_ms, record.header.op), (5, OpCode::Create));
        assert_eq!(record.digest, digest.map(|value| TreeDigest { version: 2, value }));
        let Txn::Create(create) = record.txn else { panic!("{record:?}") };
        assert_eq!((create.path, create.data), ("/a", Some(&b"x"[..])));
        assert_eq!((create.kind, create.parent_cversion), (CreateKind::Ephemeral, cversion));
        assert_eq!(create.owner(record.header.session), Owner::Session(SessionId::new(0x0102)));
        let world = Acl::new(Permissions::READ, "world", "anyone");
        assert_eq!(create.acl.to_vec().unwrap(), [world]);
    }
}

#[test]
fn containers_and_times_to_live_have_their_own_records() {
    let container = create(19, &[0, 0, 0, 6]);
    let ttl = create(21, &[0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 3, 232]);
    for (bytes, kind) in
        [(container, CreateKind::Container), (ttl, CreateKind::Ttl { ttl_ms: 1000 })]
    {
        let record = Record::decode(&bytes).unwrap();
        let Txn::Create(create) = record.txn else { panic!("{record:?}") };
        assert_eq!((create.kind, create.parent_cversion), (kind, 6));
    }
}

#[test]
fn close_session_may_have_paths_and_a_digest_or_neither() {
    let path = b"\0\0\0\x01\0\0\0\x04/abc";
    let none = b"\0\0\0\0";
    for (body, paths, has_digest) in [
        (vec![], None, false),
        (DIGEST.to_vec(), None, true),
        (none.to_vec(), Some(vec![]), false),
        ([&none[..], &DIGEST[..]].concat(), Some(vec![]), true),
        // As long as a digest.
        (path.to_vec(), Some(vec!["/abc"]), false),
        ([&path[..], &DIGEST[..]].concat(), Some(vec!["/abc"]), true),
    ] {
        let bytes = [header(-11), body].concat();
        let record = Record::decode(&bytes).unwrap();
        let Txn::CloseSession(found) = record.txn else { panic!("{record:?}") };
        let found: Option<Vec<_>> = found.map(|paths| paths.iter().collect());
        assert_eq!((found, record.digest.is_some()), (paths, has_digest), "{bytes:?}");
    }
}

#[test]
fn every_operation_survives_writing_and_reading() {
    let text = |text: &str| text.to_owned();
    let path = || text("/a");
    for (op, code) in [
        (Op::Delete { path: path() }, OpCode::Delete),
        (Op::DeleteContainer { path: path() }, OpCode::DeleteContainer),
        (Op::SetData { path: path(), data: None, version: 3 }, OpCode::SetData),
        (Op::Reconfig { path: path(), data: Some(vec![1]), version: -1 }, OpCode::Reconfig),
        (Op::SetAcl { path: path(), acl: Acl::open_unsafe(), version: 4 }, OpCode::SetAcl),
        (Op::Check { path: path(), version: 5 }, OpCode::Check),
        (Op::CreateSession { timeout: 6 }, OpCode::CreateSession),
        (Op::Error { code: -110 }, OpCode::Error),
    ] {
        let bytes = TestTxn::new(7, op.clone()).bytes();
        let record = Record::decode(&bytes).unwrap();
        assert_eq!(record.header.op, code, "{op:?}");
        match record.txn {
            Txn::Delete { path } => assert_eq!(path, "/a"),
            Txn::SetData(set) => match code {
                OpCode::SetData => assert_eq!((set.data, set.version), (None, 3)),
                _ => assert_eq!((set.data, set.version), (Some(&[1][..]), -1)),
            },
            Txn::SetAcl(set) => {
                assert_eq!((set.acl.to_vec().unwrap(), set.version), (Acl::open_unsafe(), 4));
            }
            Txn::Check { path, version } => assert_eq!((path, version), ("/a", 5)),
            Txn::CreateSession { timeout_ms } => assert_eq!(timeout_ms, 6),
            Txn::Error { code } => assert_eq!(code, -110),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_failed_multi_applies_nothing() {
    let set = Op::SetData { path: "/a".to_owned(), data: None, version: 1 };
    let check = Op::Check { path: "/b".to_owned(), version: 2 };
    let good = TestTxn::new(1, Op::Multi(vec![check, set.clone()])).bytes();
    let bad = TestTxn::new(1, Op::Multi(vec![set, Op::Error { code: -101 }])).bytes();
    let (good, bad) = (Record::decode(&good).unwrap(), Record::decode(&bad).unwrap());
    let ops: Vec<_> = good.applied().map(|(op, txn)| (op, txn.path().unwrap())).collect();
    assert_eq!(ops, [(OpCode::Check, "/b"), (OpCode::SetData, "/a")]);
    let (Txn::Multi(good), Txn::Multi(failed)) = (good.txn, bad.txn) else { panic!("{bad:?}") };
    assert!(!good.is_failed() && failed.is_failed());
    assert_eq!((failed.len(), bad.applied().count()), (2, 0));
}

#[test]
fn lengths_and_types_are_checked() {
    let is_field = |bytes: &[u8]| matches!(Record::decode(bytes), Err(Damage::Field(_)));
    assert!(is_field(&[]));
    assert!(is_field(&header(1)));
    // A path of 2 GiB, and a list of 2^31 - 1 entries.
    assert!(is_field(&[&header(2)[..], &[0x7f, 0xff, 0xff, 0xff][..]].concat()));
    let entries = b"\0\0\0\x02/a\x7f\xff\xff\xff";
    assert!(is_field(&[&header(7)[..], &entries[..]].concat()));
    assert!(is_field(&[&header(14)[..], &[0x7f, 0xff, 0xff, 0xff][..]].concat()));
    for kind in [0, 3, 4, 99, i32::MIN] {
        let found = Record::decode(&[&header(kind)[..], &[0; 40][..]].concat()).err();
        assert_eq!(found, Some(Damage::UnknownType { code: kind }));
    }
    let trailing = create(1, &[1, 0, 0, 0, 6, 0]);
    assert!(matches!(Record::decode(&trailing), Err(Damage::Trailing { bytes: 1, .. })));
}
