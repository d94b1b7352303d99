//! Replays, compared with a simple model of a server.

use proptest::collection::vec;
use proptest::prelude::*;
use zk_curator::{Acl, SessionId};

use super::super::digest::node_digest;
use super::super::{At, Difference, Error, Files, Index, Owner, Replay, Replayed, StoredStat};
use super::model::{Model, choices, fuzzy_snapshot};
use super::writer::{Folder, Op, SnapshotContent, TestTxn, gzip, log_file, snappy};

/// Checks that a tree is that of the model.
fn check_tree(found: &Replayed, expected: &Model, has_digests: bool) {
    let tree = &found.tree;
    let mut paths: Vec<_> = tree.walk("/").map(|node| node.path()).collect();
    paths[0].clear();
    paths.sort();
    assert!(paths.iter().eq(expected.nodes.keys()), "{paths:?}, {:?}", expected.nodes.keys());
    for (path, expected) in &expected.nodes {
        let node = tree.get(path).unwrap();
        assert_eq!(node.stored_stat(), expected.stat, "{path}");
        assert_eq!(node.data(), expected.data.as_deref(), "{path}");
        assert_eq!(node.acl().unwrap().as_ref(), Some(&expected.acl), "{path}");
    }
    let sessions = expected.sessions.iter().map(|(id, timeout)| (SessionId::new(*id), *timeout));
    assert!(tree.sessions().eq(sessions));
    assert_eq!((tree.node_count(), found.zxid), (expected.nodes.len(), expected.zxid));
    if has_digests {
        assert_eq!(tree.digest(), Some(expected.digest()));
        assert_eq!((found.digests.mismatched, &found.digests.mismatches), (0, &Vec::new()));
    }
}

#[test]
fn digests_are_those_of_zookeeper() {
    let stat = StoredStat {
        czxid: 1,
        mzxid: 2,
        pzxid: 3,
        ctime: 4,
        mtime: 5,
        version: 6,
        cversion: 7,
        aversion: 8,
        ephemeral_owner: 9,
    };
    // Computed by Python's `zlib.crc32`.
    assert_eq!(node_digest("/a", Some(b"x"), &stat), 0x6045_5818);
    assert_eq!(node_digest("/zookeeper/quota", Some(b"x"), &stat), 0);
    assert_eq!(Model::new().digest(), 1_371_985_504);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn each_tree_is_rebuilt_from_the_first_log(
        choices in choices(60),
        has_digests: bool,
        target in 0..60_i64,
    ) {
        let folder = Folder::new();
        let mut model = Model::new();
        let txns = model.run(&choices, has_digests);
        folder.write("log.1", &log_file(&txns, 20));
        prop_assume!(!txns.is_empty());
        let files = Files::find([folder.path()]).unwrap();
        let replay = Replay::new(&files).digests(true);
        check_tree(&replay.run(At::Latest).unwrap(), &model, has_digests);
        let target = target.min(model.zxid);
        let mut model = Model::new();
        model.run(&choices[..usize::try_from(target).unwrap()], has_digests);
        check_tree(&replay.run(At::Zxid(target)).unwrap(), &model, has_digests);
        if target > 0 {
            check_tree(&replay.run(At::Time(1000 * target)).unwrap(), &model, has_digests);
        }
    }

    #[test]
    fn replays_over_fuzzy_snapshots_lead_to_the_same_tree(
        choices in choices(60),
        start in 0..60_usize,
        pace in vec(any::<u8>(), 0..40),
        tells_end: bool,
    ) {
        let mut states = vec![Model::new()];
        let mut txns = Vec::new();
        for choice in &choices {
            let mut next = states.last().unwrap().clone();
            txns.extend(next.run(&[*choice], true));
            states.push(next);
        }
        let start = start.min(txns.len());
        let (mut content, steps) = fuzzy_snapshot(&states[start..], &pace);
        let end = &states[start + steps];
        if tells_end {
            content.digest = Some((end.zxid, end.digest()));
        }
        let folder = Folder::new();
        let name = format!("snapshot.{:x}", states[start].zxid);
        folder.write(&name, &content.bytes());
        // The server began a new log with the snapshot.
        if start < txns.len() {
            folder.write(&format!("log.{:x}", start + 1), &log_file(&txns[start..], 20));
        }
        let files = Files::find([folder.path()]).unwrap();
        let replay = Replay::new(&files).digests(true);
        let found = replay.run(At::Latest).unwrap();
        check_tree(&found, states.last().unwrap(), true);
        prop_assert_eq!(found.is_settled, tells_end && end.zxid > 0);
        if tells_end && end.zxid > 0 {
            check_tree(&replay.run(At::Zxid(end.zxid)).unwrap(), end, true);
        }
    }

    #[test]
    fn a_restricted_tree_is_a_part_of_the_whole_tree(choices in choices(80)) {
        let folder = Folder::new();
        let mut model = Model::new();
        folder.write("log.1", &log_file(&model.run(&choices, true), 0));
        prop_assume!(!choices.is_empty());
        let files = Files::find([folder.path()]).unwrap();
        for top in ["/a", "/bb/a", "/zookeeper"] {
            let found = Replay::new(&files).below(top).digests(true).run(At::Latest).unwrap();
            prop_assert_eq!(found.tree.digest(), None);
            let paths: Vec<_> = found.tree.walk(top).map(|node| node.path()).collect();
            let inside = |path: &&String| **path == top || path.starts_with(&format!("{top}/"));
            let mut expected: Vec<_> = model.nodes.keys().filter(inside).cloned().collect();
            expected.sort_by(|one, other| one.split('/').cmp(other.split('/')));
            prop_assert_eq!(&paths, &expected);
            for path in &expected {
                let node = found.tree.get(path).unwrap();
                prop_assert_eq!(node.stored_stat(), model.nodes[path].stat);
                prop_assert_eq!(node.data(), model.nodes[path].data.as_deref());
            }
            prop_assert!(found.tree.get("/").is_none());
            prop_assert!(!found.tree.covers("/c-0000000001"));
        }
    }
}

