//! Deleted nodes come back as a backup.

use bytes::Bytes;
use zk_curator::Acl;

use super::super::stat::StoredStat;
use super::super::{
    At, DeletionCause, Error, Files, Index, Operation, Owner, RecoveredCounts, SessionEnd, Undelete,
};
use super::writer::{Folder, Op, SnapshotContent, StoredNode, TestTxn, log_file};
use crate::transfer::{BackupConsistency, BackupReader, RecordKind};

const SCRIPT: i64 = 5;
const SERVICE: i64 = 6;

fn node(path: &str, cversion: i32) -> Op {
    let (path, data) = (path.to_owned(), Some(path.as_bytes().to_vec()));
    Op::Create { path, data, acl: Acl::open_unsafe(), ephemeral: false, cversion }
}

fn ephemeral(path: &str, cversion: i32) -> Op {
    let (path, data) = (path.to_owned(), Some(b"web-1:80".to_vec()));
    Op::Create { path, data, acl: Acl::open_unsafe(), ephemeral: true, cversion }
}

fn delete(path: &str) -> Op {
    Op::Delete { path: path.to_owned() }
}

/// A script deletes `/config` while a service expires, and another client writes.
fn incident() -> Vec<TestTxn> {
    let acl = Acl::creator_all();
    let container =
        Op::Container { path: "/config/c".to_owned(), data: None, acl: acl.clone(), cversion: 3 };
    let ttl = Op::Ttl { path: "/config/t".to_owned(), data: None, acl, cversion: 4, ttl: 60_000 };
    let set = Op::SetData { path: "/config/a".to_owned(), data: Some(b"new".to_vec()), version: 1 };
    let requests = [
        (SCRIPT, 0, Op::CreateSession { timeout: 4000 }),
        (SERVICE, 0, Op::CreateSession { timeout: 6000 }),
        (SERVICE, 1, node("/config", 1)),
        (SERVICE, 2, node("/config/a", 1)),
        (SERVICE, 3, ephemeral("/config/live", 2)),
        (SERVICE, 4, container),
        (SERVICE, 5, ttl),
        (SERVICE, 6, set),
        (SCRIPT, 1, delete("/config/t")),
        (SCRIPT, 2, delete("/config/c")),
        (SERVICE, 0, Op::CloseSession { paths: Some(vec!["/config/live".to_owned()]) }),
        (7, 1, node("/other", 2)),
        (SCRIPT, 3, delete("/config/a")),
        (SCRIPT, 4, delete("/config")),
    ];
    let txn = |(zxid, (session, cxid, op))| TestTxn { session, cxid, ..TestTxn::new(zxid, op) };
    (1..).zip(requests).map(txn).collect()
}

fn files(folder: &Folder) -> Files {
    folder.write("log.1", &log_file(&incident(), 20));
    Files::find([folder.path()]).unwrap()
}

#[test]
fn an_expiry_in_between_does_not_end_the_run() {
    let folder = Folder::new();
    let fate = Index::new(&files(&folder)).fate("/config").unwrap();
    let [deletion] = &fate.deletions[..] else { panic!("{fate:?}") };
    assert_eq!((deletion.change.session.get(), deletion.first.zxid), (SCRIPT, 9));
    assert_eq!((deletion.nodes, deletion.other_changes), (4, 0));
    assert_eq!(deletion.change.deletion, Some(DeletionCause::Request));
    assert_eq!(fate.last.map(|change| change.operation), Some(Operation::Delete));
    let live = Index::new(&files(&folder)).fate("/config/live").unwrap();
    let cause = live.deletions[0].change.deletion;
    assert_eq!(cause, Some(DeletionCause::SessionEnd(SessionEnd::Server)));
}

#[test]
fn all_nodes_come_back_with_their_kinds_and_acls() {
    let folder = Folder::new();
    let recovered = Undelete::new(&files(&folder), "/config/").find().unwrap();
    let RecoveredCounts { nodes, ephemerals, containers, ttls, .. } = recovered.counts();
    assert_eq!((nodes, ephemerals, containers, ttls), (5, 1, 1, 1));
    assert!(recovered.is_exact());
    let file = folder.path().join("config.zkb");
    let trailer = recovered.write(&file).unwrap();
    assert_eq!((trailer.nodes(), trailer.consistency), (5, BackupConsistency::Exact));
    let mut reader = BackupReader::open(&file).unwrap();
    assert_eq!(reader.header().root, "/config");
    let mut found = Vec::new();
    while let Some(record) = reader.next_record().unwrap() {
        found.push((record.path, record.data, record.kind, record.acl, record.version));
    }
    let expected = [
        ("/config", Some("/config"), RecordKind::Persistent, Acl::open_unsafe(), 0),
        ("/config/a", Some("new"), RecordKind::Persistent, Acl::open_unsafe(), 1),
        ("/config/c", None, RecordKind::Container, Acl::creator_all(), 0),
        ("/config/live", Some("web-1:80"), RecordKind::Ephemeral(SERVICE), Acl::open_unsafe(), 0),
        ("/config/t", None, RecordKind::Ttl(60_000), Acl::creator_all(), 0),
    ];
    let expected = expected.map(|(path, data, kind, acl, version)| {
        (path.to_owned(), data.map(Bytes::from), kind, acl, version)
    });
    assert_eq!(found, expected);
}

