//! The check of all files.

use zk_curator::Acl;

use super::super::{Check, CheckReport, Damage, Error, Files, LogEnd, SnapshotEnd};
use super::model::{Choice, Model};
use super::writer::{Folder, Op, SnapshotContent, TestTxn, log_file};

const CHOICES: [Choice; 8] =
    [(8, 0, 1), (0, 0, 1), (1, 0, 2), (4, 1, 3), (6, 1, 7), (7, 2, 2), (10, 1, 2), (9, 0, 0)];

fn run(folder: &Folder) -> CheckReport {
    Check::new(&Files::find([folder.path()]).unwrap()).run().unwrap()
}

/// Writes two logs of four transactions, and a snapshot after each.
fn healthy(folder: &Folder) -> Vec<TestTxn> {
    let mut model = Model::new();
    let mut txns = Vec::new();
    folder.write("snapshot.0", &model.snapshot().bytes());
    for choices in [&CHOICES[..4], &CHOICES[4..]] {
        let part = model.run(choices, true);
        folder.write(&format!("log.{:x}", part[0].zxid), &log_file(&part, 20));
        let digest = Some((model.zxid, model.digest()));
        let content = SnapshotContent { digest, ..model.snapshot() };
        folder.write(&format!("snapshot.{:x}", model.zxid), &content.bytes());
        txns.extend(part);
    }
    txns
}

#[test]
fn healthy_files_have_no_findings() {
    let folder = Folder::new();
    healthy(&folder);
    let report = run(&folder);
    assert!(report.logs.iter().all(|log| log.damage.is_empty() && log.error.is_none()));
    let ends = report.logs.iter().map(|log| matches!(log.end, Some(LogEnd::Padded { .. })));
    assert_eq!(ends.collect::<Vec<_>>(), [true, true]);
    let logs: Vec<_> =
        report.logs.iter().map(|log| (log.transactions, log.is_well_named)).collect();
    assert_eq!(logs, [(4, true), (4, true)]);
    assert!(report.snapshots.iter().all(|snapshot| snapshot.error.is_none()));
    let sessions: Vec<_> = report.snapshots.iter().map(|snapshot| snapshot.sessions).collect();
    assert_eq!(sessions, [0, 1, 0]);
    assert!(report.gaps.is_empty() && report.purgeable.is_empty());
    assert_eq!((report.out_of_order, report.misfits, report.oldest_tree), (0, 0, Some(0)));
    let digests = report.digests.unwrap();
    // One of each transaction, and one of each later snapshot.
    assert_eq!((digests.matched, digests.mismatched, digests.unsettled), (10, 0, 0));
    assert_eq!(report.first_change.unwrap().zxid, 1);
    assert_eq!(report.last_change.unwrap().zxid, 8);
}

#[test]
fn wrong_digests_are_found() {
    let folder = Folder::new();
    let mut txns = healthy(&folder);
    txns[1].digest = Some(7);
    folder.write("log.1", &log_file(&txns[..4], 0));
    let digests = run(&folder).digests.unwrap();
    assert_eq!((digests.matched, digests.mismatched), (9, 1));
    let mismatch = digests.mismatches[0];
    assert_eq!((mismatch.zxid, mismatch.recorded), (2, 7));
}

#[test]
fn damage_and_gaps_are_found() {
    let folder = Folder::new();
    let txns = healthy(&folder);
    let mut bytes = log_file(&txns[4..], 20);
    let first = log_file(&txns[4..5], 0).len();
    bytes[first + 30] ^= 1;
    folder.write("log.5", &bytes);
    folder.write("snapshot.8", b"ZKSN");
    let report = run(&folder);
    let damage = &report.logs[1].damage;
    assert_eq!((damage.len(), damage[0].offset), (1, first as u64));
    assert!(matches!(damage[0].damage, Damage::Checksum { .. }));
    assert_eq!(report.logs[1].transactions, 3);
    let [gap] = &report.gaps[..] else { panic!("{:?}", report.gaps) };
    assert_eq!((gap.gap.after, gap.gap.next, &gap.bridged_by), (5, 7, &None));
    let error = report.snapshots[2].error.as_ref().unwrap();
    assert!(matches!(error, Error::Damaged { .. }), "{error}");
    assert_eq!(report.snapshots[2].end, None::<SnapshotEnd>);
}

#[test]
fn a_snapshot_bridges_a_gap() {
    let folder = Folder::new();
    let create = |zxid| Op::Create {
        path: format!("/n{zxid}"),
        data: None,
        acl: Acl::open_unsafe(),
        ephemeral: false,
        cversion: 1,
    };
    let txns: Vec<_> = (1..10).map(|zxid| TestTxn::new(zxid, create(zxid))).collect();
    folder.write("log.1", &log_file(&txns[..3], 0));
    folder.write("log.7", &log_file(&txns[6..], 0));
    let mut model = Model::new();
    for txn in &txns[..6] {
        model.apply(txn);
    }
    let path = folder.write("snapshot.6", &model.snapshot().bytes());
    let report = run(&folder);
    let [gap] = &report.gaps[..] else { panic!("{:?}", report.gaps) };
    assert_eq!((gap.gap.after, gap.gap.next), (3, 7));
    assert_eq!(gap.bridged_by, Some(path));
    assert_eq!(report.misfits, 0);
}

#[test]
fn a_snapshot_that_the_logs_do_not_continue_is_no_beginning() {
    let folder = Folder::new();
    folder.write("log.7", &log_file(&[TestTxn::new(7, Op::Error { code: -101 })], 0));
    for (zxid, expected) in [(4, None), (6, Some(6)), (5, Some(6))] {
        let model = Model { zxid, ..Model::new() };
        folder.write(&format!("snapshot.{zxid:x}"), &model.snapshot().bytes());
        assert_eq!(run(&folder).oldest_tree, expected);
    }
}

#[test]
fn the_next_snapshot_ends_a_range_of_unknown_end() {
    let folder = Folder::new();
    for zxid in [4, 6] {
        let model = Model { zxid, ..Model::new() };
        folder.write(&format!("snapshot.{zxid:x}"), &model.snapshot().bytes());
    }
    let delete = |zxid| {
        let txn = TestTxn::new(zxid, Op::Delete { path: "/none".to_owned() });
        TestTxn { digest: Some(7), ..txn }
    };
    folder.write("log.5", &log_file(&[5, 6, 7].map(delete), 0));
    let report = run(&folder);
    // The first snapshot may contain the changes of transactions up to 6.
    assert_eq!(report.misfits, 1);
    let digests = report.digests.unwrap();
    assert_eq!((digests.matched, digests.unsettled, digests.mismatched), (0, 1, 2));
}

#[test]
fn logs_of_other_names_and_order_are_found() {
    let folder = Folder::new();
    let txns = healthy(&folder);
    // The second log is a copy of the first one.
    folder.write("log.5", &log_file(&txns[..4], 0));
    let report = run(&folder);
    assert_eq!((report.out_of_order, report.logs[1].is_well_named), (4, false));
    folder.write("log.9", b"not a log of ZooKeeper");
    let report = run(&folder);
    assert!(matches!(report.logs[2].error, Some(Error::UnexpectedMagic { .. })));
}