fn create(path: &str, ephemeral: bool, cversion: i32) -> Op {
    let (path, data) = (path.to_owned(), Some(b"x".to_vec()));
    Op::Create { path, data, acl: Acl::open_unsafe(), ephemeral, cversion }
}

/// Replays transactions over a snapshot with the number 10.
fn replay(content: &SnapshotContent, ops: Vec<(i64, Op)>) -> Replayed {
    let folder = Folder::new();
    folder.write("snapshot.a", &content.bytes());
    let txns = (11..).zip(ops);
    let txns: Vec<_> =
        txns.map(|(zxid, (session, op))| TestTxn { session, ..TestTxn::new(zxid, op) }).collect();
    folder.write("log.b", &log_file(&txns, 0));
    Replay::new(&Files::find([folder.path()]).unwrap()).run(At::Latest).unwrap()
}

/// Returns the state with some more transactions, which follow the snapshot with the number 10.
fn later(ops: &[(i64, Op)]) -> SnapshotContent {
    let mut model = Model { zxid: 10, ..Model::new() };
    for (session, op) in ops {
        let txn = TestTxn::new(model.zxid + 1, op.clone());
        model.apply(&TestTxn { session: *session, ..txn });
    }
    model.snapshot()
}

#[test]
fn a_node_of_a_later_session_corrects_its_parent() {
    // The old owner's session ends without paths in the log, as in ZooKeeper 3.5.
    let close = Op::CloseSession { paths: None };
    let ops = vec![(1, create("/e", true, 1)), (1, close), (2, create("/e", true, 2))];
    let mut content = later(&ops);
    // The root was written before the changes.
    content.nodes[0].stat = StoredStat::default();
    let found = replay(&content, ops);
    let root = found.tree.get("/").unwrap().stored_stat();
    assert_eq!((root.cversion, root.pzxid), (2, 13));
    let node = found.tree.get("/e").unwrap();
    assert_eq!((node.stored_stat().czxid, node.owner()), (13, Owner::Session(SessionId::new(2))));
    assert_eq!(found.tree.ephemerals(SessionId::new(2)), ["/e"]);
    assert!(found.tree.ephemerals(SessionId::new(1)).is_empty());
}

#[test]
fn a_snapshot_with_later_counters_keeps_them() {
    let ops = vec![
        (1, create("/p", false, 1)),
        (1, create("/p/a", false, 1)),
        (1, Op::Delete { path: "/p/a".to_owned() }),
        (1, create("/p/b", false, 2)),
        (1, Op::Delete { path: "/p/b".to_owned() }),
    ];
    let found = replay(&later(&ops), ops);
    let parent = found.tree.get("/p").unwrap();
    assert_eq!((parent.stored_stat().cversion, parent.stored_stat().pzxid), (2, 15));
    assert_eq!((parent.child_count(), parent.stat().cversion), (0, 4));
}