#[test]
fn a_moment_selects_an_earlier_state() {
    let folder = Folder::new();
    let files = files(&folder);
    let at = |at| Undelete::new(&files, "/config").at(at).find();
    assert_eq!(at(At::Zxid(4)).unwrap().counts().nodes, 2);
    let node = at(At::Time(7_500)).unwrap();
    assert_eq!(node.moment(), (7, Some(7_000)));
    assert_eq!(node.replayed.tree.get("/config/c").unwrap().owner(), Owner::Container);
    assert!(matches!(at(At::Latest), Err(Error::NoSuchNode { zxid: 14, .. })));
    let other = Undelete::new(&files, "/other").find();
    assert!(matches!(other, Err(Error::NotDeleted { .. })));
}

#[test]
fn an_older_state_is_not_taken_for_that_before_the_deletion() {
    let folder = Folder::new();
    let root = StoredNode {
        path: String::new(),
        data: Some(Vec::new()),
        acl: -1,
        stat: StoredStat::default(),
    };
    let node = StoredNode { path: "/config".to_owned(), ..root.clone() };
    let nodes = vec![root, node];
    let content = SnapshotContent { nodes, last_zxid: Some(5), ..SnapshotContent::default() };
    folder.write("snapshot.5", &content.bytes());
    // The transactions 6 and 7 are missing. They may have changed the node.
    folder.write("log.8", &log_file(&[TestTxn::new(8, delete("/config"))], 20));
    let files = Files::find([folder.path()]).unwrap();
    let error = Undelete::new(&files, "/config").find().unwrap_err();
    assert!(matches!(error, Error::Gap { .. }), "{error}");
    let recovered = Undelete::new(&files, "/config").skip_damaged(true).find().unwrap();
    assert_eq!((recovered.replayed.gaps.len(), recovered.is_exact()), (1, false));
}

#[test]
fn damage_after_the_deletion_is_told() {
    let folder = Folder::new();
    let mut txns = incident();
    txns.push(TestTxn::new(15, node("/later", 3)));
    let mut bytes = log_file(&txns, 20);
    let last = log_file(&txns[..14], 0).len();
    bytes[last + 30] ^= 1;
    folder.write("log.1", &bytes);
    let files = Files::find([folder.path()]).unwrap();
    let recovered = Undelete::new(&files, "/config").skip_damaged(true).find().unwrap();
    // Another deletion may be in the damaged range. The nodes before this deletion are exact.
    let [skipped] = &recovered.skipped[..] else { panic!("{:?}", recovered.skipped) };
    assert_eq!(skipped.offset, last as u64);
    assert!(recovered.replayed.skipped.is_empty() && recovered.is_exact());
}

#[test]
fn a_service_is_recognised_by_its_ephemeral_nodes() {
    let folder = Folder::new();
    let files = files(&folder);
    let at = files.last_change().unwrap().unwrap();
    let author = Index::new(&files).author(zk_curator::SessionId::new(SERVICE), at, 0).unwrap();
    assert_eq!(author.identity().address.as_deref(), Some("web-1:80"));
    assert_eq!(author.ephemeral_count, 1);
    assert_eq!(files.first_change().unwrap().map(|at| at.zxid), Some(1));
}

#[test]
fn an_acl_that_a_fuzzy_snapshot_lacks_comes_from_the_log() {
    let (folder, acl) = (Folder::new(), Acl::read_unsafe());
    let stat = StoredStat { czxid: 6, mzxid: 6, pzxid: 6, ..StoredStat::default() };
    let root = StoredNode {
        path: String::new(),
        data: Some(Vec::new()),
        acl: -1,
        stat: StoredStat::default(),
    };
    let node = StoredNode { path: "/a".to_owned(), data: None, acl: 9, stat };
    let content = SnapshotContent { nodes: vec![root, node], ..SnapshotContent::default() };
    folder.write("snapshot.5", &content.bytes());
    let undelete = |folder: &Folder| {
        let files = Files::find([folder.path()]).unwrap();
        let recovered = Undelete::new(&files, "/a").at(At::Latest).find().unwrap();
        recovered.records().map(|record| record.map(|record| record.acl)).next().unwrap()
    };
    // Without the creation, the node would be open to everyone.
    assert!(matches!(undelete(&folder), Err(Error::UnknownAcl { .. })));
    let (path, data, ephemeral) = ("/a".to_owned(), None, false);
    let create = Op::Create { path, data, acl: acl.clone(), ephemeral, cversion: 1 };
    folder.write("log.6", &log_file(&[TestTxn::new(6, create)], 20));
    assert_eq!(undelete(&folder).unwrap(), acl);
}

#[cfg(feature = "serde")]
#[test]
fn ids_are_serialised_in_hexadecimal() {
    let folder = Folder::new();
    let fate = Index::new(&files(&folder)).with_data(true).fate("/config/a").unwrap();
    let value = serde_json::to_value(&fate.deletions[0]).unwrap();
    assert_eq!(value["change"]["at"]["zxid"], "0xd");
    assert_eq!(value["change"]["session"], "0x5");
    assert_eq!(value["change"]["before"]["data"]["text"], "new");
    assert_eq!(value["change"]["deletion"], "request");
}