#[test]
fn a_parent_that_is_created_again_loses_later_children() {
    let ops = vec![
        (1, create("/p", false, 1)),
        (1, Op::Delete { path: "/p".to_owned() }),
        (1, create("/p", false, 2)),
        (1, create("/p/new", false, 1)),
    ];
    let found = replay(&later(&ops), ops);
    let paths: Vec<_> = found.tree.walk("/p").map(|node| node.path()).collect();
    assert_eq!(paths, ["/p", "/p/new"]);
    assert_eq!(found.tree.get("/p/new").unwrap().stored_stat().czxid, 14);
}

#[test]
fn records_of_old_servers_count_children() {
    let v0 = |path: &str| Op::CreateV0 {
        path: path.to_owned(),
        data: None,
        acl: Acl::open_unsafe(),
        ephemeral: false,
    };
    let found = replay(&Model::new().snapshot(), vec![(1, v0("/a")), (1, v0("/b"))]);
    assert_eq!(found.tree.get("/").unwrap().stored_stat().cversion, 2);
    assert_eq!(found.tree.get("/b").unwrap().data(), None);
}

#[test]
fn missing_transactions_are_an_error_unless_skipped() {
    let folder = Folder::new();
    let txns = |zxids: std::ops::Range<i64>| -> Vec<TestTxn> {
        let op = |zxid| create(&format!("/n{zxid}"), false, 1);
        zxids.map(|zxid| TestTxn::new(zxid, op(zxid))).collect()
    };
    folder.write("log.1", &log_file(&txns(1..4), 0));
    let later = folder.write("log.6", &log_file(&txns(6..8), 0));
    let files = Files::find([folder.path()]).unwrap();
    let error = Replay::new(&files).run(At::Latest).unwrap_err();
    let Error::Gap { gap } = error else { panic!("{error}") };
    assert_eq!((gap.after, gap.next, gap.path), (3, 6, later));
    assert_eq!(Replay::new(&files).run(At::Zxid(3)).unwrap().zxid, 3);
    let found = Replay::new(&files).skip_damaged(true).run(At::Latest).unwrap();
    assert_eq!((found.gaps.len(), found.transactions, found.zxid), (1, 5, 7));
    // A snapshot makes up for them.
    let model = Model { zxid: 5, ..Model::new() };
    folder.write("snapshot.5", &model.snapshot().bytes());
    let files = Files::find([folder.path()]).unwrap();
    let found = Replay::new(&files).run(At::Latest).unwrap();
    assert_eq!((found.gaps.len(), found.transactions, found.zxid), (0, 2, 7));
}

#[test]
fn a_moment_within_missing_transactions_is_an_error_unless_skipped() {
    let folder = Folder::new();
    let txns: Vec<_> =
        (1..9).map(|zxid| TestTxn::new(zxid, create(&format!("/n{zxid}"), false, 1))).collect();
    folder.write("log.1", &log_file(&txns[..3], 0));
    folder.write("log.6", &log_file(&txns[5..], 0));
    let find = || Files::find([folder.path()]).unwrap();
    for target in [4, 5] {
        let error = Replay::new(&find()).run(At::Zxid(target)).unwrap_err();
        let Error::Gap { gap } = error else { panic!("{error}") };
        assert_eq!((gap.after, gap.next), (3, 6));
    }
    let found = Replay::new(&find()).skip_damaged(true).run(At::Zxid(4)).unwrap();
    assert_eq!((found.gaps.len(), found.zxid), (1, 3));
    // The snapshot contains the transactions 4 and 5, so it is too late for the moment 4.
    let model = Model { zxid: 5, ..Model::new() };
    folder.write("snapshot.5", &model.snapshot().bytes());
    let found = Replay::new(&find()).run(At::Zxid(5)).unwrap();
    assert_eq!((found.gaps.len(), found.zxid, found.time_ms), (0, 5, None));
    assert!(matches!(Replay::new(&find()).run(At::Zxid(4)), Err(Error::Gap { .. })));
    // The logs do not tell if an epoch had more transactions.
    let next = TestTxn::new((1 << 32) | 1, create("/next", false, 1));
    folder.write("log.100000001", &log_file(&[next], 0));
    assert_eq!(Replay::new(&find()).run(At::Zxid(20)).unwrap().zxid, 8);
}

#[test]
fn states_before_the_files_are_an_error() {
    let folder = Folder::new();
    let model = Model { zxid: 5, ..Model::new() };
    folder.write("snapshot.5", &model.snapshot().bytes());
    folder.write("log.6", &log_file(&[TestTxn::new(6, create("/a", false, 1))], 0));
    let replay = Replay::new(&Files::find([folder.path()]).unwrap());
    assert!(matches!(replay.run(At::Zxid(4)), Err(Error::NoBase { zxid: 4 })));
    assert!(matches!(replay.run(At::Time(5999)), Err(Error::NoLogs { time_ms: 5999 })));
    assert_eq!(replay.run(At::Time(6000)).unwrap().zxid, 6);
}

#[test]
fn an_uncertain_snapshot_is_not_used_if_an_older_one_is_certain() {
    let folder = Folder::new();
    let mut model = Model { zxid: 5, ..Model::new() };
    folder.write("snapshot.5", &model.snapshot().bytes());
    let txns: Vec<_> =
        (6..12).map(|zxid| TestTxn::new(zxid, create(&format!("/n{zxid}"), false, 1))).collect();
    for txn in &txns {
        model.apply(txn);
    }
    folder.write("log.6", &log_file(&txns, 0));
    // The snapshot of transaction 7 contains all changes up to 11.
    folder.write("snapshot.7", &model.snapshot().bytes());
    let files = Files::find([folder.path()]).unwrap();
    let found = Replay::new(&files).run(At::Zxid(8)).unwrap();
    assert!(found.tree.get("/n9").is_none() && found.tree.get("/n8").is_some());
    assert_eq!((found.snapshot, found.is_settled), (Some(folder.path().join("snapshot.5")), true));
    let latest = Replay::new(&files).run(At::Latest).unwrap();
    assert_eq!(latest.snapshot, Some(folder.path().join("snapshot.7")));
}

#[test]
fn trees_of_two_moments_are_compared() {
    let folder = Folder::new();
    let set = |path: &str, version| Op::SetData { path: path.to_owned(), data: None, version };
    let acl = Op::SetAcl { path: "/a-b".to_owned(), acl: Acl::read_unsafe(), version: 1 };
    let delete = |path: &str| Op::Delete { path: path.to_owned() };
    let ops = [
        create("/a", false, 1),
        create("/a/x", false, 1),
        create("/a-b", false, 2),
        create("/c", false, 3),
        create("/same", false, 4),
        // The other tree.
        set("/a", 1),
        delete("/a/x"),
        create("/a/y", false, 2),
        acl,
        delete("/c"),
        create("/c", false, 5),
    ];
    let txns: Vec<_> = (1..).zip(ops).map(|(zxid, op)| TestTxn::new(zxid, op)).collect();
    folder.write("log.1", &log_file(&txns, 0));
    let replay = Replay::new(&Files::find([folder.path()]).unwrap());
    let before = replay.run(At::Zxid(5)).unwrap().tree;
    let after = replay.run(At::Latest).unwrap().tree;
    let found: Vec<_> = before
        .diff(&after, "/")
        .map(|difference| match difference {
            Difference::Added(node) => format!("+ {}", node.path()),
            Difference::Removed(node) => format!("- {}", node.path()),
            Difference::Changed { after, data, acl, recreated, .. } => {
                format!("~ {} {data} {} {recreated}", after.path(), acl.unwrap())
            }
        })
        .collect();
    assert_eq!(
        found,
        [
            "~ /a true false false",
            "- /a/x",
            "+ /a/y",
            "~ /a-b false true false",
            "~ /c false false true"
        ]
    );
    assert_eq!(before.diff(&before, "/").count(), 0);
    assert_eq!(before.diff(&after, "/same").count(), 0);
    assert_eq!(before.diff(&after, "/a/y").count(), 1);
}

#[test]
fn an_unknown_acl_is_no_difference_of_the_acl() {
    let folder = Folder::new();
    let mut model = Model { zxid: 6, ..Model::new() };
    for (zxid, path) in (7..).zip(["/a", "/b", "/c", "/d"]) {
        model.apply(&TestTxn::new(zxid, create(path, false, 1)));
    }
    let mut content = model.snapshot();
    for node in content.nodes.iter_mut().filter(|node| node.path.len() == 2) {
        // The snapshot does not contain this ACL.
        node.acl = 99;
    }
    folder.write("snapshot.a", &content.bytes());
    let set = Op::SetData { path: "/a".to_owned(), data: None, version: 1 };
    let acl = Op::SetAcl { path: "/b".to_owned(), acl: Acl::open_unsafe(), version: 1 };
    let delete = Op::Delete { path: "/c".to_owned() };
    let ops = [set, acl, delete, create("/c", false, 2)];
    let txns: Vec<_> = (11..).zip(ops).map(|(zxid, op)| TestTxn::new(zxid, op)).collect();
    folder.write("log.b", &log_file(&txns, 0));
    let replay = Replay::new(&Files::find([folder.path()]).unwrap());
    let before = replay.run(At::Zxid(10)).unwrap().tree;
    let after = replay.run(At::Latest).unwrap().tree;
    let found: Vec<_> = before
        .diff(&after, "/")
        .map(|difference| match difference {
            Difference::Changed { after, data, acl, recreated, .. } => {
                (after.path(), data, acl, recreated)
            }
            other => panic!("{other:?}"),
        })
        .collect();
    let expected =
        [("/a", true, Some(false), false), ("/b", false, None, false), ("/c", false, None, true)];
    assert_eq!(found, expected.map(|(path, data, acl, new)| (path.to_owned(), data, acl, new)));
    assert_eq!(before.diff(&before, "/").count(), 0);
}

#[test]
fn an_incomplete_snapshot_is_passed_over() {
    let folder = Folder::new();
    let mut model = Model { zxid: 5, ..Model::new() };
    folder.write("snapshot.5", &model.snapshot().bytes());
    let txn = TestTxn::new(6, create("/a", false, 1));
    model.apply(&txn);
    folder.write("log.6", &log_file(&[txn], 0));
    let whole = model.snapshot().bytes();
    let (packed, other) = (gzip(&whole), snappy(&whole));
    let zeros = vec![0_u8; whole.len()];
    for (name, bytes) in [
        ("snapshot.6", &whole[..whole.len() / 2]),
        ("snapshot.6.gz", &packed[..packed.len() / 2]),
        ("snapshot.6.snappy", &other[..other.len() / 2]),
        // A file system can keep the length of a file and lose its content.
        ("snapshot.6", &zeros[..]),
        ("snapshot.6", &whole[..0]),
    ] {
        let path = folder.write(name, bytes);
        let files = Files::find([folder.path()]).unwrap();
        let found = Replay::new(&files).run(At::Latest).unwrap();
        check_tree(&found, &model, false);
        assert_eq!(found.snapshot, Some(folder.path().join("snapshot.5")));
        assert_eq!(found.skipped.len(), 1, "{name}");
        std::fs::remove_file(path).unwrap();
    }
}

#[test]
fn a_snapshot_with_a_wrong_header_is_passed_over_on_request() {
    let folder = Folder::new();
    let mut model = Model { zxid: 5, ..Model::new() };
    folder.write("snapshot.5", &model.snapshot().bytes());
    let txn = TestTxn::new(6, create("/a", false, 1));
    model.apply(&txn);
    folder.write("log.6", &log_file(&[txn], 0));
    let whole = model.snapshot().bytes();
    // The first byte, and the last one of the version.
    for (at, told) in [(0, "expected a snapshot"), (7, "version 9 of the format is unknown")] {
        let mut wrong = whole.clone();
        wrong[at] = 9;
        let path = folder.write("snapshot.6", &wrong);
        let files = Files::find([folder.path()]).unwrap();
        let replay = Replay::new(&files);
        let error = replay.run(At::Latest).unwrap_err();
        assert!(error.to_string().contains("snapshot.6"), "{error}");
        assert!(Index::new(&files).sessions().is_err());
        let found = replay.skip_damaged(true).run(At::Latest).unwrap();
        check_tree(&found, &model, false);
        let [skipped] = &found.skipped[..] else { panic!("{:?}", found.skipped) };
        assert_eq!((&skipped.path, skipped.length), (&path, 0));
        assert!(skipped.damage.to_string().contains(told), "{}", skipped.damage);
        assert!(Index::new(&files).skip_damaged(true).sessions().is_ok());
    }
}

#[test]
fn the_last_tree_may_contain_later_changes_without_new_logs() {
    let mut model = Model { zxid: 6, ..Model::new() };
    let txns: Vec<_> =
        (7..14).map(|zxid| TestTxn::new(zxid, create(&format!("/n{zxid}"), false, 1))).collect();
    for txn in &txns {
        model.apply(txn);
    }
    let unknown = model.snapshot();
    let told = SnapshotContent { last_zxid: Some(13), ..model.snapshot() };
    // The snapshot of transaction 10, and the last transaction in the logs.
    for (content, last, expected) in [
        (&unknown, None, true),
        (&unknown, Some(9), true),
        (&unknown, Some(10), false),
        (&unknown, Some(11), false),
        (&told, None, true),
        (&told, Some(12), true),
        (&told, Some(13), false),
    ] {
        let folder = Folder::new();
        folder.write("snapshot.a", &content.bytes());
        if let Some(last) = last {
            let until = txns.iter().filter(|txn| txn.zxid <= last);
            folder.write("log.7", &log_file(until, 0));
        }
        let found = Replay::new(&Files::find([folder.path()]).unwrap()).run(At::Latest).unwrap();
        let end = content.last_zxid;
        assert_eq!(found.may_contain_later, expected, "{end:?}, logs up to {last:?}");
    }
}
